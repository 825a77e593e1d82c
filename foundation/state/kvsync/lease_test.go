package kvsync_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
)

const (
	ttl    = 24 * time.Second
	renew  = ttl / 6
	valid  = ttl * 2 / 3
	eps    = 10 * time.Millisecond
	theKey = "dns.reconcile"
)

// two makes two processes on one store, each with a lease of one key.
func two(t *testing.T) (srv *kvsynctest.Server, a, b *kvsynctest.Client, la, lb *kvsync.Lease) {
	t.Helper()
	srv = kvsynctest.NewServer()
	a, b = srv.Client("inc-a"), srv.Client("inc-b")
	return srv, a, b, kvsync.NewLease(a, theKey, "a/daemon", ttl), kvsync.NewLease(b, theKey, "b/daemon", ttl)
}

func lock(t *testing.T, l *kvsync.Lease) kvsync.Token {
	t.Helper()
	tok, err := l.TryLock(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { l.Unlock(context.WithoutCancel(t.Context()), tok) })
	return tok
}

func requireHeld(t *testing.T, err error, by string) {
	t.Helper()
	held, ok := errors.AsType[*kvsync.HeldError](err)
	require.True(t, ok, "want HeldError, got %v", err)
	require.Equal(t, by, held.Current.Holder)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func all(fate kvsynctest.Fate) func(kvsynctest.Request) kvsynctest.Fate {
	return func(kvsynctest.Request) kvsynctest.Fate { return fate }
}

func only(k kvsynctest.Kind, fate kvsynctest.Fate) func(kvsynctest.Request) kvsynctest.Fate {
	return func(r kvsynctest.Request) kvsynctest.Fate {
		if r.Kind == k {
			return fate
		}
		return kvsynctest.Fate{}
	}
}

func TestLeaseExcludesAndFrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, lb := two(t)
		require.True(t, isClosed(la.Lost()), "before the first acquisition")
		tok := lock(t, la)
		require.Equal(t, 1, a.Count(kvsynctest.Swap), "a free key costs one round trip")
		require.Zero(t, a.Count(kvsynctest.Load))
		require.True(t, la.Held())
		require.False(t, isClosed(la.Lost()))
		_, err := la.TryLock(t.Context())
		requireHeld(t, err, "a/daemon")
		_, err = lb.TryLock(t.Context())
		requireHeld(t, err, "a/daemon")

		lost := la.Lost()
		la.Unlock(t.Context(), kvsync.Token{Holder: tok.Holder, Generation: tok.Generation + 1})
		require.True(t, la.Held(), "another generation's unlock does nothing")
		la.Unlock(t.Context(), tok)
		require.False(t, la.Held())
		require.True(t, isClosed(lost))
		tok2 := lock(t, lb)
		require.Greater(t, tok2.Generation, tok.Generation)
	})
}

func TestLeaseRenewsEveryRFromTheSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, _ := two(t)
		const reply = 500 * time.Millisecond
		a.SetFault(only(kvsynctest.Swap, kvsynctest.Fate{Reply: reply}))
		lock(t, la)
		start := a.Count(kvsynctest.Swap)
		require.InDelta(t, float64(valid-reply), float64(la.ValidFor()), float64(eps), "counted from the send")
		time.Sleep(renew - reply - eps)
		require.Equal(t, start, a.Count(kvsynctest.Swap))
		time.Sleep(2 * eps)
		require.Equal(t, start+1, a.Count(kvsynctest.Swap))
		time.Sleep(time.Hour)
		require.True(t, la.Held())
		require.InDelta(t, int(time.Hour/renew), a.Count(kvsynctest.Swap), 3, "one write per R, no more")
	})
}

func TestLeaseIsLostAtVWhateverTheErrors(t *testing.T) {
	fates := map[string]kvsynctest.Fate{
		"rejected":    {Err: errors.New("quota exceeded")},
		"unavailable": {Err: kvsync.ErrUnavailable},
		"silent":      {Lost: true},
		"stuck":       {Stuck: make(chan struct{})},
	}
	for name, fate := range fates {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				if fate.Stuck != nil {
					fate.Stuck = release // a channel of this bubble
				}
				_, a, _, la, lb := two(t)
				tok := lock(t, la)
				ctx := la.Context(t.Context())
				lost := la.Lost()
				a.SetFault(func(r kvsynctest.Request) kvsynctest.Fate { return fate })
				time.Sleep(valid - eps)
				require.True(t, la.Held())
				require.False(t, isClosed(lost))
				time.Sleep(2 * eps)
				require.False(t, la.Held())
				synctest.Wait()
				require.True(t, isClosed(lost))
				require.ErrorIs(t, context.Cause(ctx), kvsync.ErrLost)
				_, ok := la.Token()
				require.False(t, ok)
				_, err := lb.TryLock(t.Context())
				requireHeld(t, err, "a/daemon")
				time.Sleep(ttl + eps)
				tok2 := lock(t, lb)
				require.Greater(t, tok2.Generation, tok.Generation)
				close(release)
			})
		})
	}
}

