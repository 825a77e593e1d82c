package kvsync

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// The parts of a lease's time to live T. Only T can be chosen.
const (
	renewPart    = 6  // R = T/6: a renewal follows the last landed write by this
	retryPart    = 24 // a renewal without an answer is sent again after T/24
	pollPart     = 3  // a contender looks at least every T/3
	minRetry     = time.Millisecond
	unlockBudget = 5 * time.Second // of a delete on the way out
	maxGhosts    = 16              // nonces remembered of writes that may land late
	acquireTries = 3
)

// validity is V: how long after sending its last landed write a holder may believe.
func validity(ttl time.Duration) time.Duration { return ttl * 2 / 3 }

// Lease is ownership of a key that lapses unless it is renewed. While held it renews itself. It
// excludes like a sync.Mutex within the process and can be acquired again after it ended.
//
// All methods may be called from any goroutine.
type Lease struct {
	store  KVStore
	key    string
	holder string
	ttl    time.Duration
	group  *LeaseGroup // nil for a lease of its own
	morgue *morgue

	mu     sync.Mutex // guards everything below; never held across a call of the store
	busy   bool       // an acquisition or a release is under way
	dead   bool       // forgotten by its group
	acq    *acquisition
	obs    observation
	ghosts []string      // nonces of own writes whose outcome was never learned
	closed chan struct{} // what Lost answers before the first acquisition
	gone   chan struct{} // closed when the lease is forgotten
	warned bool          // an undecodable record has been logged
	rng    *rand.Rand    // of jitter; nil until it is needed
	desk   chan handOver // where the leader of RunElection takes requests; nil without one
	pushed uint64        // highest revision of the key that the watch of its group has shown
}

// acquisition is one term of holding the lease. Its mutable fields are guarded by the lease's mutex.
type acquisition struct {
	tok     Token
	began   time.Time          // when the acquiring write was sent
	session *session           // that keeps it, in a group; then nothing below is renewed
	rev     uint64             // of the last landed write
	nonce   string             // of it
	sent    instant            // when the last landed write was sent
	pending map[string]instant // nonces of renewals whose outcome is not known, with their send times
	ended   bool
	cancels map[int]context.CancelCauseFunc // of the contexts made for it
	nextID  int
	lost    chan struct{} // closed when the acquisition ends
	keeper  *time.Timer   // starts the renewals when the first is due
}

// observation is what a contender has seen, by its own monotonic clock.
type observation struct {
	rev     uint64
	nonce   string
	ttl     time.Duration
	tok     Token
	session string    // key of the session that keeps it, if one does
	since   time.Time // zero: nothing is being observed
}

// NewLease makes the lease of key for holder with time to live ttl. It does no I/O. It panics on a
// wiring error: a nil store, an empty holder, a ttl that is not positive, a key that the store cannot take or that is
// already constructed against this store value.
func NewLease(store KVStore, key, holder string, ttl time.Duration) *Lease {
	mustStore(store)
	mustHolder(holder)
	mustTTL(ttl)
	mustKey(key)
	wired.addKey(store, key)
	return newLease(store, key, holder, ttl)
}

func mustTTL(ttl time.Duration) {
	if ttl <= 0 {
		panic(fmt.Sprintf("kvsync: ttl %v is not positive: choose T only, at least 24 times the store's round trip", ttl))
	}
}

func newLease(store KVStore, key, holder string, ttl time.Duration) *Lease {
	l := &Lease{store: store, key: key, holder: holder, ttl: ttl, morgue: newMorgue(store, ttl), closed: make(chan struct{}), gone: make(chan struct{})}
	close(l.closed)
	return l
}

// Key returns the lease's key.
func (l *Lease) Key() string { return l.key }

// TTL returns T.
func (l *Lease) TTL() time.Duration { return l.ttl }

// Held reports whether this process holds the lease at this instant, by the clock: it is false past
// the deadline even if nothing of this process has run since.
func (l *Lease) Held() bool { return l.ValidFor() > 0 }

// ValidFor is how much longer the lease may be believed without another renewal; 0 when not held.
func (l *Lease) ValidFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.validForLocked(readClock())
}

func (l *Lease) validForLocked(now instant) time.Duration {
	if l.acq == nil || l.acq.ended {
		return 0
	}
	if l.acq.session != nil {
		return l.acq.session.lease.ValidFor()
	}
	return max(0, validity(l.ttl)-l.acq.sent.heldSince(now))
}

// Token returns the current acquisition, or false when the lease is not held.
func (l *Lease) Token() (Token, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.validForLocked(readClock()) <= 0 {
		return Token{}, false
	}
	return l.acq.tok, true
}

// Since is when the current acquisition was sent, or false when the lease is not held. It is for people,
// not for decisions.
func (l *Lease) Since() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.validForLocked(readClock()) <= 0 {
		return time.Time{}, false
	}
	return l.acq.began, true
}

