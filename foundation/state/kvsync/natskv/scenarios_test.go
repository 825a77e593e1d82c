package natskv_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// The tests TestL13... are the failures of locks in public (see kvsync) that a real server has a part in.

const leaseTTL = 24 * time.Second

// restartable is a server on one directory, which can be stopped and started under its connections.
type restartable struct {
	switchable
	t    *testing.T
	dir  string
	conn *nats.Conn
}

func startRestartable(t *testing.T) *restartable {
	r := &restartable{t: t, dir: t.TempDir()}
	r.start()
	r.conn = r.connect()
	return r
}

func (r *restartable) start() {
	r.srv.Store(testkit.StartTestServer(r.t, &server.Options{ServerName: "s", DontListen: true, JetStream: true, StoreDir: r.dir}))
}

func (r *restartable) connect(opts ...nats.Option) *nats.Conn {
	return testkit.Connect(r.t, r.srv.Load(), append(opts, nats.InProcessServer(r))...)
}

func (r *restartable) restart() {
	testkit.StopServer(r.srv.Load())
	r.start()
}

// deadHolder writes the record of a holder that is gone, or that only this test renews.
func deadHolder(nonce int) []byte {
	return fmt.Appendf(nil, `{"holder":"dead/daemon","generation":0,"nonce":"n%d","ttl_ms":%d}`, nonce, leaseTTL.Milliseconds())
}

// TestL13ServerRestarts: restarts of the store's server extended the time to live of a dead holder.
func TestL13ServerRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRestartable(t)
		s := newStore(t, testkit.NewJetStream(t, r.conn), "b", 1)
		_, err := s.CompareAndSwap(t.Context(), "k", deadHolder(1), 0)
		require.NoError(t, err)
		l := kvsync.NewLease(s, "k", "b/daemon", leaseTTL)
		start := time.Now()
		won := make(chan error, 1)
		go func() { _, err := l.Lock(t.Context()); won <- err }()
		for range 4 {
			time.Sleep(leaseTTL * 9 / 40)
			r.restart()
		}
		require.NoError(t, <-won)
		require.GreaterOrEqual(t, time.Since(start), leaseTTL)
		require.LessOrEqual(t, time.Since(start), leaseTTL+leaseTTL/24+time.Second)
		tok, _ := l.Token()
		l.Unlock(t.Context(), tok)
	})
}

// TestL18ExpiryOfTheStore: replicas disagreed on what had expired, and nobody could lead.
func TestL18ExpiryOfTheStore(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	cfg := natskv.StreamConfig("b", 1)
	require.Zero(t, cfg.MaxAge)
	require.False(t, cfg.AllowMsgTTL)
	cfg.MaxAge, cfg.Duplicates = time.Minute, time.Minute
	_, err := js.CreateStream(t.Context(), cfg)
	require.NoError(t, err)
	_, err = natskv.Open(t.Context(), js, "b")
	require.ErrorContains(t, err, "max_age is ")
}

// TestL19AcquireOverMarkers: to create over a marker was refused, or raced with another delete.
func TestL19AcquireOverMarkers(t *testing.T) {
	srv, _, js := testkit.StartTestJetStream(t)
	a := newStore(t, js, "b", 1)
	b, err := natskv.Open(t.Context(), testkit.NewJetStream(t, testkit.Connect(t, srv)), "b")
	require.NoError(t, err)
	for name, header := range map[string]nats.Header{
		"deleted": {"KV-Operation": []string{"DEL"}},
		"purged":  {"KV-Operation": []string{"PURGE"}},
		"aged":    {"Nats-Marker-Reason": []string{"MaxAge"}},
		"removed": {"Nats-Marker-Reason": []string{"Remove"}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range 20 {
				key := fmt.Sprintf("%s.%d", name, i)
				mark := func() {
					_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "$KV.b." + key, Header: header})
					assert.NoError(t, err)
				}
				mark()
				var wg sync.WaitGroup
				wins := atomic.Int32{}
				wg.Go(mark)
				for _, s := range []*natskv.Store{a, b} {
					l := kvsync.NewLease(s, key, "h/daemon", leaseTTL)
					wg.Go(func() {
						tok, err := l.TryLock(t.Context())
						if _, held := errors.AsType[*kvsync.HeldError](err); err != nil && !held {
							assert.NoError(t, err)
						}
						if err == nil {
							wins.Add(1)
							l.Unlock(t.Context(), tok)
						}
					})
				}
				wg.Wait()
				require.Positive(t, wins.Load())
			}
		})
	}
}

