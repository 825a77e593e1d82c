package kvsynctest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// resumeEvery is in how many schedules one goes on when the faults are over, to see that everything does.
const resumeEvery = 16

// simTTL is T of the simulated leases, by their own clocks.
const simTTL = 12 * time.Second

// Profile says how hostile the hosts and the network of a Simulation are. Probabilities are per request.
type Profile struct {
	Hosts            int           // most; at least 2 take part
	Delay            time.Duration // most that a request, an answer or a pushed update usually takes
	Slow             float64       // takes up to ten times as long
	Lost, Unanswered float64       // never arrives; is carried out but the answer is lost
	Late             float64       // is carried out up to 2T after its sender has given up
	Duplicate        float64       // is carried out twice
	Stale            float64       // a read is answered from up to three writes ago
	InFlight         float64       // a write is refused although nothing is wrong with it
	Down             float64       // certainly did not happen

	// The most of each in one schedule.
	Partitions, Suspends, Crashes, WatchBreaks int

	// MinRate and MaxRate bound how fast the hosts' clocks run. Guarantee S1 is for MaxRate/MinRate < 1.5.
	MinRate, MaxRate float64
	// MixedTTL gives some hosts twice the time to live, as in the middle of a change of configuration.
	MixedTTL bool
}

// Hostile is everything that the protocol must stay safe under, with clock rates just within the bound.
func Hostile() Profile {
	return Profile{
		Hosts: 5, Delay: simTTL / 240, Slow: 0.05, Lost: 0.03, Unanswered: 0.03, Late: 0.03, Duplicate: 0.02, Stale: 0.1,
		InFlight: 0.03, Down: 0.02, Partitions: 3, Suspends: 3, Crashes: 2, WatchBreaks: 2, MinRate: 0.82, MaxRate: 1.22, MixedTTL: true,
	}
}

// Mild is what no lease may be lost to: lost requests and answers, refusals that mean nothing, slow
// answers, broken watches.
func Mild() Profile {
	return Profile{
		Hosts: 3, Delay: simTTL / 240, Slow: 0.02, Lost: 0.01, Unanswered: 0.02, Duplicate: 0.01,
		InFlight: 0.03, Down: 0.02, WatchBreaks: 2, MinRate: 1, MaxRate: 1,
	}
}

// Simulation is one schedule: a few hosts with clocks, processes and connections of their own contend
// for leases, members of a group and claims over one store, while their requests are delayed, lost,
// repeated and answered wrongly, and they are cut off, suspended and killed, all as drawn from Seed.
// An omniscient checker looks after every step:
//
//   - S1: of one key, no two acquisitions are valid at one instant;
//   - S2: its generations increase strictly, in the store and in the order of the grants;
//   - S3: nothing that another acquisition does changes or frees the one that is valid;
//   - S4: after a guarded write, none of an older generation is taken;
//   - in one schedule of sixteen, when the faults are over: every key is held again soon.
//
// Everything happens in virtual time, so that a Seed repeats its schedule exactly.
type Simulation struct {
	Seed    uint64
	Profile Profile
	Trace   bool // keep the History
}

// SimReport is what became of a Simulation.
type SimReport struct {
	Violation string // the first one; empty when every invariant held
	History   []string
	Digest    uint64 // of the history, kept or not

	Steps, Checks, Grants, Losses, GuardedWrites, Refused int
}

// Run runs the simulation in a bubble of its own. t must not be in one.
func (s Simulation) Run(t *testing.T) SimReport {
	var r SimReport
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(s)
		w.run(t.Context())
		r = w.report()
	})
	return r
}

// The objects that hosts contend for.
const (
	simLease  = "k.lease"
	simGroup  = "g."
	simClaims = "c."
)

// world is everything there is, and the checker.
type world struct {
	Simulation
	srv   *Server
	rng   *rand.Rand // of the director, used before anything runs
	start time.Time
	play  []string // keys in play
	ends  time.Duration
	hosts int

	healed atomic.Bool
	losses atomic.Int64

	mu       sync.Mutex // one step at a time; guards everything below
	rep      SimReport
	lives    []*life
	last     map[string]generation // by key, of the store
	granted  map[string]uint64     // by key, of the last grant
	fences   map[string]*fence
	recently map[string]bool // keys granted or held since the faults ended
	claims   map[string]claimant
	sessions map[string]uint64 // first revision of each session, which tells them apart in every run alike
}

// claimant is who believes to have a claim.
type claimant struct {
	by  *life
	tok kvsync.Token
}

type generation struct {
	number uint64
	holder string
}

// fence is a key's fence and the last write that it let pass.
type fence struct {
	generation, rev uint64
	written         uint64
}

