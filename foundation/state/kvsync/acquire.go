package kvsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// verdict is what a contender may do about a record that it saw.
type verdict struct {
	take   bool   // try a CAS at rev
	rev    uint64 // of the CAS
	reason string // of the take-over: adopted, confirmed, expired
	holder Token  // who has it, when not take
	// session decides: take the key at rev if that session has lapsed.
	session string
}

// contender is what a judgement rests on.
type contender struct {
	holder      string
	incarnation string
	ttl         time.Duration
	ghosts      []string
	dead        func(incarnation string) bool
}

// judge is the rule by which a contender decides about what it has read at monotonic time now; obs is
// what it has seen so far. It never grants anything: a grant is a landed CAS.
func judge(c contender, obs observation, saw reading, now time.Time) (verdict, observation) {
	if saw.rev < obs.rev {
		// A lagging replica: it neither restarts nor starves the observation, whose CAS decides.
		return waited(c, obs, now), obs
	}
	tok := Token{Generation: saw.rev}
	if !saw.bad {
		tok = saw.rec.token(saw.rev)
		switch rec := saw.rec; {
		case rec.Nonce != "" && slices.Contains(c.ghosts, rec.Nonce):
			return verdict{take: true, rev: saw.rev, reason: "adopted"}, obs
		case rec.Holder == c.holder && rec.transferred():
			return verdict{take: true, rev: saw.rev, reason: "confirmed"}, obs
		case rec.Holder == c.holder && rec.Incarnation != "" && rec.Incarnation != c.incarnation && c.dead(rec.Incarnation):
			return verdict{take: true, rev: saw.rev, reason: "dead"}, obs
		}
	}
	if obs.since.IsZero() || saw.rev != obs.rev || saw.rec.Nonce != obs.nonce {
		obs = observation{rev: saw.rev, nonce: saw.rec.Nonce, ttl: saw.rec.ttl(), tok: tok, session: saw.rec.Session, since: now}
	}
	return waited(c, obs, now), obs
}

// waited takes over what has been seen unchanged for the longer of both times to live.
func waited(c contender, obs observation, now time.Time) verdict {
	if obs.session != "" && !obs.since.IsZero() {
		return verdict{session: obs.session, rev: obs.rev, reason: "expired", holder: obs.tok}
	}
	if obs.since.IsZero() || now.Sub(obs.since) < max(c.ttl, obs.ttl) {
		return verdict{holder: obs.tok}
	}
	return verdict{take: true, rev: obs.rev, reason: "expired", holder: obs.tok}
}

// acquire is TryLock's work: at most acquireTries rounds of a CAS and a look. While a holder is being
// observed it looks first, so that a contender who sees a living holder writes nothing.
func (l *Lease) acquire(ctx context.Context) (Token, error) {
	l.mu.Lock()
	c := contender{
		holder: l.holder, incarnation: incarnationOf(l.store), ttl: l.ttl, ghosts: slices.Clone(l.ghosts),
		dead: func(inc string) bool { return provenDead(l.store, inc) },
	}
	lookFirst := !l.obs.since.IsZero() || l.group != nil && !l.group.inSession()
	l.mu.Unlock()

	v := verdict{take: true, reason: "created"}
	if lookFirst {
		var err error
		if v, err = l.look(ctx, c, load(ctx, l.store, l.key)); err != nil {
			return Token{}, err
		}
	}
	var s *session
	sessionKey := ""
	if l.group != nil && v.take { // no session is begun for what will not be held
		var err error
		if s, err = l.group.session(ctx); err != nil {
			return Token{}, fmt.Errorf("acquire lease %s: its session: %w", l.key, err)
		}
		sessionKey = s.lease.key
	}
	for range acquireTries {
		if !v.take {
			return Token{}, &HeldError{Key: l.key, Current: v.holder}
		}
		rec := record{Holder: l.holder, Incarnation: c.incarnation, Nonce: newNonce(), TTLMillis: millisUp(l.ttl), Session: sessionKey}
		o := swap(ctx, l.store, l.key, rec, v.rev)
		if o.landed {
			return l.grant(ctx, s, o, rec, v.reason)
		}
		if o.unknown {
			c.ghosts = append(c.ghosts, rec.Nonce)
			l.mu.Lock()
			l.noteGhostLocked(rec.Nonce)
			l.mu.Unlock()
			l.disown(s, orphan{nonce: rec.Nonce, late: true})
			emit(l.store, Event{Kind: EventUnknown, Key: l.key, Token: Token{Holder: l.holder}, Reason: "acquire"})
		}
		if o.saw == nil || o.saw.err != nil {
			err := o.err
			if err == nil {
				err = o.saw.err
			}
			return Token{}, fmt.Errorf("acquire lease %s: %w", l.key, err)
		}
		saw := *o.saw
		if saw.absent && !o.unknown && pause(ctx, quickRetry/2+l.jitter(quickRetry)) {
			saw = load(ctx, l.store, l.key) // it was refused for a write that is still being applied
		}
		var err error
		if v, err = l.look(ctx, c, saw); err != nil {
			return Token{}, err
		}
	}
	return Token{}, fmt.Errorf("acquire lease %s: every write was refused, and nobody seen: %w", l.key, ErrUnavailable)
}

