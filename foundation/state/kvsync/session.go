package kvsync

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// sessionName begins the names of a group's sessions, which no member may have.
	sessionName = "=session."
	// deadReason marks a session that was seen unrenewed for T: its process can never renew it again.
	deadReason = "dead"
	// deadKept is how many T a dead mark is kept for those who still look for it.
	deadKept = 10
)

// session is one heartbeat for every member of a group that this process holds: a lease of a key of its
// own, which the members' records name. They are valid while it is.
type session struct{ lease *Lease }

// morgue is what a contender has seen of other processes' sessions.
type morgue struct {
	store KVStore
	ttl   time.Duration

	mu   sync.Mutex // guards seen
	seen map[string]sighting
}

type sighting struct {
	observation
	dead bool
}

func newMorgue(store KVStore, ttl time.Duration) *morgue {
	return &morgue{store: store, ttl: ttl, seen: map[string]sighting{}}
}

// lapsed reports whether the process of a session has certainly stopped believing: its record was
// marked dead, now or before. It marks only what it has itself seen unchanged for T, or what is
// gone, and always by a landed write, so that a process that comes back cannot renew.
func (m *morgue) lapsed(ctx context.Context, key string) (bool, error) {
	saw := load(ctx, m.store, key)
	for range acquireTries {
		if saw.err != nil {
			return false, saw.err
		}
		rec, at, due := m.note(key, saw)
		if rec.Reason == deadReason {
			return true, nil
		}
		if !due {
			return false, nil
		}
		if rec.Holder == "" {
			rec.Holder = "unknown"
		}
		mark := record{Holder: rec.Holder, Generation: rec.Generation, Nonce: newNonce(), TTLMillis: rec.TTLMillis, Reason: deadReason}
		o := swap(ctx, m.store, key, mark, at)
		if o.landed {
			m.note(key, reading{rec: mark, rev: o.rev})
			return true, nil
		}
		if o.saw == nil {
			return false, unavailable(o.err)
		}
		saw = *o.saw
	}
	return false, nil
}

// note folds a reading of a session into what was seen. due says that it may be marked dead at
// revision at: it has gone unchanged for T, or is not there, which the marking write will prove.
func (m *morgue) note(key string, saw reading) (rec record, at uint64, due bool) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if saw.absent {
		return record{}, 0, true
	}
	s, known := m.seen[key]
	if known && saw.rev < s.rev { // a lagging replica
		rec = record{Holder: s.tok.Holder, Generation: s.tok.Generation, TTLMillis: millisUp(s.ttl)}
		if s.dead {
			rec.Reason = deadReason
		}
		return rec, s.rev, now.Sub(s.since) >= max(m.ttl, s.ttl)
	}
	if !known || saw.rev != s.rev || saw.rec.Nonce != s.nonce {
		s = sighting{
			observation: observation{rev: saw.rev, nonce: saw.rec.Nonce, ttl: saw.rec.ttl(), tok: saw.rec.token(saw.rev), since: now},
			dead:        saw.rec.Reason == deadReason,
		}
		m.seen[key] = s
	}
	return saw.rec, saw.rev, now.Sub(s.since) >= max(m.ttl, s.ttl)
}

// observe folds a pushed update in.
func (m *morgue) observe(u Update) {
	if u.Deleted {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.seen, u.Key)
		return
	}
	rec, err := decodeRecord(u.Value)
	m.note(u.Key, reading{rec: rec, rev: u.Rev, bad: err != nil})
}

// expires is when a session may be marked dead, if it has been seen.
func (m *morgue) expires(key string) (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.seen[key]
	if !ok || s.dead {
		return time.Now(), ok
	}
	return s.since.Add(max(m.ttl, s.ttl)), true
}

// bury marks the sessions dead that have gone unchanged for T, and removes marks that are old.
func (m *morgue) bury(ctx context.Context, own string) {
	now := time.Now()
	due, old := []string{}, map[string]uint64{}
	m.mu.Lock()
	for key, s := range m.seen {
		switch age := now.Sub(s.since); {
		case key == own:
		case s.dead && age >= deadKept*max(m.ttl, s.ttl):
			old[key] = s.rev
		case !s.dead && age >= max(m.ttl, s.ttl):
			due = append(due, key)
		}
	}
	m.mu.Unlock()
	// The oldest first, whatever order a map has: a simulation can be repeated.
	slices.SortFunc(due, func(a, b string) int { return cmp.Compare(m.rev(a), m.rev(b)) })
	for _, key := range due {
		if _, err := m.lapsed(ctx, key); err != nil {
			return // the next round tries again
		}
	}
	for key, rev := range old {
		if remove(ctx, m.store, key, rev) == nil {
			m.observe(Update{Key: key, Deleted: true})
		}
	}
}

func (m *morgue) rev(key string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[key].rev
}

// session returns the group's live session, and starts one where there is none.
func (g *LeaseGroup) session(ctx context.Context) (*session, error) {
	select {
	case g.opening <- struct{}{}:
		defer func() { <-g.opening }()
	case <-ctx.Done():
		return nil, unavailable(context.Cause(ctx))
	}
	if s := g.current.Load(); s != nil && s.lease.Held() {
		return s, nil
	}
	s := &session{lease: newLease(g.store, g.prefix+sessionName+newNonce(), g.holder, g.ttl)}
	if _, err := s.lease.TryLock(ctx); err != nil {
		return nil, err
	}
	g.current.Store(s)
	go g.tend(s)
	return s, nil
}

