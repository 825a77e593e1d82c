package kvsync_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
)

// candidate is one process of an election and what it has been through.
type candidate struct {
	client *kvsynctest.Client
	lease  *kvsync.Lease
	gained atomic.Int32
	lost   atomic.Int32
	stop   context.CancelFunc
	done   chan struct{}
}

func campaign(t *testing.T, srv *kvsynctest.Server, name string, onGained func(context.Context) error) *candidate {
	t.Helper()
	c := &candidate{client: srv.Client("inc-" + name), done: make(chan struct{})}
	c.lease = kvsync.NewLease(c.client, theKey, name+"/daemon", ttl)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	c.stop = stop
	go func() {
		defer close(c.done)
		kvsync.RunElection(ctx, c.lease, func(ctx context.Context) error {
			c.gained.Add(1)
			if onGained != nil {
				return onGained(ctx)
			}
			return nil
		}, func() { c.lost.Add(1) })
	}()
	t.Cleanup(func() { stop(); <-c.done })
	synctest.Wait()
	return c
}

func TestElectionHandsOverOnStopAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		a := campaign(t, srv, "a", nil)
		b := campaign(t, srv, "b", nil)
		require.True(t, a.lease.Held())
		time.Sleep(time.Hour)
		require.Equal(t, int32(1), a.gained.Load())
		start := time.Now()
		a.stop()
		<-a.done
		require.Equal(t, int32(1), a.lost.Load())
		<-until(func() bool { return b.gained.Load() == 1 })
		require.Less(t, time.Since(start), 50*time.Millisecond)
	})
}

// until closes its channel once f is true; it looks every virtual millisecond.
func until(f func() bool) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !f() {
			time.Sleep(time.Millisecond)
		}
	}()
	return done
}

func TestElectionOrderOnTheWayOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		steps := make(chan string, 3)
		c := srv.Client("a")
		l := kvsync.NewLease(c, theKey, "a/daemon", ttl)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		held := func() string {
			v, _ := srv.Value(theKey)
			return map[bool]string{true: "held", false: "free"}[v != nil]
		}
		go func() {
			defer close(done)
			kvsync.RunElection(ctx, l, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				steps <- "work " + held()
				return nil
			}, func() { steps <- "lost " + held() })
		}()
		time.Sleep(time.Second)
		stop()
		<-done
		require.Equal(t, "lost held", <-steps)
		require.Equal(t, "work held", <-steps)
		require.Equal(t, "free", held())
	})
}

func TestElectionOverrunIsLeftToLapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		release := make(chan struct{})
		a := campaign(t, srv, "a", func(context.Context) error { <-release; return nil }) // ignores its context
		b := campaign(t, srv, "b", nil)
		a.stop()
		stopped := time.Now()
		time.Sleep(ttl - valid + eps)
		v, _ := srv.Value(theKey)
		require.Contains(t, string(v), "a/daemon", "no early release")
		require.False(t, a.lease.Held())
		<-until(func() bool { return b.gained.Load() == 1 })
		require.GreaterOrEqual(t, time.Since(stopped), ttl)
		ev := a.client.Events()
		require.Equal(t, "overrun", ev[len(ev)-1].Reason)
		close(release)
	})
}

func TestElectionFailedWorkStandsDown(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("no fence") },
		"panic": func() error { panic("no fence") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := kvsynctest.NewServer()
				var broken atomic.Bool
				broken.Store(true)
				a := campaign(t, srv, "a", func(context.Context) error {
					time.Sleep(time.Second)
					if broken.Load() {
						return fail()
					}
					return nil
				})
				b := campaign(t, srv, "b", nil)
				time.Sleep(2 * time.Second)
				require.True(t, b.lease.Held(), "a healthy peer wins")
				require.Zero(t, a.lost.Load(), "onLost does not fire for it")
				broken.Store(false)
				b.stop()
				<-b.done
				time.Sleep(ttl)
				require.True(t, a.lease.Held())
			})
		})
	}
}

func TestElectionLossFiresOnceAndResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		cause := make(chan error, 1)
		a := campaign(t, srv, "a", func(ctx context.Context) error { <-ctx.Done(); cause <- context.Cause(ctx); return nil })
		a.client.SetFault(all(kvsynctest.Fate{Err: kvsync.ErrUnavailable}))
		time.Sleep(valid + eps)
		require.ErrorIs(t, <-cause, kvsync.ErrLost)
		require.Equal(t, int32(1), a.lost.Load())
		time.Sleep(time.Hour)
		require.Equal(t, int32(1), a.gained.Load())
		a.client.SetFault(nil)
		time.Sleep(2*ttl + eps)
		require.Equal(t, int32(2), a.gained.Load(), "an outage ends by itself")
		require.Equal(t, int32(1), a.lost.Load())
	})
}

