package messaging

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/testkit"
)

func connect(t *testing.T, srv *server.Server, name string) *Conn {
	t.Helper()
	conn, err := Connect(t.Context(), Options{Name: name, InProcess: srv})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// slowSubscriber answers "slow" only when finish is closed; started is closed when it is at work.
func slowSubscriber(t *testing.T, conn *Conn) (started, finish chan struct{}) {
	t.Helper()
	started, finish = make(chan struct{}), make(chan struct{})
	_, err := conn.Raw().Subscribe("slow", func(m *nats.Msg) {
		close(started)
		<-finish
		_ = m.Respond([]byte("done"))
	})
	require.NoError(t, err)
	require.NoError(t, conn.Raw().FlushWithContext(deadline(t)))
	return started, finish
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestDrainLetsHandlersFinish(t *testing.T) {
	testkit.DropPooledTimers() // draining takes one
	srv, _, _ := testkit.StartTestJetStream(t)
	conn := connect(t, srv, "n1/daemon")
	require.NoError(t, conn.WaitJetStream(t.Context()))
	assert.Equal(t, "n1/daemon", conn.Raw().Opts.Name)
	started, finish := slowSubscriber(t, conn)
	asker := connect(t, srv, "asker")
	answered, drained := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := asker.Raw().RequestWithContext(deadline(t), "slow", nil)
		answered <- err
	}()
	<-started
	go func() { drained <- conn.Drain(t.Context()) }()
	testkit.Eventually(t, 5*time.Second, func() (bool, string) { return conn.Raw().IsDraining(), conn.Raw().Status().String() })
	close(finish)
	require.NoError(t, <-answered)
	require.NoError(t, <-drained)
	require.NoError(t, conn.Drain(t.Context()), "again")
	conn.Close()
}

func TestDrainThatTakesTooLongCloses(t *testing.T) {
	testkit.DropPooledTimers() // draining takes one
	srv, _, _ := testkit.StartTestJetStream(t)
	conn := connect(t, srv, "n1/daemon")
	started, finish := slowSubscriber(t, conn)
	defer close(finish)
	require.NoError(t, connect(t, srv, "asker").Raw().Publish("slow", nil))
	<-started
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	require.ErrorIs(t, conn.Drain(ctx), enough)
	assert.True(t, conn.Raw().IsClosed())
}

func TestNoReconnectBufferFailsAtOnce(t *testing.T) {
	srv := testkit.StartTestServer(t, &server.Options{ServerName: "x", DontListen: true})
	conn, err := Connect(t.Context(), Options{Name: "sync", InProcess: srv, NoReconnectBuffer: true})
	require.NoError(t, err)
	defer conn.Close()
	testkit.StopServer(srv)
	testkit.Eventually(t, 5*time.Second, func() (bool, string) {
		err := conn.Raw().Publish("x", nil)
		return errors.Is(err, nats.ErrReconnectBufExceeded), fmt.Sprint(err)
	})
}

// TestConnectWaitsForTheServer starts the server after the first attempts have failed.
func TestConnectWaitsForTheServer(t *testing.T) {
	testkit.DropPooledTimers() // draining takes one
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().(*net.TCPAddr)
	require.NoError(t, l.Close())
	connected := make(chan error, 1)
	go func() {
		conn, err := Connect(t.Context(), Options{Name: "n1/daemon", URL: "nats://u:pw@" + addr.String()})
		if err == nil {
			err = conn.Drain(t.Context())
		}
		connected <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = Connect(ctx, Options{Name: "n2/daemon", URL: "nats://" + addr.String()})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, nats.ErrNoServers, "the last fault is told")

	testkit.StartTestServer(t, &server.Options{ServerName: "x", Host: "127.0.0.1", Port: addr.Port, Username: "u", Password: "pw"})
	require.NoError(t, <-connected)
	_, err = Connect(t.Context(), Options{Name: "n3/daemon", URL: "nats://" + addr.String(), User: "u", Password: "wrong"})
	require.ErrorIs(t, err, nats.ErrAuthorization)
	assert.NotContains(t, err.Error(), "wrong")
}

func TestConnectOptions(t *testing.T) {
	_, err := Connect(t.Context(), Options{URL: "nats://127.0.0.1"})
	require.ErrorContains(t, err, "no name")
	_, err = Connect(t.Context(), Options{Name: "x"})
	require.ErrorContains(t, err, "no URL")
}

func TestWaitJetStreamTellsTheLastFault(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		srv := testkit.StartTestServer(t, &server.Options{ServerName: "plain", DontListen: true})
		conn := connect(t, srv, "x")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := conn.WaitJetStream(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "jetstream not enabled")
	})
}

func TestAskOwner(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		srv, _, _ := testkit.StartTestJetStream(t)
		asker := connect(t, srv, "cli")
		_, err := asker.AskOwner(t.Context(), "spinifex.test", nil)
		require.ErrorIs(t, err, nats.ErrNoResponders)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		for _, name := range []string{"a", "b"} {
			conn := connect(t, srv, name)
			go func() {
				done <- conn.AnswerOwn(ctx, "spinifex.test", func(question []byte) ([]byte, error) {
					if string(question) != name {
						return nil, nil
					}
					return []byte("I am " + name), nil
				})
			}()
		}
		synctest.Wait()
		for _, name := range []string{"a", "b"} {
			answer, err := asker.AskOwner(t.Context(), "spinifex.test", []byte(name))
			require.NoError(t, err)
			assert.Equal(t, "I am "+name, string(answer))
		}
		patience := errors.New("patience is over")
		waiting, stop := context.WithTimeoutCause(t.Context(), time.Second, patience)
		defer stop()
		_, err = asker.AskOwner(waiting, "spinifex.test", []byte("c"))
		require.ErrorIs(t, err, patience, "it is nobody's")
		cancel()
		<-done
		<-done
	})
}

func TestSurvey(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		srv, _, _ := testkit.StartTestJetStream(t)
		asker := connect(t, srv, "cli")
		answers, err := asker.Survey(t.Context(), "spinifex.test", 500*time.Millisecond)
		require.NoError(t, err)
		assert.Empty(t, answers)

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 3)
		for i := range 3 {
			conn := connect(t, srv, fmt.Sprintf("n%d/daemon", i))
			go func() {
				done <- conn.AnswerSurveys(ctx, "spinifex.test", func() ([]byte, error) {
					if i == 2 {
						return nil, errors.New("not now")
					}
					return fmt.Append(nil, i), nil
				})
			}()
		}
		synctest.Wait()
		start := time.Now()
		answers, err = asker.Survey(t.Context(), "spinifex.test", 500*time.Millisecond)
		require.NoError(t, err)
		assert.ElementsMatch(t, [][]byte{[]byte("0"), []byte("1")}, answers)
		assert.Equal(t, 500*time.Millisecond, time.Since(start))
		cancel()
		for range 3 {
			require.ErrorIs(t, <-done, context.Canceled)
		}
	})
}
