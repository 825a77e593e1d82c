package kvsync_test

import (
	"context"
	"errors"
	"runtime"
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

// TestL09CancelledBeforeItLed: a contender that is stopped before it ever led ran its callbacks.
func TestL09CancelledBeforeItLed(t *testing.T) {
	for name, fate := range map[string]kvsynctest.Fate{"another leads": {}, "no store": {Err: kvsync.ErrUnavailable}, "silence": {Lost: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := kvsynctest.NewServer()
				leader := campaign(t, srv, "a", nil)
				b := campaign(t, srv, "b", nil)
				b.client.SetFault(all(fate))
				time.Sleep(ttl + eps)
				writes := srv.Writes()
				b.stop()
				<-b.done
				require.Zero(t, b.gained.Load()+b.lost.Load())
				require.Equal(t, writes, srv.Writes())
				require.True(t, leader.lease.Held())
			})
		})
	}
}

// TestL10OnlyTCanBeChosen: a renewal deadline above the lease's duration hung the start.
func TestL10OnlyTCanBeChosen(t *testing.T) {
	for _, bad := range []time.Duration{0, -1, -time.Hour} {
		c := kvsynctest.NewServer().Client("a")
		require.PanicsWithValue(t, "kvsync: ttl "+bad.String()+" is not positive: choose T only, at least 24 times the store's round trip",
			func() { kvsync.NewLease(c, "k", "h", bad) })
		require.Panics(t, func() { kvsync.NewLeaseGroup(c, "g.", "h", bad) })
	}
	synctest.Test(t, func(t *testing.T) {
		// A T below the round trip is never granted, and keeps nobody from stopping.
		for _, tiny := range []time.Duration{1, 23, time.Microsecond, time.Millisecond} {
			c := kvsynctest.NewServer().Client("a")
			c.SetFault(all(kvsynctest.Fate{Delay: time.Millisecond, Reply: time.Millisecond}))
			l := kvsync.NewLease(c, "k", "h", tiny)
			_, err := l.TryLock(t.Context())
			require.ErrorIs(t, err, kvsync.ErrUnavailable)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			kvsync.RunElection(ctx, l, func(context.Context) error { assert.Fail(t, "led"); return nil }, nil)
			cancel()
			require.Less(t, c.Count(kvsynctest.Swap)+c.Count(kvsynctest.Load), 3000)
		}
	})
}

// TestL11WaiterOutlivesItsSession: a waiter whose session had died went on waiting, or won under it.
func TestL11WaiterOutlivesItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, b, ga, gb := twoGroups()
		tok := lock(t, ga.Get("x"))
		other := lock(t, gb.Get("other"))
		sessionLost := gb.Get("other").Lost()
		won := make(chan kvsync.Token, 1)
		go func() {
			tok, err := gb.Get("x").Lock(t.Context())
			assert.NoError(t, err)
			won <- tok
		}()
		time.Sleep(renew)
		b.SetFault(all(kvsynctest.Fate{Lost: true}))
		<-sessionLost
		b.SetFault(nil)
		time.Sleep(ttl)
		ga.Get("x").Unlock(t.Context(), tok)
		got := <-won
		require.Greater(t, got.Generation, other.Generation)
		require.True(t, gb.Get("x").Held(), "won under a session of its own time")
		time.Sleep(10 * ttl)
		require.True(t, gb.Get("x").Held())
		gb.Get("x").Unlock(t.Context(), got)

		tok = lock(t, ga.Get("x"))
		errs := make(chan error, 1)
		go func() { _, err := gb.Get("x").Lock(t.Context()); errs <- err }()
		time.Sleep(renew)
		start := time.Now()
		gb.Forget("x")
		require.ErrorIs(t, <-errs, kvsync.ErrLost)
		require.Less(t, time.Since(start), eps)
		ga.Get("x").Unlock(t.Context(), tok)
	})
}

// TestL12WorkerDies: a lease was kept alive although the worker had died.
func TestL12WorkerDies(t *testing.T) {
	for name, die := range map[string]func(){
		"returns": func() {}, "panics": func() { panic("x") }, "exits": runtime.Goexit,
	} {
		t.Run("Do "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, _, _, la, lb := two(t)
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					_ = la.Do(t.Context(), func(context.Context, kvsync.Token) error { die(); return nil })
				}()
				<-done
				require.False(t, la.Held())
				lock(t, lb)
			})
		})
		t.Run("RunElection "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := kvsynctest.NewServer()
				a := campaign(t, srv, "a", func(context.Context) error { time.Sleep(time.Second); die(); return nil })
				b := campaign(t, srv, "b", nil)
				time.Sleep(2 * time.Second)
				require.Equal(t, name == "returns", a.lease.Held(), "nil goes on leading, nothing else does")
				require.Equal(t, name != "returns", b.lease.Held())
				require.Zero(t, a.lost.Load())
			})
		})
	}
}

