package cloud

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/process"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// StartTimeout bounds a node's way to ready, on a busy machine and with the race detector.
const StartTimeout = 60 * time.Second

// stopTimeout bounds a clean shutdown.
const stopTimeout = 30 * time.Second

// Options describe a node.
type Options struct {
	// Binary is the path of spinifex.
	Binary string
	// Name of the node; empty means "n1".
	Name string
	// NATS is the URL of a server that exists; empty uses the embedded one.
	NATS string
	// SealingKey is the file that nodes of one cloud share; empty takes the node's own.
	SealingKey string
	// TTL of the locks; empty takes the default.
	TTL string
	// Env is added to the node's environment at each start.
	Env []string
}

// Node is one node of a cloud. Its data and its ports stay the same over restarts.
type Node struct {
	opts Options
	t    testing.TB

	// Dir is the data directory.
	Dir string
	// Gateway, DNS, Telemetry and NATS are the addresses it listens on; NATS only when the server is
	// the node's own.
	Gateway, DNS, Telemetry, NATS string

	config string
	logs   *os.File
	proc   *process.Process
}

// Start makes a node and waits until it is ready.
func Start(t testing.TB, opts Options) *Node {
	t.Helper()
	n := New(t, opts)
	n.Start()
	n.WaitReady()
	return n
}

// New makes a node that is not started yet.
func New(t testing.TB, opts Options) *Node {
	t.Helper()
	if opts.Name == "" {
		opts.Name = "n1"
	}
	addrs := freeAddrs(t, 4)
	n := &Node{
		opts: opts, t: t, Dir: filepath.Join(t.TempDir(), "data"),
		Gateway: addrs[0], DNS: addrs[1], Telemetry: addrs[2], NATS: addrs[3],
	}
	n.config = filepath.Join(t.TempDir(), "spinifex.toml")
	n.WriteConfig(n.defaultConfig())
	logs, err := os.Create(filepath.Join(t.ArtifactDir(), opts.Name+".log"))
	require.NoError(t, err)
	n.logs = logs
	t.Cleanup(n.cleanUp)
	return n
}

func (n *Node) defaultConfig() string {
	var b strings.Builder
	section := func(name string, pairs ...string) {
		fmt.Fprintf(&b, "[%s]\n", name)
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i+1] != "" {
				fmt.Fprintf(&b, "%s = %q\n", pairs[i], pairs[i+1])
			}
		}
	}
	section("node", "name", n.opts.Name, "data_dir", n.Dir, "sealing_key", n.opts.SealingKey)
	section("awsgw", "listen", n.Gateway)
	section("dns", "listen", n.DNS)
	section("telemetry", "listen", n.Telemetry)
	section("nats", "listen", n.NATS, "url", n.opts.NATS)
	section("locks", "ttl", n.opts.TTL)
	section("log", "level", "debug")
	return b.String()
}

// FreeAddr returns a loopback address whose port is free for TCP and UDP at this moment.
func FreeAddr(t testing.TB) string {
	t.Helper()
	return freeAddrs(t, 1)[0]
}

