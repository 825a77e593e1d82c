package testkit

import (
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// startTimeout bounds the start of one server.
const startTimeout = 20 * time.Second

// Main runs the tests of a package that starts servers. It ends the process.
func Main(m *testing.M) {
	// Holding a reference of our own keeps the server library's clock goroutine outside of every
	// bubble: one started inside would be missed at the bubble's end.
	ats.Register()
	code := m.Run()
	ats.Unregister()
	os.Exit(code)
}

// StartTestJetStream starts a server with JetStream in a directory of the test and connects to it
// within the process. All are stopped at the end of the test. The connection has no reconnect
// buffer, as production connections to the sync bucket.
func StartTestJetStream(t testing.TB) (*server.Server, *nats.Conn, jetstream.JetStream) {
	t.Helper()
	srv := StartTestServer(t, &server.Options{
		ServerName: "test",
		DontListen: true,
		JetStream:  true,
		StoreDir:   t.TempDir(),
	})
	conn := Connect(t, srv)
	return srv, conn, NewJetStream(t, conn)
}

// StartTestServer starts a server with the given options, without signal handlers and logs, and
// stops it at the end of the test. Use it to restart a server on a store directory.
func StartTestServer(t testing.TB, opts *server.Options) *server.Server {
	t.Helper()
	opts.NoSigs = true
	opts.NoLog = true
	srv, err := server.NewServer(opts)
	require.NoError(t, err)
	srv.Start()
	t.Cleanup(func() {
		StopServer(srv)
		// The clock of a bubble starts in the year 2000; nothing else tells that this is one.
		if time.Now().Year() < 2020 {
			DropPooledTimers()
		}
	})
	require.True(t, srv.ReadyForConnections(startTimeout), "server %s not ready", opts.ServerName)
	return srv
}

// Bubble runs a test in virtual time, without timers of earlier tests.
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	DropPooledTimers()
	synctest.Test(t, test)
}

// DropPooledTimers empties the client library's pool of timers. It is one for the whole process, and
// a timer that was made in a bubble must not be used outside of it: the runtime ends the process
// then. Connections put one there whenever they flush with a time limit, which they do after each
// reconnect, and when they drain. A pool forgets what two collections have found unused. The end of a
// server in a bubble does it; a connection that is closed after it needs one more.
func DropPooledTimers() {
	runtime.GC()
	runtime.GC()
}

// StopServer stops a server and waits until it has stopped. Stopping twice is fine.
func StopServer(srv *server.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

// Connect connects to a server within the process and closes the connection at the end of the
// test. The options are added to the defaults: no reconnect buffer, reconnect without end.
func Connect(t testing.TB, srv *server.Server, opts ...nats.Option) *nats.Conn {
	t.Helper()
	all := append([]nats.Option{
		nats.InProcessServer(srv),
		nats.ReconnectBufSize(-1),
		nats.ReconnectWait(20 * time.Millisecond),
		nats.MaxReconnects(-1),
	}, opts...)
	conn, err := nats.Connect("", all...)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// NewJetStream returns a JetStream handle on the connection.
func NewJetStream(t testing.TB, conn *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js
}