func TestLeaseTakeoverNeedsAFullOwnObservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, b, _, lb := two(t)
		srv.Set(theKey, []byte(`{"holder":"dead/daemon","generation":0,"nonce":"n1","ttl_ms":24000}`))
		time.Sleep(10 * ttl) // however old the record is, a first look only starts the observation
		_, err := lb.TryLock(t.Context())
		requireHeld(t, err, "dead/daemon")
		time.Sleep(ttl - eps)
		_, err = lb.TryLock(t.Context())
		requireHeld(t, err, "dead/daemon")
		require.Equal(t, 1, b.Count(kvsynctest.Swap), "a contender that sees a holder writes nothing")
		time.Sleep(2 * eps)
		lock(t, lb)
	})
}

func TestLeaseHonoursTheLongerTTLOfTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, _, _, lb := two(t)
		srv.Set(theKey, []byte(`{"holder":"old/daemon","generation":0,"nonce":"n1","ttl_ms":60000}`))
		_, err := lb.TryLock(t.Context())
		requireHeld(t, err, "old/daemon")
		time.Sleep(time.Minute - eps)
		_, err = lb.TryLock(t.Context())
		requireHeld(t, err, "old/daemon")
		time.Sleep(2 * eps)
		lock(t, lb)
	})
}

func TestLeaseObservationRestartsOnARenewalAndIgnoresStaleReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, b, _, lb := two(t)
		srv.Set(theKey, []byte(`{"holder":"x","generation":1,"nonce":"n1"}`))
		_, err := lb.TryLock(t.Context())
		requireHeld(t, err, "x")
		time.Sleep(ttl / 2)
		srv.Set(theKey, []byte(`{"holder":"x","generation":1,"nonce":"n2"}`))
		_, err = lb.TryLock(t.Context())
		requireHeld(t, err, "x")
		time.Sleep(ttl/2 + eps)
		_, err = lb.TryLock(t.Context())
		requireHeld(t, err, "x")

		// From here on a lagging replica answers every other look with the older record.
		b.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
			return kvsynctest.Fate{Stale: r.Kind == kvsynctest.Load && r.N%2 == 0}
		})
		for range 3 {
			_, err = lb.TryLock(t.Context())
			requireHeld(t, err, "x")
		}
		time.Sleep(ttl / 2)
		tok := lock(t, lb)
		require.Equal(t, uint64(3), tok.Generation)
	})
}

func TestLeaseGrantThatCameTooLateIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, a, _, la, lb := two(t)
		a.SetTimeout(time.Hour)
		a.SetFault(only(kvsynctest.Swap, kvsynctest.Fate{Reply: valid}))
		_, err := la.TryLock(t.Context())
		require.ErrorIs(t, err, kvsync.ErrUnavailable)
		require.False(t, la.Held())
		v, _ := srv.Value(theKey)
		require.Empty(t, v, "what it wrote is taken back")
		lock(t, lb)
	})
}

func TestLeaseAdoptsItsGhost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, lb := two(t)
		// The write lands after the caller was told that nothing came back, and the look fails too.
		a.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
			if r.Kind == kvsynctest.Swap {
				return kvsynctest.Fate{Late: 2 * time.Second}
			}
			return kvsynctest.Fate{Err: kvsync.ErrUnavailable}
		})
		_, err := la.TryLock(t.Context())
		require.ErrorIs(t, err, kvsync.ErrUnknownOutcome)
		require.ErrorIs(t, err, kvsync.ErrUnavailable)
		a.SetFault(nil)
		time.Sleep(3 * time.Second)
		_, err = lb.TryLock(t.Context())
		requireHeld(t, err, "a/daemon")
		tok := lock(t, la)
		require.Equal(t, uint64(2), tok.Generation, "adopted at once, with a new generation")
	})
}

func TestLeaseUnansweredAcquireIsFoundByItsNonce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, _ := two(t)
		a.SetFault(only(kvsynctest.Swap, kvsynctest.Fate{Unanswered: true}))
		tok := lock(t, la)
		require.Equal(t, uint64(1), tok.Generation)
		require.InDelta(t, float64(valid-time.Second), float64(la.ValidFor()), float64(eps), "counted from the send, not the look")
		a.SetFault(nil)
	})
}

