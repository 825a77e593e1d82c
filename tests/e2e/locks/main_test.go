package locks

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/cloud"
	"github.com/mulgadc/spinifex/internal/process"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// The programs, built once for the tests of this package.
var binary, natsd, holder string

// How long the tests are.
var (
	kills   = flag.Int("kills", 3, "how often the leader of the stream is killed")
	holders = flag.Int("holders", 8, "how many holders are killed")
)

func TestMain(m *testing.M) { cloud.Main(m, build) }

func build(ctx context.Context, dir string) error {
	var errs [3]error
	binary, errs[0] = process.Build(ctx, dir, "./cmd/spinifex")
	natsd, errs[1] = process.Build(ctx, dir, "./internal/natsd")
	holder, errs[2] = process.Build(ctx, dir, "./tests/e2e/locks/holder")
	return errors.Join(errs[:]...)
}

// natsServer is a NATS server as a process, which keeps its port and its directory over restarts.
type natsServer struct {
	t    *testing.T
	name string
	dir  string
	port int
	// monitor is the port of the server's own judgement of its health.
	monitor int
	args    []string
	proc    *process.Process
}

func (s *natsServer) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.port) }

// start starts the process and waits until it takes connections.
func (s *natsServer) start() {
	s.t.Helper()
	proc, err := process.Start(process.Options{Path: natsd, Args: append([]string{
		"-dir", s.dir, "-port", strconv.Itoa(s.port), "-name", s.name, "-monitor", strconv.Itoa(s.monitor),
	}, s.args...)})
	require.NoError(s.t, err)
	s.proc = proc
	testkit.Eventually(s.t, 30*time.Second, func() (bool, string) {
		return strings.HasPrefix(proc.Output(), "ready "), proc.Output()
	})
}

// healthy reports whether the server takes part in everything that is replicated on it, with all of its data: a
// leader takes a peer that has been away for a moment for one that is up to date.
func (s *natsServer) healthy() bool {
	client := &http.Client{Timeout: 2 * time.Second}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", s.monitor))
	if err != nil {
		return false
	}
	defer client.CloseIdleConnections()
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

func (s *natsServer) kill() {
	s.t.Helper()
	require.NoError(s.t, s.proc.Kill())
}

// startServers starts n NATS servers, a cluster when there are several.
func startServers(t *testing.T, n int) []*natsServer {
	t.Helper()
	ports := testkit.FreePorts(t, 3*n)
	var routes []string
	for _, port := range ports[n : 2*n] {
		routes = append(routes, strconv.Itoa(port))
	}
	var servers []*natsServer
	for i := range n {
		s := &natsServer{t: t, name: fmt.Sprintf("s%d", i+1), dir: filepath.Join(t.TempDir(), "nats"), port: ports[i], monitor: ports[2*n+i]}
		if n > 1 {
			s.args = []string{"-route", routes[i], "-peers", strings.Join(routes, ",")}
		}
		s.start()
		t.Cleanup(func() { _ = s.proc.Kill() })
		servers = append(servers, s)
	}
	return servers
}

// connect connects the test to servers, as a daemon connects for its locks.
func connect(t *testing.T, servers ...*natsServer) jetstream.JetStream {
	t.Helper()
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.url())
	}
	conn, err := nats.Connect(strings.Join(urls, ","), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js := testkit.NewJetStream(t, conn)
	testkit.Eventually(t, time.Minute, func() (bool, string) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := js.AccountInfo(ctx)
		return err == nil, fmt.Sprint(err)
	})
	return js
}

// startHolder starts a process that holds a key, and returns it with the generation once it does.
func startHolder(t *testing.T, url, key, guard string, ttl time.Duration) (*process.Process, uint64) {
	t.Helper()
	p, err := process.Start(process.Options{Path: holder, Args: []string{
		"-nats", url, "-key", key, "-guard", guard, "-ttl", ttl.String(),
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	var generation uint64
	testkit.Eventually(t, 30*time.Second, func() (bool, string) {
		line, _, whole := strings.Cut(p.Output(), "\n")
		n, err := fmt.Sscanf(line, "held %d", &generation)
		return whole && n == 1 && err == nil, p.Output()
	})
	return p, generation
}
