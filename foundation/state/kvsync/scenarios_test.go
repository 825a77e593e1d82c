package kvsync_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
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

// The tests TestL01... are failures that users of other lock libraries and of JetStream reported in
// public, each reduced to its steps. Those that need a server are in natskv; L26, a holder starved of
// CPU, needs a process of its own and is among the end-to-end tests.

// writes is a fault of every write; reads and watches work.
func writes(fate kvsynctest.Fate) func(kvsynctest.Request) kvsynctest.Fate {
	return func(r kvsynctest.Request) kvsynctest.Fate {
		if r.Kind == kvsynctest.Swap || r.Kind == kvsynctest.Delete {
			return fate
		}
		return kvsynctest.Fate{}
	}
}

// TestL01RejectedRenewals: renewals rejected by a quota, for ever. The leader kept renewing in a loop
// that saw another holder, and never stopped its work.
func TestL01RejectedRenewals(t *testing.T) {
	for name, err := range map[string]error{
		"a quota":               errors.New("quota exceeded"),
		"no store":              kvsync.ErrUnavailable,
		"nobody knows":          kvsync.ErrUnknownOutcome,
		"a refusal of no cause": kvsync.ErrRevisionMismatch,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := kvsynctest.NewServer()
				a := campaign(t, srv, "a", nil)
				lost := a.lease.Lost()
				var stoppedBefore atomic.Int32
				b := campaign(t, srv, "b", func(context.Context) error { stoppedBefore.Store(a.lost.Load()); return nil })
				time.Sleep(10*renew + eps)
				landed := time.Now().Add(-eps)
				a.client.SetFault(writes(kvsynctest.Fate{Err: err}))
				<-lost
				require.Equal(t, valid, time.Since(landed), "the loss is at V")
				time.Sleep(2 * ttl)
				require.Equal(t, int32(1), b.gained.Load())
				require.Equal(t, int32(1), stoppedBefore.Load(), "the work stopped before the peer won")
				require.Equal(t, int32(1), a.lost.Load(), "once")
				require.Equal(t, int32(1), a.gained.Load())
				before := a.client.Count(kvsynctest.Swap)
				time.Sleep(2 * ttl)
				tries := 0
				if errors.Is(err, kvsync.ErrUnavailable) && !errors.Is(err, kvsync.ErrUnknownOutcome) {
					tries = 2*24 + 1 // what certainly did not happen is tried again without a look, each T/24
				}
				require.LessOrEqual(t, a.client.Count(kvsynctest.Swap)-before, tries, "who sees another holder writes nothing")
			})
		})
	}
}

// TestL02HundredsOfContenders: candidates racing over a slow store produced overlapping terms, since
// terms were measured from where the request arrived.
func TestL02HundredsOfContenders(t *testing.T) {
	const (
		contenders = 500
		tiny       = 240 * time.Millisecond
		span       = 4 * time.Second
	)
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		var leading, terms, overlaps atomic.Int32
		var generation atomic.Uint64
		var clients []*kvsynctest.Client
		goroutines := runtime.NumGoroutine()
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range contenders {
			c := srv.Client(fmt.Sprintf("inc-%d", i))
			clients = append(clients, c)
			var mu sync.Mutex
			rng := rand.New(rand.NewPCG(2, uint64(i)))
			c.SetFault(func(kvsynctest.Request) kvsynctest.Fate {
				mu.Lock()
				defer mu.Unlock()
				return kvsynctest.Fate{Delay: rand2(rng, tiny/20), Reply: rand2(rng, tiny/20), Unanswered: rng.IntN(50) == 0}
			})
			c.SetTimeout(tiny / 6)
			l := kvsync.NewLease(c, theKey, fmt.Sprintf("n%d/daemon", i), tiny)
			wg.Go(func() {
				kvsync.RunElection(ctx, l, func(term context.Context) error {
					defer leading.Add(-1)
					if leading.Add(1) > 1 {
						overlaps.Add(1)
					}
					terms.Add(1)
					tok, _ := l.Token()
					assert.Greater(t, tok.Generation, generation.Swap(tok.Generation), "generations increase")
					if i%2 == 0 { // half of them fail, the others are cut off
						return errors.New("had enough")
					}
					c.SetFault(all(kvsynctest.Fate{Lost: true}))
					<-term.Done()
					return nil
				}, nil)
			})
		}
		time.Sleep(span)
		require.Less(t, runtime.NumGoroutine()-goroutines, 8*contenders)
		stop()
		wg.Wait()
		require.Greater(t, terms.Load(), int32(8))
		require.Zero(t, overlaps.Load())
		requests := 0
		for _, c := range clients {
			requests += c.Count(kvsynctest.Load) + c.Count(kvsynctest.Swap) + c.Count(kvsynctest.Watch)
		}
		require.Less(t, requests, contenders*int(span/(tiny/24)), "no contender is busier than a retry each T/24")
		t.Logf("%d terms, %.1f requests of each contender per T", terms.Load(), float64(requests)/contenders/float64(span/tiny))
	})
}

