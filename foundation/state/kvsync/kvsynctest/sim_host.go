package kvsynctest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// host is one machine: a clock, a name, and one process after the other.
type host struct {
	w       *world
	number  int
	rate    float64
	nominal time.Duration // T by its own clock
	timeout time.Duration
	stopped chan struct{} // closed by stop

	// Guarded by w.mu.
	current *life
	end     context.CancelFunc // of the current life
	restart time.Duration      // how long after its end the next begins
}

func newHost(w *world, number int) *host {
	rng := rand.New(rand.NewPCG(w.Seed, hashOf("host", fmt.Sprint(number))))
	p := w.Profile
	h := &host{w: w, number: number, rate: p.MinRate + rng.Float64()*(p.MaxRate-p.MinRate), nominal: simTTL, stopped: make(chan struct{})}
	if rng.IntN(3) == 0 { // the extremes are where it is decided
		h.rate = p.MinRate
	} else if rng.IntN(2) == 0 {
		h.rate = p.MaxRate
	}
	if p.MixedTTL && rng.IntN(4) == 0 {
		h.nominal *= 2
	}
	h.timeout = h.ttl() / time.Duration(4+rng.IntN(8))
	return h
}

// run lives one process after the other until stop.
func (h *host) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for number := 0; ; number++ {
		lctx, end := context.WithCancel(ctx)
		l := h.begin(number, end)
		for _, key := range h.w.play {
			rng := rand.New(rand.NewPCG(h.w.Seed, hashOf("driver", l.incarnation, key)))
			wg.Go(func() { l.contend(lctx, key, rng) })
		}
		select {
		case <-lctx.Done():
		case <-h.stopped:
			end()
			return
		}
		h.w.mu.Lock()
		pause := h.restart
		h.w.mu.Unlock()
		select {
		case <-time.After(pause):
		case <-h.stopped:
			return
		}
	}
}

// ttl is T in the bubble's time.
func (h *host) ttl() time.Duration { return time.Duration(float64(h.nominal) / h.rate) }

func (h *host) stop() { close(h.stopped) }

func (h *host) begin(number int, end context.CancelFunc) *life {
	l := &life{
		w: h.w, host: h.number, number: number, name: fmt.Sprintf("h%d/daemon", h.number), incarnation: fmt.Sprintf("h%d.%d", h.number, number),
		rate: h.rate, ttl: h.ttl(), timeout: h.timeout,
		leases: map[string]*kvsync.Lease{}, counts: map[uint64]uint64{},
	}
	var group *kvsync.LeaseGroup
	for _, key := range h.w.play {
		name, member := strings.CutPrefix(key, simGroup)
		switch {
		case strings.HasPrefix(key, simClaims):
		case !member:
			l.leases[key] = kvsync.NewLease(l, key, l.name, l.ttl)
		default:
			if group == nil {
				group = kvsync.NewLeaseGroup(l, simGroup, l.name, l.ttl)
			}
			l.leases[key] = group.Get(name)
		}
	}
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.w.lives = append(h.w.lives, l)
	h.current, h.end = l, end
	return l
}

// suspend stops the process for a while, as SIGSTOP or a paused virtual machine does.
func (h *host) suspend(lasts time.Duration) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.current.pausedUntil = time.Now().Add(lasts)
	h.w.noteLocked(h.current, "suspend", "", uint64(lasts), nil)
}

// cut takes the process off the network for a while. What it sends meanwhile is dropped or arrives late.
func (h *host) cut(lasts time.Duration) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.current.cutUntil = time.Now().Add(lasts)
	h.current.holds = lasts%2 == 0
	h.w.noteLocked(h.current, "cut", "", uint64(lasts), nil)
}

// crash kills the process; the next one starts after a while.
func (h *host) crash(restart time.Duration) {
	h.w.mu.Lock()
	h.current.dead = true
	h.restart = restart
	h.w.noteLocked(h.current, "crash", "", uint64(restart), nil)
	end := h.end
	h.w.mu.Unlock()
	end()
}

// contend is what a process does about one key until its end.
func (l *life) contend(ctx context.Context, key string, rng *rand.Rand) {
	l.nap(ctx, rng, l.ttl/4)
	switch lease := l.leases[key]; {
	case lease == nil:
		l.claim(ctx, kvsync.NewClaim(l, key, l.name), key, rng)
	case !strings.HasPrefix(key, simGroup) && rng.IntN(3) == 0:
		l.elect(ctx, lease, key, rng)
	default:
		l.lock(ctx, lease, key, rng)
	}
}

// nap sleeps for a random time of at most d.
func (l *life) nap(ctx context.Context, rng *rand.Rand, d time.Duration) {
	_ = sleep(ctx, 1+time.Duration(rng.Int64N(int64(d))))
	l.thaw(rng)
}