// look folds a reading into the observation and judges it.
func (l *Lease) look(ctx context.Context, c contender, saw reading) (verdict, error) {
	if saw.err != nil {
		return verdict{}, fmt.Errorf("look at lease %s: %w", l.key, saw.err)
	}
	v := l.judge(c, saw)
	if v.session == "" {
		return v, nil
	}
	var err error
	if v.take, err = l.morgue.lapsed(ctx, v.session); err != nil {
		return verdict{}, fmt.Errorf("look at the session of lease %s: %w", l.key, err)
	}
	return v, nil
}

func (l *Lease) judge(c contender, saw reading) (v verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if saw.absent {
		l.obs.since = time.Time{}
		return verdict{take: true, reason: "created"}
	}
	if saw.bad && !l.warned {
		l.warned = true
		slog.Warn("lease record cannot be decoded, it is taken over after its time to live", "key", l.key, "revision", saw.rev)
	}
	v, l.obs = judge(c, l.obs, saw, time.Now())
	return v
}

// grant turns a landed acquiring write into an acquisition and starts its keeper.
func (l *Lease) grant(ctx context.Context, s *session, o outcome, rec record, reason string) (Token, error) {
	tok := Token{Holder: l.holder, Generation: o.rev}
	l.mu.Lock()
	defer l.mu.Unlock()
	if floor := l.floorLocked(); o.rev <= floor {
		return Token{}, fmt.Errorf("acquire lease %s: revision %d after %d: %w", l.key, o.rev, floor, ErrStoreRegressed)
	}
	if s != nil && l.pushed > o.rev { // a member is not renewed: nothing would show it later
		return Token{}, fmt.Errorf("acquire lease %s: somebody wrote it before the answer came: %w", l.key, ErrUnavailable)
	}
	took := max(0, o.sent.heldSince(readClock()))
	late := took >= validity(l.ttl)
	if s != nil {
		late = !s.lease.Held() // the session's renewals went on meanwhile: only they count
	}
	if late {
		l.noteGhostLocked(rec.Nonce)
		l.mu.Unlock()
		dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.ttl/renewPart)
		err := remove(dctx, l.store, l.key, o.rev)
		cancel()
		if err != nil {
			l.disown(s, orphan{nonce: rec.Nonce, rev: o.rev, due: true})
		}
		l.mu.Lock()
		return Token{}, errors.Join(fmt.Errorf("acquire lease %s: the answer took %v, too late to hold it: %w", l.key, took, ErrUnavailable), err)
	}
	a := &acquisition{
		tok: tok, began: o.sent.at, session: s, rev: o.rev, nonce: rec.Nonce, sent: o.sent, lost: make(chan struct{}),
	}
	l.acq = a
	l.obs = observation{rev: o.rev}
	kind := EventAcquired
	if reason == "expired" || reason == "dead" {
		kind = EventTookOver
	}
	emit(l.store, Event{Kind: kind, Key: l.key, Token: tok, Reason: reason, Latency: took, Margin: validity(l.ttl) - took})
	if s == nil {
		a.keeper = time.AfterFunc(l.ttl/renewPart-took, func() { l.keep(a) })
	}
	return tok, nil
}

// floorLocked is the highest revision that this lease has seen its key at: a later write is above it.
func (l *Lease) floorLocked() uint64 {
	floor := l.obs.rev
	if l.acq != nil {
		floor = max(floor, l.acq.rev)
	}
	return floor
}