// Lost returns a channel that is closed when the current acquisition ends, by loss or Unlock. Each
// acquisition has its own; before the first it is closed.
func (l *Lease) Lost() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acq == nil {
		return l.closed
	}
	return l.acq.lost
}

// Context returns a child of parent that ends with cause ErrLost when the current acquisition ends.
// When the lease is not held it has ended already.
func (l *Lease) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.acq
	if l.validForLocked(readClock()) <= 0 {
		cancel(ErrLost)
		return ctx
	}
	id := a.nextID
	a.nextID++
	if a.cancels == nil {
		a.cancels = map[int]context.CancelCauseFunc{}
	}
	a.cancels[id] = cancel
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(a.cancels, id)
	})
	return ctx
}

// TryLock acquires the lease or says why not: *HeldError when another holder has it, or this process
// does already; ErrUnavailable when the store could not be asked; ErrUnknownOutcome when the write may
// still land, in which case the next TryLock of this Lease adopts it and others wait T.
func (l *Lease) TryLock(ctx context.Context) (Token, error) {
	l.mu.Lock()
	if l.acq != nil && !l.acq.ended && l.validForLocked(readClock()) <= 0 {
		l.endLocked(l.acq, EventLost, "expired") // its keeper has not run yet, such as after a suspend
	}
	switch {
	case l.dead:
		l.mu.Unlock()
		return Token{}, fmt.Errorf("lease %s was forgotten: %w", l.key, ErrLost)
	case l.busy || l.acq != nil && !l.acq.ended:
		err := &HeldError{Key: l.key, Current: Token{Holder: l.holder}}
		if l.acq != nil {
			err.Current = l.acq.tok
		}
		l.mu.Unlock()
		return Token{}, err
	}
	l.busy = true
	l.mu.Unlock()

	tok, err := l.acquire(ctx)

	if dead := l.idle(ctx); err == nil && dead { // forgotten while the write was under way
		l.Unlock(ctx, tok)
		return Token{}, fmt.Errorf("lease %s was forgotten: %w", l.key, ErrLost)
	}
	return tok, err
}

// Unlock ends the acquisition that tok names and frees the key; it does nothing when the lease is not
// held at that generation. It does not wait for a stuck renewal, and takes at most 5 s whatever ctx
// and the store do.
func (l *Lease) Unlock(ctx context.Context, tok Token) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockBudget)
	defer cancel()
	l.unlock(ctx, tok)
}

// unlock is Unlock within ctx.
func (l *Lease) unlock(ctx context.Context, tok Token) {
	l.mu.Lock()
	a := l.acq
	if a == nil || a.ended || a.tok.Generation != tok.Generation {
		l.mu.Unlock()
		return
	}
	rev, pending := l.releaseLocked(a, "unlocked")
	l.mu.Unlock()
	if !l.erase(ctx, rev, pending) {
		l.leave(a.session, rev, a.nonce, pending)
	}
	l.idle(ctx)
}

// idle ends an acquisition or release, and with the last one of a group its session, unless ctx is over:
// then the session's keeper ends it later.
func (l *Lease) idle(ctx context.Context) (dead bool) {
	l.mu.Lock()
	l.busy = false
	dead = l.dead
	held := l.acq != nil && !l.acq.ended
	l.mu.Unlock()
	if l.group != nil && !held && ctx.Err() == nil {
		l.group.retire(ctx)
	}
	return dead
}

// releaseLocked ends a and keeps the lease busy until its key is out of the way.
func (l *Lease) releaseLocked(a *acquisition, reason string) (rev uint64, pending map[string]instant) {
	l.endLocked(a, EventReleased, reason)
	l.busy = true
	return a.rev, maps.Clone(a.pending)
}

// endLocked ends an acquisition: its contexts are cancelled before anybody learns of it otherwise.
func (l *Lease) endLocked(a *acquisition, kind EventKind, reason string) {
	if a.ended {
		return
	}
	a.ended = true
	if a.keeper != nil {
		a.keeper.Stop()
	}
	for _, cancel := range a.cancels {
		cancel(ErrLost)
	}
	clear(a.cancels)
	close(a.lost)
	emit(l.store, Event{Kind: kind, Key: l.key, Token: a.tok, Reason: reason})
}

// lose ends a with a loss, unless it has ended.
func (l *Lease) lose(a *acquisition, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(a, EventLost, reason)
}

