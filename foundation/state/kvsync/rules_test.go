package kvsync_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
)

func TestLeaseExcludesWithinItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, _ := two(t)
		requests := func() int { return a.Count(kvsynctest.Swap) + a.Count(kvsynctest.Load) }
		a.SetFault(only(kvsynctest.Swap, kvsynctest.Fate{Reply: time.Second}))
		done := make(chan struct{})
		go func() { defer close(done); lock(t, la) }()
		time.Sleep(eps)
		for _, state := range []string{"being acquired", "held"} {
			before := requests()
			_, err := la.TryLock(t.Context())
			requireHeld(t, err, "a/daemon")
			require.Equal(t, before, requests(), "while it is %s the store is not even asked", state)
			<-done
		}
	})
}

func TestLeaseWaitsForAWriteInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, _ := two(t)
		applied := time.Now().Add(7 * time.Millisecond)
		a.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
			if r.Kind == kvsynctest.Swap && time.Now().Before(applied) {
				return kvsynctest.Fate{Err: kvsync.ErrRevisionMismatch}
			}
			return kvsynctest.Fate{}
		})
		lock(t, la)
	})
}

func TestLeaseRenewalCountsFromItsSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, _ := two(t)
		lock(t, la)
		const reply = 900 * time.Millisecond
		a.SetFault(only(kvsynctest.Swap, kvsynctest.Fate{Reply: reply}))
		time.Sleep(renew + reply + eps)
		require.Equal(t, valid-reply-eps, la.ValidFor())
	})
}

func TestLeaseFindsAnEarlierRenewalThatLanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, _ := two(t)
		tok := lock(t, la)
		a.SetTimeout(time.Hour)
		a.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
			return kvsynctest.Fate{Unanswered: r.Kind == kvsynctest.Swap && r.N == 2} // the first renewal
		})
		time.Sleep(2 * ttl)
		held, ok := la.Token()
		require.True(t, ok, "the second try was refused, and looked")
		require.Equal(t, tok, held)
	})
}

func TestElectionFailedWorkSitsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := campaign(t, kvsynctest.NewServer(), "a", func(context.Context) error { return errors.New("no fence") })
		time.Sleep(ttl/3 - eps)
		require.Equal(t, int32(1), a.gained.Load(), "so that a healthy peer wins")
		time.Sleep(2 * eps)
		require.Equal(t, int32(2), a.gained.Load())
	})
}

// frozen answers every read of a session with the first answer.
type frozen struct {
	*kvsynctest.Client
	value []byte
	rev   uint64
}

func (f *frozen) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	if f.rev > 0 && strings.Contains(key, "=session.") {
		return f.value, f.rev, nil
	}
	value, rev, err := f.Client.Load(ctx, key)
	if strings.Contains(key, "=session.") {
		f.value, f.rev = value, rev
	}
	return value, rev, err
}

func TestGroupSessionIsMarkedDeadByAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, b, ga, _ := twoGroups()
		lock(t, ga.Get("x"))
		l := kvsync.NewLeaseGroup(&frozen{Client: b}, prefix, "b/daemon", ttl).Get("x")
		for range 20 {
			_, err := l.TryLock(t.Context())
			requireHeld(t, err, "a/daemon")
			time.Sleep(renew)
		}
		require.True(t, ga.Get("x").Held())
	})
}

func TestGroupGrantNeedsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, ga, _ := twoGroups()
		lock(t, ga.Get("y"))
		a.SetTimeout(time.Hour)
		a.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
			switch {
			case r.Kind == kvsynctest.Swap && r.Key == prefix+"x":
				return kvsynctest.Fate{Reply: ttl}
			case r.Kind == kvsynctest.Swap:
				return kvsynctest.Fate{Err: kvsync.ErrUnavailable}
			}
			return kvsynctest.Fate{}
		})
		_, err := ga.Get("x").TryLock(t.Context())
		require.ErrorIs(t, err, kvsync.ErrUnavailable)
		require.False(t, ga.Get("x").Held())
	})
}
