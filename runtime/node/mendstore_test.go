package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/internal/testkit"
)

func connect(t *testing.T, srv *NATSServer) *messaging.Conn {
	t.Helper()
	conn, err := messaging.Connect(t.Context(), messaging.Options{
		Name: "x", InProcess: srv, User: srv.Client().User, Password: srv.Client().Password,
	})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	require.NoError(t, conn.WaitJetStream(t.Context()))
	return conn
}

// A store that has stopped writing works again once the disk takes writes: on the same port, with all
// that was acknowledged, and the clients' connections come back.
func TestStoreThatStoppedWritingIsMended(t *testing.T) {
	srv := startNATS(t, open(t, t.TempDir(), RoleNATS), "127.0.0.1:0")
	srv.endWatch() // the test looks itself
	conn := connect(t, srv)
	kv, err := conn.JetStream().CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b"})
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), "k", []byte("v"))
	require.NoError(t, err)
	first := srv.srv
	assert.Empty(t, srv.look(t.Context(), ""))
	assert.Same(t, first, srv.srv, "a store without a fault is left alone")

	srv.fault = func() error { return errors.New("no space left on device") }
	srv.room = func() error { return errors.New("disk is full") }
	assert.Equal(t, "disk is full", srv.look(t.Context(), ""))
	assert.Same(t, first, srv.srv, "it goes on serving reads while nothing can be written")

	srv.room = srv.diskTakesWrites
	probe := srv.opts.Data.Path("nats", "probe")
	require.NoError(t, os.Mkdir(probe, 0o700))
	told := srv.look(t.Context(), "")
	assert.Equal(t, told, srv.look(t.Context(), told), "the same reason reads the same, so it is logged once")
	require.NoError(t, os.Remove(probe))
	assert.Empty(t, srv.look(t.Context(), "disk is full"))
	assert.NotSame(t, first, srv.srv)
	assert.Equal(t, "nats://"+srv.srv.Addr().String(), srv.Client().URL)
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		entry, err := kv.Get(t.Context(), "k")
		return err == nil && string(entry.Value()) == "v", "the value cannot be read"
	})
	srv.fault = srv.writeFault
	require.NoError(t, srv.fault())
}

func TestRestartThatFailsIsTriedAgain(t *testing.T) {
	srv := startNATS(t, open(t, t.TempDir(), RoleNATS), "127.0.0.1:0")
	srv.endWatch()
	srv.fault = func() error { return errors.New("no space left on device") }
	host := srv.host
	srv.host = "192.0.2.1" // no address of this machine
	assert.Contains(t, srv.look(t.Context(), ""), "192.0.2.1")
	srv.host = host
	srv.fault = func() error { return nil }
	assert.Empty(t, srv.look(t.Context(), ""))
	connect(t, srv)
}

// A damaged stream must not be made anew in silence, without what it held.
func TestStreamThatCannotBeReadIsTheError(t *testing.T) {
	data := open(t, t.TempDir(), RoleNATS)
	srv := startNATS(t, data, "127.0.0.1:0")
	conn := connect(t, srv)
	kv, err := conn.JetStream().CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b"})
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), "k", []byte("v"))
	require.NoError(t, err)
	_, err = conn.JetStream().CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "empty"})
	require.NoError(t, err)
	conn.Close()
	srv.Stop()
	streams := data.Path("nats", "jetstream", "$G", "streams")
	damage := func(stream string) {
		require.NoError(t, os.WriteFile(filepath.Join(streams, stream, "meta.inf"), []byte("{"), 0o600))
	}
	damage("KV_empty")
	startNATS(t, data, "127.0.0.1:0").Stop()

	damage("KV_b")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = StartNATS(ctx, NATSOptions{Listen: "127.0.0.1:0", Node: "n1", Data: data, Log: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "restore "+filepath.Join(streams, "KV_b")+" from a backup")
	require.NoError(t, os.Rename(filepath.Join(streams, "KV_b"), filepath.Join(t.TempDir(), "KV_b")))
	startNATS(t, data, "127.0.0.1:0")
}