func newWorld(s Simulation) *world {
	w := &world{
		Simulation: s, srv: NewServer(), rng: rand.New(rand.NewPCG(s.Seed, 0)), start: time.Now(),
		last: map[string]generation{}, granted: map[string]uint64{}, fences: map[string]*fence{}, recently: map[string]bool{}, claims: map[string]claimant{}, sessions: map[string]uint64{},
	}
	w.hosts = 2
	for w.hosts < s.Profile.Hosts && w.rng.IntN(3) == 0 {
		w.hosts++
	}
	switch w.rng.IntN(8) {
	case 0:
		w.play = []string{simClaims + "x", simLease}
	case 1, 2:
		w.play = []string{simGroup + "x", simGroup + "y"}
	case 3:
		w.play = []string{simLease, simGroup + "x"}
	default:
		w.play = []string{simLease}
	}
	w.ends = simTTL * time.Duration(10+w.rng.IntN(10)) / 10
	return w
}

// run takes the schedule from its start to the end of the last goroutine.
func (w *world) run(ctx context.Context) {
	var wg sync.WaitGroup
	hosts := make([]*host, w.hosts)
	for i := range hosts {
		hosts[i] = newHost(w, i)
		wg.Go(func() { hosts[i].run(ctx) })
	}
	w.direct(hosts)
	time.Sleep(w.ends)
	w.healed.Store(true)
	var longest time.Duration // T of any host, in real time
	for _, h := range hosts {
		longest = max(longest, h.ttl())
	}
	w.noteHeld()
	if w.Seed%resumeEvery == 0 {
		time.Sleep(longest * 5 / 2)
		w.checkResumed()
	}
	for _, h := range hosts {
		h.stop()
	}
	wg.Wait()
	time.Sleep(longest) // the dead still believe for a while
}

// direct draws the misfortunes of hosts and lets each happen at its time.
func (w *world) direct(hosts []*host) {
	some := func(most int, what func(h *host, lasts time.Duration)) {
		if most == 0 {
			return
		}
		for range w.rng.IntN(most + 1) {
			h := hosts[w.rng.IntN(len(hosts))]
			lasts := time.Duration(w.rng.Int64N(int64(2 * simTTL)))
			if w.rng.IntN(2) == 0 {
				lasts /= 8
			}
			at := time.Duration(w.rng.Int64N(int64(w.ends)))
			time.AfterFunc(at, func() {
				if !w.healed.Load() {
					what(h, min(lasts, w.ends-at))
				}
			})
		}
	}
	p := w.Profile
	some(p.Partitions, func(h *host, lasts time.Duration) { h.cut(lasts) })
	some(p.Suspends, func(h *host, lasts time.Duration) { h.suspend(lasts) })
	some(p.Crashes, func(h *host, lasts time.Duration) { h.crash(lasts) })
	some(p.WatchBreaks, func(*host, time.Duration) { w.srv.BreakWatches() })
}

func (w *world) report() SimReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rep.Losses = int(w.losses.Load())
	return w.rep
}

// noteLocked adds a step to the history and its digest.
func (w *world) noteLocked(l *life, what Kind, key string, rev uint64, err error) {
	w.rep.Steps++
	at := time.Since(w.start)
	const prime = 1099511628211
	ok := uint64(0)
	if err == nil {
		ok = 1
	}
	for _, part := range [...]uint64{uint64(at), uint64(l.host), uint64(l.number), uint64(len(what)), hashOf(class(key)), rev, ok} {
		w.rep.Digest = (w.rep.Digest ^ part) * prime
	}
	if w.Trace {
		w.rep.History = append(w.rep.History, fmt.Sprintf("%12v %s %-7s %-12s rev %d %s", at, l.incarnation, what, class(key), rev, short(err)))
	}
}

func short(err error) string {
	if err == nil {
		return ""
	}
	s := err.Error()
	return s[strings.LastIndex(s, ": ")+1:]
}

// violatedLocked keeps the first violation.
func (w *world) violatedLocked(format string, args ...any) {
	if w.rep.Violation == "" {
		w.rep.Violation = fmt.Sprintf("at %v: ", time.Since(w.start)) + fmt.Sprintf(format, args...)
		if w.Trace {
			w.rep.History = append(w.rep.History, w.rep.Violation)
		}
	}
}

// holderLocked is who holds a lease's key at this instant: by the clock of every process that runs.
func (w *world) holderLocked(key string) (*life, kvsync.Token) {
	w.rep.Checks++
	var by *life
	var tok kvsync.Token
	for _, l := range w.lives {
		lease := l.leases[key]
		if lease == nil || !l.runsLocked() {
			continue
		}
		got, held := lease.Token()
		if !held {
			continue
		}
		if by != nil {
			w.violatedLocked("S1: %s is held by %s with %v and by %s with %v", key, by.incarnation, tok, l.incarnation, got)
		}
		by, tok = l, got
	}
	return by, tok
}

