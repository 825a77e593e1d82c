package kvsynctest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// sessionMark begins the name of a group's session below the group's prefix; what follows is random.
const sessionMark = "=session."

func isSession(key string) bool { return strings.Contains(key, sessionMark) }

// class is a key without what is random in it.
func class(key string) string {
	if i := strings.Index(key, sessionMark); i >= 0 {
		return key[:i+len(sessionMark)]
	}
	return key
}

// hashOf is FNV-1a of the parts.
func hashOf(parts ...string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, p := range parts {
		for i := range len(p) {
			h = (h ^ uint64(p[i])) * prime
		}
		h = h * prime
	}
	return h
}

// wireRecord is what the checker reads of a stored record.
type wireRecord struct {
	Holder, Session, Reason string
	Generation              uint64
}

// readRecord reads what kvsync has written: it is not asked for what others might.
func readRecord(value []byte, rev uint64) (rec wireRecord, ok bool) {
	s := string(value)
	member := func(name, end string) string {
		_, after, found := strings.Cut(s, `"`+name+`":`)
		if !found {
			return ""
		}
		v, _, _ := strings.Cut(strings.TrimPrefix(after, `"`), end)
		return v
	}
	if s == "" {
		return wireRecord{}, false
	}
	rec = wireRecord{Holder: member("holder", `"`), Session: member("session", `"`), Reason: member("reason", `"`)}
	rec.Generation, _ = strconv.ParseUint(strings.TrimSuffix(member("generation", ","), "}"), 10, 64)
	if rec.Generation == 0 {
		rec.Generation = rev
	}
	return rec, true
}

// life is one process of a host, from its start to its death, and its connection to the store. It
// implements kvsync.KVStore, Watcher, Identity, Recorder and Bounded.
//
// Its clock runs at a rate of its own. Inside a bubble there is one clock, so a lease with time to live T
// by a clock of rate r is made with T/r, and the ttl_ms of records is scaled on the way to the store
// and back: everything that kvsync derives from T is scaled alike.
type life struct {
	w           *world
	host        int
	number      int
	name        string
	incarnation string
	rate        float64
	ttl         time.Duration
	timeout     time.Duration

	leases map[string]*kvsync.Lease // by key; fixed before the life begins

	// Guarded by w.mu.
	dead        bool
	pausedUntil time.Time
	cutUntil    time.Time
	holds       bool // what is sent while cut arrives afterwards
	counts      map[uint64]uint64
	from        []kvsync.Token // that it has tried to take over a claim from
}

// runsLocked reports whether the process executes anything at this instant.
func (l *life) runsLocked() bool { return !l.dead && !time.Now().Before(l.pausedUntil) }

// Bounded implements kvsync.Bounded.
func (l *life) Bounded() {}

// Incarnation implements kvsync.Identity.
func (l *life) Incarnation() string { return l.incarnation }

// ProvenDead implements kvsync.Identity: every second host has a lock that proves it of its own past.
func (l *life) ProvenDead(incarnation string) bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.host%2 == 0 {
		return false
	}
	for _, other := range l.w.lives {
		if other.host == l.host && other.incarnation == incarnation {
			return other.dead
		}
	}
	return false
}

// Record implements kvsync.Recorder. It is called with locks held, so it takes none.
func (l *life) Record(e kvsync.Event) {
	if e.Kind == kvsync.EventLost && !isSession(e.Key) {
		l.w.losses.Add(1)
	}
}

// lot is what was drawn for one request.
type lot struct {
	delay, reply, again time.Duration
	lost, unanswered    bool
	back                int // writes that a read lags behind
	err                 error
}

// chance is the source of what happens to one request: by the seed, the process, the kind, the key and how
// many there were before of the same, not by what other requests did, so that a seed repeats.
func (l *life) chance(k Kind, key string) *rand.Rand {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	id := hashOf(string(k), class(key), l.incarnation) + l.w.sessions[key]
	l.counts[id]++
	return rand.New(rand.NewPCG(l.w.Seed^id, l.counts[id]))
}

