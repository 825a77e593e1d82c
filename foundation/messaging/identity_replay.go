package messaging

import (
	"crypto/sha256"
	"sync"
	"time"
)

// replayMemory remembers calls until their deadline, at most limit of them.
type replayMemory struct {
	limit int

	mu   sync.Mutex
	seen map[callHash]struct{}
	// expiring lists the calls by the second after which they need not be remembered; every second
	// up to swept has been forgotten.
	expiring map[int64][]callHash
	swept    int64
}

// callHash is the truncated SHA-256 of what makes a call unique.
type callHash [16]byte

func newReplayMemory(limit int) *replayMemory {
	return &replayMemory{limit: limit, seen: map[callHash]struct{}{}, expiring: map[int64][]callHash{}}
}

// add remembers a call, or returns ErrReplayed or ErrReplayMemoryFull. deadline lies within
// MaxLifetime of now.
func (m *replayMemory) add(now, deadline time.Time, parts ...string) error {
	sum := sha256.New()
	for _, part := range parts {
		writeField(sum, part)
	}
	call := callHash(sum.Sum(nil)[:16])

	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweepLocked(now)
	if _, ok := m.seen[call]; ok {
		return ErrReplayed
	}
	if len(m.seen) >= m.limit {
		return ErrReplayMemoryFull
	}
	m.seen[call] = struct{}{}
	second := deadline.Unix() + 1
	m.expiring[second] = append(m.expiring[second], call)
	return nil
}

// sweepLocked forgets the calls whose deadline lies before now. Each second is visited once; after
// a jump of the clock no more seconds are visited than there are entries for.
func (m *replayMemory) sweepLocked(now time.Time) {
	until := now.Unix()
	m.swept = min(m.swept, until) // the clock may have been set back
	if len(m.expiring) == 0 || until-m.swept > 2*int64(MaxLifetime/time.Second) {
		for second := range m.expiring {
			if second <= until {
				m.forgetLocked(second)
			}
		}
		m.swept = until
		return
	}
	for ; m.swept < until; m.swept++ {
		m.forgetLocked(m.swept + 1)
	}
}

func (m *replayMemory) forgetLocked(second int64) {
	for _, call := range m.expiring[second] {
		delete(m.seen, call)
	}
	delete(m.expiring, second)
}
