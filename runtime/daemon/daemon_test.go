package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mulgadc/spinifex/foundation/config"
	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/internal/testkit"
	"github.com/mulgadc/spinifex/runtime/node"
)

// startWithin bounds a start, on a busy machine and with the race detector.
const startWithin = 60 * time.Second

// testConfig is a configuration on loopback, with any free port for everything. Settings are
// SECTION_KEY=value.
func testConfig(t *testing.T, name string, settings ...string) *config.Config {
	t.Helper()
	environ := []string{
		"SPINIFEX_NODE_NAME=" + name, "SPINIFEX_NODE_DATA_DIR=" + filepath.Join(t.TempDir(), "data"),
		"SPINIFEX_AWSGW_LISTEN=127.0.0.1:0", "SPINIFEX_DNS_LISTEN=127.0.0.1:0", "SPINIFEX_NATS_LISTEN=127.0.0.1:0",
		"SPINIFEX_TELEMETRY_LISTEN=127.0.0.1:0",
	}
	for _, s := range settings {
		environ = append(environ, "SPINIFEX_"+s)
	}
	cfg, err := config.Load(config.Source{Environ: environ, Host: config.Host{Hostname: name, Home: t.TempDir()}})
	require.NoError(t, err)
	return cfg
}

// running is a process in this one.
type running struct {
	t     *testing.T
	cfg   *config.Config
	info  Info
	log   *lines
	stop  context.CancelCauseFunc
	ended chan error

	clients []*messaging.Conn
}

// launch starts a process without waiting for it.
func launch(t *testing.T, cfg *config.Config, roles ...node.Role) (r *running, ready <-chan Info) {
	t.Helper()
	r = &running{t: t, cfg: cfg, log: &lines{}, ended: make(chan error, 1)}
	// The client library's pool of timers may have some of the bubbles of other tests.
	testkit.DropPooledTimers()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	r.stop = cancel
	told := make(chan Info, 1)
	opts := Options{
		Config: cfg, Roles: roles, Version: "v0.0.1", Log: r.log.logger(), Ready: func(info Info) { told <- info },
	}
	go func() { r.ended <- Run(ctx, opts); close(r.ended) }()
	t.Cleanup(func() {
		cancel(errors.New("end of the test"))
		<-r.ended
		if t.Failed() {
			t.Logf("log of %s:\n%s", cfg.Node.Name, r.log)
		}
	})
	return r, told
}

// start starts a process and waits until it is ready.
func start(t *testing.T, cfg *config.Config, roles ...node.Role) *running {
	t.Helper()
	r, ready := launch(t, cfg, roles...)
	select {
	case r.info = <-ready:
	case err := <-r.ended:
		require.NoError(t, err, "ended instead of becoming ready")
		t.Fatal("ended instead of becoming ready")
	case <-time.After(startWithin):
		t.Fatal("not ready in time")
	}
	return r
}

// stopped stops a process as a signal does.
func (r *running) stopped() {
	r.t.Helper()
	r.stop(errors.New("terminated signal received"))
	require.NoError(r.t, <-r.ended)
}

// cli connects to the cloud of a process as a command does.
func (r *running) cli() *messaging.Conn {
	r.t.Helper()
	opts := messaging.Options{Name: "test/cli", URL: r.cfg.NATS.URL}
	if opts.URL == "" {
		client, err := node.ReadClient(r.cfg.Node.DataDir)
		require.NoError(r.t, err)
		opts.URL, opts.User, opts.Password = client.URL, client.User, client.Password
	}
	conn, err := messaging.Connect(r.t.Context(), opts)
	require.NoError(r.t, err)
	r.t.Cleanup(conn.Close)
	r.clients = append(r.clients, conn)
	return conn
}

func (r *running) locks() map[string]Lock {
	r.t.Helper()
	list, err := NewLockBook(r.cli()).List(r.t.Context())
	require.NoError(r.t, err)
	locks := map[string]Lock{}
	for _, lock := range list {
		locks[lock.Key] = lock
	}
	return locks
}