func rand2(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(most)))
}

// TestL04StuckStore: a call that hangs and ignores its context blocked the renewal loop past its
// deadline.
func TestL04StuckStore(t *testing.T) {
	for name, make := range map[string]func(*kvsynctest.Client) *kvsync.Lease{
		"a lease": func(c *kvsynctest.Client) *kvsync.Lease { return kvsync.NewLease(c, theKey, "a/daemon", ttl) },
		"a member": func(c *kvsynctest.Client) *kvsync.Lease {
			return kvsync.NewLeaseGroup(c, "g.", "a/daemon", ttl).Get("x")
		},
		"a member unwatched": func(c *kvsynctest.Client) *kvsync.Lease {
			return kvsync.NewLeaseGroup(c, "g.", "a/daemon", ttl).Get("x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := kvsynctest.NewServer()
				c := srv.Client("inc-a")
				l := make(c)
				goroutines := runtime.NumGoroutine()
				lock(t, l)
				lost, landed := l.Lost(), time.Now()
				release := stick(c)
				if strings.HasSuffix(name, "unwatched") {
					srv.BreakWatches() // so that the group looks at its members itself
				}
				<-lost
				require.Equal(t, valid, time.Since(landed))
				require.False(t, l.Held())
				require.Less(t, runtime.NumGoroutine()-goroutines, 30, "stuck calls do not pile up")
				close(release)
				c.SetFault(nil)
				time.Sleep(2 * ttl)
				synctest.Wait()
				require.Less(t, runtime.NumGoroutine()-goroutines, 5, "nothing is left when the store lets go")

				tok, err := l.Lock(t.Context())
				require.NoError(t, err)
				release = stick(c)
				start := time.Now()
				l.Unlock(t.Context(), tok)
				require.LessOrEqual(t, time.Since(start), 5*time.Second)
				require.False(t, l.Held())
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start = time.Now()
				_, err = l.TryLock(ctx)
				require.Error(t, err)
				require.LessOrEqual(t, time.Since(start), time.Second)
				close(release)
				time.Sleep(ttl) // what could not be ended in time ends by itself
			})
		})
	}
}

// stick makes every later call of c hang, whatever its context says, until the channel is closed.
func stick(c *kvsynctest.Client) chan struct{} {
	release := make(chan struct{})
	c.SetFault(all(kvsynctest.Fate{Stuck: release}))
	return release
}

// TestL05OutageEndsByItself: after failed renewals the process stayed up, healthy, not leading and not
// campaigning.
func TestL05OutageEndsByItself(t *testing.T) {
	for name, fate := range map[string]kvsynctest.Fate{
		"errors":                  {Err: kvsync.ErrUnavailable},
		"silence":                 {Lost: true},
		"calls that never return": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := kvsynctest.NewServer()
				a := campaign(t, srv, "a", nil)
				if name == "calls that never return" {
					release := stick(a.client)
					t.Cleanup(func() { close(release) }) // also long after the store has healed
				} else {
					a.client.SetFault(all(fate))
				}
				time.Sleep(5 * ttl)
				require.Equal(t, int32(1), a.lost.Load())
				a.client.SetFault(nil)
				time.Sleep(2*ttl + eps)
				require.Equal(t, int32(2), a.gained.Load())
				require.True(t, a.lease.Held())
				a.stop()
				<-a.done
			})
		})
	}
}

