package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/crypto/bcrypt"

	"github.com/mulgadc/spinifex/foundation/config"
	"github.com/mulgadc/spinifex/foundation/privatefile"
)

// MaxPayload is the largest message that the embedded server carries, in bytes.
const MaxPayload = 8 << 20

// clientUser is the one user of the embedded server.
const clientUser = "spinifex"

// A client process that hangs is dropped after pingInterval * maxPings, and with it its place among
// those who serve calls.
const (
	pingInterval = 5 * time.Second
	maxPings     = 2
)

// readyPoll is how often a server that starts is asked whether it is ready.
const readyPoll = 20 * time.Millisecond

// Client is how to reach a NATS server, as the embedded one leaves it in nats/client.json.
type Client struct {
	URL      string `json:"url"`
	User     string `json:"user"`
	Password string `json:"password"`
}

// ReadClient reads what the embedded server of a data directory left. An error that is fs.ErrNotExist
// means that none ever ran there.
func ReadClient(dataDir string) (Client, error) {
	var c Client
	text, err := privatefile.Read(filepath.Join(dataDir, "nats", "client.json"))
	if err != nil {
		return c, fmt.Errorf("read the NATS credentials of %s: %w", dataDir, err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("read the NATS credentials of %s: %w", dataDir, err)
	}
	return c, nil
}

// NATSOptions say how the embedded server runs.
type NATSOptions struct {
	// Listen is host:port; port 0 takes any that is free.
	Listen string
	// Node is the server's name.
	Node string
	// Data is the node's directory, with the lock of RoleNATS.
	Data *DataDir
	// Log gets what the server warns about.
	Log *slog.Logger
}

// NATSServer is a running embedded server. Every acknowledged write to it is on disk.
type NATSServer struct {
	srv    *server.Server
	client Client
}

// StartNATS starts the server and returns when it accepts connections and JetStream runs, or ctx ends.
// A port that is taken is an error that names the setting. The server outlives ctx; end it with Stop.
func StartNATS(ctx context.Context, opts NATSOptions) (*NATSServer, error) {
	host, port, err := probeListen(ctx, opts.Listen)
	if err != nil {
		return nil, fmt.Errorf("nats.listen = %q: %w", opts.Listen, err)
	}
	password, err := clientPassword(opts.Data)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("embedded NATS server: %w", context.Cause(ctx))
	}
	// The lowest cost is enough for a password of 256 random bits, and every connection pays it.
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		return nil, fmt.Errorf("embedded NATS server: %w", err)
	}
	srv, err := server.NewServer(&server.Options{
		ServerName:             opts.Node,
		Host:                   host,
		Port:                   port,
		Username:               clientUser,
		Password:               string(hash),
		MaxPayload:             MaxPayload,
		JetStream:              true,
		StoreDir:               opts.Data.Path("nats"),
		SyncAlways:             true,
		PingInterval:           pingInterval,
		MaxPingsOut:            maxPings,
		NoSigs:                 true,
		DisableJetStreamBanner: true,
	})
	if err != nil {
		return nil, fmt.Errorf("embedded NATS server: %w", err)
	}
	log := &serverLog{log: opts.Log.With("component", "nats")}
	srv.SetLoggerV2(log, false, false, false)
	n := &NATSServer{srv: srv, client: Client{User: clientUser, Password: password}}
	if err := n.start(ctx, log); err != nil {
		n.Stop()
		return nil, fmt.Errorf("embedded NATS server on %s: %w", opts.Listen, err)
	}
	n.client.URL = "nats://" + config.DialAddr(srv.Addr().String())
	if err := writeClient(opts.Data, n.client); err != nil {
		n.Stop()
		return nil, err
	}
	return n, nil
}

func (n *NATSServer) start(ctx context.Context, log *serverLog) error {
	n.srv.Start() // returns once all is started, or with a message to log.Fatalf
	for {
		if err := log.fatal(); err != nil {
			return err
		}
		if n.srv.ReadyForConnections(readyPoll) && n.srv.JetStreamEnabled() {
			log.setStarted()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", context.Cause(ctx))
		case <-time.After(readyPoll):
		}
	}
}

// InProcessConn connects without a socket; it makes the server a provider for messaging.Connect.
func (n *NATSServer) InProcessConn() (net.Conn, error) { return n.srv.InProcessConn() }

// Client is how other processes of this node reach the server.
func (n *NATSServer) Client() Client { return n.client }

// Stop gives leadership of streams to other servers, closes connections and stops. It returns when the
// store is closed. Stopping twice is fine.
func (n *NATSServer) Stop() {
	n.srv.Shutdown()
	n.srv.WaitForShutdown()
}

// probeListen checks that the address can be listened on; the server itself would only log it.
func probeListen(ctx context.Context, addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	if port, err = strconv.Atoi(text); err != nil {
		return "", 0, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return "", 0, err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, l.Close()
}

// clientPassword is the one of the last start, or a new random one.
func clientPassword(data *DataDir) (string, error) {
	have, err := ReadClient(data.Path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return randomID() + randomID(), nil
	case err != nil:
		return "", err
	case len(have.Password) < 32:
		return "", fmt.Errorf("%s is damaged: remove it and start again", data.Path("nats", "client.json"))
	}
	return have.Password, nil
}

func writeClient(data *DataDir, c Client) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = privatefile.Write(data.Path("nats", "client.json"), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the NATS credentials: %w", err)
	}
	return nil
}

// serverLog passes the server's warnings and errors on. The server reports a start that failed only
// by Fatalf, which must not end the process here: it is kept for StartNATS.
type serverLog struct {
	log *slog.Logger

	mu      sync.Mutex
	started bool
	failure error // the first one before started
}

// fatal returns why the start failed.
func (l *serverLog) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

func (l *serverLog) setStarted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = true
}

func (l *serverLog) Noticef(format string, v ...any) { l.debug(format, v) }
func (l *serverLog) Debugf(format string, v ...any)  { l.debug(format, v) }
func (l *serverLog) Tracef(format string, v ...any)  { l.debug(format, v) }

func (l *serverLog) debug(format string, v []any) {
	l.log.Debug("NATS server notice", "text", fmt.Sprintf(format, v...))
}

func (l *serverLog) Warnf(format string, v ...any) {
	l.log.Warn("NATS server warning", "text", fmt.Sprintf(format, v...))
}

func (l *serverLog) Errorf(format string, v ...any) {
	l.log.Error("NATS server error", "text", fmt.Sprintf(format, v...))
}

func (l *serverLog) Fatalf(format string, v ...any) {
	err := fmt.Errorf(format, v...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started && l.failure == nil {
		l.failure = err // StartNATS returns it
		return
	}
	l.log.Error("NATS server failed", "error", err)
}