func TestLeaseSameHolderOtherIncarnationIsRefusedUntilProvenDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		a, b := srv.Client("inc-1"), srv.Client("inc-2")
		la, lb := kvsync.NewLease(a, theKey, "n1/daemon", ttl), kvsync.NewLease(b, theKey, "n1/daemon", ttl)
		tok := lock(t, la)
		_, err := lb.TryLock(t.Context())
		requireHeld(t, err, "n1/daemon")
		a.SetFault(all(kvsynctest.Fate{Lost: true})) // the process is gone
		b.Kill("inc-1")
		tok2 := lock(t, lb)
		require.Greater(t, tok2.Generation, tok.Generation)
	})
}

func TestLeaseAnotherObjectOfThisProcessIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		a, b := srv.Client("same"), srv.Client("same")
		lock(t, kvsync.NewLease(a, theKey, "n1/daemon", ttl))
		_, err := kvsync.NewLease(b, theKey, "n1/daemon", ttl).TryLock(t.Context())
		requireHeld(t, err, "n1/daemon")
	})
}

func TestLeaseSurvivesLostRepliesAndOutagesBelowV(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, _ := two(t)
		tok := lock(t, la)
		a.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
			return kvsynctest.Fate{Unanswered: r.Kind == kvsynctest.Swap && r.N%3 == 0}
		})
		time.Sleep(20 * ttl)
		require.True(t, la.Held())
		a.SetFault(nil)
		time.Sleep(renew + eps) // a renewal has just landed
		a.SetFault(all(kvsynctest.Fate{Lost: true}))
		time.Sleep(valid - renew - ttl/24 - time.Second) // its last tries are unanswered for the timeout
		a.SetFault(nil)
		time.Sleep(renew)
		require.True(t, la.Held())
		held, _ := la.Token()
		require.Equal(t, tok, held)
	})
}

func TestLeaseRefusalThatProvesNothingKeepsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, _ := two(t)
		lock(t, la)
		// "another write is in flight": a mismatch although nothing has changed.
		a.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
			if r.Kind == kvsynctest.Swap && r.N%4 != 0 {
				return kvsynctest.Fate{Err: kvsync.ErrRevisionMismatch}
			}
			return kvsynctest.Fate{}
		})
		time.Sleep(20 * ttl)
		require.True(t, la.Held())
	})
}

func TestLeaseStaleLookAfterARefusalIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, _ := two(t)
		lock(t, la)
		a.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
			return kvsynctest.Fate{Unanswered: r.Kind == kvsynctest.Swap && r.N%2 == 0, Stale: r.Kind == kvsynctest.Load && r.N%2 == 1}
		})
		time.Sleep(20 * ttl)
		require.True(t, la.Held())
	})
}

func TestLeaseNoticesThatItWasReplacedOrBroken(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *kvsynctest.Server, *kvsynctest.Client, kvsync.Token){
		"replaced": func(t *testing.T, srv *kvsynctest.Server, _ *kvsynctest.Client, _ kvsync.Token) {
			srv.Set(theKey, []byte(`{"holder":"thief","generation":0,"nonce":"x"}`))
		},
		"broken": func(t *testing.T, _ *kvsynctest.Server, b *kvsynctest.Client, tok kvsync.Token) {
			require.NoError(t, kvsync.Break(t.Context(), b, theKey, tok, "operator"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, a, b, la, _ := two(t)
				tok := lock(t, la)
				lost := la.Lost()
				end(t, srv, b, tok)
				before := srv.Writes()
				time.Sleep(renew + time.Second)
				require.False(t, la.Held())
				require.True(t, isClosed(lost))
				require.Equal(t, before, srv.Writes(), "the loser wrote nothing")
				ev := a.Events()
				require.Equal(t, kvsync.EventLost, ev[len(ev)-1].Kind)
			})
		})
	}
}

func TestLeaseUnlockWithARenewalInFlight(t *testing.T) {
	for name, fate := range map[string]kvsynctest.Fate{
		"landed, reply delayed": {Reply: 900 * time.Millisecond},
		"lands after":           {Late: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, a, _, la, lb := two(t)
				tok := lock(t, la)
				a.SetFault(only(kvsynctest.Swap, fate))
				time.Sleep(renew + eps)
				lost := la.Lost()
				la.Unlock(t.Context(), tok)
				require.True(t, isClosed(lost))
				time.Sleep(2 * time.Second)
				require.False(t, la.Held(), "a late success restores nothing")
				v, _ := srv.Value(theKey)
				require.Empty(t, v)
				lock(t, lb)
			})
		})
	}
}