// lock acquires and releases a lease again and again, in each of the ways that there are.
func (l *life) lock(ctx context.Context, lease *kvsync.Lease, key string, rng *rand.Rand) {
	for ctx.Err() == nil {
		var tok kvsync.Token
		var err error
		wait, cancel := context.WithTimeout(ctx, 1+time.Duration(rng.Int64N(int64(2*l.ttl))))
		if rng.IntN(2) == 0 {
			tok, err = lease.TryLock(wait)
		} else {
			tok, err = lease.Lock(wait)
		}
		cancel()
		if err != nil {
			l.nap(ctx, rng, l.ttl/4)
			continue
		}
		l.w.grantedTo(l, key, tok)
		l.work(ctx, lease.Lost(), key, tok, rng)
		switch rng.IntN(8) {
		case 0:
			_ = lease.Transfer(context.WithoutCancel(ctx), tok, fmt.Sprintf("h%d/daemon", rng.IntN(l.w.hosts)))
		case 1: // until it is lost, or the process ends
			select {
			case <-lease.Lost():
			case <-ctx.Done():
			case <-time.After(2 * l.ttl):
			}
			fallthrough
		default:
			lease.Unlock(ctx, tok)
		}
		l.nap(ctx, rng, l.ttl/8)
	}
}

func (l *life) elect(ctx context.Context, lease *kvsync.Lease, key string, rng *rand.Rand) {
	kvsync.RunElection(ctx, lease, func(term context.Context) error {
		tok, held := lease.Token()
		if !held {
			return nil
		}
		l.w.grantedTo(l, key, tok)
		l.work(term, term.Done(), key, tok, rng)
		if rng.IntN(2) == 0 {
			return errors.New("it fails")
		}
		return nil
	}, nil)
}

// work writes under the fence of key for a random time, whether or not the lease is still held: a
// worker may always be late.
func (l *life) work(ctx context.Context, lost <-chan struct{}, key string, tok kvsync.Token, rng *rand.Rand) {
	rev, err := l.stamp(ctx, key, tok)
	for range rng.IntN(6) {
		l.nap(ctx, rng, l.ttl/3)
		if err == nil {
			err = l.guarded(ctx, key, tok, rev)
		}
		select {
		case <-lost:
			if rng.IntN(2) == 0 {
				return
			}
		default:
		}
	}
}

// stamp raises the fence of key to tok's generation, as kvstore's Fence does by compare-and-swap.
func (l *life) stamp(ctx context.Context, key string, tok kvsync.Token) (rev uint64, err error) {
	return exchange(ctx, l, Swap, "_fence."+key, func(lot) (uint64, error) {
		w := l.w
		w.mu.Lock()
		defer w.mu.Unlock()
		f := w.fences[key]
		if f == nil {
			f = &fence{}
			w.fences[key] = f
		}
		switch {
		case f.generation > tok.Generation:
			return 0, kvsync.ErrLost
		case f.generation < tok.Generation:
			f.generation = tok.Generation
			f.rev++
		}
		return f.rev, nil
	})
}

// guarded is a write that carries the condition that the fence is still at rev.
func (l *life) guarded(ctx context.Context, key string, tok kvsync.Token, rev uint64) error {
	_, err := exchange(ctx, l, Swap, "status."+key, func(lot) (uint64, error) {
		w := l.w
		w.mu.Lock()
		defer w.mu.Unlock()
		f := w.fences[key]
		if f.rev != rev {
			w.rep.Refused++
			return 0, kvsync.ErrLost
		}
		if tok.Generation < f.written {
			w.violatedLocked("S4: a guarded write of generation %d is taken after one of %d", tok.Generation, f.written)
		}
		f.written = tok.Generation
		w.rep.GuardedWrites++
		return rev, nil
	})
	if errors.Is(err, kvsync.ErrUnavailable) || errors.Is(err, kvsync.ErrRevisionMismatch) {
		return nil // it goes on trying
	}
	return err
}

// claim locks, takes over and unlocks a claim.
func (l *life) claim(ctx context.Context, c *kvsync.Claim, key string, rng *rand.Rand) {
	for ctx.Err() == nil {
		tok, err := c.TryLock(ctx)
		held, ok := errors.AsType[*kvsync.HeldError](err)
		if ok && held.Current.Generation > 0 && held.Current.Holder != l.name && rng.IntN(4) == 0 {
			l.w.mu.Lock()
			l.from = append(l.from, held.Current)
			l.w.mu.Unlock()
			tok, err = c.TakeOver(ctx, held.Current)
		}
		if err == nil {
			l.w.claimed(l, key, tok)
		}
		l.nap(ctx, rng, l.ttl/3)
		if err != nil {
			continue
		}
		l.w.unclaimed(l, key, tok)
		for ctx.Err() == nil {
			if err = c.Unlock(ctx, tok); !errors.Is(err, kvsync.ErrUnavailable) {
				break
			}
			l.nap(ctx, rng, l.ttl/8)
		}
	}
}