func TestElectionCancelledBeforeItLed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		srv.Set(theKey, []byte(`{"holder":"x","generation":0,"nonce":"n"}`))
		a := campaign(t, srv, "a", nil)
		time.Sleep(time.Second)
		before := srv.Writes()
		a.stop()
		<-a.done
		require.Zero(t, a.gained.Load()+a.lost.Load())
		require.Equal(t, before, srv.Writes())
	})
}

func TestElectionSurvivesASilentOrBrokenWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		a := campaign(t, srv, "a", nil)
		b := campaign(t, srv, "b", nil)
		srv.BreakWatches()
		time.Sleep(ttl) // the backstop reopens it
		start := time.Now()
		a.stop()
		<-until(func() bool { return b.gained.Load() == 1 })
		require.Less(t, time.Since(start), 50*time.Millisecond)
	})
}

// TestElectionIntervalsNeverOverlap records every term of many nodes whose requests fail at random.
func TestElectionIntervalsNeverOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		var leading atomic.Int32
		var terms, overlaps atomic.Int32
		var last atomic.Uint64
		nodes := make([]*candidate, 0, 8)
		for i := range 8 {
			c := campaign(t, srv, fmt.Sprintf("n%d", i), func(ctx context.Context) error {
				if leading.Add(1) > 1 {
					overlaps.Add(1)
				}
				defer leading.Add(-1)
				terms.Add(1)
				<-ctx.Done()
				return nil
			})
			nodes = append(nodes, c)
		}
		for round := range 40 {
			for i, c := range nodes {
				faulty := (round+i)%3 == 0
				c.client.SetFault(func(r kvsynctest.Request) kvsynctest.Fate {
					switch {
					case !faulty:
						return kvsynctest.Fate{}
					case r.N%5 == 0:
						return kvsynctest.Fate{Late: 700 * time.Millisecond}
					default:
						return kvsynctest.Fate{Lost: true}
					}
				})
				if tok, ok := c.lease.Token(); ok {
					require.GreaterOrEqual(t, tok.Generation, last.Load())
					last.Store(tok.Generation)
				}
			}
			time.Sleep(ttl)
		}
		require.Greater(t, terms.Load(), int32(5), "leadership moved")
		require.Zero(t, overlaps.Load(), "two leaders at one instant")
		for _, c := range nodes {
			c.client.SetFault(nil)
		}
	})
}

func TestElectionHandOverMakesNoHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		nodes := make([]*candidate, 0, 20)
		for i := range 20 {
			nodes = append(nodes, campaign(t, srv, fmt.Sprintf("n%d", i), nil))
			nodes[i].client.SetFault(all(kvsynctest.Fate{Delay: 200 * time.Microsecond, Reply: 200 * time.Microsecond}))
		}
		time.Sleep(time.Minute)
		tries := func() (n int) {
			for _, c := range nodes {
				n += c.client.Count(kvsynctest.Swap)
			}
			return n
		}
		var late int
		for hand := range 15 {
			for i, c := range nodes {
				if !c.lease.Held() {
					continue
				}
				before := tries() // the first are sent before the leader knows that its delete has landed
				c.stop()
				<-c.done
				time.Sleep(time.Second)
				if hand >= 5 {
					late += tries() - before
				}
				nodes = append(nodes[:i], nodes[i+1:]...)
				break
			}
		}
		require.LessOrEqual(t, late, 10*4, "after a few races the crowd spreads out")
	})
}

func TestObserveAndBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, b, la, lb := two(t)
		ctx, cancel := context.WithCancel(t.Context())
		changes, err := kvsync.Observe(ctx, b, "dns.")
		require.NoError(t, err)
		tok := lock(t, la)
		require.Equal(t, kvsync.Change{Key: theKey, Token: tok, Why: kvsync.WhyAcquired}, <-changes)
		time.Sleep(time.Minute) // renewals are no changes
		la.Unlock(ctx, tok)
		require.Equal(t, kvsync.Change{Key: theKey, Token: tok, Why: kvsync.WhyReleased}, <-changes)
		tok = lock(t, lb)
		require.Equal(t, kvsync.WhyAcquired, (<-changes).Why)
		err = kvsync.Break(ctx, b, theKey, kvsync.Token{Holder: "b/daemon", Generation: tok.Generation + 1}, "r")
		requireHeld(t, err, "b/daemon")
		require.NoError(t, kvsync.Break(ctx, b, theKey, tok, "stuck"))
		require.Equal(t, kvsync.Change{Key: theKey, Token: tok, Why: kvsync.WhyBroken}, <-changes)
		v, _ := srv.Value(theKey)
		require.Empty(t, v)
		cancel()
		for range changes { //nolint:revive // drained until closed
		}
		_, err = kvsync.Observe(t.Context(), valueOnly{b}, "dns.")
		require.ErrorIs(t, err, errors.ErrUnsupported)
	})
}

// valueOnly hides everything but the KVStore.
type valueOnly struct{ kvsync.KVStore }

func TestConformanceOfTheFaultStore(t *testing.T) {
	kvsynctest.Conformance(t, func(*testing.T) kvsync.KVStore { return kvsynctest.NewServer().Client("i") })
}
