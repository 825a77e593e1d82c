package kvstore_test

import (
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func size(t *testing.T, nodes int) clustersize.Size {
	t.Helper()
	s, err := clustersize.Declare(nodes)
	require.NoError(t, err)
	return s
}

// logBuffer is a log that a test reads.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// holder dials a server through connections whose writes can be held back and let go later, also
// when the client has given them up: a request that arrives late.
type holder struct {
	provider nats.InProcessConnProvider

	mu   sync.Mutex
	last *heldConn
}

func (h *holder) InProcessConn() (net.Conn, error) {
	conn, err := h.provider.InProcessConn()
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = &heldConn{Conn: conn}
	return h.last, nil
}

// hold holds back what the current connection writes from now on.
func (h *holder) hold() *heldConn {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last.mu.Lock()
	defer h.last.mu.Unlock()
	h.last.held = true
	return h.last
}

type heldConn struct {
	net.Conn

	mu   sync.Mutex
	held bool
	buf  []byte
}

func (c *heldConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		c.buf = append(c.buf, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Close leaves the server's side open while something is held.
func (c *heldConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		return c.SetReadDeadline(time.Unix(1, 0))
	}
	return c.Conn.Close()
}

// release delivers what was held.
func (c *heldConn) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.Conn.Write(c.buf)
	return err
}

// discard forgets what was held and closes the connection.
func (c *heldConn) discard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	_ = c.Conn.Close()
}

// oldServer answers like a server of that version, as far as a connection needs.
type oldServer struct{ version string }

func (s oldServer) InProcessConn() (net.Conn, error) {
	client, server := net.Pipe()
	go func() {
		info := `INFO {"server_id":"X","server_name":"relic","version":"` + s.version +
			`","max_payload":1048576,"headers":true,"proto":1}` + "\r\n"
		if _, err := server.Write([]byte(info)); err != nil {
			return
		}
		lines := bufio.NewScanner(server)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "PING") {
				if _, err := fmt.Fprint(server, "PONG\r\n"); err != nil {
					return
				}
			}
		}
	}()
	return client, nil
}

// streamConfig returns the stored configuration of a bucket.
func streamConfig(t *testing.T, js jetstream.JetStream, bucket string) jetstream.StreamConfig {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_"+bucket)
	require.NoError(t, err)
	return stream.CachedInfo().Config
}
