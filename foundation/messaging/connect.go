package messaging

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// dialTimeout bounds one attempt to connect.
	dialTimeout = 5 * time.Second
	// Back-off between attempts to connect, and between questions for JetStream.
	minRetry = 50 * time.Millisecond
	maxRetry = 2 * time.Second
	// complainEvery is how often waiting is logged.
	complainEvery = 10 * time.Second
	// A server that froze is noticed after pings unanswered for pingInterval * maxPings, well inside
	// the validity of a lease.
	pingInterval = 2 * time.Second
	maxPings     = 2
	// reconnectWait is the pause between rounds over the servers of a lost connection.
	reconnectWait = 100 * time.Millisecond
)

// Options say where to connect.
type Options struct {
	// URL is one nats:// or tls:// URL, or several with commas between them; a user and password
	// in it are used. It may be empty when InProcess is set.
	URL string
	// Name of the connection in the server's lists, "<node>/<role>"; required.
	Name string
	// User and Password, when the URL has none.
	User, Password string
	// InProcess is an embedded server to talk to without a socket; it wins over URL.
	InProcess nats.InProcessConnProvider
	// NoReconnectBuffer makes a publish without a connection fail at once. The sync bucket needs it: a
	// buffered compare-and-swap that is sent seconds later is a write that nobody waits for.
	NoReconnectBuffer bool
	// Log is told of lost and regained connections; nil discards.
	Log *slog.Logger
}

// Conn is a connection to NATS that reconnects for ever until it is drained or closed.
type Conn struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	log    *slog.Logger
	closed chan struct{}
}

// Connect connects, and tries again until ctx ends when no server answers. Wrong credentials are an
// error at once. The connection outlives ctx.
func Connect(ctx context.Context, opts Options) (*Conn, error) {
	if opts.Name == "" {
		return nil, errors.New("messaging: connect: no name")
	}
	if opts.URL == "" && opts.InProcess == nil {
		return nil, fmt.Errorf("messaging: connect %s: no URL and no server in this process", opts.Name)
	}
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Conn{log: log.With("connection", opts.Name), closed: make(chan struct{})}
	var err error
	if c.nc, err = c.dial(ctx, opts); err != nil {
		return nil, fmt.Errorf("messaging: connect %s: %w", opts.Name, err)
	}
	if c.js, err = jetstream.New(c.nc); err != nil {
		c.nc.Close()
		return nil, fmt.Errorf("messaging: connect %s: %w", opts.Name, err)
	}
	return c, nil
}

func (c *Conn) dial(ctx context.Context, opts Options) (*nats.Conn, error) {
	natsOpts := c.natsOptions(opts)
	var nc *nats.Conn
	err := retry(ctx, c.log, "NATS does not answer yet", func(context.Context) (again bool, err error) {
		nc, err = nats.Connect(opts.URL, natsOpts...)
		return !errors.Is(err, nats.ErrAuthorization) && !errors.Is(err, nats.ErrAuthExpired), err
	})
	return nc, err
}

func (c *Conn) natsOptions(opts Options) []nats.Option {
	natsOpts := []nats.Option{
		nats.Name(opts.Name),
		nats.Timeout(dialTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(maxPings),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		// A server that restarts may refuse the credentials for a moment; giving up is for Connect.
		nats.IgnoreAuthErrorAbort(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				c.log.Warn("connection to NATS lost", "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			c.log.Info("connection to NATS regained", "addr", nc.ConnectedAddr()) // not the URL, whose user may be a token
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			c.log.Warn("fault on the connection to NATS", "subject", subject, "error", err)
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
	}
	if opts.User != "" {
		natsOpts = append(natsOpts, nats.UserInfo(opts.User, opts.Password))
	}
	if opts.InProcess != nil {
		natsOpts = append(natsOpts, nats.InProcessServer(opts.InProcess))
	}
	if opts.NoReconnectBuffer {
		natsOpts = append(natsOpts, nats.ReconnectBufSize(-1))
	}
	return natsOpts
}

// Raw is the connection itself.
func (c *Conn) Raw() *nats.Conn { return c.nc }

// JetStream is the one handle on this connection.
func (c *Conn) JetStream() jetstream.JetStream { return c.js }

// WaitJetStream returns once JetStream answers, or when ctx ends, with the last fault.
func (c *Conn) WaitJetStream(ctx context.Context) error {
	err := retry(ctx, c.log, "JetStream does not answer yet", func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, maxRetry)
		defer cancel()
		_, err := c.js.AccountInfo(ctx)
		return true, err
	})
	if err != nil {
		return fmt.Errorf("messaging: wait for JetStream: %w", err)
	}
	return nil
}

// retry calls try with back-off until it succeeds, says that trying again is useless, or ctx ends.
func retry(ctx context.Context, log *slog.Logger, msg string, try func(context.Context) (again bool, err error)) error {
	start := time.Now()
	complained := start
	for pause := minRetry; ; pause = min(2*pause, maxRetry) {
		again, err := try(ctx)
		if err == nil || !again {
			return err
		}
		if now := time.Now(); now.Sub(complained) >= complainEvery {
			log.Warn(msg, "waited_ms", now.Sub(start).Milliseconds(), "error", err)
			complained = now
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last fault: %w", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// Drain lets the subscriptions finish what they have, sends what is buffered and closes. When ctx
// ends first the connection is closed at once, and the cause returned.
func (c *Conn) Drain(ctx context.Context) error {
	err := c.nc.Drain()
	switch {
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionReconnecting):
		return nil // closed already, or there is nobody to drain to and Drain has closed it
	case err != nil:
		c.nc.Close()
		return fmt.Errorf("messaging: drain: %w", err)
	}
	select {
	case <-c.closed:
		return nil
	case <-ctx.Done():
		c.nc.Close()
		return fmt.Errorf("messaging: drain: %w", context.Cause(ctx))
	}
}

// Close closes at once; what was not sent is lost. Closing twice is fine.
func (c *Conn) Close() { c.nc.Close() }
