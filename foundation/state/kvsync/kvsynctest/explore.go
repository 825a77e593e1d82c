package kvsynctest

import (
	"fmt"
	"slices"
)

// Rule is a rule of the protocol that the explorer can take away, to show what it is for.
type Rule string

// The rules. Each is what the code does; without it, Explore finds how ownership goes wrong.
const (
	// WaitT: a contender takes over only what it has itself seen unchanged for T.
	WaitT Rule = "a contender waits for T"
	// RestartOnChange: what it sees changed, it begins to watch anew.
	RestartOnChange Rule = "a change restarts the observation"
	// StampAfter: an observation begins when the answer has arrived, not when it was asked for.
	StampAfter Rule = "an observation counts from its answer"
	// ShorterV: a holder believes for 2T/3, so that clocks may run at different rates.
	ShorterV Rule = "a holder believes for less than T"
	// FromSend: a holder counts from when it sent its last landed write.
	FromSend Rule = "validity counts from the send"
	// LateGrant: a grant whose answer took V is none.
	LateGrant Rule = "a late grant is refused"
	// AtUse: whether a lease is held is computed when it is asked for.
	AtUse Rule = "validity is computed at the call"
	// SuspendCounts: the time that a host is suspended counts for a holder.
	SuspendCounts Rule = "suspended time counts"
	// OwnClock: a contender counts by its monotonic clock, which cannot be set.
	OwnClock Rule = "a contender's clock cannot be set"
	// NoRevival: a success that arrives after the end restores nothing.
	NoRevival Rule = "a late success restores nothing"
	// SwapToAcquire: a grant is a landed compare-and-swap.
	SwapToAcquire Rule = "acquiring is a compare-and-swap"
	// SwapToRenew: a renewal replaces only the revision that it renews.
	SwapToRenew Rule = "renewing is a compare-and-swap"
	// SwapToRelease: an unlock deletes only what it holds.
	SwapToRelease Rule = "releasing is a compare-and-delete"
	// LookBeforeLoss: after a refusal the holder looks for its own write before it believes in a loss.
	LookBeforeLoss Rule = "a refusal is looked into"
	// IgnoreOlder: a read of a lower revision than one already seen is ignored.
	IgnoreOlder Rule = "older reads are ignored"
	// OwnGhostOnly: at once adopted is only what this very process wrote and lost sight of.
	OwnGhostOnly Rule = "only an own ghost is adopted"
	// NewGeneration: an adoption is a new acquisition, with a generation of its own.
	NewGeneration Rule = "an adoption has a new generation"
	// LongerTTL: a contender waits for the longer of its own T and the record's.
	LongerTTL Rule = "the longer time to live counts"
	// Fenced: a leader's write carries the condition that no later leader has written.
	Fenced Rule = "writes are fenced"
	// MarkDead: a session is marked dead by a write before its members are taken.
	MarkDead Rule = "a session is marked dead first"
	// ProveAbsent: that a session is absent is proven by a write.
	ProveAbsent Rule = "absence is proven by a write"
)

// Rules are all of them.
func Rules() []Rule {
	return []Rule{
		WaitT, RestartOnChange, StampAfter, ShorterV, FromSend, LateGrant, AtUse, SuspendCounts, OwnClock, NoRevival,
		SwapToAcquire, SwapToRenew, SwapToRelease, LookBeforeLoss, IgnoreOlder, OwnGhostOnly, NewGeneration, LongerTTL,
		Fenced, MarkDead, ProveAbsent,
	}
}

// Exploration is what was found in every schedule of a small model within its bounds.
type Exploration struct {
	Model     string
	States    int
	Violation string   // empty when there is none
	Trace     []string // the shortest way to it
}

// step is one thing that can happen next.
type step[S comparable] struct {
	label label
	to    S
	bad   string // what this step violates
}

// label is a sentence that is only put together when somebody reads it.
type label struct {
	format string
	args   [3]any
	n      int
}

func say(format string, args ...any) label {
	l := label{format: format, n: len(args)}
	copy(l.args[:], args)
	return l
}

func (l label) String() string { return fmt.Sprintf(l.format, l.args[:l.n]...) }

// search looks at every state that can be reached, nearest first, until one violates something.
func search[S comparable](model string, from S, next func(S) []step[S]) Exploration {
	type origin struct {
		parent int
		label  label
	}
	states := []S{from}
	origins := []origin{{parent: -1}}
	seen := map[S]struct{}{from: {}}
	trace := func(i int, last label) (t []string) {
		t = []string{last.String()}
		for ; origins[i].parent >= 0; i = origins[i].parent {
			t = append(t, origins[i].label.String())
		}
		for a, b := 0, len(t)-1; a < b; a, b = a+1, b-1 {
			t[a], t[b] = t[b], t[a]
		}
		return t
	}
	for i := 0; i < len(states); i++ {
		for _, s := range next(states[i]) {
			if s.bad != "" {
				return Exploration{Model: model, States: len(states), Violation: s.bad, Trace: trace(i, s.label)}
			}
			if _, known := seen[s.to]; !known {
				seen[s.to] = struct{}{}
				states = append(states, s.to)
				origins = append(origins, origin{i, s.label})
			}
		}
	}
	return Exploration{Model: model, States: len(states)}
}

// shownBy is the model that shows a rule soonest, where it is not one of the first.
var shownBy = map[Rule]string{
	StampAfter: "slow reads", LookBeforeLoss: "slow reads", ShorterV: "clock rates", FromSend: "clock rates", SuspendCounts: "a suspended host",
}

// Explore searches every small model without the given rules. It stops at the first violation; when there
// is none, it says how many states all of them have.
func Explore(without ...Rule) Exploration {
	off, soonest := map[Rule]bool{}, map[string]bool{}
	for _, r := range without {
		off[r] = true
		soonest[shownBy[r]] = true
	}
	models := leaseModels()
	slices.SortStableFunc(models, func(a, b leaseModel) int {
		switch {
		case soonest[a.name] == soonest[b.name]:
			return 0
		case soonest[a.name]:
			return -1
		}
		return 1
	})
	searches := []func(map[Rule]bool) Exploration{exploreStarvation, exploreSession}
	for _, m := range models {
		searches = append(searches, m.explore)
	}
	all := Exploration{Model: "all"}
	for _, search := range searches {
		e := search(off)
		if e.Violation != "" {
			return e
		}
		all.States += e.States
	}
	return all
}

// String tells how a violation comes about.
func (e Exploration) String() string {
	if e.Violation == "" {
		return fmt.Sprintf("%d states, no violation", e.States)
	}
	s := fmt.Sprintf("%s (model %q, after %d states):", e.Violation, e.Model, e.States)
	for i, label := range e.Trace {
		s += fmt.Sprintf("\n%3d. %s", i+1, label)
	}
	return s
}