// TestL13StoreLeaderChanges: each change of the store's leader extended the time to live of a dead
// holder's lease. (natskv has the same with a real server.)
func TestL13StoreLeaderChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, a, b, la, lb := two(t)
		lock(t, la)
		a.SetFault(all(kvsynctest.Fate{Lost: true}))
		start := time.Now()
		var down atomic.Bool
		b.SetFault(func(kvsynctest.Request) kvsynctest.Fate {
			if down.Load() {
				return kvsynctest.Fate{Err: kvsync.ErrUnavailable}
			}
			return kvsynctest.Fate{}
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for ctx.Err() == nil {
				time.Sleep(ttl/2 - time.Second)
				srv.BreakWatches()
				down.Store(true)
				time.Sleep(time.Second)
				down.Store(false)
			}
		}()
		tok, err := lb.Lock(t.Context())
		require.NoError(t, err)
		cancel()
		require.GreaterOrEqual(t, time.Since(start), ttl)
		require.LessOrEqual(t, time.Since(start), ttl+ttl/24+eps)
		lb.Unlock(t.Context(), tok)
		time.Sleep(ttl)
	})
}

// TestL14Blackhole: packets that vanish. Nothing tells the client, for longer than any lease.
func TestL14Blackhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _, la, lb := two(t)
		a.SetTimeout(time.Hour)
		lock(t, la)
		lost, landed := la.Lost(), time.Now()
		a.SetFault(all(kvsynctest.Fate{Lost: true}))
		go func() { _, _ = lb.TryLock(t.Context()) }()
		<-lost
		require.Equal(t, valid, time.Since(landed))
		time.Sleep(ttl - valid + eps)
		lock(t, lb)
	})
}

// TestL15StuckAlreadyHeld: after a loss the lock object said "already held" for ever, and its renewer
// lived on.
func TestL15StuckAlreadyHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b, la, lb := two(t)
		goroutines := runtime.NumGoroutine()
		var generation uint64
		for range 5 {
			tok, err := la.Lock(t.Context())
			require.NoError(t, err)
			require.Greater(t, tok.Generation, generation)
			generation = tok.Generation
			lost := la.Lost()
			require.False(t, isClosed(lost))
			a.SetFault(all(kvsynctest.Fate{Err: kvsync.ErrUnavailable}))
			<-lost
			before := a.Count(kvsynctest.Swap)
			time.Sleep(ttl)
			require.Equal(t, before, a.Count(kvsynctest.Swap), "no renewer is left")
			a.SetFault(nil)
		}
		synctest.Wait()
		require.Less(t, runtime.NumGoroutine()-goroutines, 5, "five losses have left nothing behind")
		tok, err := lb.Lock(t.Context()) // and nothing of it is in another's way
		require.NoError(t, err)
		require.Less(t, b.Count(kvsynctest.Swap), 4)
		lb.Unlock(t.Context(), tok)
	})
}

// TestL16OneFailedRenewal: a single failed renewal, or poll, dropped the lock.
func TestL16OneFailedRenewal(t *testing.T) {
	outage := func(t *testing.T, length time.Duration) (held bool, losses int) {
		_, a, _, la, _ := two(t)
		tok := lock(t, la)
		time.Sleep(10*renew + renew/2)
		la.Unlock(t.Context(), tok) // so that the last landed write is now
		lock(t, la)
		a.SetFault(all(kvsynctest.Fate{Err: kvsync.ErrUnavailable}))
		time.Sleep(length)
		a.SetFault(nil)
		time.Sleep(valid)
		for _, e := range a.Events() {
			if e.Kind == kvsync.EventLost {
				losses++
			}
		}
		return la.Held(), losses
	}
	for name, c := range map[string]struct {
		length time.Duration
		lost   int
	}{
		"one attempt": {renew + eps, 0}, "V less a little": {valid - eps, 0}, "V and a little": {valid + eps, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				held, losses := outage(t, c.length)
				require.Equal(t, c.lost == 0, held)
				require.Equal(t, c.lost, losses)
			})
		})
	}
}