// draw decides about a request that leaves now.
func (l *life) draw(k Kind, key string, rng *rand.Rand) lot {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.dead {
		return lot{err: fmt.Errorf("%s %s: the process is gone: %w", k, key, kvsync.ErrUnavailable)}
	}
	p := l.w.Profile
	span := func(d time.Duration) time.Duration { return 1 + time.Duration(rng.Int64N(int64(d))) }
	f := lot{delay: span(p.Delay), reply: span(p.Delay)}
	if l.w.healed.Load() {
		return f
	}
	now, cut := time.Now(), time.Duration(0)
	if now.Before(l.cutUntil) {
		cut = l.cutUntil.Sub(now)
	}
	write := k == Swap || k == Delete
	switch at := rng.Float64(); {
	case cut > 0 && !l.holds:
		f.lost = true
	case cut > 0:
		f.delay += cut
	case less(&at, p.Lost):
		f.lost = true
	case less(&at, p.Unanswered):
		f.unanswered = true
	case write && less(&at, p.Late):
		f.delay = l.timeout + span(2*simTTL)
	case less(&at, p.Slow):
		f.delay, f.reply = span(10*p.Delay), span(10*p.Delay)
	case write && less(&at, p.Duplicate):
		f.again = span(simTTL)
	case write && less(&at, p.InFlight):
		f.err = fmt.Errorf("%s %s: another is in flight: %w", k, key, kvsync.ErrRevisionMismatch)
	case less(&at, p.Down):
		f.err = fmt.Errorf("%s %s: no connection: %w", k, key, kvsync.ErrUnavailable)
	case k == Load && less(&at, p.Stale):
		f.back = 1 + rng.IntN(3)
	}
	return f
}

// less consumes a probability of what is left of at.
func less(at *float64, p float64) bool {
	if *at < p {
		return true
	}
	*at -= p
	return false
}

// thaw waits while the process is suspended: whatever its caller's context says, it does not run. What
// wakes then runs in an order of its own.
func (l *life) thaw(rng *rand.Rand) {
	for frozen := false; ; frozen = true {
		l.w.mu.Lock()
		d := time.Until(l.pausedUntil)
		if l.dead {
			d = 0
		}
		l.w.mu.Unlock()
		if d <= 0 {
			return
		}
		if !frozen {
			d += time.Duration(rng.Int64N(int64(time.Millisecond)))
		}
		time.Sleep(d)
	}
}

// exchange carries a request to the store and its answer back. Once sent, a request arrives whatever
// becomes of its caller.
func exchange[T any](ctx context.Context, l *life, k Kind, key string, do func(lot) (T, error)) (T, error) {
	var zero T
	rng := l.chance(k, key)
	l.thaw(rng)
	f := l.draw(k, key, rng)
	unanswered := func(err error) (T, error) {
		l.thaw(rng)
		kind := kvsync.ErrUnknownOutcome
		if k == Load || k == Watch {
			kind = kvsync.ErrUnavailable
		}
		return zero, fmt.Errorf("%s %s: no answer: %w: %w", k, key, kind, errors.Join(err))
	}
	if f.err != nil {
		err := sleep(ctx, f.reply)
		l.thaw(rng)
		return zero, errors.Join(f.err, err)
	}
	sent := time.Now()
	if f.lost {
		return unanswered(sleep(ctx, l.timeout))
	}
	if f.again > 0 {
		time.AfterFunc(f.delay+f.again, func() { _, _ = do(f) })
	}
	if err := sleep(ctx, min(f.delay, l.timeout)); err != nil || f.delay > l.timeout {
		time.AfterFunc(time.Until(sent.Add(f.delay)), func() { _, _ = do(f) })
		return unanswered(err)
	}
	v, err := do(f)
	if f.unanswered || l.isCut() {
		return unanswered(sleep(ctx, time.Until(sent.Add(l.timeout))))
	}
	if serr := sleep(ctx, f.reply); serr != nil {
		return unanswered(serr)
	}
	l.thaw(rng)
	return v, err
}