// inSession reports whether there is a session that a member may be held by.
func (g *LeaseGroup) inSession() bool {
	s := g.current.Load()
	return s != nil && s.lease.Held()
}

// tend lives as long as a session. It ends the members with the session, notices what others did to
// their records, and buries other processes' dead sessions.
func (g *LeaseGroup) tend(s *session) {
	// A store that is stuck must not keep the members from learning that the session is lost.
	ctx, cancel := context.WithCancel(s.lease.Context(context.Background()))
	defer cancel()
	tick := time.NewTicker(max(g.ttl/renewPart, minRetry))
	defer tick.Stop()
	w := &leaseWatch{store: g.store, key: g.prefix, ttl: g.ttl}
	w.reopen(ctx)
	g.verify(ctx, s) // what happened before the watch was there
	for {
		select {
		case <-s.lease.Lost():
			g.endMembers(s)
			g.abandon(s.lease.key)
			return
		case u, ok := <-w.updates:
			switch {
			case !ok:
				w.broken()
			case strings.HasPrefix(u.Key, g.prefix+sessionName):
				g.morgue.observe(u)
			default:
				g.noticed(s, u)
			}
		case <-tick.C:
			g.retireWithin()
			if w.updates == nil {
				w.reopen(ctx)
				g.verify(ctx, s)
				g.searchAll()
			}
			g.collect(ctx)
			g.morgue.bury(ctx, s.lease.key)
		}
	}
}

// retire ends the session when no member needs it. Who finds somebody inside leaves the work to them.
func (g *LeaseGroup) retire(ctx context.Context) {
	g.idle.Store(true)
	for g.idle.Load() {
		select {
		case g.opening <- struct{}{}:
		default:
			return // it looks again on leaving, or uses the session and retires it later
		}
		g.idle.Store(false)
		g.endIfUnused(ctx)
		<-g.opening
	}
}

// retireWithin is retire for a caller without a bound of its own.
func (g *LeaseGroup) retireWithin() {
	ctx, cancel := context.WithTimeout(context.Background(), unlockBudget)
	defer cancel()
	g.retire(ctx)
}

func (g *LeaseGroup) endIfUnused(ctx context.Context) {
	s := g.current.Load()
	if s == nil {
		return
	}
	for _, l := range g.all() {
		if l.uses(s) {
			return
		}
	}
	g.current.Store(nil)
	if tok, ok := s.lease.Token(); ok {
		s.lease.unlock(ctx, tok)
	}
}

// uses reports whether the lease is held by session s, or about to be.
func (l *Lease) uses(s *session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy || l.acq != nil && !l.acq.ended && l.acq.session == s
}

func (g *LeaseGroup) all() []*Lease {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*Lease, 0, len(g.members))
	for _, l := range g.members {
		all = append(all, l)
	}
	return all
}

// endMembers ends every acquisition of a session that was lost.
func (g *LeaseGroup) endMembers(s *session) {
	for _, l := range g.all() {
		l.mu.Lock()
		if l.acq != nil && l.acq.session == s {
			l.endLocked(l.acq, EventLost, "session")
		}
		l.mu.Unlock()
	}
}

// noticed ends the acquisition of a member whose record somebody else has written: broken by an
// operator, or replaced.
func (g *LeaseGroup) noticed(s *session, u Update) {
	rec, err := decodeRecord(u.Value)
	if err == nil && !u.Deleted {
		g.sighted(rec.Nonce)
	}
	g.mu.Lock()
	l := g.members[strings.TrimPrefix(u.Key, g.prefix)]
	g.mu.Unlock()
	if l == nil {
		return
	}
	reason := "replaced"
	if u.Deleted {
		reason = "deleted"
	} else if err == nil && rec.broken() {
		reason = "broken"
	}
	l.mu.Lock()
	l.pushed = max(l.pushed, u.Rev)
	a := l.acq
	over := a != nil && !a.ended && a.session == s && u.Rev > a.rev
	if over {
		l.endLocked(a, EventLost, reason)
	}
	l.mu.Unlock()
	if over && u.Deleted {
		l.leave(s, a.rev, a.nonce, nil) // should it be there after all, nobody else could have it
	}
}

// verify looks at the held members after a watch was away: a delete meanwhile left no trace in it.
func (g *LeaseGroup) verify(ctx context.Context, s *session) {
	all := g.all()
	slices.SortFunc(all, func(a, b *Lease) int { return strings.Compare(a.key, b.key) })
	for _, l := range all {
		l.mu.Lock()
		a := l.acq
		held := a != nil && !a.ended && a.session == s
		l.mu.Unlock()
		if !held || !s.lease.Held() {
			continue
		}
		saw := load(ctx, l.store, l.key)
		if saw.err == nil && (saw.absent || saw.rev > a.rev) {
			g.noticed(s, Update{Key: l.key, Rev: max(saw.rev, a.rev+1), Deleted: saw.absent})
		}
	}
}