func TestLeaseUnlockIsBoundedWhenTheStoreIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, _ := two(t)
		tok := lock(t, la)
		release := make(chan struct{})
		a.SetFault(all(kvsynctest.Fate{Stuck: release}))
		start := time.Now()
		la.Unlock(t.Context(), tok)
		require.LessOrEqual(t, time.Since(start), 5*time.Second)
		require.False(t, la.Held())
		close(release)
	})
}

func TestLeaseAdoptsWhatItsUnlockCouldNotDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, lb := two(t)
		tok := lock(t, la)
		time.Sleep(3*renew + eps)
		a.SetFault(only(kvsynctest.Delete, kvsynctest.Fate{Err: kvsync.ErrUnavailable}))
		la.Unlock(t.Context(), tok)
		require.False(t, la.Held())
		a.SetFault(nil)
		_, err := lb.TryLock(t.Context())
		requireHeld(t, err, "a/daemon") // it waits for T
		again := lock(t, la)
		require.Greater(t, again.Generation, tok.Generation)
	})
}

func TestLeaseTryLockIsBoundedByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, _ := two(t)
		release := make(chan struct{})
		a.SetFault(all(kvsynctest.Fate{Stuck: release}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := la.TryLock(ctx)
		require.ErrorIs(t, err, kvsync.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		a.SetFault(nil)
		close(release)
		synctest.Wait()
		lock(t, la) // also when the stuck write has landed meanwhile
	})
}

func TestLeaseIsReusableAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, _ := two(t)
		lock(t, la)
		first := la.Lost()
		a.SetFault(all(kvsynctest.Fate{Err: kvsync.ErrUnavailable}))
		time.Sleep(valid + eps)
		a.SetFault(nil)
		_, err := la.TryLock(t.Context())
		requireHeld(t, err, "a/daemon") // its own record must go unchanged for T: it is no ghost
		time.Sleep(ttl + eps)
		lock(t, la)
		require.True(t, isClosed(first))
		require.False(t, isClosed(la.Lost()))
	})
}

func TestLeaseUndecodableRecordIsTakenOverAfterT(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, _, la, _ := two(t)
		srv.Set(theKey, []byte(`not json`))
		_, err := la.TryLock(t.Context())
		requireHeld(t, err, "")
		time.Sleep(ttl + eps)
		lock(t, la)
	})
}

func TestLeaseRefusesARegressedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, _, la, lb := two(t)
		for range 5 {
			srv.Set("other", []byte("x"))
		}
		tok := lock(t, la)
		_, err := lb.TryLock(t.Context())
		requireHeld(t, err, "a/daemon")
		la.Unlock(t.Context(), tok)
		srv.Regress(0)
		_, err = la.TryLock(t.Context())
		require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
		_, err = lb.TryLock(t.Context())
		require.Error(t, err, "what it has seen is higher than what it reads")
		require.False(t, la.Held() || lb.Held())
	})
}

func TestLeaseTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, _, la, lb := two(t)
		lc := kvsync.NewLease(srv.Client("inc-c"), theKey, "c/daemon", ttl)
		tok := lock(t, la)
		require.NoError(t, la.Transfer(t.Context(), tok, "b/daemon"))
		require.False(t, la.Held())
		_, err := lc.TryLock(t.Context())
		requireHeld(t, err, "b/daemon")
		tok2 := lock(t, lb)
		require.Greater(t, tok2.Generation, tok.Generation)
		require.ErrorIs(t, la.Transfer(t.Context(), tok, "c/daemon"), kvsync.ErrLost)
	})
}

func TestLeaseDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, a, _, la, lb := two(t)
		boom := errors.New("boom")
		require.ErrorIs(t, la.Do(t.Context(), func(ctx context.Context, tok kvsync.Token) error {
			require.True(t, la.Held())
			_, err := lb.TryLock(t.Context())
			requireHeld(t, err, "a/daemon")
			return boom
		}), boom)
		require.False(t, la.Held())
		require.PanicsWithValue(t, "x", func() {
			_ = la.Do(t.Context(), func(context.Context, kvsync.Token) error { panic("x") })
		})
		v, _ := srv.Value(theKey)
		require.Empty(t, v, "a panic releases the key")
		err := la.Do(t.Context(), func(ctx context.Context, _ kvsync.Token) error {
			a.SetFault(all(kvsynctest.Fate{Err: kvsync.ErrUnavailable}))
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), kvsync.ErrLost)
			a.SetFault(nil)
			return nil
		})
		require.ErrorIs(t, err, kvsync.ErrLost)
	})
}