// erase deletes the key at rev. After a refusal it looks: a pending renewal of the same acquisition that
// landed meanwhile is deleted, one that is still being applied is waited for. It reports whether the key
// is certainly out of the way, which it may not be when ctx ends or after some failures.
func (l *Lease) erase(ctx context.Context, rev uint64, pending map[string]instant) bool {
	wait := quickRetry
	for failures := 0; failures < acquireTries; {
		err := remove(ctx, l.store, l.key, rev)
		if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrStoreRegressed) {
			return true
		}
		if !errors.Is(err, ErrRevisionMismatch) {
			failures++
			if !pause(ctx, retryAfter(l.ttl)) {
				return false
			}
		}
		saw := load(ctx, l.store, l.key)
		_, ours := pending[saw.rec.Nonce]
		switch {
		case saw.err != nil:
			failures++
		case saw.absent: // only a look says so
			return false
		case saw.bad:
			return true
		case saw.rev <= rev: // the refusal was about another write in flight
			if !pause(ctx, l.jitter(wait)) {
				return false
			}
			wait = min(2*wait, retryAfter(l.ttl))
		case !ours:
			return true
		default:
			rev = saw.rev
		}
	}
	return false
}

// leave notes that a record of an ended acquisition may still be there. This lease adopts it at once; others
// wait for it to lapse, or for the group to delete it.
func (l *Lease) leave(s *session, rev uint64, nonce string, pending map[string]instant) {
	l.mu.Lock()
	l.noteGhostLocked(nonce)
	for nonce := range pending {
		l.noteGhostLocked(nonce)
	}
	l.mu.Unlock()
	l.disown(s, orphan{nonce: nonce, rev: rev, due: true})
}

// disown hands a record that this lease does not hold to its group, if it has one.
func (l *Lease) disown(s *session, o orphan) {
	if l.group != nil {
		o.key, o.session = l.key, s.lease.key
		l.group.disown(o)
	}
}

// Transfer hands the lease to another holder: the caller's work has stopped. `to` may take the key at
// once, others after T. The acquisition has ended when Transfer returns, whatever the error.
func (l *Lease) Transfer(ctx context.Context, tok Token, to string) error {
	if to == "" {
		return fmt.Errorf("transfer lease %s: the new holder is empty", l.key)
	}
	l.mu.Lock()
	a := l.acq
	if a == nil || a.ended || a.tok.Generation != tok.Generation {
		l.mu.Unlock()
		return fmt.Errorf("transfer lease %s: %w", l.key, ErrLost)
	}
	rev, pending := l.releaseLocked(a, transferredReason)
	l.mu.Unlock()
	defer l.idle(ctx)
	err := l.hand(ctx, to, rev, pending)
	if err != nil {
		l.leave(a.session, rev, a.nonce, pending)
		return fmt.Errorf("transfer lease %s: %w", l.key, err)
	}
	return nil
}

// hand writes the record that gives the key to another holder.
func (l *Lease) hand(ctx context.Context, to string, rev uint64, pending map[string]instant) error {
	rec := record{Holder: to, Nonce: newNonce(), TTLMillis: millisUp(l.ttl), Reason: transferredReason}
	for range acquireTries {
		o := swap(ctx, l.store, l.key, rec, rev)
		if o.landed {
			return nil
		}
		if o.err != nil {
			return o.err
		}
		if o.saw.err != nil {
			return o.saw.err
		}
		if _, ours := pending[o.saw.rec.Nonce]; !ours && o.saw.rev != rev {
			return ErrLost
		}
		rev = max(rev, o.saw.rev)
	}
	return ErrUnavailable
}

// Do acquires the lease, waiting as Lock does, runs fn under a context that ends with the acquisition,
// and releases it after fn has returned or panicked. A loss during fn is ErrLost, joined to fn's error.
func (l *Lease) Do(ctx context.Context, fn func(context.Context, Token) error) error {
	tok, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	lctx, cancel := context.WithCancel(l.Context(ctx))
	defer l.Unlock(context.WithoutCancel(ctx), tok)
	defer cancel()
	err = fn(lctx, tok)
	if held, ok := l.Token(); !ok || held != tok {
		return errors.Join(err, fmt.Errorf("lease %s: %w", l.key, ErrLost))
	}
	return err
}

func (l *Lease) noteGhostLocked(nonce string) {
	l.ghosts = append(l.ghosts, nonce)
	if len(l.ghosts) > maxGhosts {
		l.ghosts = l.ghosts[len(l.ghosts)-maxGhosts:]
	}
}

// jitter is a random time up to d. Its source is seeded by what tells this lease apart from others, so
// that a simulation in which that is fixed can be repeated.
func (l *Lease) jitter(d time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rng == nil {
		name, _, _ := strings.Cut(l.key, sessionName) // a session's own name is random
		h := fnv.New64a()
		_, _ = h.Write([]byte(incarnationOf(l.store) + " " + l.holder))
		seed := h.Sum64()
		_, _ = h.Write([]byte(name))
		l.rng = rand.New(rand.NewPCG(seed, h.Sum64()))
	}
	return time.Duration(l.rng.Int64N(int64(d) + 1))
}

func retryAfter(ttl time.Duration) time.Duration { return max(minRetry, ttl/retryPart) }

// pause waits for d or until ctx ends, and reports whether it waited the whole time.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
