package kvsync_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
)

// TestClaimExcludesBetweenGoroutines wants one claim of a process to exclude its goroutines from each
// other, although its record is one that the process may adopt.
func TestClaimExcludesBetweenGoroutines(t *testing.T) {
	const rounds = 1500
	c := kvsync.NewClaim(kvsynctest.NewServer().Client("inc-a"), "x", "a/daemon")
	gone, err := c.TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.Unlock(t.Context(), gone))
	var inside, wins, overlaps atomic.Int32
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range rounds {
				tok, err := c.TryLock(t.Context())
				if err != nil {
					_ = c.Unlock(t.Context(), gone)
					continue
				}
				wins.Add(1)
				if inside.Add(1) > 1 {
					overlaps.Add(1)
				}
				inside.Add(-1)
				for err = kvsync.ErrUnavailable; err != nil; { // another call is under way
					if err = c.Unlock(t.Context(), tok); err != nil && !assert.ErrorIs(t, err, kvsync.ErrUnavailable) {
						return
					}
				}
			}
		})
	}
	wg.Wait()
	require.Positive(t, wins.Load())
	require.Zero(t, overlaps.Load())
}

// TestGroupMemberBrokenBeforeItsGrant: an operator breaks a member's record while the answer to its
// write is under way. Nothing would tell the holder later: members are not renewed.
func TestGroupMemberBrokenBeforeItsGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, a, b, ga, gb := twoGroups()
		lock(t, ga.Get("other"))
		a.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
			if r.Kind == kvsynctest.Swap && r.Key == prefix+"x" {
				return kvsynctest.Fate{Reply: 900 * time.Millisecond}
			}
			return kvsynctest.Fate{}
		})
		errs := make(chan error, 1)
		go func() { _, err := ga.Get("x").TryLock(t.Context()); errs <- err }()
		time.Sleep(100 * time.Millisecond)
		_, rev := srv.Value(prefix + "x")
		require.NoError(t, kvsync.Break(t.Context(), b, prefix+"x", kvsync.Token{Holder: "a/daemon", Generation: rev}, "stuck"))
		lock(t, gb.Get("x"))
		<-errs
		synctest.Wait()
		require.False(t, ga.Get("x").Held())
		require.True(t, gb.Get("x").Held())
		require.True(t, ga.Get("other").Held())
	})
}
