package kvsynctest_test

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
)

var (
	simSeed      = flag.Uint64("sim.seed", 1, "first seed of TestSim")
	simSchedules = flag.Int("sim.schedules", 0, "schedules of TestSim; 1 prints the history; 0 is as many as fit among the other tests")
)

// totals adds up reports.
type totals struct {
	mu        sync.Mutex // guards everything below
	schedules int
	kvsynctest.SimReport
	violations map[uint64]string // by seed
}

func (s *totals) add(seed uint64, r kvsynctest.SimReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schedules++
	s.Steps += r.Steps
	s.Checks += r.Checks
	s.Grants += r.Grants
	s.Losses += r.Losses
	s.GuardedWrites += r.GuardedWrites
	s.Refused += r.Refused
	if r.Violation != "" {
		s.violations[seed] = r.Violation
	}
}

func (s *totals) found() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.violations)
}

// simulate runs schedules on every processor until there are n of them, or enough violations.
func simulate(t *testing.T, p kvsynctest.Profile, first uint64, n, enough int) *totals {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	sum := &totals{violations: map[uint64]string{}}
	seeds := make(chan uint64, n)
	for i := range n {
		seeds <- first + uint64(i)
	}
	close(seeds)
	start := time.Now()
	t.Run("schedules", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for seed := range seeds {
					if sum.found() >= enough {
						return
					}
					sum.add(seed, kvsynctest.Simulation{Seed: seed, Profile: p}.Run(t))
				}
			})
		}
	})
	t.Logf("seeds %d to %d: %d schedules, %.0f/s, %d steps of the store, invariants S1 to S4 checked %d times, %d grants, %d losses, %d guarded writes taken, %d refused",
		first, first+uint64(n)-1, sum.schedules, float64(sum.schedules)/time.Since(start).Seconds(), sum.Steps, sum.Checks, sum.Grants, sum.Losses, sum.GuardedWrites, sum.Refused)
	return sum
}

// TestSim simulates seeded schedules under everything that the protocol must stay safe under.
//
//	go test -run 'TestSim$' ./foundation/state/kvsync/kvsynctest -sim.schedules=100000
//	go test -run 'TestSim$' -v ./foundation/state/kvsync/kvsynctest -sim.seed=203 -sim.schedules=1
func TestSim(t *testing.T) {
	if *simSchedules == 1 {
		r := kvsynctest.Simulation{Seed: *simSeed, Profile: kvsynctest.Hostile(), Trace: true}.Run(t)
		t.Logf("seed %d:\n%s", *simSeed, strings.Join(r.History, "\n"))
		require.Empty(t, r.Violation)
		return
	}
	n := *simSchedules
	if n == 0 {
		n = schedulesByDefault
	}
	sum := simulate(t, kvsynctest.Hostile(), *simSeed, n, 3)
	for seed, violation := range sum.violations {
		t.Errorf("seed %d: %s\nagain: go test -run 'TestSim$' -v ./foundation/state/kvsync/kvsynctest -sim.seed=%d -sim.schedules=1\n%s",
			seed, violation, seed, history(t, seed))
	}
}

// history runs a schedule again and keeps what happened.
func history(t *testing.T, seed uint64) string {
	const tries = 10 // the runtime may decide otherwise between goroutines that wake at one instant
	for range tries {
		r := kvsynctest.Simulation{Seed: seed, Profile: kvsynctest.Hostile(), Trace: true}.Run(t)
		if r.Violation != "" {
			return strings.Join(r.History, "\n")
		}
	}
	return "not found again"
}

// TestSimRepeats wants a seed to give the same schedule again. What it cannot decide is which of two
// goroutines runs first that wake at the very same nanosecond.
func TestSimRepeats(t *testing.T) {
	const seeds = 100
	same := 0
	for seed := range uint64(seeds) {
		s := kvsynctest.Simulation{Seed: seed, Profile: kvsynctest.Hostile()}
		if first, second := s.Run(t), s.Run(t); first.Digest == second.Digest {
			same++
		}
	}
	t.Logf("%d of %d seeds gave the same history twice", same, seeds)
	assert.GreaterOrEqual(t, same, seeds*95/100)
}

// TestSimFindsWhatIsBeyondTheBound is the check of the checker: with clock rates further apart than the
// guarantee allows, two holders are found.
func TestSimFindsWhatIsBeyondTheBound(t *testing.T) {
	p := kvsynctest.Hostile()
	p.MinRate, p.MaxRate, p.MixedTTL = 0.6, 1.2, false
	sum := simulate(t, p, 1, 20*schedulesByDefault, 1)
	require.Positive(t, sum.found())
	for seed, violation := range sum.violations {
		t.Logf("seed %d: %s", seed, violation)
		assert.Regexp(t, "S1: |S3: a swap", violation, "two holders, or the write that makes the second")
	}
}

// TestSimLosesNothingToMildFaults: requests and answers are lost, refused and slow, and no lease is.
func TestSimLosesNothingToMildFaults(t *testing.T) {
	sum := simulate(t, kvsynctest.Mild(), 1, schedulesByDefault/4, 1)
	require.Zero(t, sum.found(), "%v", sum.violations)
	require.Zero(t, sum.Losses)
	require.Positive(t, sum.Grants)
}
