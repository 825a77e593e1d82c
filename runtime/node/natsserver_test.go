package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mulgadc/spinifex/foundation/messaging"
)

func TestMain(m *testing.M) {
	ats.Register() // the server library's clock goroutine lives as long as somebody needs it
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}

func startNATS(t *testing.T, data *DataDir, listen string) *NATSServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	srv, err := StartNATS(ctx, NATSOptions{Listen: listen, Node: "n1", Data: data, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	require.NoError(t, err)
	t.Cleanup(srv.Stop)
	return srv
}

func TestEmbeddedServerKeepsWhatItAcknowledged(t *testing.T) {
	data := open(t, t.TempDir(), RoleNATS)
	srv := startNATS(t, data, "127.0.0.1:0")
	conn, err := messaging.Connect(t.Context(), messaging.Options{Name: "x", InProcess: srv, User: srv.Client().User, Password: srv.Client().Password})
	require.NoError(t, err)
	require.NoError(t, conn.WaitJetStream(t.Context()))
	kv, err := conn.JetStream().CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b"})
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), "k", make([]byte, MaxPayload-4096))
	require.NoError(t, err, "a message of nearly the largest size")
	conn.Close()
	srv.Stop()
	srv.Stop()

	// Again on the same directory, and over a socket with what the server left for other processes.
	srv = startNATS(t, data, "127.0.0.1:0")
	client, err := ReadClient(data.Path())
	require.NoError(t, err)
	assert.Equal(t, srv.Client(), client)
	info, err := os.Stat(data.Path("nats", "client.json"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	conn, err = messaging.Connect(t.Context(), messaging.Options{Name: "y", URL: client.URL, User: client.User, Password: client.Password})
	require.NoError(t, err)
	defer conn.Close()
	kv, err = conn.JetStream().KeyValue(t.Context(), "b")
	require.NoError(t, err)
	entry, err := kv.Get(t.Context(), "k")
	require.NoError(t, err)
	assert.Len(t, entry.Value(), MaxPayload-4096)

	_, err = messaging.Connect(t.Context(), messaging.Options{Name: "z", URL: client.URL})
	require.ErrorContains(t, err, "Authorization Violation", "nobody gets in without the password")
}

func TestPortInUseNamesTheSetting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = StartNATS(t.Context(), NATSOptions{
		Listen: l.Addr().String(), Node: "n1", Data: open(t, t.TempDir(), RoleNATS), Log: slog.New(slog.DiscardHandler),
	})
	require.ErrorContains(t, err, fmt.Sprintf("nats.listen = %q", l.Addr()))
	assert.ErrorContains(t, err, "address already in use")
}

func TestStoreThatCannotBeOpenedIsTheError(t *testing.T) {
	data := open(t, t.TempDir(), RoleNATS)
	require.NoError(t, os.MkdirAll(data.Path("nats"), 0o700))
	require.NoError(t, os.WriteFile(data.Path("nats", "jetstream"), nil, 0o600)) // a file where a directory belongs
	var out strings.Builder
	_, err := StartNATS(t.Context(), NATSOptions{Listen: "127.0.0.1:0", Node: "n1", Data: data, Log: slog.New(slog.NewTextHandler(&out, nil))})
	require.ErrorContains(t, err, "JetStream")
	assert.NotContains(t, out.String(), "level=ERROR", "returned, so not logged")
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	_, err := StartNATS(ctx, NATSOptions{Listen: "127.0.0.1:0", Node: "n1", Data: open(t, t.TempDir(), RoleNATS), Log: slog.New(slog.DiscardHandler)})
	require.ErrorIs(t, err, enough)
}

func TestClientFile(t *testing.T) {
	_, err := ReadClient(t.TempDir())
	require.ErrorIs(t, err, fs.ErrNotExist)
	data := open(t, t.TempDir(), RoleNATS)
	require.NoError(t, writeClient(data, Client{Password: "short"}))
	_, err = clientPassword(data)
	require.ErrorContains(t, err, "damaged")
	require.NoError(t, os.WriteFile(data.Path("nats", "client.json"), []byte("{"), 0o600))
	_, err = clientPassword(data)
	require.Error(t, err)
}
