package kvsync

import (
	"fmt"
	"sync"
)

// CheckFence is the rule of every fence: a write by tok is allowed unless the object was already
// written by a later acquisition. It returns the generation to store beside the object, in the same
// atomic step as the write, or an error that is ErrLost.
//
// In SQL the step is one statement, whose row count 0 is ErrLost:
//
//	UPDATE zone SET body = $2, generation = $3 WHERE id = $1 AND generation <= $3
//
// On S3 it is a read, CheckFence on the generation in the object, and a PutObject with If-Match of
// the ETag that was read.
func CheckFence(stored uint64, tok Token) (uint64, error) {
	if tok.Generation == 0 || tok.Generation < stored {
		return stored, fmt.Errorf("write by %s, after one of generation %d: %w", tok, stored, ErrLost)
	}
	return tok.Generation, nil
}

// FenceChecker applies CheckFence for a store or device that cannot compare by itself, in the one
// process that all writes to it pass: it keeps the highest generation seen of each object. It forgets
// at a restart, so an object that outlives the process stores its generation beside itself and is given to
// Seen first. The zero value is ready; all methods may be called from any goroutine.
type FenceChecker struct {
	mu      sync.Mutex // guards highest
	highest map[string]uint64
}

// Seen raises what is known of an object to generation.
func (f *FenceChecker) Seen(object string, generation uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.raiseLocked(object, generation)
}

// Write runs write if tok may write the object, and remembers its generation first, so that an older
// leader is refused from then on even if write fails. Writes of one checker run one at a time: the
// check and the write are one step. A refusal is ErrLost.
func (f *FenceChecker) Write(object string, tok Token, write func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	generation, err := CheckFence(f.highest[object], tok)
	if err != nil {
		return fmt.Errorf("object %s: %w", object, err)
	}
	f.raiseLocked(object, generation)
	return write()
}

func (f *FenceChecker) raiseLocked(object string, generation uint64) {
	if f.highest == nil {
		f.highest = map[string]uint64{}
	}
	f.highest[object] = max(f.highest[object], generation)
}
