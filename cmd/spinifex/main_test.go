package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/testkit"
	"github.com/mulgadc/spinifex/runtime/daemon"
	"github.com/mulgadc/spinifex/runtime/node"
	"github.com/mulgadc/spinifex/runtime/roles/awsgw"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// spinifex runs the program in an environment that has nothing but a home directory of the test.
func spinifex(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs testkit.Buffer
	status = run(t.Context(), args, environ(t), &out, &errs)
	return status, out.String(), errs.String()
}

// environ keeps the test away from the files of whoever runs it.
func environ(t *testing.T) []string {
	empty := filepath.Join(t.TempDir(), "empty.toml")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	return []string{"SPINIFEX_CONFIG=" + empty}
}

func TestUsage(t *testing.T) {
	config := filepath.Join(t.TempDir(), "spinifex.toml")
	require.NoError(t, os.WriteFile(config, []byte("[dns]\nlisen = \"127.0.0.1:53\"\n"), 0o600))
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"unknown command":     {[]string{"dance"}, `unknown command "dance"`},
		"unknown flag":        {[]string{"up", "--dance"}, "unknown flag: --dance"},
		"unknown output":      {[]string{"version", "--output", "xml"}, `--output = "xml": want text or json`},
		"unknown key":         {[]string{"up", "--config", config}, "dns.lisen: unknown key, did you mean dns.listen?"},
		"unknown key, daemon": {[]string{"daemon", "--config", config}, "dns.lisen"},
		"unknown key, locks":  {[]string{"locks", "ls", "--config", config}, "dns.lisen"},
		"bad flag value":      {[]string{"up", "--node", "A_B"}, `--node: node.name = "A_B"`},
		"missing file":        {[]string{"up", "--config", config + ".absent"}, "no such file"},
		"arguments":           {[]string{"up", "now"}, "unknown command"},
		"no key":              {[]string{"locks", "show"}, "accepts 1 arg"},
		"no generation":       {[]string{"locks", "break", "k", "--reason", "x"}, `"generation" not set`},
		"no node":             {[]string{"locks", "transfer", "k"}, `"to" not set`},
		"not yes":             {[]string{"locks", "rebuild"}, "--yes is missing"},
		"no reason":           {[]string{"locks", "break", "k", "--generation", "3", "--reason", " "}, "--reason is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := spinifex(t, tc.args...)
			assert.Equal(t, exitUsage, status)
			assert.Contains(t, stderr, tc.want)
			assert.Empty(t, stdout)
		})
	}
}

func TestHelpNamesEveryCommand(t *testing.T) {
	status, stdout, _ := spinifex(t)
	assert.Equal(t, exitDone, status)
	for _, command := range []string{"up", "daemon", "awsgw", "dns", "locks", "bucket", "version", "--data-dir", "--nats", "--output"} {
		assert.Contains(t, stdout, command)
	}
}

func TestVersion(t *testing.T) {
	status, stdout, _ := spinifex(t, "version")
	assert.Equal(t, exitDone, status)
	assert.True(t, strings.HasPrefix(stdout, "spinifex v"), stdout)
	_, stdout, _ = spinifex(t, "version", "--output", "json")
	var b build
	require.NoError(t, json.Unmarshal([]byte(stdout), &b))
	assert.Equal(t, thisBuild(), b)
}

func TestNothingToConnectTo(t *testing.T) {
	status, _, stderr := spinifex(t, "locks", "ls", "--data-dir", filepath.Join(t.TempDir(), "absent"))
	assert.Equal(t, exitFailed, status)
	assert.Contains(t, stderr, "start spinifex up")
	status, _, stderr = spinifex(t, "bucket", "audit", "--nats", "nats://u:topsecret@127.0.0.1:1", "--output", "json")
	assert.Equal(t, exitFailed, status)
	assert.Contains(t, stderr, "nats://u:xxxxx@127.0.0.1:1")
	assert.NotContains(t, stderr, "topsecret")
}