// TestL17Ghosts: an acquiring write that landed after its caller gave up blocked everybody.
func TestL17Ghosts(t *testing.T) {
	ghost := func(late time.Duration) func(kvsynctest.Request) kvsynctest.Fate {
		return func(r kvsynctest.Request) kvsynctest.Fate {
			if r.Kind == kvsynctest.Swap {
				return kvsynctest.Fate{Late: late}
			}
			return kvsynctest.Fate{Err: kvsync.ErrUnavailable}
		}
	}
	run := func(name string, body func(*testing.T, *kvsynctest.Client, *kvsync.Lease, *kvsync.Lease)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, a, _, la, lb := two(t)
				a.SetFault(ghost(2 * time.Second))
				_, err := la.TryLock(t.Context())
				require.ErrorIs(t, err, kvsync.ErrUnknownOutcome)
				a.SetFault(nil)
				body(t, a, la, lb)
			})
		})
	}
	run("others wait T at most", func(t *testing.T, _ *kvsynctest.Client, _, lb *kvsync.Lease) {
		time.Sleep(3 * time.Second)
		start := time.Now()
		tok, err := lb.Lock(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), ttl+eps)
		lb.Unlock(t.Context(), tok)
	})
	run("its maker adopts it", func(t *testing.T, _ *kvsynctest.Client, la, _ *kvsync.Lease) {
		time.Sleep(3 * time.Second)
		lock(t, la)
	})
	run("its maker adopts it also after it held the key in between", func(t *testing.T, _ *kvsynctest.Client, la, lb *kvsync.Lease) {
		la.Unlock(t.Context(), lock(t, la)) // this store takes the late create once the key is free again
		time.Sleep(3 * time.Second)
		_, err := lb.TryLock(t.Context())
		requireHeld(t, err, "a/daemon")
		lock(t, la)
	})
	t.Run("a claim says whose it is, and its maker adopts it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := kvsynctest.NewServer()
			a := srv.Client("inc-a")
			a.SetFault(ghost(2 * time.Second))
			ca := kvsync.NewClaim(a, "x", "a/daemon")
			_, err := ca.TryLock(t.Context())
			require.ErrorIs(t, err, kvsync.ErrUnknownOutcome)
			a.SetFault(nil)
			time.Sleep(3 * time.Second)
			_, err = kvsync.NewClaim(srv.Client("inc-b"), "x", "b/daemon").TryLock(t.Context())
			requireHeld(t, err, "a/daemon")
			tok, err := ca.TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, ca.Unlock(t.Context(), tok))
		})
	})
}

// TestL20RefusedAtTheRightRevision: a replicated store refused writes at the correct revision, since
// another one was in flight. (natskv has the same with three servers.)
func TestL20RefusedAtTheRightRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, a, b, la, lb := two(t)
		inFlight := func(r kvsynctest.Request) kvsynctest.Fate {
			if (r.Kind == kvsynctest.Swap || r.Kind == kvsynctest.Delete) && r.N%3 != 0 {
				return kvsynctest.Fate{Err: kvsync.ErrRevisionMismatch}
			}
			return kvsynctest.Fate{}
		}
		a.SetFault(inFlight)
		b.SetFault(inFlight)
		tok, err := la.Lock(t.Context())
		require.NoError(t, err)
		lost, start := la.Lost(), srv.Writes()
		time.Sleep(100 * ttl)
		require.False(t, isClosed(lost))
		require.InDelta(t, 600, srv.Writes()-start, 10, "a refusal costs no renewal")
		require.Less(t, a.Count(kvsynctest.Swap), 4*600, "tries are bounded")
		la.Unlock(t.Context(), tok)
		_, err = lb.Lock(t.Context())
		require.NoError(t, err)
		tok, _ = lb.Token()
		lb.Unlock(t.Context(), tok)
		require.Empty(t, srv.Keys(), "an unlock is not put off by it either")
	})
}

// twice admits one create although the key is there, as a store did that took two writes at one revision.
type twice struct {
	*kvsynctest.Client
	srv  *kvsynctest.Server
	once sync.Once
}

func (s *twice) CompareAndSwap(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	admitted := uint64(0)
	s.once.Do(func() { admitted = s.srv.Set(key, value) })
	if admitted > 0 {
		return admitted, nil
	}
	return s.Client.CompareAndSwap(ctx, key, value, rev)
}

