package kvsynctest

import "fmt"

// deliver is what may happen to the messages of a process.
func (m leaseModel) deliver(s *leaseState, i int, add adder) {
	for j := range s.p[i].out {
		msg := s.p[i].out[j]
		switch {
		case msg.kind == msgNone:
		case msg.state == flying || msg.state == orphaned:
			add(func(s *leaseState) string { return m.arrive(s, i, j) }, "the %s of %s reaches the store", msg.kind, name(i))
		default:
			add(func(s *leaseState) string { return m.answer(s, i, j) }, "%s learns of its %s that it %s", name(i), msg.kind, msg.state)
		}
		if msg.kind == msgAcquire && msg.state != orphaned && !m.calm {
			add(func(s *leaseState) string {
				p := &s.p[i]
				p.ghosts |= 1 << msg.nonce
				if p.out[j].state == flying {
					p.out[j].state = orphaned
				} else {
					p.out[j] = modelMsg{}
				}
				return ""
			}, "%s gives up on its acquiring write", name(i))
		}
	}
}

// arrive carries a message out at the store.
func (m leaseModel) arrive(s *leaseState, i, j int) string {
	msg := &s.p[i].out[j]
	orphan := msg.state == orphaned
	bad, ok := "", s.now.present && s.now.rev == msg.expect
	switch msg.kind {
	case msgGuarded:
		ok = m.off[Fenced] || msg.gen >= s.fence
		if ok {
			if msg.gen < s.written {
				bad = fmt.Sprintf("a write of generation %d is taken after one of %d", msg.gen, s.written)
			}
			s.fence, s.written = max(s.fence, msg.gen), msg.gen
		}
	case msgAcquire:
		ok = ok || msg.expect == 0 && !s.now.present || m.off[SwapToAcquire]
	case msgRenew:
		ok = ok || m.off[SwapToRenew]
	case msgRelease:
		ok = ok || m.off[SwapToRelease] && s.now.present
	}
	if ok && msg.kind != msgGuarded {
		if owner := s.now.owner(); s.now.present && msg.kind != msgAcquire && m.believes(&s.p[owner]) &&
			s.p[owner].gen == s.now.gen && (owner != i || msg.gen != s.now.gen || msg.kind == msgRelease) {
			bad = fmt.Sprintf("a %s of %s touches what %s holds", msg.kind, name(i), name(owner))
		}
		s.before = s.now
		s.now = modelRecord{rev: s.now.rev + 1, nonce: msg.nonce, gen: msg.gen, present: msg.kind != msgRelease}
		if msg.kind == msgAcquire && msg.gen == 0 {
			s.now.gen = s.now.rev
		}
		msg.rev, msg.gen = s.now.rev, s.now.gen
	}
	msg.state = refused
	if ok {
		msg.state = landed
	}
	if orphan || msg.kind == msgRelease || msg.kind == msgGuarded || msg.kind == msgAcquire && !ok {
		*msg = modelMsg{} // nobody learns anything from its answer
	}
	return bad
}

// answer tells a process what became of its message.
func (m leaseModel) answer(s *leaseState, i, j int) string {
	p := &s.p[i]
	msg := p.out[j]
	p.out[j] = modelMsg{}
	age := msg.age
	if m.off[FromSend] {
		age = 0
	}
	switch {
	case msg.kind == msgAcquire && msg.state == landed:
		if age >= m.limit() && !m.off[LateGrant] {
			p.ghosts |= 1 << msg.nonce
			return ""
		}
		return m.grant(s, i, msg, age)
	case msg.kind == msgRenew && msg.state == landed && msg.term == p.terms:
		switch {
		case p.holding && m.believes(p):
			if msg.rev > p.rev {
				p.rev, p.sent = msg.rev, age
				p.pending = [2]struct{ nonce, age uint8 }{}
			}
		case p.ended && m.off[NoRevival]:
			return "an acquisition that has ended is held again"
		}
	case msg.kind == msgRenew && msg.state == refused && msg.term == p.terms && p.holding:
		if !m.off[LookBeforeLoss] {
			p.looking = true
			return ""
		}
		p.end()
		if s.now.present && s.now.owner() == i && s.now.gen == p.gen {
			return "a lease is given up that nobody has taken"
		}
	}
	return ""
}

func (m leaseModel) grant(s *leaseState, i int, msg modelMsg, age uint8) string {
	p := &s.p[i]
	p.holding, p.ended, p.looking = true, false, false
	p.gen, p.rev, p.sent = msg.gen, msg.rev, age
	p.pending = [2]struct{ nonce, age uint8 }{}
	p.obsRev, p.obsNonce, p.obsAge, p.adopt, p.adoptGen = 0, 0, 0, 0, 0
	p.asked, p.answered, p.askedAge, p.answer = false, false, 0, modelRecord{}
	p.terms++
	if !m.believes(p) {
		return "a lease is granted that is not valid"
	}
	if msg.gen <= s.lastGen {
		return fmt.Sprintf("generation %d is granted after %d", msg.gen, s.lastGen)
	}
	s.lastGen = msg.gen
	return ""
}