// TestL20ThreeServers: on a replicated store writes at the correct revision are refused while another
// one is in flight. Contenders in a hurry must not take that for a loss, or for a lease.
func TestL20ThreeServers(t *testing.T) {
	const contenders = 6
	c := testkit.StartTestCluster(t, 3)
	_, js := c.Connect(t, 0)
	newStore(t, js, "b", 3)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var inside, turns, losses atomic.Int32
	var generation atomic.Uint64
	var wg sync.WaitGroup
	for i := range contenders {
		_, js := c.Connect(t, i%3)
		s, err := natskv.Open(t.Context(), js, "b")
		require.NoError(t, err)
		l := kvsync.NewLease(s, "k", fmt.Sprintf("n%d/daemon", i), 6*time.Second)
		wg.Go(func() {
			for ctx.Err() == nil {
				err := l.Do(ctx, func(_ context.Context, tok kvsync.Token) error {
					assert.Equal(t, int32(1), inside.Add(1))
					assert.Greater(t, tok.Generation, generation.Swap(tok.Generation))
					turns.Add(1)
					inside.Add(-1)
					return nil
				})
				switch {
				case errors.Is(err, kvsync.ErrLost):
					losses.Add(1)
				case ctx.Err() == nil:
					assert.NoError(t, err)
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, losses.Load())
	require.Greater(t, turns.Load(), int32(20))
	t.Logf("%d turns of %d contenders", turns.Load(), contenders)
}

// TestL22StreamThatIsGone: a stream was deleted as an orphan, made anew by the next writer, and
// every generation began again.
func TestL22StreamThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, js := testkit.StartTestJetStream(t)
		s := newStore(t, js, "b", 1)
		l := kvsync.NewLease(s, "k", "a/daemon", leaseTTL)
		first, err := l.TryLock(t.Context())
		require.NoError(t, err)
		lost := l.Lost()
		require.NoError(t, js.DeleteStream(t.Context(), "KV_b"))
		start := time.Now()
		<-lost
		require.LessOrEqual(t, time.Since(start), leaseTTL/6+time.Second, "the next renewal finds it out")
		_, err = l.Lock(t.Context())
		require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
		_, err = js.Stream(t.Context(), "KV_b")
		require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "nobody makes it anew")

		cfg := natskv.StreamConfig("b", 1)
		cfg.FirstSeq = first.Generation + 1000
		_, err = js.CreateStream(t.Context(), cfg)
		require.NoError(t, err)
		next, err := l.Lock(t.Context())
		require.NoError(t, err)
		require.Greater(t, next.Generation, first.Generation)
		l.Unlock(t.Context(), next)
	})
}

// TestL24FullDisk: a server without space refused even deletes.
func TestL24FullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const space = 256 << 10
		srv := testkit.StartTestServer(t, &server.Options{
			ServerName: "s", DontListen: true, JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: space,
		})
		js := testkit.NewJetStream(t, testkit.Connect(t, srv))
		s := newStore(t, js, "b", 1)
		l := kvsync.NewLease(s, "k", "a/daemon", leaseTTL)
		tok, err := l.TryLock(t.Context())
		require.NoError(t, err)
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "fill", Subjects: []string{"fill"}})
		require.NoError(t, err)
		for err == nil {
			_, err = js.Publish(t.Context(), "fill", make([]byte, space/16))
		}
		require.ErrorIs(t, s.CompareAndDelete(t.Context(), "k", tok.Generation), kvsync.ErrUnavailable, "no loss, no conflict")
		start := time.Now()
		l.Unlock(t.Context(), tok)
		require.LessOrEqual(t, time.Since(start), 5*time.Second)
		require.False(t, l.Held())
		other := kvsync.NewLease(valueStore{s}, "k", "b/daemon", leaseTTL)
		won := make(chan error, 1)
		go func() { _, err := other.Lock(t.Context()); won <- err }()
		time.Sleep(2 * leaseTTL)
		require.False(t, other.Held())
		require.NoError(t, js.DeleteStream(t.Context(), "fill"))
		require.NoError(t, <-won)
		tok, _ = other.Token()
		other.Unlock(t.Context(), tok)
	})
}

// valueStore is a store value of its own, so that a key can be constructed once more.
type valueStore struct{ *natskv.Store }

// TestL25ConsumerStorm: clients that came back after an outage made consumers faster than the server
// could, without end.
func TestL25ConsumerStorm(t *testing.T) {
	const (
		clients = 200
		flaps   = 10
	)
	synctest.Test(t, func(t *testing.T) {
		r := startRestartable(t)
		s := newStore(t, testkit.NewJetStream(t, r.conn), "b", 1)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := s.Put(ctx, "k", deadHolder(0))
		require.NoError(t, err)
		var wg sync.WaitGroup
		for i := range clients {
			own, err := natskv.Open(ctx, testkit.NewJetStream(t, r.connect(nats.ReconnectWait(time.Second))), "b")
			require.NoError(t, err)
			l := kvsync.NewLease(own, "k", fmt.Sprintf("n%d/daemon", i), leaseTTL)
			wg.Go(func() {
				_, err := l.Lock(ctx)
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		consumers := func() int {
			stream, err := testkit.NewJetStream(t, r.conn).Stream(ctx, "KV_b")
			require.NoError(t, err)
			return stream.CachedInfo().State.Consumers
		}
		for flap := range flaps {
			time.Sleep(time.Duration(rand.Int64N(int64(leaseTTL / 4))))
			r.restart()
			time.Sleep(leaseTTL / 3)
			_, err := s.Put(ctx, "k", deadHolder(flap+1)) // somebody renews it
			require.NoError(t, err)
			require.LessOrEqual(t, consumers(), clients+clients/10)
		}
		time.Sleep(leaseTTL / 2)
		require.Equal(t, clients, consumers(), "every client watches again, once")
		cancel()
		wg.Wait()
		time.Sleep(time.Minute)
	})
}
