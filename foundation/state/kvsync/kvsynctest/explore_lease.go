package kvsynctest

// Time in the small models is counted in ticks. The parts of T are as small as they can be with V = 2T/3.
const (
	modelT = 3
	modelV = 2
)

// The processes of a model.
const (
	procA = iota
	procB
	procs
)

// modelRecord is the key as the store has it. A nonce names the write that made it: A's are below 8.
type modelRecord struct {
	rev, nonce, gen uint8
	present         bool
}

func (r modelRecord) owner() int { return int(r.nonce / 8) }

type msgKind uint8

const (
	msgNone msgKind = iota
	msgAcquire
	msgRenew
	msgRelease
	msgGuarded
)

func (k msgKind) String() string {
	return [...]string{"nothing", "acquiring write", "renewal", "delete", "guarded write"}[k]
}

type msgState uint8

func (s msgState) String() string {
	return [...]string{"flies", "has landed", "was refused", "flies"}[s]
}

const (
	flying   msgState = iota // it may reach the store at any time, or never
	landed                   // its answer may arrive at any time, or never
	refused                  // the same
	orphaned                 // its sender has given up, and it still flies
)

// modelMsg is a write under way. age is counted by its sender from when it was sent.
type modelMsg struct {
	kind                    msgKind
	state                   msgState
	expect, nonce, gen, rev uint8
	age, term               uint8
}

// modelProc is one process with its lease object.
type modelProc struct {
	holding, ended, crashed, looking bool
	gen, rev, sent                   uint8 // of the acquisition, of its last landed write, and the age of that one's send
	terms, nonces                    uint8
	ghosts                           uint16 // nonces of acquiring writes that it lost sight of
	pending                          [2]struct{ nonce, age uint8 }

	obsRev, obsNonce, obsAge uint8 // obsRev 0: it observes nothing
	adopt, adoptGen          uint8 // a revision that it may take at once
	asked, answered          bool  // a read is under way
	askedAge                 uint8
	answer                   modelRecord

	out [2]modelMsg
}

// leaseState is everything at one instant.
type leaseState struct {
	tick           uint8
	now, before    modelRecord
	lastGen        uint8 // of all grants
	fence, written uint8 // generations
	jumped         bool
	p              [procs]modelProc
}

// leaseModel is two processes, one key and writes that land late or never, within bounds. Each model
// adds one trouble to that.
type leaseModel struct {
	name          string
	ticks, writes uint8
	each          [procs]uint8 // writes that acquire or renew, sent by each process at most
	drift         bool         // B's clock runs 4/3 as fast as A's
	slowReads     bool         // a read takes time
	calm          bool         // A does not unlock, B looks first, and nobody gives up
	stale         bool         // a read may show the version before
	suspend       bool         // A's host may be suspended
	jump          bool         // the wall clock of B's host may be set forward
	sameName      bool         // A and B have one holder name
	successor     bool         // B is the next process of A's host, which can prove that A is dead
	shortB        bool         // B is set to a time to live of one tick
	fenced        bool         // holders write to another store
	off           map[Rule]bool
}

// leaseModels are all the troubles. A holds the lease at the beginning.
func leaseModels() []leaseModel {
	return []leaseModel{
		{name: "a fenced store", ticks: 4, writes: 3, each: [procs]uint8{1, 1}, fenced: true},
		{name: "equal names", ticks: 3, writes: 4, each: [procs]uint8{2, 1}, sameName: true},
		{name: "a successor", ticks: 3, writes: 4, each: [procs]uint8{2, 1}, successor: true},
		{name: "a clock that is set", ticks: 4, writes: 3, each: [procs]uint8{2, 1}, jump: true},
		{name: "different settings", ticks: 4, writes: 3, each: [procs]uint8{2, 1}, shortB: true},
		{name: "a suspended host", ticks: 4, writes: 3, each: [procs]uint8{2, 1}, suspend: true},
		{name: "clock rates", ticks: 5, writes: 3, each: [procs]uint8{2, 1}, drift: true},
		{name: "stale reads", ticks: 4, writes: 3, each: [procs]uint8{2, 1}, stale: true},
		{name: "slow reads", ticks: 3, writes: 4, each: [procs]uint8{3, 1}, slowReads: true, calm: true},
		{name: "late writes", ticks: 4, writes: 4, each: [procs]uint8{1, 2}},
	}
}

func (m leaseModel) explore(off map[Rule]bool) Exploration {
	m.off = off
	s := leaseState{now: modelRecord{rev: 1, nonce: 1, gen: 1, present: true}, lastGen: 1}
	s.p[procA] = modelProc{holding: true, gen: 1, rev: 1, terms: 1, nonces: 1}
	return search(m.name, s, m.next)
}