// seedBuckets leaves a store in the data directory as an earlier release did.
func seedBuckets(t *testing.T, cfg *config.Config, names ...string) {
	t.Helper()
	data, err := node.OpenDataDir(cfg.Node.DataDir, node.RoleNATS)
	require.NoError(t, err)
	defer func() { require.NoError(t, data.Close()) }()
	srv, err := node.StartNATS(t.Context(), node.NATSOptions{Listen: cfg.NATS.Listen, Node: cfg.Node.Name, Data: data, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer srv.Stop()
	conn, err := messaging.Connect(t.Context(), messaging.Options{Name: "seed", InProcess: srv, User: srv.Client().User, Password: srv.Client().Password})
	require.NoError(t, err)
	defer conn.Close()
	for _, name := range names {
		kv, err := conn.JetStream().CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: name})
		require.NoError(t, err)
		_, err = kv.Put(t.Context(), "leader", []byte("old"))
		require.NoError(t, err)
		require.NoError(t, kv.Delete(t.Context(), "leader")) // released: nobody elects there
	}
}

func TestUp(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	cfg := testConfig(t, "n1")
	seedBuckets(t, cfg, append([]string{"somebody-elses"}, obsoleteBuckets...)...)
	r := start(t, cfg, allRoles...)

	assert.NotEmpty(t, r.info.Client.Endpoint)
	assert.FileExists(t, r.info.Client.ConfigFile)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(r.info.Client.Endpoint + "/health")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusOK, resp.StatusCode)

	names := map[string]bool{}
	lister := r.cli().JetStream().KeyValueStoreNames(t.Context())
	for name := range lister.Name() {
		names[name] = true
	}
	require.NoError(t, lister.Error())
	assert.True(t, names["somebody-elses"])
	for _, bucket := range obsoleteBuckets {
		assert.False(t, names[bucket], bucket)
	}

	first := r.locks()
	require.Len(t, first, 3)
	for _, lock := range first {
		assert.Equal(t, "n1/daemon", lock.Holder)
		assert.True(t, lock.Answered, lock.Key)
		assert.Equal(t, (20 * time.Second).Milliseconds(), lock.TTLMS)
	}
	stopping := time.Now()
	r.stopped()
	assert.Less(t, time.Since(stopping), 10*time.Second)
	assert.Equal(t, 0, r.log.count("level=ERROR"), r.log)

	// Everything can be had again at once, and every election was begun anew.
	again := start(t, cfg, allRoles...)
	assert.Equal(t, r.info.Client.CredentialsFile, again.info.Client.CredentialsFile)
	for key, lock := range again.locks() {
		assert.Greater(t, lock.Generation, first[key].Generation)
	}
	again.stopped()
	for _, conn := range again.clients {
		conn.Close()
	}
	for _, conn := range r.clients {
		conn.Close()
	}
	goleak.VerifyNone(t, leaks)
}

func TestRolesInProcessesOfTheirOwn(t *testing.T) {
	cfg := testConfig(t, "n1")
	dnsRole, dnsReady := launch(t, cfg, node.RoleDNS) // waits for the daemon's NATS server
	daemon := start(t, cfg, node.RoleNATS, node.RoleDaemon)
	gateway := start(t, cfg, node.RoleAWSGW)
	select {
	case <-dnsReady:
	case err := <-dnsRole.ended:
		t.Fatal("ended instead of becoming ready: ", err)
	case <-time.After(startWithin):
		t.Fatal("not ready in time")
	}
	assert.Empty(t, daemon.info.Client.Endpoint)
	assert.NotEmpty(t, gateway.info.Client.Endpoint)
	assert.Len(t, daemon.locks(), 3)
	second, _ := launch(t, cfg, node.RoleDNS)
	err := <-second.ended
	require.ErrorIs(t, err, node.ErrInUse)
	assert.ErrorContains(t, err, "role dns")
	gateway.stopped()
	dnsRole.stopped()
	daemon.stopped()
}

