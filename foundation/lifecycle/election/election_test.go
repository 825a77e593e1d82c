package election_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mulgadc/spinifex/foundation/lifecycle/election"
	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

func leases() (a, b *kvsynctest.Client, la, lb *kvsync.Lease) {
	srv := kvsynctest.NewServer()
	a, b = srv.Client("a"), srv.Client("b")
	return a, b, election.NewLeaderLease(a, "k", "a/daemon"), election.NewLeaderLease(b, "k", "b/daemon")
}

func TestElectPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, la, lb := leases()
		require.Equal(t, election.DefaultTTL, la.TTL())
		release, revisit, ok := election.ElectPass(t.Context(), la)
		require.True(t, ok)
		require.Zero(t, revisit)
		refused, revisit, ok := election.ElectPass(t.Context(), lb)
		require.False(t, ok)
		require.Positive(t, revisit)
		require.LessOrEqual(t, revisit, lb.TTL()/3)
		refused() // never nil, does nothing
		require.True(t, la.Held())
		release()
		release2, _, ok := election.ElectPass(t.Context(), lb)
		require.True(t, ok)
		release2()
		b.SetFault(func(kvsynctest.Request) kvsynctest.Fate { return kvsynctest.Fate{Err: kvsync.ErrUnavailable} })
		_, revisit, ok = election.ElectPass(t.Context(), lb)
		require.False(t, ok)
		require.Positive(t, revisit)
	})
}

func TestAcquireLeaderAtStartWaitsForAFormingCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, la, lb := leases()
		start := time.Now()
		a.SetFault(func(kvsynctest.Request) kvsynctest.Fate {
			if time.Since(start) < 10*time.Second {
				return kvsynctest.Fate{Err: kvsync.ErrUnavailable}
			}
			return kvsynctest.Fate{}
		})
		release, ok, err := election.AcquireLeaderAtStart(t.Context(), la)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, 10*time.Second, time.Since(start).Truncate(time.Second))
		held := time.Now()
		_, ok, err = election.AcquireLeaderAtStart(t.Context(), lb)
		require.NoError(t, err)
		require.False(t, ok, "held: answers at once")
		require.Equal(t, held, time.Now())
		release()
	})
}

func TestAcquireLeaderAtStartGivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want time.Duration
	}{
		"permanent": {clustersize.ErrUndeclared, 0},
		"regressed": {kvsync.ErrStoreRegressed, 0},
		"never up":  {kvsync.ErrUnavailable, 59 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, _, la, _ := leases()
				a.SetFault(func(kvsynctest.Request) kvsynctest.Fate { return kvsynctest.Fate{Err: c.err} })
				start := time.Now()
				_, ok, err := election.AcquireLeaderAtStart(t.Context(), la)
				require.False(t, ok)
				require.ErrorIs(t, err, c.err)
				require.Equal(t, c.want, time.Since(start).Truncate(time.Second))
			})
		})
	}
}

func TestLeadKeepsTheLeaseAcrossPassesAndStandsDownOnFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, la, lb := leases()
		ctx, stop := context.WithCancel(t.Context())
		terms := make(chan kvsync.Token)
		fail := make(chan error)
		done := make(chan error, 1)
		go func() {
			done <- election.Lead(ctx, la, slog.Default(), func(ctx context.Context, tok kvsync.Token) error {
				terms <- tok
				select {
				case err := <-fail:
					return err
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
		}()
		tok := <-terms
		time.Sleep(time.Hour)
		held, ok := la.Token()
		require.True(t, ok)
		require.Equal(t, tok, held)
		for _, err := range []error{errors.New("no fence"), nil} { // an end without an error is an end too
			fail <- err
			synctest.Wait()
			peer, err := lb.TryLock(t.Context())
			require.NoError(t, err, "a healthy peer wins")
			lb.Unlock(t.Context(), peer)
			again := <-terms
			require.Greater(t, again.Generation, tok.Generation)
		}
		stop()
		require.ErrorIs(t, <-done, context.Canceled)
		require.False(t, la.Held())
	})
}