// startStore runs an embedded NATS server in a data directory, as spinifex daemon does, and returns the
// directory and a connection.
func startStore(t *testing.T) (string, *messaging.Conn) {
	t.Helper()
	data, err := node.OpenDataDir(t.TempDir(), node.RoleNATS)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, data.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	srv, err := node.StartNATS(ctx, node.NATSOptions{Listen: "127.0.0.1:0", Node: "n1", Data: data, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(srv.Stop)
	conn, err := messaging.Connect(ctx, messaging.Options{Name: "test", InProcess: srv, User: srv.Client().User, Password: srv.Client().Password})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return data.Path(), conn
}

func TestLocksOfACloud(t *testing.T) {
	dir, conn := startStore(t)
	status, _, stderr := spinifex(t, "locks", "ls", "--data-dir", dir)
	assert.Equal(t, exitFailed, status)
	assert.Contains(t, stderr, "no daemon has started")

	lease := kvsync.NewLease(kvstore.OpenSyncBucket(conn.JetStream()), "dns.reconcile", "n9/daemon", time.Minute)
	tok, err := lease.TryLock(t.Context())
	require.NoError(t, err)

	status, stdout, stderr := spinifex(t, "locks", "ls", "--data-dir", dir)
	require.Equal(t, exitDone, status, stderr)
	lines := strings.Split(stdout, "\n")
	assert.Equal(t, []string{"KEY", "HOLDER", "GENERATION", "AGE", "LEFT", "CONTENDERS"}, strings.Fields(lines[0]))
	fields := strings.Fields(lines[1])
	assert.Equal(t, "dns.reconcile", fields[0])
	assert.Equal(t, "n9/daemon", fields[1])
	assert.Equal(t, "unanswered", fields[4])

	_, stdout, _ = spinifex(t, "locks", "ls", "--data-dir", dir, "--output", "json")
	var list []daemon.Lock
	require.NoError(t, json.Unmarshal([]byte(stdout), &list))
	require.Len(t, list, 1)
	assert.Equal(t, tok.Generation, list[0].Generation)

	_, stdout, _ = spinifex(t, "locks", "show", "dns.reconcile", "--data-dir", dir)
	assert.Contains(t, stdout, "n9/daemon")
	status, _, stderr = spinifex(t, "locks", "show", "absent", "--data-dir", dir)
	assert.Equal(t, exitFailed, status)
	assert.Contains(t, stderr, "absent")

	ctx, cancel := context.WithCancel(t.Context())
	var watched, watchErr testkit.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"locks", "watch", "--data-dir", dir, "--output", "json"}, environ(t), &watched, &watchErr)
	}()
	sees := func(whys ...string) {
		t.Helper()
		testkit.Eventually(t, 10*time.Second, func() (bool, string) {
			text := watched.String()
			return slices.ContainsFunc(whys, func(why string) bool { return strings.Contains(text, `"why":"`+why+`"`) }), text + watchErr.String()
		})
	}
	sees("acquired")
	generation := []string{"--generation", strings.Fields(lines[1])[2]}
	status, _, stderr = spinifex(t, "locks", "break", "dns.reconcile", "--reason", "test", "--data-dir", dir, "--generation", "1")
	assert.Equal(t, exitFailed, status)
	assert.Contains(t, stderr, "not 1")
	status, stdout, stderr = spinifex(t, append([]string{"locks", "break", "dns.reconcile", "--reason", "test", "--data-dir", dir}, generation...)...)
	require.Equal(t, exitDone, status, stderr)
	assert.Contains(t, stdout, "is free")
	sees("broken", "released") // the reason is gone with the record when the watch comes to it late
	cancel()
	assert.Equal(t, exitDone, <-ended)
}