func freeAddrs(t testing.TB, n int) []string {
	t.Helper()
	var addrs []string
	for _, port := range testkit.FreePorts(t, n) {
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return addrs
}

// WriteConfig replaces the configuration file; it is read at the next start.
func (n *Node) WriteConfig(toml string) {
	n.t.Helper()
	require.NoError(n.t, os.WriteFile(n.config, []byte(toml), 0o600))
}

// Config is the text of the configuration file.
func (n *Node) Config() string {
	n.t.Helper()
	text, err := os.ReadFile(n.config)
	require.NoError(n.t, err)
	return string(text)
}

// Start starts the node's process without waiting for it.
func (n *Node) Start(env ...string) {
	n.t.Helper()
	proc, err := process.Start(process.Options{
		Path: n.opts.Binary, Args: []string{"up", "--config", n.config},
		Env: append(append([]string{}, n.opts.Env...), env...), Log: n.logs,
	})
	require.NoError(n.t, err)
	n.proc = proc
}

// WaitReady waits until the node has printed its settings and answers on its ports.
func (n *Node) WaitReady() {
	n.t.Helper()
	testkit.Eventually(n.t, StartTimeout, func() (bool, string) {
		if !n.proc.Running() {
			n.t.Fatalf("node %s ended instead of becoming ready:\n%s", n.opts.Name, tail(n.Output()))
		}
		if _, ok := n.setting("AWS_PROFILE"); !ok {
			return false, "no settings printed yet; log:\n" + tail(n.Output())
		}
		conn, err := net.DialTimeout("tcp", n.Gateway, time.Second)
		if err != nil {
			return false, err.Error()
		}
		return conn.Close() == nil, ""
	})
}

// setting finds a variable among the settings that the node prints for its user.
func (n *Node) setting(name string) (string, bool) {
	m := regexp.MustCompile(`(?m)^\s*export ` + name + `=(.*)$`).FindStringSubmatch(n.Output())
	if m == nil {
		return "", false
	}
	return strings.Trim(m[1], `"'`), true
}

// Settings are the variables that the node printed for AWS clients, as NAME=value.
func (n *Node) Settings() []string {
	n.t.Helper()
	var out []string
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE", "AWS_ENDPOINT_URL"} {
		value, ok := n.setting(name)
		require.True(n.t, ok, "the node did not print %s", name)
		out = append(out, name+"="+value)
	}
	return out
}

// Endpoint is the URL of the node's gateway as it printed it.
func (n *Node) Endpoint() string {
	n.t.Helper()
	value, ok := n.setting("AWS_ENDPOINT_URL")
	require.True(n.t, ok, "the node did not print AWS_ENDPOINT_URL")
	return value
}

// Name is the node's name.
func (n *Node) Name() string { return n.opts.Name }

// Output is what the current process has written.
func (n *Node) Output() string { return n.proc.Output() }

// Process is the current or last process.
func (n *Node) Process() *process.Process { return n.proc }

// Kill ends the node as a power cut of its process would.
func (n *Node) Kill() {
	n.t.Helper()
	require.NoError(n.t, n.proc.Kill())
}

// Freeze stops the process where it is; Thaw lets it go on.
func (n *Node) Freeze() {
	n.t.Helper()
	require.NoError(n.t, n.proc.Signal(syscall.SIGSTOP))
}

// Thaw lets a frozen process go on.
func (n *Node) Thaw() {
	n.t.Helper()
	require.NoError(n.t, n.proc.Signal(syscall.SIGCONT))
}

// Stop shuts the node down cleanly.
func (n *Node) Stop() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	require.NoError(n.t, n.proc.Stop(ctx), "the log ends with:\n%s", tail(n.Output()))
}

// trouble is what no log may contain.
var trouble = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*|WARNING: DATA RACE.*|goroutine \d+ \[running\]:)|level=\w+ msg="[^"]*panic[^"]*".*`)

func (n *Node) cleanUp() {
	if n.proc != nil && n.proc.Running() {
		_ = n.proc.Signal(syscall.SIGCONT) // a stopped process cannot even report
		_ = n.proc.Kill()
	}
	_ = n.logs.Close()
	text, err := os.ReadFile(n.logs.Name())
	if !assert.NoError(n.t, err) {
		return
	}
	if found := trouble.FindIndex(text); found != nil {
		end := min(len(text), found[0]+4000)
		n.t.Errorf("the log of %s has:\n%s", n.opts.Name, text[found[0]:end])
	}
	if n.t.Failed() {
		n.t.Logf("the log of %s ends with:\n%s", n.opts.Name, tail(string(text)))
	}
}

// tail is the end of a log.
func tail(text string) string {
	const lines = 60
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