// TestL21OneRevisionTakenTwice: a store took two writes at one revision, so that two acquired.
func TestL21OneRevisionTakenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, b, la, _ := two(t)
		lb := kvsync.NewLease(&twice{Client: b, srv: srv}, theKey, "b/daemon", ttl)
		first := lock(t, la)
		second := lock(t, lb)
		require.True(t, la.Held() && lb.Held(), "both may believe for a moment")
		require.Greater(t, second.Generation, first.Generation)
		var fence kvsync.FenceChecker
		write := func() error { return nil }
		require.NoError(t, fence.Write("zone", first, write))
		require.NoError(t, fence.Write("zone", second, write))
		require.ErrorIs(t, fence.Write("zone", first, write), kvsync.ErrLost, "the later one wins the fence")
		time.Sleep(renew + eps)
		require.False(t, la.Held(), "the earlier one notices at its next renewal")
		require.True(t, lb.Held())
		time.Sleep(10 * ttl)
		require.True(t, lb.Held())
	})
}

// TestL23WedgedWrites: the store answered reads and took no writes, so that everything looked healthy.
func TestL23WedgedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		a, b := campaign(t, srv, "a", nil), campaign(t, srv, "b", nil)
		time.Sleep(renew + eps)
		clients := []*kvsynctest.Client{a.client, b.client}
		count := func() (n int) {
			for _, c := range clients {
				n += c.Count(kvsynctest.Swap) + c.Count(kvsynctest.Load) + c.Count(kvsynctest.Watch)
			}
			return n
		}
		before, stopped := count(), a.lease.Lost()
		wedged := time.Now()
		for _, c := range clients {
			c.SetFault(writes(kvsynctest.Fate{Lost: true}))
		}
		<-stopped
		require.LessOrEqual(t, time.Since(wedged), valid)
		time.Sleep(time.Until(wedged.Add(3 * ttl)))
		require.Equal(t, int32(1), a.gained.Load()+b.gained.Load(), "nobody acquires")
		require.False(t, a.lease.Held() || b.lease.Held())
		require.Less(t, count()-before, 2*3*3*24, "nobody is busy")
		for _, c := range clients {
			c.SetFault(nil)
		}
		time.Sleep(time.Second + ttl/24 + eps) // what is waited for, and one retry
		require.True(t, a.lease.Held() || b.lease.Held())
	})
}

// TestL24FullDisk: a full store refused even deletes. (natskv has the same with a real server.)
func TestL24FullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("insufficient resources")
		_, a, _, la, lb := two(t)
		tok := lock(t, la)
		lost := la.Lost()
		a.SetFault(writes(kvsynctest.Fate{Err: full}))
		start := time.Now()
		la.Unlock(t.Context(), tok)
		require.LessOrEqual(t, time.Since(start), 5*time.Second)
		require.True(t, isClosed(lost))
		require.False(t, la.Held())
		_, err := la.TryLock(t.Context())
		require.ErrorIs(t, err, kvsync.ErrUnavailable)
		got, err := lb.Lock(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), 5*time.Second+ttl+eps)
		lb.Unlock(t.Context(), got)
	})
}

// TestL27LateSuccess: a renewal that was in flight at the step-down extended the lease.
func TestL27LateSuccess(t *testing.T) {
	t.Run("after an unlock", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv, a, _, la, lb := two(t)
			tok := lock(t, la)
			lost, term := la.Lost(), la.Context(t.Context())
			a.SetFault(only(kvsynctest.Swap, kvsynctest.Fate{Reply: 900 * time.Millisecond}))
			time.Sleep(renew + eps) // the renewal has landed, its answer is under way
			la.Unlock(t.Context(), tok)
			for range 20 {
				require.False(t, la.Held())
				require.True(t, isClosed(lost) && isClosed(la.Lost()) && isClosed(term.Done()))
				time.Sleep(100 * time.Millisecond)
			}
			require.Empty(t, srv.Keys())
			lock(t, lb)
		})
	})
	t.Run("after a loss", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, a, _, la, _ := two(t)
			a.SetTimeout(time.Hour)
			lock(t, la)
			lost := la.Lost()
			a.SetFault(only(kvsynctest.Swap, kvsynctest.Fate{Reply: valid})) // they land, the answers come too late
			<-lost
			for range 40 {
				time.Sleep(renew)
				require.False(t, la.Held())
			}
		})
	})
}