// limit is how long a holder believes.
func (m leaseModel) limit() uint8 {
	if m.off[ShorterV] {
		return modelT
	}
	return modelV
}

func (m leaseModel) believes(p *modelProc) bool {
	return p.holding && !p.crashed && (m.off[AtUse] || p.sent < m.limit())
}

// next is everything that can happen in s.
func (m leaseModel) next(s leaseState) []step[leaseState] {
	var out []step[leaseState]
	add := func(do func(*leaseState) string, label string, args ...any) {
		to := s
		bad := do(&to)
		if bad == "" && m.believes(&to.p[procA]) && m.believes(&to.p[procB]) {
			bad = "two holders at one instant"
		}
		out = append(out, step[leaseState]{say(label, args...), to, bad})
	}
	if s.tick < m.ticks {
		add(func(s *leaseState) string { m.pass(s, false); return "" }, "a tick passes")
		if m.suspend && s.p[procA].holding {
			add(func(s *leaseState) string { m.pass(s, true); return "" }, "a tick passes while A's host is suspended")
		}
	}
	if m.jump && m.off[OwnClock] && !s.jumped {
		add(func(s *leaseState) string { s.jumped, s.p[procB].obsAge = true, modelT; return "" }, "the wall clock of B's host is set forward")
	}
	for i := range s.p {
		if !s.p[i].crashed {
			m.contend(&s, i, add)
			m.hold(&s, i, add)
		}
		m.deliver(&s, i, add)
	}
	return out
}

type adder func(do func(*leaseState) string, label string, args ...any)

func name(i int) string { return string(rune('A' + i)) }

// pass is a tick of time.
func (m leaseModel) pass(s *leaseState, suspended bool) {
	for i := range s.p {
		p := &s.p[i]
		d, held := uint8(1), uint8(1) // by the monotonic clock, and as a holder counts
		if m.drift && i == procB && s.tick%3 == 2 {
			d, held = 2, 2
		}
		if suspended && i == procA {
			d = 0
			if m.off[SuspendCounts] {
				held = 0
			}
		}
		older := func(age *uint8, by uint8) { *age = min(*age+by, modelT) }
		if p.holding {
			older(&p.sent, held)
			if !m.off[AtUse] && p.sent >= m.limit() {
				p.end()
			}
		}
		if p.obsRev > 0 {
			older(&p.obsAge, d)
		}
		if p.asked {
			older(&p.askedAge, d)
		}
		for j := range p.out {
			if k := p.out[j].kind; k == msgAcquire || k == msgRenew {
				older(&p.out[j].age, held)
			}
		}
		for j := range p.pending {
			if p.pending[j].nonce > 0 {
				older(&p.pending[j].age, held)
			}
		}
	}
	s.tick++
}

func (p *modelProc) end() {
	p.holding, p.ended, p.looking = false, true, false
	p.sent = 0
	p.pending = [2]struct{ nonce, age uint8 }{}
}

// slot is a free place for a message, or -1.
func (p *modelProc) slot() int {
	for i := range p.out {
		if p.out[i].kind == msgNone {
			return i
		}
	}
	return -1
}

// post sends a message.
func (p *modelProc) post(i int, msg modelMsg) uint8 {
	if msg.kind == msgAcquire || msg.kind == msgRenew {
		p.nonces++
		msg.nonce = uint8(8*i) + p.nonces
	}
	msg.term = p.terms
	p.out[p.slot()] = msg
	return msg.nonce
}

// contend is what a process that does not hold the lease may do.
func (m leaseModel) contend(s *leaseState, i int, add adder) {
	p := &s.p[i]
	acquiring := false
	for _, msg := range p.out {
		acquiring = acquiring || msg.kind == msgAcquire && msg.state != orphaned
	}
	if p.holding || acquiring {
		return
	}
	m.read(s, i, add)
	if p.slot() < 0 || p.nonces >= m.each[i] || s.now.rev >= m.writes {
		return
	}
	wait := uint8(modelT)
	if m.shortB && i == procB && m.off[LongerTTL] {
		wait = 1
	}
	if m.off[WaitT] {
		wait = 0
	}
	msg, how := modelMsg{kind: msgAcquire}, "sends a create"
	switch {
	case p.adopt > 0:
		msg.expect, how = p.adopt, "adopts"
		if m.off[NewGeneration] {
			msg.gen = p.adoptGen
		}
	case p.obsRev == 0 && m.calm:
		return
	case p.obsRev == 0:
	case p.obsAge >= wait:
		msg.expect, how = p.obsRev, "takes over"
	default:
		return
	}
	add(func(s *leaseState) string { s.p[i].post(i, msg); return "" }, "%s %s, expecting revision %d", name(i), how, msg.expect)
}

