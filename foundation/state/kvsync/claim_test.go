package kvsync_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
)

func TestClaimLifecycle(t *testing.T) {
	srv := kvsynctest.NewServer()
	a, b := srv.Client("inc-a"), srv.Client("inc-b")
	ca, cb := kvsync.NewClaim(a, "x", "a/daemon"), kvsync.NewClaim(b, "x", "b/daemon")
	_, held, err := ca.Holder(t.Context())
	require.NoError(t, err)
	require.False(t, held)
	_, err = cb.TakeOver(t.Context(), kvsync.Token{Holder: "a/daemon", Generation: 1})
	requireHeld(t, err, "")

	tok, err := ca.TryLock(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, a.Count(kvsynctest.Swap))
	_, err = ca.TryLock(t.Context())
	requireHeld(t, err, "a/daemon")
	_, err = cb.TryLock(t.Context())
	requireHeld(t, err, "a/daemon")
	who, held, err := cb.Holder(t.Context())
	require.NoError(t, err)
	require.True(t, held)
	require.Equal(t, tok, who)

	loads := a.Count(kvsynctest.Load)
	require.NoError(t, ca.Unlock(t.Context(), tok))
	require.Equal(t, loads, a.Count(kvsynctest.Load), "unlock deletes first and looks only after a refusal")
	require.ErrorIs(t, ca.Unlock(t.Context(), tok), kvsync.ErrLost)

	tokB, err := cb.TryLock(t.Context())
	require.NoError(t, err)
	require.Greater(t, tokB.Generation, tok.Generation)
	_, err = ca.TakeOver(t.Context(), tok)
	requireHeld(t, err, "b/daemon")
	tokA, err := ca.TakeOver(t.Context(), tokB)
	require.NoError(t, err)
	require.Greater(t, tokA.Generation, tokB.Generation)
	require.ErrorIs(t, cb.Unlock(t.Context(), tokB), kvsync.ErrLost)
	who, _, err = cb.Holder(t.Context())
	require.NoError(t, err)
	require.Equal(t, tokA, who)
}

func TestClaimAdoption(t *testing.T) {
	srv := kvsynctest.NewServer()
	first, err := kvsync.NewClaim(srv.Client("inc-1"), "x", "n/daemon").TryLock(t.Context())
	require.NoError(t, err)

	again := srv.Client("inc-1")
	tok, err := kvsync.NewClaim(again, "x", "n/daemon").TryLock(t.Context())
	require.NoError(t, err, "its own incarnation adopts across objects")
	require.Equal(t, first, tok, "and keeps the generation")

	other := srv.Client("inc-2")
	c := kvsync.NewClaim(other, "x", "n/daemon")
	_, err = c.TryLock(t.Context())
	requireHeld(t, err, "n/daemon")
	other.Kill("inc-1")
	tok, err = c.TryLock(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, tok)
	require.NoError(t, c.Unlock(t.Context(), tok))
}

func TestClaimStaleReadNeverAdoptsWhatWasTakenOver(t *testing.T) {
	srv := kvsynctest.NewServer()
	first, err := kvsync.NewClaim(srv.Client("inc-a"), "x", "a/daemon").TryLock(t.Context())
	require.NoError(t, err)
	_, err = kvsync.NewClaim(srv.Client("inc-b"), "x", "b/daemon").TakeOver(t.Context(), first)
	require.NoError(t, err)
	stale := srv.Client("inc-a")
	stale.SetFault(only(kvsynctest.Load, kvsynctest.Fate{Stale: true})) // still shows a's record
	_, err = kvsync.NewClaim(stale, "x", "a/daemon").TryLock(t.Context())
	require.Error(t, err)
	v, _ := srv.Value("x")
	require.Contains(t, string(v), "b/daemon")
}

func TestClaimUnknownOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		a := srv.Client("inc-a")
		c := kvsync.NewClaim(a, "x", "a/daemon")
		a.SetFault(only(kvsynctest.Swap, kvsynctest.Fate{Unanswered: true}))
		tok, err := c.TryLock(t.Context())
		require.NoError(t, err)
		a.SetFault(only(kvsynctest.Delete, kvsynctest.Fate{Unanswered: true}))
		require.NoError(t, c.Unlock(t.Context(), tok))

		// A create that lands late must not become a claim that nobody knows: a newer write settles it.
		a.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
			if r.Kind == kvsynctest.Swap && r.N == 2 {
				return kvsynctest.Fate{Late: time.Minute}
			}
			return kvsynctest.Fate{}
		})
		tok, err = c.TryLock(t.Context())
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		who, _, err := c.Holder(t.Context())
		require.NoError(t, err)
		require.Equal(t, tok, who)

		a.SetFault(all(kvsynctest.Fate{Lost: true}))
		require.ErrorIs(t, c.Unlock(t.Context(), tok), kvsync.ErrUnavailable)
		a.SetFault(nil)
		require.NoError(t, c.Unlock(t.Context(), tok), "still held after an unlock that failed")
	})
}

func TestClaimUndecodableRecordNamesTheWayOut(t *testing.T) {
	srv := kvsynctest.NewServer()
	rev := srv.Set("x", []byte("{"))
	a := srv.Client("inc-a")
	c := kvsync.NewClaim(a, "x", "a/daemon")
	_, err := c.TryLock(t.Context())
	require.ErrorContains(t, err, "locks break x --generation 1")
	require.NoError(t, kvsync.Break(t.Context(), a, "x", kvsync.Token{Generation: rev}, "corrupt"))
	_, err = c.TryLock(t.Context())
	require.NoError(t, err)
}

func TestClaimReadsARecordWithOnlyHolderAndGeneration(t *testing.T) {
	srv := kvsynctest.NewServer()
	srv.Set("x", []byte(`{"holder":"old","generation":7,"future":{"a":1}}`))
	who, held, err := kvsync.NewClaim(srv.Client("i"), "x", "a").Holder(t.Context())
	require.NoError(t, err)
	require.True(t, held)
	require.Equal(t, kvsync.Token{Holder: "old", Generation: 7}, who)
}
