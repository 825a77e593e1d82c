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
		return c, fmt.Errorf("%s is damaged, remove it and start again: %w", filepath.Join(dataDir, "nats", "client.json"), err)
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
	opts   NATSOptions
	host   string
	hash   string // of the client's password
	client Client

	mu   sync.Mutex
	srv  *server.Server // the running one, or the last
	port int            // fixed once the first server has one
	down bool           // srv is stopped and is to be replaced

	// fault and room are what look asks; see mendstore.go.
	fault func() error
	room  func() error
	// endWatch ends the watch over the store, and waits for it.
	endWatch func()
}

// StartNATS starts the server and returns when it accepts connections and JetStream runs, or ctx ends.
// A port that is taken is an error that names the setting, a stream that cannot be read one that names
// the stream. The server outlives ctx; end it with Stop.
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
	n := &NATSServer{
		opts: opts, host: host, port: port, hash: string(hash), endWatch: func() {},
		client: Client{User: clientUser, Password: password},
	}
	n.fault, n.room = n.writeFault, n.diskTakesWrites
	if err := n.start(ctx); err != nil {
		n.Stop()
		return nil, fmt.Errorf("embedded NATS server on %s: %w", opts.Listen, err)
	}
	n.client.URL = "nats://" + config.DialAddr(n.srv.Addr().String())
	if err := writeClient(opts.Data, n.client); err != nil {
		n.Stop()
		return nil, err
	}
	n.beginWatch()
	return n, nil
}

// start makes a server and returns when it serves. It keeps the server also when that fails, for Stop.
func (n *NATSServer) start(ctx context.Context) error {
	srv, err := server.NewServer(&server.Options{
		ServerName:             n.opts.Node,
		Host:                   n.host,
		Port:                   n.port,
		Username:               clientUser,
		Password:               n.hash,
		MaxPayload:             MaxPayload,
		JetStream:              true,
		StoreDir:               n.opts.Data.Path("nats"),
		SyncAlways:             true,
		PingInterval:           pingInterval,
		MaxPingsOut:            maxPings,
		NoSigs:                 true,
		DisableJetStreamBanner: true,
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.srv = srv
	n.mu.Unlock()
	log := &serverLog{log: n.opts.Log.With("component", "nats")}
	srv.SetLoggerV2(log, false, false, false)
	srv.Start() // returns once all is started, or with a message to log.Fatalf
	for {
		if err := log.fatal(); err != nil {
			return err
		}
		if srv.ReadyForConnections(readyPoll) && srv.JetStreamEnabled() {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", context.Cause(ctx))
		case <-time.After(readyPoll):
		}
	}
	log.setStarted()
	if addr, ok := srv.Addr().(*net.TCPAddr); ok {
		n.port = addr.Port
	}
	return n.lostStreams()
}

// InProcessConn connects without a socket; it makes the server a provider for messaging.Connect.
func (n *NATSServer) InProcessConn() (net.Conn, error) {
	n.mu.Lock()
	srv := n.srv
	n.mu.Unlock()
	return srv.InProcessConn()
}

// Client is how other processes of this node reach the server.
func (n *NATSServer) Client() Client { return n.client }

// Stop gives leadership of streams to other servers, closes connections and stops. It returns when the
// store is closed. Stopping twice is fine.
func (n *NATSServer) Stop() {
	n.endWatch()
	n.mu.Lock()
	srv := n.srv
	n.mu.Unlock()
	if srv == nil {
		return
	}
	srv.Shutdown()
	srv.WaitForShutdown()
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
