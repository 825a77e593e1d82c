package natskv_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// calls makes a client read, write and delete a few keys at random for a while, with now and then too
// little time for an answer, and its connection broken.
func calls(t *testing.T, s kvsync.KVStore, conn *nats.Conn, seed uint64, span time.Duration, n int) {
	rng := rand.New(rand.NewPCG(seed, 0))
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(span); n > 0 && time.Now().Before(end); n-- {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		key := fmt.Sprintf("k%d", rng.IntN(4))
		_, rev, err := s.Load(ctx, key)
		if rng.IntN(8) == 0 { // too late for the write to be answered
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), time.Duration(rng.Int64N(int64(500*time.Microsecond))))
		}
		if rng.IntN(40) == 0 {
			time.AfterFunc(time.Duration(rng.Int64N(int64(200*time.Microsecond))), func() { _ = conn.ForceReconnect() })
		}
		switch {
		case err != nil && !errors.Is(err, kvsync.ErrNotFound):
		case err == nil && rng.IntN(4) == 0:
			err = s.CompareAndDelete(ctx, key, rev)
		default:
			_, err = s.CompareAndSwap(ctx, key, fmt.Appendf(nil, "%d.%d", seed, rng.Uint32()), rev)
		}
		cancel()
		if errors.Is(err, kvsync.ErrUnavailable) {
			n++
			<-again.C
		}
	}
}

func TestHistoryOfOneServerIsLinearizable(t *testing.T) {
	srv, _, js := testkit.StartTestJetStream(t)
	newStore(t, js, "b", 1)
	var h kvsynctest.History
	var wg sync.WaitGroup
	for i := range 4 {
		conn := testkit.Connect(t, srv)
		s, err := natskv.Open(t.Context(), testkit.NewJetStream(t, conn), "b")
		require.NoError(t, err)
		wg.Go(func() { calls(t, h.Record(i, s), conn, uint64(i), 5*time.Second, 150) })
	}
	wg.Wait()
	n, unknowns := h.Len()
	t.Logf("%d calls, %d of unknown outcome", n, unknowns)
	require.Greater(t, n, 200)
	require.NoError(t, h.Check(20*time.Second))
}

func TestHistoryOfThreeServersIsLinearizable(t *testing.T) {
	c := testkit.StartTestCluster(t, 3)
	_, js := c.Connect(t, 0)
	newStore(t, js, "b", 3)
	h := kvsynctest.History{LooseRefusals: true}
	var clients, disturber sync.WaitGroup
	done := make(chan struct{})
	disturber.Go(func() { // the stream changes its leader again and again
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				_, _ = js.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN.KV_b", nil, time.Second)
			}
		}
	})
	for i := range 3 {
		conn, js := c.Connect(t, i)
		s, err := natskv.Open(t.Context(), js, "b")
		require.NoError(t, err)
		clients.Go(func() { calls(t, h.Record(i, s), conn, uint64(i), 5*time.Second, 200) })
	}
	clients.Wait()
	close(done)
	disturber.Wait()
	n, unknowns := h.Len()
	t.Logf("%d calls, %d of unknown outcome", n, unknowns)
	require.Greater(t, n, 200)
	require.NoError(t, h.Check(20*time.Second))
}
