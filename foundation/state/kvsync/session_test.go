package kvsync_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
)

const prefix = "eks.cluster."

// twoGroups makes two processes on one store, each with the same group.
func twoGroups() (srv *kvsynctest.Server, a, b *kvsynctest.Client, ga, gb *kvsync.LeaseGroup) {
	srv = kvsynctest.NewServer()
	a, b = srv.Client("inc-a"), srv.Client("inc-b")
	return srv, a, b, kvsync.NewLeaseGroup(a, prefix, "a/daemon", ttl), kvsync.NewLeaseGroup(b, prefix, "b/daemon", ttl)
}

func TestGroupRenewsOneSessionForAllMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, ga, _ := twoGroups()
		const members = 500
		for i := range members {
			lock(t, ga.Get(fmt.Sprintf("m%d", i)))
		}
		require.Equal(t, members+1, a.Count(kvsynctest.Swap), "one write each and one for the session")
		time.Sleep(time.Hour)
		require.InDelta(t, members+1+int(time.Hour/renew), a.Count(kvsynctest.Swap), 3)
		require.True(t, ga.Get("m0").Held())
		require.True(t, ga.Get("m499").Held())
	})
}

func TestGroupEndsItsSessionWithTheLastMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, _, ga, _ := twoGroups()
		t1, t2 := lock(t, ga.Get("x")), lock(t, ga.Get("y"))
		ga.Get("x").Unlock(t.Context(), t1)
		require.True(t, ga.Get("y").Held())
		ga.Get("y").Unlock(t.Context(), t2)
		require.Empty(t, srv.Keys(), "nothing is left behind")
		lock(t, ga.Get("x")) // and a new session begins
	})
}

func TestGroupMembersOfACrashedProcessAreTakenAfterT(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, ga, gb := twoGroups()
		const members = 20
		for i := range members {
			lock(t, ga.Get(fmt.Sprintf("m%d", i)))
		}
		_, err := gb.Get("m0").TryLock(t.Context())
		requireHeld(t, err, "a/daemon")
		time.Sleep(100*ttl + time.Second) // between two renewals
		require.True(t, ga.Get("m0").Held(), "members are never renewed, their session is")
		_, err = gb.Get("m0").TryLock(t.Context())
		requireHeld(t, err, "a/daemon")
		time.Sleep(ttl - eps)
		_, err = gb.Get("m0").TryLock(t.Context())
		requireHeld(t, err, "a/daemon")

		lost := ga.Get("m5").Lost()
		ctx := ga.Get("m6").Context(t.Context())
		a.SetFault(all(kvsynctest.Fate{Lost: true}))
		time.Sleep(valid + time.Second)
		require.False(t, ga.Get("m0").Held())
		require.True(t, isClosed(lost))
		require.ErrorIs(t, context.Cause(ctx), kvsync.ErrLost)

		time.Sleep(ttl)
		before := b.Count(kvsynctest.Swap)
		for i := range members {
			lock(t, gb.Get(fmt.Sprintf("m%d", i)))
		}
		require.LessOrEqual(t, b.Count(kvsynctest.Swap)-before, 2*members+2, "one dead mark serves them all")
	})
}

func TestGroupSessionWaiterWakesWhenItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, ga, gb := twoGroups()
		lock(t, ga.Get("x"))
		lock(t, gb.Get("other")) // b is a living process of the group: it watches
		got := make(chan time.Time, 1)
		go func() {
			tok, err := gb.Get("x").Lock(t.Context())
			if err == nil {
				got <- time.Now()
				gb.Get("x").Unlock(context.WithoutCancel(t.Context()), tok)
			}
		}()
		time.Sleep(10*renew + eps)
		crash := time.Now()
		a.SetFault(all(kvsynctest.Fate{Lost: true}))
		after := (<-got).Sub(crash)
		require.GreaterOrEqual(t, after, ttl-renew)
		require.LessOrEqual(t, after, ttl*4/3+eps)
	})
}

func TestGroupZombieCannotRenewADeadSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, ga, gb := twoGroups()
		lock(t, ga.Get("x"))
		a.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
			if r.Kind == kvsynctest.Swap {
				return kvsynctest.Fate{Late: 3 * ttl} // its renewals arrive long after
			}
			return kvsynctest.Fate{Err: kvsync.ErrUnavailable}
		})
		_, err := gb.Get("x").TryLock(t.Context())
		requireHeld(t, err, "a/daemon")
		time.Sleep(ttl + eps)
		tok := lock(t, gb.Get("x"))
		time.Sleep(4 * ttl)
		held, ok := gb.Get("x").Token()
		require.True(t, ok)
		require.Equal(t, tok, held)
		a.SetFault(nil)
		require.False(t, ga.Get("x").Held())
	})
}

func TestGroupAbsentSessionIsProvenByAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, b, ga, gb := twoGroups()
		tok := lock(t, ga.Get("x"))
		// A lagging read does not show the session of a living holder.
		b.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
			return kvsynctest.Fate{Stale: r.Kind == kvsynctest.Load && strings.Contains(r.Key, "=session.")}
		})
		_, err := gb.Get("x").TryLock(t.Context())
		require.Error(t, err)
		held, ok := ga.Get("x").Token()
		require.True(t, ok)
		require.Equal(t, tok, held)
		require.NotContains(t, string(srv.ValueOf(prefix+"x")), "b/daemon")
	})
}

func TestGroupNoticesABrokenMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, b, ga, _ := twoGroups()
		tok := lock(t, ga.Get("x"))
		lock(t, ga.Get("y"))
		synctest.Wait() // the group has looked and watches
		require.NoError(t, kvsync.Break(t.Context(), b, prefix+"x", tok, "operator"))
		synctest.Wait()
		require.False(t, ga.Get("x").Held())
		require.True(t, ga.Get("y").Held())

		tok = lock(t, ga.Get("x"))
		srv.BreakWatches() // what happens now is found when the watch is opened again
		require.NoError(t, kvsync.Break(t.Context(), b, prefix+"x", tok, "operator"))
		time.Sleep(renew + eps)
		require.False(t, ga.Get("x").Held())
		require.True(t, ga.Get("y").Held())
	})
}

func TestGroupContenderWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, _, ga, gb := twoGroups()
		lock(t, ga.Get("x"))
		writes := srv.Writes()
		for range 10 {
			_, err := gb.Get("x").TryLock(t.Context())
			requireHeld(t, err, "a/daemon")
		}
		require.Equal(t, writes, srv.Writes(), "no session is begun for what is not held")
	})
}

func TestGroupBuriesForeignSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, _, ga, _ := twoGroups()
		srv.Set(prefix+"=session.old", []byte(`{"holder":"gone/daemon","generation":0,"nonce":"n","ttl_ms":24000}`))
		lock(t, ga.Get("x"))
		time.Sleep(ttl + renew + eps)
		require.Contains(t, string(srv.ValueOf(prefix+"=session.old")), "dead")
		time.Sleep(12 * ttl)
		require.Empty(t, srv.ValueOf(prefix+"=session.old"))
		require.True(t, ga.Get("x").Held())
	})
}