func TestLeaseLockWakesOnDeleteAndOnExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, la, lb := two(t)
		tok := lock(t, la)
		got := make(chan time.Time, 1)
		var wg sync.WaitGroup
		wg.Go(func() {
			tok, err := lb.Lock(t.Context())
			assert.NoError(t, err)
			got <- time.Now()
			lb.Unlock(t.Context(), tok)
		})
		time.Sleep(100 * ttl)
		freed := time.Now()
		la.Unlock(t.Context(), tok)
		require.LessOrEqual(t, (<-got).Sub(freed), eps, "pushed")
		wg.Wait()

		lock(t, la)
		wg.Go(func() {
			tok, err := lb.Lock(t.Context())
			assert.NoError(t, err)
			got <- time.Now()
			lb.Unlock(t.Context(), tok)
		})
		time.Sleep(renew + eps) // a renewal has landed eps ago
		crash := time.Now()
		swaps := b.Count(kvsynctest.Swap)
		a.SetFault(all(kvsynctest.Fate{Lost: true}))
		after := (<-got).Sub(crash)
		require.GreaterOrEqual(t, after, ttl-renew)
		require.LessOrEqual(t, after, ttl+eps)
		require.LessOrEqual(t, b.Count(kvsynctest.Swap)-swaps, 2, "no write while a holder is seen")
		wg.Wait()
	})
}

func TestLeaseLockFallsBackToPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, b, la, lb := two(t)
		b.SetFault(only(kvsynctest.Watch, kvsynctest.Fate{Err: kvsync.ErrUnavailable}))
		tok := lock(t, la)
		got := make(chan time.Time, 1)
		go func() {
			tok, err := lb.Lock(t.Context())
			assert.NoError(t, err)
			got <- time.Now()
			lb.Unlock(context.WithoutCancel(t.Context()), tok)
		}()
		time.Sleep(3 * ttl)
		freed := time.Now()
		la.Unlock(t.Context(), tok)
		require.LessOrEqual(t, (<-got).Sub(freed), ttl/3+eps)
	})
}

func TestLeaseLockWaitsForThisProcessAndForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		g := kvsync.NewLeaseGroup(srv.Client("a"), "eks.cluster.", "a/daemon", ttl)
		l := g.Get("0001/blue")
		require.Same(t, l, g.Get("0001/blue"))
		tok := lock(t, l)
		errs := make(chan error, 1)
		go func() {
			tok, err := l.Lock(t.Context())
			if err == nil {
				l.Unlock(context.WithoutCancel(t.Context()), tok)
			}
			errs <- err
		}()
		time.Sleep(time.Minute)
		l.Unlock(t.Context(), tok)
		require.NoError(t, <-errs)

		lock(t, l)
		g.Forget("0001/blue")
		require.False(t, l.Held())
		_, err := l.TryLock(t.Context())
		require.ErrorIs(t, err, kvsync.ErrLost)
		require.NotSame(t, l, g.Get("0001/blue"))
		v, _ := srv.Value("eks.cluster.0001/blue")
		require.Empty(t, v)
	})
}

func TestForgetEndsATryLockUnderWayAndAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		c := srv.Client("a")
		g := kvsync.NewLeaseGroup(c, "g.", "a/daemon", ttl)
		l := g.Get("x")
		c.SetFault(only(kvsynctest.Swap, kvsynctest.Fate{Reply: 500 * time.Millisecond}))
		errs := make(chan error, 1)
		go func() { _, err := l.TryLock(t.Context()); errs <- err }()
		time.Sleep(100 * time.Millisecond)
		g.Forget("x")
		require.ErrorIs(t, <-errs, kvsync.ErrLost)
		v, _ := srv.Value("g.x")
		require.Empty(t, v)

		srv.Set("g.y", []byte(`{"holder":"other","generation":0,"nonce":"n"}`))
		go func() { _, err := g.Get("y").Lock(t.Context()); errs <- err }()
		time.Sleep(time.Second)
		start := time.Now()
		g.Forget("y")
		require.ErrorIs(t, <-errs, kvsync.ErrLost)
		require.Less(t, time.Since(start), eps)
	})
}

func TestLeaseSinceIsWhenItWasAcquiredNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, _, a, _ := two(t)
		_, held := a.Since()
		assert.False(t, held)
		began := time.Now()
		tok := lock(t, a)
		time.Sleep(3 * ttl)
		since, held := a.Since()
		assert.True(t, held)
		assert.Equal(t, began, since)
		a.Unlock(t.Context(), tok)
		_, held = a.Since()
		assert.False(t, held)
	})
}
