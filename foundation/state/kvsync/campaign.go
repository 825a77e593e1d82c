package kvsync

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	firstJitter = 20 * time.Millisecond
	maxJitter   = 640 * time.Millisecond
	busyPause   = 5 * time.Millisecond // between looks at a release or acquisition of this process
)

// Lock acquires the lease, waiting for it: it wakes when the key is freed, T after the last write that
// it saw, and at least every T/3; a holder in this process is waited for like a sync.Mutex. It returns
// only with the lease, when ctx ends, or with an error that waiting cannot mend: a store that
// regressed, a lease that was forgotten.
func (l *Lease) Lock(ctx context.Context) (Token, error) {
	c := campaign{lease: l}
	return c.win(ctx)
}

// campaign waits for a lease again and again; its jitter is what it has learned of the crowd.
type campaign struct {
	lease  *Lease
	jitter time.Duration // 0 until a hand-over race has been lost
}

// win waits until the lease is acquired.
func (c *campaign) win(ctx context.Context) (Token, error) {
	w := c.lease.watch(ctx)
	defer w.stop()
	for {
		tok, err := c.try(ctx)
		switch {
		case err == nil:
			c.jitter /= 2
			if c.jitter < firstJitter {
				c.jitter = 0
			}
			return tok, nil
		case ctx.Err() != nil:
			return Token{}, fmt.Errorf("lock lease %s: %w", c.lease.key, context.Cause(ctx))
		case errors.Is(err, ErrLost), errors.Is(err, ErrStoreRegressed):
			return Token{}, err
		case c.lease.waitHere(ctx):
			continue
		}
		if _, held := errors.AsType[*HeldError](err); held {
			c.wait(ctx, w)
		} else if !pause(ctx, max(retryAfter(c.lease.ttl), minRetry)) {
			return Token{}, fmt.Errorf("lock lease %s: %w", c.lease.key, context.Cause(ctx))
		}
	}
}

// try is one TryLock that a stuck store cannot hold for good: an answer that takes T grants nothing.
func (c *campaign) try(ctx context.Context) (Token, error) {
	ctx, cancel := context.WithTimeout(ctx, c.lease.ttl)
	defer cancel()
	return c.lease.TryLock(ctx)
}

// waitHere reports whether this very process was in the way, after waiting until it is no more.
func (l *Lease) waitHere(ctx context.Context) bool {
	l.mu.Lock()
	a, busy := l.acq, l.busy
	live := a != nil && !a.ended
	l.mu.Unlock()
	if live {
		select {
		case <-a.lost:
		case <-ctx.Done():
		}
		return true
	}
	return busy && pause(ctx, busyPause)
}

// wait returns when a try may succeed: the key was freed, the observed record has gone unchanged for
// its time to live, or the backstop's turn has come.
func (c *campaign) wait(ctx context.Context, w *leaseWatch) {
	l := c.lease
	poll := time.Now().Add(l.ttl/pollPart - l.jitter(l.ttl/(4*pollPart)))
	timer := time.NewTimer(0)
	defer timer.Stop()
	freed := false
	for {
		until := time.Until(poll)
		if at, ok := l.expires(); ok && !freed {
			until = min(until, time.Until(at))
		}
		timer.Reset(max(0, until))
		select {
		case <-ctx.Done():
			return
		case <-l.gone:
			return
		case <-timer.C:
			w.reopen(ctx)
			return
		case u, ok := <-w.updates:
			switch {
			case !ok:
				w.broken()
			case l.observe(u):
				if c.jitter == 0 {
					c.jitter = firstJitter // for the next race, if this one is lost
					return
				}
				freed = true
				poll = time.Now().Add(l.jitter(c.jitter))
				c.jitter = min(2*c.jitter, maxJitter)
			case freed && !u.Deleted:
				// Somebody was faster: nothing is sent.
				freed = false
				poll = time.Now().Add(l.ttl/pollPart - l.jitter(l.ttl/(4*pollPart)))
			}
		}
	}
}

// expires is when the observed record may be taken over.
func (l *Lease) expires() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.obs.since.IsZero() {
		return time.Time{}, false
	}
	if l.obs.session != "" {
		return l.morgue.expires(l.obs.session)
	}
	return l.obs.since.Add(max(l.ttl, l.obs.ttl)), true
}

// observe folds a pushed update into the observation and reports whether a try may succeed now. An
// update is only a hint: what it says is believed for waiting, never for granting.
func (l *Lease) observe(u Update) (tryNow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u.Rev < l.obs.rev {
		return false
	}
	if u.Deleted {
		l.obs = observation{rev: u.Rev}
		return true
	}
	rec, err := decodeRecord(u.Value)
	if u.Rev == l.obs.rev && !l.obs.since.IsZero() {
		return false
	}
	l.obs = observation{rev: u.Rev, nonce: rec.Nonce, ttl: rec.ttl(), tok: rec.token(u.Rev), session: rec.Session, since: time.Now()}
	return err == nil && rec.transferred() && rec.Holder == l.holder
}

// leaseWatch is a watch of a key or prefix that may be missing or silent: it only speeds things up.
type leaseWatch struct {
	store   KVStore
	key     string // or prefix
	ttl     time.Duration
	updates <-chan Update // nil while there is none
	cancel  context.CancelFunc
}

func (l *Lease) watch(ctx context.Context) *leaseWatch {
	w := &leaseWatch{store: l.store, key: l.key, ttl: l.ttl}
	w.reopen(ctx)
	return w
}

// reopen opens the watch if there is none. It bounds the opening, so that a stuck store delays a try
// by a fraction of T only.
func (w *leaseWatch) reopen(ctx context.Context) {
	watcher, ok := w.store.(Watcher)
	if !ok || w.updates != nil {
		return
	}
	wctx, cancel := context.WithCancel(ctx)
	open, done := context.WithTimeout(ctx, retryAfter(w.ttl))
	defer done()
	updates, err := bounded(open, w.store, func() (<-chan Update, error) { return watcher.Watch(wctx, w.key) })
	if err != nil {
		cancel()
		return
	}
	w.updates, w.cancel = updates, cancel
}

func (w *leaseWatch) broken() {
	w.stop()
	w.updates = nil
}

func (w *leaseWatch) stop() {
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}