func TestLocksDoctorAndRebuild(t *testing.T) {
	dir, conn := startStore(t)
	status, stdout, stderr := spinifex(t, "locks", "doctor", "--data-dir", dir)
	assert.Equal(t, exitFailed, status)
	assert.Contains(t, stderr, "1 faults")
	assert.Contains(t, stdout, "fault: the bucket spinifex-sync does not exist -> spinifex up\n")

	_, err := kvstore.OpenSyncBucket(conn.JetStream()).KV(t.Context())
	require.NoError(t, err)
	status, stdout, stderr = spinifex(t, "locks", "doctor", "--data-dir", dir)
	assert.Equal(t, exitDone, status, stderr)
	assert.Contains(t, stdout, "note: it is not known whether the NATS servers sync")
	assert.Contains(t, stdout, "the locks are well")
	status, stdout, _ = spinifex(t, "locks", "doctor", "--data-dir", dir, "--output", "json")
	assert.Equal(t, exitDone, status)
	var found []daemon.Finding
	require.NoError(t, json.Unmarshal([]byte(stdout), &found))
	require.Len(t, found, 1)
	assert.False(t, found[0].Fault)

	status, _, stderr = spinifex(t, "locks", "rebuild", "--yes", "--data-dir", dir)
	assert.Equal(t, exitFailed, status)
	assert.Contains(t, stderr, "needs no rebuild")
	env := append(environ(t), "SPINIFEX_LOCKS_TTL=3s")
	var out, errs testkit.Buffer
	status = run(t.Context(), []string{"locks", "rebuild", "--yes", "--force", "--data-dir", dir, "--output", "json"}, env, &out, &errs)
	require.Equal(t, exitDone, status, errs.String())
	assert.Contains(t, errs.String(), "the new one is made in 3s")
	var done daemon.Rebuilt
	require.NoError(t, json.Unmarshal([]byte(out.String()), &done))
	assert.NotZero(t, done.FirstSequence)
	status, _, stderr = spinifex(t, "locks", "doctor", "--data-dir", dir)
	assert.Equal(t, exitDone, status, stderr)
}

func TestBucketAudit(t *testing.T) {
	dir, conn := startStore(t)
	_, err := kvstore.Open(conn.JetStream(), "spinifex-good").KV(t.Context())
	require.NoError(t, err)
	status, stdout, stderr := spinifex(t, "bucket", "audit", "--data-dir", dir)
	require.Equal(t, exitDone, status, stderr)
	assert.Contains(t, stdout, "spinifex-good")
	assert.Contains(t, stdout, "1 of 1")

	// A bucket that another program has made, with direct reads.
	_, err = conn.JetStream().CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "foreign"})
	require.NoError(t, err)
	status, stdout, stderr = spinifex(t, "bucket", "audit", "--data-dir", dir, "--output", "json")
	assert.Equal(t, exitFailed, status)
	assert.Contains(t, stderr, "not as they have to be: foreign")
	var reports []kvstore.BucketReport
	require.NoError(t, json.Unmarshal([]byte(stdout), &reports))
	require.Len(t, reports, 2)
	assert.NotEmpty(t, reports[0].Drift)
}

func TestSettingsAreForAShell(t *testing.T) {
	var out bytes.Buffer
	a := &app{stdout: &out, output: "text"}
	a.printSettings(daemon.Info{})
	assert.Empty(t, out.String(), "no gateway, no settings")
	info := daemon.Info{Client: awsgw.ClientConfig{ConfigFile: "/d/config", CredentialsFile: "/d/credentials", Profile: "p", Endpoint: "http://127.0.0.1:9999"}}
	a.printSettings(info)
	assert.Equal(t, info.Client.Exports(), out.String())
	out.Reset()
	a.output = "json"
	a.printSettings(info)
	assert.JSONEq(t, `{"AWS_CONFIG_FILE": "/d/config", "AWS_SHARED_CREDENTIALS_FILE": "/d/credentials", "AWS_PROFILE": "p", "AWS_ENDPOINT_URL": "http://127.0.0.1:9999"}`, out.String())
}

func TestMillis(t *testing.T) {
	assert.Equal(t, "0.4s", millis(432))
	assert.Equal(t, "2m5s", millis(125_400))
}