// read is a look at the key, in one step or three.
func (m leaseModel) read(s *leaseState, i int, add adder) {
	versions := []modelRecord{s.now}
	if m.stale && s.before.rev > 0 {
		versions = append(versions, s.before)
	}
	p := &s.p[i]
	switch {
	case !m.slowReads:
		for _, rec := range versions {
			add(func(s *leaseState) string { m.observe(s, i, rec, 0); return "" }, "%s reads revision %d", name(i), rec.rev)
		}
	case !p.asked:
		add(func(s *leaseState) string { s.p[i].asked, s.p[i].askedAge = true, 0; return "" }, "%s asks for the key", name(i))
	case !p.answered:
		add(func(s *leaseState) string { s.p[i].answered, s.p[i].answer = true, s.now; return "" }, "the store answers %s with revision %d", name(i), s.now.rev)
	default:
		add(func(s *leaseState) string {
			p := &s.p[i]
			m.observe(s, i, p.answer, p.askedAge)
			p.asked, p.answered, p.askedAge, p.answer = false, false, 0, modelRecord{}
			return ""
		}, "the answer reaches %s", name(i))
	}
}

// observe folds a read into what a contender has seen.
func (m leaseModel) observe(s *leaseState, i int, rec modelRecord, age uint8) {
	p := &s.p[i]
	p.adopt, p.adoptGen = 0, 0
	switch {
	case !rec.present:
		p.obsRev, p.obsNonce, p.obsAge = 0, 0, 0
		return
	case rec.rev < p.obsRev:
		return
	case p.ghosts&(1<<rec.nonce) != 0,
		m.sameName && m.off[OwnGhostOnly] && rec.owner() != i,
		m.successor && i == procB && rec.owner() == procA && s.p[procA].crashed:
		p.adopt, p.adoptGen = rec.rev, rec.gen
		return
	case rec.rev == p.obsRev && rec.nonce == p.obsNonce:
		return
	}
	if p.obsRev == 0 || !m.off[RestartOnChange] {
		p.obsAge = 0
		if m.off[StampAfter] {
			p.obsAge = age
		}
	}
	p.obsRev, p.obsNonce = rec.rev, rec.nonce
}

// hold is what a holder may do.
func (m leaseModel) hold(s *leaseState, i int, add adder) {
	p := &s.p[i]
	if !p.holding {
		return
	}
	if m.off[AtUse] && p.sent >= m.limit() {
		add(func(s *leaseState) string { s.p[i].end(); return "" }, "%s notices that its time is over", name(i))
	}
	if p.looking {
		add(func(s *leaseState) string { m.look(s, i); return "" }, "%s looks into the refusal", name(i))
	}
	if m.successor && i == procA {
		add(func(s *leaseState) string { s.p[i].crash(); return "" }, "A crashes")
	}
	if p.slot() < 0 {
		return
	}
	if p.nonces < m.each[i] && s.now.rev < m.writes && p.pending[1].nonce == 0 {
		add(func(s *leaseState) string {
			p := &s.p[i]
			nonce := p.post(i, modelMsg{kind: msgRenew, expect: p.rev, gen: p.gen})
			at := 0
			if p.pending[0].nonce > 0 {
				at = 1
			}
			p.pending[at].nonce, p.pending[at].age = nonce, 0
			return ""
		}, "%s sends a renewal of revision %d", name(i), p.rev)
	}
	if s.now.rev < m.writes && !m.calm {
		add(func(s *leaseState) string {
			p := &s.p[i]
			p.post(i, modelMsg{kind: msgRelease, expect: p.rev, gen: p.gen})
			p.end()
			return ""
		}, "%s unlocks and sends the delete of revision %d", name(i), p.rev)
	}
	if m.fenced {
		add(func(s *leaseState) string {
			s.p[i].post(i, modelMsg{kind: msgGuarded, gen: s.p[i].gen})
			return ""
		}, "%s sends a guarded write of generation %d", name(i), p.gen)
	}
}

func (p *modelProc) crash() {
	out := p.out
	for i := range out {
		if out[i].state == flying {
			out[i].state = orphaned
		} else if out[i].state != orphaned {
			out[i] = modelMsg{}
		}
	}
	*p = modelProc{crashed: true, out: out}
}