// TestL06UnlockRacesARenewal: a release met its own renewal in flight, took the conflict for a loss and
// gave up; followers waited for the whole lease.
func TestL06UnlockRacesARenewal(t *testing.T) {
	type race func(*kvsynctest.Client)
	for name, begin := range map[string]race{
		"landed, its reply is under way": func(a *kvsynctest.Client) {
			a.SetFault(only(kvsynctest.Swap, kvsynctest.Fate{Reply: 900 * time.Millisecond}))
		},
		"landed, never answered": func(a *kvsynctest.Client) {
			a.SetFault(only(kvsynctest.Swap, kvsynctest.Fate{Unanswered: true}))
		},
		"not applied yet, so that deletes are refused": func(a *kvsynctest.Client) {
			applied := time.Now().Add(renew + 50*time.Millisecond)
			a.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
				switch {
				case r.Kind == kvsynctest.Swap:
					return kvsynctest.Fate{Delay: time.Until(applied)}
				case r.Kind == kvsynctest.Delete && time.Now().Before(applied):
					return kvsynctest.Fate{Err: kvsync.ErrRevisionMismatch}
				}
				return kvsynctest.Fate{}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, a, _, la, lb := two(t)
				tok := lock(t, la)
				won := make(chan time.Time, 1)
				go func() {
					tok, err := lb.Lock(t.Context())
					won <- time.Now()
					if assert.NoError(t, err) {
						lb.Unlock(context.WithoutCancel(t.Context()), tok)
					}
				}()
				begin(a)
				time.Sleep(renew + eps) // a renewal has left
				start := time.Now()
				la.Unlock(t.Context(), tok)
				require.LessOrEqual(t, (<-won).Sub(start), 200*time.Millisecond)
			})
		})
	}
}

// TestL07EqualNames: two replicas of one name adopted each other's record and both led.
func TestL07EqualNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		a, b := srv.Client("inc-1"), srv.Client("inc-2")
		la, lb := kvsync.NewLease(a, theKey, "n1/daemon", ttl), kvsync.NewLease(b, theKey, "n1/daemon", ttl)
		ga, gb := kvsync.NewLeaseGroup(a, "g.", "n1/daemon", ttl).Get("x"), kvsync.NewLeaseGroup(b, "g.", "n1/daemon", ttl).Get("x")
		first := lock(t, la)
		lock(t, ga)
		time.Sleep(eps) // between two renewals
		for range 10 * int(ttl/renew) {
			_, err := lb.TryLock(t.Context())
			requireHeld(t, err, "n1/daemon")
			_, err = gb.TryLock(t.Context())
			requireHeld(t, err, "n1/daemon")
			time.Sleep(renew)
			require.True(t, la.Held() && ga.Held())
		}
		a.SetFault(all(kvsynctest.Fate{Lost: true})) // it dies, which nobody can prove
		_, err := lb.TryLock(t.Context())
		requireHeld(t, err, "n1/daemon")
		time.Sleep(ttl - eps)
		_, err = lb.TryLock(t.Context())
		requireHeld(t, err, "n1/daemon")
		time.Sleep(2 * eps)
		second := lock(t, lb)
		require.Greater(t, second.Generation, first.Generation)
	})
}

// TestL08WorkThatDoesNotStop: a lease was released, or lapsed, while guarded work still ran.
func TestL08WorkThatDoesNotStop(t *testing.T) {
	for name, work := range map[string]time.Duration{"stops in time": (ttl - valid) - time.Second, "overruns": 2 * ttl} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			old := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			defer slog.SetDefault(old)
			synctest.Test(t, func(t *testing.T) {
				srv := kvsynctest.NewServer()
				a := campaign(t, srv, "a", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(work); return nil })
				b := campaign(t, srv, "b", nil)
				time.Sleep(renew + eps)
				a.stop()
				stopped := time.Now()
				<-until(func() bool { return b.gained.Load() == 1 })
				after := time.Since(stopped)
				<-a.done
				overrun := withReason(a.client.Events(), "overrun")
				if work < ttl-valid {
					require.InDelta(t, float64(work), float64(after), float64(50*time.Millisecond), "released when the work stopped")
					require.Zero(t, overrun)
					return
				}
				require.GreaterOrEqual(t, after, ttl-renew, "never released early")
				require.LessOrEqual(t, after, ttl-valid+ttl+eps, "and left to lapse when its time to stop was over")
				require.Equal(t, 1, overrun, "the metric's event")
				require.Equal(t, 2*ttl, time.Since(stopped), "the election ends with the work")
			})
			require.Equal(t, work > ttl-valid, strings.Contains(log.String(), "level=ERROR"))
		})
	}
}

// withReason counts the events with a reason.
func withReason(events []kvsync.Event, reason string) (n int) {
	for _, e := range events {
		if e.Reason == reason {
			n++
		}
	}
	return n
}
