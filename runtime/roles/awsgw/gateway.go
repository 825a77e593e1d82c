package awsgw

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/net/netutil"

	"github.com/mulgadc/spinifex/domains/iam"
	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/sigv4"
	"github.com/mulgadc/spinifex/foundation/config"
	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	awsingress "github.com/mulgadc/spinifex/ingress/aws"
)

// Bounds of the server.
const (
	headerTime     = 10 * time.Second // reading a request's header
	requestTime    = 60 * time.Second // reading a request to its end
	answerTime     = 2 * time.Minute  // from the header to the end of the answer; more than reading and a call take
	idleTime       = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	maxConnections = 2048
)

// How the public key is published.
const (
	publishTime  = 5 * time.Second // one attempt
	publishRetry = time.Second     // pause after one that failed
	publishAgain = time.Minute     // pause after one that succeeded
)

// Options make a Gateway.
type Options struct {
	// Node is the node's name, under which daemons know the gateway; required.
	Node string
	// Listen is the address, "host:port", from awsgw.listen; required. Port 0 takes a free one.
	Listen string
	// DataDir is the node's data directory, which has keys/gateway.ed25519; required.
	DataDir string
	// Region is the cloud's; required.
	Region string
	// Conn is the connection to NATS; required.
	Conn *messaging.Conn
	// Nodes is the bucket messaging.NodesBucket; required.
	Nodes *kvstore.Bucket
	// Lookup finds access keys, such as (*iam.Service).SigningKey; required.
	Lookup func(ctx context.Context, accessKeyID, sessionToken string) (*sigv4.Credentials, error)
	// Operations is the metadata of what is served, such as all.Operations(); required.
	Operations []aws.Operation
	// DrainTimeout is how long requests under way have when Run ends; default 20 s.
	DrainTimeout time.Duration
	// Meter makes the instruments; nil measures nothing.
	Meter metric.Meter
	// Log gets the access log and the rest; nil discards.
	Log *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Node == "" || o.DataDir == "" || o.Region == "" || o.Conn == nil || o.Nodes == nil || o.Lookup == nil {
		return o, errors.New("awsgw: Node, DataDir, Region, Conn, Nodes and Lookup are required")
	}
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return o, fmt.Errorf("awsgw.listen = %q: want host:port: %w", o.Listen, err)
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = 20 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Gateway is the gateway of one node.
type Gateway struct {
	opts      Options
	public    ed25519.PublicKey
	handler   http.Handler
	published atomic.Bool

	mu       sync.Mutex
	listener net.Listener // open and not yet taken by Run
	addr     net.Addr     // of the last listener
}

// New makes a Gateway. It reads or makes the gateway's key file and does no other I/O.
func New(opts Options) (*Gateway, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	key, err := messaging.LoadOrCreateKey(filepath.Join(opts.DataDir, "keys", "gateway.ed25519"))
	if err != nil {
		return nil, fmt.Errorf("awsgw: %w", err)
	}
	signer, err := messaging.NewSigner(opts.Node, key)
	if err != nil {
		return nil, fmt.Errorf("awsgw: %w", err)
	}
	client, err := messaging.NewClient(opts.Conn.Raw(), signer, messaging.ClientOptions{Node: opts.Node})
	if err != nil {
		return nil, fmt.Errorf("awsgw: %w", err)
	}
	verifier, err := sigv4.New(sigv4.Options{Lookup: opts.Lookup, Region: opts.Region})
	if err != nil {
		return nil, fmt.Errorf("awsgw: %w", err)
	}
	g := &Gateway{opts: opts, public: key.Public().(ed25519.PublicKey)}
	g.handler, err = awsingress.New(awsingress.Options{
		Operations: opts.Operations, Verifier: verifier, Authorize: iam.Authorize, Dispatcher: client,
		Region: opts.Region, Meter: opts.Meter, Log: opts.Log,
		Ready: func() error { return g.ready(client) },
	})
	if err != nil {
		return nil, fmt.Errorf("awsgw: %w", err)
	}
	return g, nil
}

// ready says why calls cannot be served.
func (g *Gateway) ready(client *messaging.Client) error {
	switch {
	case !client.Connected():
		return errors.New("no connection to NATS")
	case !g.published.Load():
		return errors.New("the gateway is not yet known to the daemons")
	}
	return nil
}

// Listen opens the port, if Run has not; Run closes it. An address that cannot be had is an error that names the
// configuration key.
func (g *Gateway) Listen(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.listenLocked(ctx)
}

func (g *Gateway) listenLocked(ctx context.Context) error {
	if g.listener != nil {
		return nil
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", g.opts.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("awsgw.listen = %q: the address is in use by another program; stop that, or set another address in section [awsgw] of the configuration: %w", g.opts.Listen, err)
	}
	if err != nil {
		return fmt.Errorf("awsgw.listen = %q: %w", g.opts.Listen, err)
	}
	g.listener, g.addr = listener, listener.Addr()
	return nil
}

// take gives the open listener to Run.
func (g *Gateway) take(ctx context.Context) (net.Listener, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.listenLocked(ctx); err != nil {
		return nil, err
	}
	listener := g.listener
	g.listener = nil
	return listener, nil
}

// Addr is the address that is or was listened on, nil before Listen.
func (g *Gateway) Addr() net.Addr {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.addr
}

// Endpoint is the URL that a client on this machine uses, "" before Listen.
func (g *Gateway) Endpoint() string {
	addr := g.Addr()
	if addr == nil {
		return ""
	}
	return "http://" + config.DialAddr(addr.String())
}

// Run serves until ctx ends; see the package comment. It returns nil then, and an error when the
// port cannot be listened on or the listener fails.
func (g *Gateway) Run(ctx context.Context) error {
	listener, err := g.take(ctx)
	if err != nil {
		return err
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		g.opts.Log.Warn("the gateway serves other machines without TLS", "listen", listener.Addr().String())
	}
	publishing, stopPublishing := context.WithCancel(ctx)
	var loops sync.WaitGroup
	defer loops.Wait()
	defer stopPublishing()
	first := make(chan struct{})
	loops.Go(func() { g.publish(publishing, first) })
	select { // the first call is to find a gateway that the daemons know, if that can be had soon
	case <-first:
	case <-ctx.Done():
	}
	return g.serve(ctx, listener)
}

func (g *Gateway) serve(ctx context.Context, listener net.Listener) error {
	server := g.server()
	served := make(chan error, 1)
	go func() { served <- server.Serve(netutil.LimitListener(listener, maxConnections)) }()
	g.opts.Log.Info("the gateway serves", "listen", listener.Addr().String(), "operations", len(g.opts.Operations))
	select {
	case err := <-served:
		return fmt.Errorf("awsgw.listen = %q: %w", g.opts.Listen, err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opts.DrainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		g.opts.Log.Warn("requests still run after the drain time and are cut off", "drain_timeout", g.opts.DrainTimeout)
		_ = server.Close() // what it says is of the connections that are cut off
	}
	<-served
	return nil
}

func (g *Gateway) server() *http.Server {
	return &http.Server{
		Handler:           g.handler,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       requestTime,
		WriteTimeout:      answerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeaderBytes,
		// What net/http says of broken connections is of interest to nobody but a debugger.
		ErrorLog: slog.NewLogLogger(g.opts.Log.Handler(), slog.LevelDebug),
	}
}

// publish makes the gateway known to the daemons, and sees to it that it stays known. It closes
// first after the first attempt.
func (g *Gateway) publish(ctx context.Context, first chan<- struct{}) {
	failing := false
	for {
		attempt, cancel := context.WithTimeout(ctx, publishTime)
		err := messaging.PublishKey(attempt, g.opts.Nodes, g.opts.Node, g.public)
		cancel()
		pause := publishAgain
		switch {
		case err == nil:
			g.published.Store(true)
			if failing {
				g.opts.Log.Info("the gateway's key is published")
			}
		case ctx.Err() != nil:
		default:
			if !failing {
				g.opts.Log.Warn("the gateway's key cannot be published; trying again", "error", err)
			}
			pause = publishRetry
		}
		failing = err != nil
		if first != nil {
			close(first)
			first = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