// externalNATS starts a server that listens, with a user.
func externalNATS(t *testing.T) (url string) {
	t.Helper()
	srv := testkit.StartTestServer(t, &server.Options{
		ServerName: "external", Host: "127.0.0.1", Port: server.RANDOM_PORT, Username: "u", Password: "topsecret",
		JetStream: true, StoreDir: t.TempDir(),
	})
	return fmt.Sprintf("nats://u:topsecret@%s", srv.Addr())
}

func TestTwoNodesOnOneNATS(t *testing.T) {
	url := externalNATS(t)
	cfg1 := testConfig(t, "n1", "NATS_URL="+url, "LOCKS_TTL=5s")
	n1 := start(t, cfg1, allRoles...)
	n2 := start(t, testConfig(t, "n2", "NATS_URL="+url, "LOCKS_TTL=5s", "NODE_SEALING_KEY="+cfg1.Node.SealingKey), allRoles...)
	for key, lock := range n2.locks() {
		assert.Equal(t, "n1/daemon", lock.Holder, key)
		assert.Equal(t, []string{"n2/daemon"}, lock.Contenders, key)
	}
	keys := func(r *running) string {
		text, err := os.ReadFile(r.info.Client.CredentialsFile)
		require.NoError(t, err)
		return string(text)
	}
	assert.Equal(t, keys(n1), keys(n2), "one administrator")

	n1.stopped()
	testkit.Eventually(t, 4*time.Second, func() (bool, string) { // less than the time to live: handed over
		locks := n2.locks()
		for _, lock := range locks {
			if lock.Holder != "n2/daemon" {
				return false, fmt.Sprintf("%+v", lock)
			}
		}
		return len(locks) == 3, fmt.Sprintf("%+v", locks)
	})
	n2.stopped()

	other := testConfig(t, "n3", "NATS_URL="+url)
	r, _ := launch(t, other, allRoles...)
	err := <-r.ended
	require.ErrorContains(t, err, "copy the file keys/sealing.key")
	for _, log := range []*lines{n1.log, n2.log, r.log} {
		assert.NotContains(t, log.String(), "topsecret")
	}
}

func TestStartThatFailsSaysWhereAndIsUndone(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	addr := taken.Addr().String()
	for key, setting := range map[string]string{
		"telemetry.listen": "TELEMETRY_LISTEN", "nats.listen": "NATS_LISTEN", "dns.listen": "DNS_LISTEN", "awsgw.listen": "AWSGW_LISTEN",
	} {
		t.Run(key, func(t *testing.T) {
			cfg := testConfig(t, "n1", setting+"="+addr)
			r, _ := launch(t, cfg, allRoles...)
			err := <-r.ended
			require.ErrorContains(t, err, fmt.Sprintf("%s = %q", key, addr))
			assert.ErrorContains(t, err, "start: ")
			assert.ErrorContains(t, err, "in use")
			data, err := node.OpenDataDir(cfg.Node.DataDir, allRoles...)
			require.NoError(t, err, "the directory is free again")
			require.NoError(t, data.Close())
		})
	}
}

func TestStopDuringTheStartIsNoFault(t *testing.T) {
	r, _ := launch(t, testConfig(t, "n1", "NATS_URL=nats://127.0.0.1:1"), allRoles...)
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		return r.log.count("start step done", "start NATS") > 0, r.log.String()
	})
	r.stopped()
}

func TestUndeclaredClusterNamesTheSetting(t *testing.T) {
	cluster := testkit.StartTestCluster(t, 3)
	url := "nats://" + cluster.Servers[0].Addr().String()
	r, _ := launch(t, testConfig(t, "n1", "NATS_URL="+url), allRoles...)
	err := <-r.ended
	require.ErrorIs(t, err, clustersize.ErrUndeclared)
	assert.ErrorContains(t, err, "nats.servers")

	declared := start(t, testConfig(t, "n1", "NATS_URL="+url, "NATS_SERVERS=3"), allRoles...)
	assert.Len(t, declared.locks(), 3)
	declared.stopped()
}