// look finds out what a refused renewal means: the write of its own that was never answered, or a loss.
func (m leaseModel) look(s *leaseState, i int) {
	p := &s.p[i]
	p.looking = false
	if s.now.present {
		for _, own := range p.pending {
			if own.nonce == s.now.nonce && s.now.rev > p.rev {
				p.rev, p.sent = s.now.rev, own.age
				if m.off[FromSend] {
					p.sent = 0
				}
				p.pending = [2]struct{ nonce, age uint8 }{}
				return
			}
		}
	}
	if s.now.rev > p.rev {
		p.end()
	}
}

// sessionState is the model of a group: A holds a member by its session, B wants the member.
type sessionState struct {
	tick            uint8
	created         bool // the session's key is there; a stale read may miss its creation
	rev, dead       uint8
	holds           bool // A believes in its session
	sent            uint8
	renewing, lands bool // a renewal of A's is under way, and has landed
	at, age         uint8
	seen, seenAge   uint8 // the revision of the session that B has seen, and for how long
	due             bool  // B has found the session lapsed
	absent          bool  // B has read that the session is absent
	marked          bool  // B's mark has landed
	grants          bool
}

// exploreSession looks at sessions and the members that they keep. Reads of B may be stale.
func exploreSession(off map[Rule]bool) Exploration {
	const ticks, revs = 7, 6
	next := func(s sessionState) (out []step[sessionState]) {
		add := func(label label, do func(*sessionState)) {
			to := s
			do(&to)
			bad := ""
			if to.holds && to.grants {
				bad = "B is granted a member that A holds by its session"
			}
			out = append(out, step[sessionState]{label, to, bad})
		}
		if s.tick < ticks {
			add(say("a tick passes"), func(s *sessionState) {
				s.tick++
				s.sent, s.age = min(s.sent+1, modelT), min(s.age+1, modelT)
				if s.seen > 0 {
					s.seenAge = min(s.seenAge+1, modelT)
				}
				s.holds = s.holds && s.sent < modelV
			})
		}
		switch {
		case s.holds && !s.renewing:
			add(say("A sends a renewal of its session"), func(s *sessionState) { s.renewing, s.at, s.age = true, s.rev, 0 })
		case s.renewing && !s.lands && s.rev < revs:
			add(say("A's renewal reaches the store"), func(s *sessionState) {
				if s.rev == s.at && s.dead == 0 {
					s.rev++
					s.lands = true
				} else {
					s.renewing = false
				}
			})
		case s.lands:
			add(say("A learns that its renewal has landed"), func(s *sessionState) {
				s.renewing, s.lands = false, false
				if s.holds {
					s.sent = s.age
				}
			})
		}
		for rev := uint8(1); rev <= s.rev; rev++ {
			if rev < s.seen || s.grants {
				continue
			}
			add(say("B reads revision %d of the session, which is at %d", rev, s.rev), func(s *sessionState) {
				if rev > s.seen {
					s.seen, s.seenAge, s.due = rev, 0, false
				}
				s.due = s.seenAge >= modelT
			})
		}
		if s.seen == 0 && !s.absent {
			add(say("B reads that the session is absent, from a lagging replica"), func(s *sessionState) { s.absent = true })
		}
		if s.due && !s.marked {
			add(say("B marks the session dead, expecting what it has seen"), func(s *sessionState) {
				if s.marked = s.rev == s.seen; s.marked {
					s.dead = 1
				}
				s.due = s.marked
			})
		}
		if !s.grants && (s.marked || s.due && off[MarkDead] || s.absent && off[ProveAbsent]) {
			add(say("B takes the member's key"), func(s *sessionState) { s.grants = true })
		}
		return out
	}
	return search("sessions", sessionState{created: true, rev: 1, holds: true}, next)
}

// starvationState is a dead holder's record, and a contender that reads once in each tick.
type starvationState struct {
	tick, rev, age uint8
	fresh          bool // the last read was
}

// exploreStarvation wants a contender to be able to take over, also when every other read is stale.
func exploreStarvation(off map[Rule]bool) Exploration {
	const newest, ticks = 2, 3 * modelT
	return search("alternating reads", starvationState{}, func(s starvationState) (out []step[starvationState]) {
		if s.age >= modelT {
			return nil // it takes over
		}
		for _, rev := range []uint8{newest, newest - 1} {
			if rev != newest && !s.fresh {
				continue // at least every other read is fresh
			}
			to := starvationState{tick: s.tick + 1, rev: s.rev, age: s.age + 1, fresh: rev == newest}
			if rev > s.rev || rev < s.rev && off[IgnoreOlder] {
				to.rev, to.age = rev, 0
			}
			bad := ""
			if to.tick > ticks {
				bad = "a contender cannot take over from a dead holder"
			}
			out = append(out, step[starvationState]{say("a tick passes, B reads revision %d of %d", rev, newest), to, bad})
		}
		return out
	})
}