// grantedTo checks a grant of a lease, at the instant that its caller learns of it.
func (w *world) grantedTo(l *life, key string, tok kvsync.Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.dead {
		return // only the simulation goes on
	}
	w.rep.Grants++
	w.recently[key] = w.recently[key] || w.healed.Load()
	w.noteLocked(l, "grant", key, tok.Generation, nil)
	if tok.Generation <= w.granted[key] {
		w.violatedLocked("S2: %s is granted to %s with %v after generation %d", key, l.incarnation, tok, w.granted[key])
	}
	w.granted[key] = tok.Generation
	w.holderLocked(key)
}

// claimed notes that somebody got a claim. Whom it got it from was checked when the write was taken.
func (w *world) claimed(l *life, key string, tok kvsync.Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.dead {
		return
	}
	w.rep.Grants++
	w.noteLocked(l, "claim", key, tok.Generation, nil)
	if tok.Generation < w.granted[key] {
		return // it was taken over before its answer arrived, as a claim may be at any time
	}
	w.granted[key] = tok.Generation
	if w.claims[key] == (claimant{l, tok}) {
		w.violatedLocked("S1: claim %s is granted twice to %s with %v", key, l.incarnation, tok)
	}
	w.claims[key] = claimant{l, tok}
}

// unclaimed is called before an unlock.
func (w *world) unclaimed(l *life, key string, tok kvsync.Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claims[key] == (claimant{l, tok}) {
		delete(w.claims, key)
	}
}

// noteHeld notes who holds what when the faults end.
func (w *world) noteHeld() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range w.play {
		by, _ := w.holderLocked(key)
		w.recently[key] = by != nil
	}
}

// checkResumed wants every key to have been held or granted since the faults ended.
func (w *world) checkResumed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range w.play {
		if strings.HasPrefix(key, simClaims) {
			continue // it may be the dead's for ever
		}
		if by, _ := w.holderLocked(key); by == nil && !w.recently[key] {
			w.violatedLocked("liveness: nobody has had %s since the faults were over", key)
		}
	}
}

// beforeWrite is what the checker must know of a key before a write of it.
type beforeWrite struct {
	by      *life
	tok     kvsync.Token
	members []string // held members that a session's key keeps
	rec     wireRecord
	was     bool // there was a record
}

func (w *world) beforeLocked(key string) beforeWrite {
	var b beforeWrite
	value, rev := w.srv.Value(key)
	b.rec, b.was = readRecord(value, rev)
	switch {
	case isSession(key):
		for _, member := range w.play {
			value, rev := w.srv.Value(member)
			if rec, ok := readRecord(value, rev); ok && rec.Session == key {
				if by, tok := w.holderLocked(member); by != nil && tok.Generation == rec.Generation {
					b.by, b.tok = by, tok
					b.members = append(b.members, member)
				}
			}
		}
	case slices.Contains(w.play, key):
		b.by, b.tok = w.holderLocked(key)
	}
	return b
}

// afterLocked checks a write or delete that was taken, given what was there before.
func (w *world) afterLocked(l *life, kind Kind, key string, b beforeWrite, rec wireRecord) {
	switch {
	case isSession(key):
		if len(b.members) > 0 && (b.by != l || kind == Delete || rec.Reason != "") {
			w.violatedLocked("S3: %s ends the session of %s, which holds %v", l.incarnation, b.by.incarnation, b.members)
		}
		return
	case b.by != nil && (b.by != l || kind == Delete || rec.Generation != b.tok.Generation):
		w.violatedLocked("S3: a %s by %s touches %s, which %s holds with %v", kind, l.incarnation, key, b.by.incarnation, b.tok)
	case kind == Delete && strings.HasPrefix(key, simClaims) && b.rec.Holder != l.name:
		w.violatedLocked("S3: %s frees claim %s of %s", l.incarnation, key, b.rec.Holder)
	case kind == Delete && w.claims[key].tok == (kvsync.Token{Holder: b.rec.Holder, Generation: b.rec.Generation}):
		w.violatedLocked("S3: %s frees claim %s, which is held with %v", l.incarnation, key, w.claims[key].tok)
	}
	if kind == Delete {
		return
	}
	if strings.HasPrefix(key, simClaims) && b.was && b.rec.Holder != l.name && !slices.Contains(l.from, kvsync.Token{Holder: b.rec.Holder, Generation: b.rec.Generation}) {
		w.violatedLocked("S1: claim %s of %s is written by %s, which did not take it over", key, b.rec.Holder, l.incarnation)
	}
	last := w.last[key]
	if rec.Generation < last.number || rec.Generation == last.number && rec.Holder != last.holder {
		w.violatedLocked("S2: %s of generation %d by %s follows %d by %s", key, rec.Generation, rec.Holder, last.number, last.holder)
	}
	w.last[key] = generation{rec.Generation, rec.Holder}
	w.holderLocked(key)
}
