package kvsync_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
)

// A member's record that nobody holds does not lapse while the session that it names is renewed for other
// members. These are the ways in which there comes to be one.

// ofX is a fault of the requests of one kind for member x.
func ofX(k kvsynctest.Kind, fate kvsynctest.Fate) func(kvsynctest.Request) kvsynctest.Fate {
	return func(r kvsynctest.Request) kvsynctest.Fate {
		if r.Kind == k && strings.HasSuffix(r.Key, ".x") {
			return fate
		}
		return kvsynctest.Fate{}
	}
}

func TestGroupDeletesWhatAnUnlockCouldNot(t *testing.T) {
	for name, give := range map[string]func(*testing.T, *kvsync.Lease, kvsync.Token){
		"unlocked": func(t *testing.T, l *kvsync.Lease, tok kvsync.Token) { l.Unlock(t.Context(), tok) },
		"transferred": func(t *testing.T, l *kvsync.Lease, tok kvsync.Token) {
			require.Error(t, l.Transfer(t.Context(), tok, "c/daemon"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, a, _, ga, gb := twoGroups()
				lock(t, ga.Get("y"))
				tok := lock(t, ga.Get("x"))
				a.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
					return kvsynctest.Fate{Lost: r.Kind != kvsynctest.Watch && strings.HasSuffix(r.Key, ".x")}
				})
				give(t, ga.Get("x"), tok)
				time.Sleep(2 * ttl)
				_, err := gb.Get("x").TryLock(t.Context())
				requireHeld(t, err, "a/daemon")
				a.SetFault(nil)
				time.Sleep(renew + time.Second + eps)
				lock(t, gb.Get("x"))
				require.True(t, ga.Get("y").Held())
			})
		})
	}
}

func TestGroupForgottenMemberIsDeletedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, ga, gb := twoGroups()
		lock(t, ga.Get("y"))
		lock(t, ga.Get("x"))
		a.SetFault(ofX(kvsynctest.Delete, kvsynctest.Fate{Err: kvsync.ErrUnavailable}))
		ga.Forget("x")
		a.SetFault(nil)
		time.Sleep(renew + eps)
		lock(t, gb.Get("x"))
	})
}

func TestGroupDeletesAGhostThatLandsLate(t *testing.T) {
	for name, watched := range map[string]bool{"pushed": true, "found when the watch is back": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, a, _, ga, gb := twoGroups()
				lock(t, ga.Get("y"))
				a.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
					switch {
					case !strings.HasSuffix(r.Key, ".x"):
						return kvsynctest.Fate{}
					case r.Kind == kvsynctest.Swap:
						return kvsynctest.Fate{Late: ttl}
					}
					return kvsynctest.Fate{Err: kvsync.ErrUnavailable}
				})
				_, err := ga.Get("x").TryLock(t.Context())
				require.ErrorIs(t, err, kvsync.ErrUnknownOutcome)
				a.SetFault(nil)
				if !watched {
					time.Sleep(ttl - time.Millisecond)
					srv.BreakWatches()
				}
				time.Sleep(ttl + renew + time.Second)
				lock(t, gb.Get("x"))
				require.True(t, ga.Get("y").Held())
			})
		})
	}
}

func TestGroupMemberAdoptsItsOrphan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, ga, _ := twoGroups()
		lock(t, ga.Get("y"))
		tok := lock(t, ga.Get("x"))
		a.SetFault(ofX(kvsynctest.Delete, kvsynctest.Fate{Err: kvsync.ErrUnavailable}))
		ga.Get("x").Unlock(t.Context(), tok)
		a.SetFault(nil)
		lock(t, ga.Get("x"))
		time.Sleep(10 * ttl)
		require.True(t, ga.Get("x").Held(), "and nothing deletes it any more")
	})
}
