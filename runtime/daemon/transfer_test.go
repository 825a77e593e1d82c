package daemon

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// campaigner is a peer that campaigns for one lease and gives it away when asked.
func campaigner(t *testing.T, srv *server.Server, name string) (lease *kvsync.Lease, stop func()) {
	t.Helper()
	p := startPeer(t, srv, name, true)
	conn := inProcess(t, srv)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { kvsync.RunElection(ctx, p.locks.dns, nil, nil) })
	wg.Go(func() { _ = answerTransfers(ctx, conn, p.locks.all(), slog.New(slog.DiscardHandler)) })
	return p.locks.dns, func() { cancel(); wg.Wait(); p.stop() }
}

func TestTransferMovesALeaseAtOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		srv, _, _ := testkit.StartTestJetStream(t)
		b := book(t, srv)
		l1, stop1 := campaigner(t, srv, "n1")
		time.Sleep(time.Second)
		l2, stop2 := campaigner(t, srv, "n2")
		time.Sleep(time.Minute)
		before, held := l1.Token()
		require.True(t, held)

		_, err := b.Transfer(t.Context(), "absent", "n2")
		require.ErrorIs(t, err, kvstore.ErrNotFound)
		_, err = b.Transfer(t.Context(), l1.Key(), "n1")
		require.ErrorContains(t, err, "n1/daemon holds it already")
		_, err = b.Transfer(t.Context(), l1.Key(), "n3")
		require.ErrorContains(t, err, "n3/daemon does not want it, those who do: n2/daemon")

		start := time.Now()
		lock, err := b.Transfer(t.Context(), l1.Key(), "n2")
		require.NoError(t, err)
		assert.Less(t, time.Since(start), 2*time.Second, "the survey, the hand-over, the confirmation")
		assert.Equal(t, "n2/daemon", lock.Holder)
		after, held := l2.Token()
		require.True(t, held)
		assert.Equal(t, after.Generation, lock.Generation)
		assert.Greater(t, after.Generation, before.Generation)
		assert.False(t, l1.Held())
		stop1()
		_, err = b.Transfer(t.Context(), l1.Key(), "n1")
		require.ErrorContains(t, err, "n1/daemon does not want it")
		stop2()

		// Held by hand, not by an election: the holder says so.
		n4, n5 := startPeer(t, srv, "n4", true), startPeer(t, srv, "n5", true)
		_, err = n4.locks.dns.TryLock(t.Context())
		require.NoError(t, err)
		conn := inProcess(t, srv)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = answerTransfers(ctx, conn, n4.locks.all(), slog.New(slog.DiscardHandler))
		}()
		time.Sleep(time.Second)
		_, err = b.Transfer(t.Context(), l1.Key(), "n5")
		require.ErrorContains(t, err, "not leading")
		cancel()
		<-ended
		_, err = b.Transfer(t.Context(), l1.Key(), "n5")
		require.Error(t, err, "nobody answers")
		n4.stop()
		n5.stop()
	})
}