func (l *life) isCut() bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return time.Now().Before(l.cutUntil)
}

// Load implements kvsync.KVStore.
func (l *life) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	type answer struct {
		value []byte
		rev   uint64
	}
	a, err := exchange(ctx, l, Load, key, func(f lot) (answer, error) {
		l.w.mu.Lock()
		defer l.w.mu.Unlock()
		v, rev, err := l.w.srv.loadBack(key, f.back)
		l.w.noteLocked(l, Load, key, rev, err)
		return answer{v, rev}, err
	})
	return scaleTTL(a.value, 1/l.rate), a.rev, err
}

// CompareAndSwap implements kvsync.KVStore.
func (l *life) CompareAndSwap(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	value = scaleTTL(value, l.rate)
	return exchange(ctx, l, Swap, key, func(lot) (uint64, error) { return l.write(Swap, key, value, rev) })
}

// CompareAndDelete implements kvsync.KVStore.
func (l *life) CompareAndDelete(ctx context.Context, key string, rev uint64) error {
	_, err := exchange(ctx, l, Delete, key, func(lot) (uint64, error) { return l.write(Delete, key, nil, rev) })
	return err
}

// write is one step of the store, between two looks of the checker.
func (l *life) write(k Kind, key string, value []byte, rev uint64) (uint64, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	before := l.w.beforeLocked(key)
	got, err := l.w.srv.swap(key, value, rev, k == Delete)
	l.w.noteLocked(l, k, key, max(rev, got), err)
	if err == nil {
		if isSession(key) && l.w.sessions[key] == 0 {
			l.w.sessions[key] = got
		}
		rec, _ := readRecord(value, got)
		l.w.afterLocked(l, k, key, before, rec)
	}
	return got, err
}

// Watch implements kvsync.Watcher.
func (l *life) Watch(ctx context.Context, keyOrPrefix string) (<-chan kvsync.Update, error) {
	return exchange(ctx, l, Watch, keyOrPrefix, func(lot) (<-chan kvsync.Update, error) {
		out := make(chan kvsync.Update)
		go l.forward(ctx, keyOrPrefix, l.w.srv.watch(ctx, keyOrPrefix, 64), out)
		return out, nil
	})
}

// forward delays pushed updates. A cut breaks the watch.
func (l *life) forward(ctx context.Context, key string, in <-chan kvsync.Update, out chan<- kvsync.Update) {
	defer close(out)
	for u := range in {
		rng := l.chance("push", key)
		f := l.draw("push", key, rng)
		if f.err != nil || f.lost || sleep(ctx, f.delay) != nil {
			return
		}
		l.thaw(rng)
		u.Value = scaleTTL(u.Value, 1/l.rate)
		select {
		case out <- u:
		case <-ctx.Done():
			return
		}
	}
}

// scaleTTL multiplies the ttl_ms of a record, rounding up.
func scaleTTL(value []byte, by float64) []byte {
	const member = `"ttl_ms":`
	i := strings.Index(string(value), member)
	if i < 0 || by == 1 {
		return value
	}
	from := i + len(member)
	to := from
	for to < len(value) && value[to] >= '0' && value[to] <= '9' {
		to++
	}
	ms, err := strconv.ParseFloat(string(value[from:to]), 64)
	if err != nil {
		return value
	}
	const noise = 1e-6 // of there and back
	out := append([]byte(nil), value[:from]...)
	out = strconv.AppendInt(out, int64(ms*by+1-noise), 10)
	return append(out, value[to:]...)
}

// loadBack is load from some writes ago.
func (s *Server) loadBack(key string, back int) ([]byte, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.entries[key]
	h = h[:max(0, len(h)-back)]
	if len(h) == 0 || h[len(h)-1].deleted {
		return nil, 0, fmt.Errorf("load %s: %w", key, kvsync.ErrNotFound)
	}
	e := h[len(h)-1]
	return e.value, e.rev, nil
}
