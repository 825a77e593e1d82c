package kvsynctest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// History records what clients asked of a store and what they were answered, to check afterwards that
// one register per key could have answered so. The zero value is ready.
type History struct {
	// LooseRefusals allows a compare-and-swap to be refused at the right revision, as replicated stores
	// do while another write is in flight.
	LooseRefusals bool

	mu    sync.Mutex // guards everything below
	start time.Time
	ops   []porcupine.Operation
}

// registerCall is one call; what it answered stands in registerAnswer.
type registerCall struct {
	kind   Kind
	key    string
	value  string
	expect uint64
}

type answerKind string

const (
	answered answerKind = "done"
	notFound answerKind = "not found"
	refusal  answerKind = "refused"
	unknown  answerKind = "unknown"
)

type registerAnswer struct {
	kind  answerKind
	value string
	rev   uint64
}

// Record returns s with every call by client recorded. Clients are numbered from 0, and each makes one
// call at a time.
func (h *History) Record(client int, s kvsync.KVStore) kvsync.KVStore {
	return &recorded{history: h, client: client, store: s}
}

// Len is how many calls were recorded, and how many of them have an unknown outcome.
func (h *History) Len() (calls, unknowns int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, op := range h.ops {
		if op.Output.(registerAnswer).kind == unknown {
			unknowns++
		}
	}
	return len(h.ops), unknowns
}

func (h *History) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.start.IsZero() {
		h.start = time.Now()
	}
	return int64(time.Since(h.start))
}

func (h *History) add(op porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// recorded is a store of one client.
type recorded struct {
	history *History
	client  int
	store   kvsync.KVStore
}

func (r *recorded) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	call := r.history.now()
	value, rev, err := r.store.Load(ctx, key)
	r.end(call, registerCall{kind: Load, key: key}, registerAnswer{value: string(value), rev: rev}, err)
	return value, rev, err
}

func (r *recorded) CompareAndSwap(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	call := r.history.now()
	newRev, err := r.store.CompareAndSwap(ctx, key, value, rev)
	r.end(call, registerCall{kind: Swap, key: key, value: string(value), expect: rev}, registerAnswer{rev: newRev}, err)
	return newRev, err
}

func (r *recorded) CompareAndDelete(ctx context.Context, key string, rev uint64) error {
	call := r.history.now()
	err := r.store.CompareAndDelete(ctx, key, rev)
	r.end(call, registerCall{kind: Delete, key: key, expect: rev}, registerAnswer{}, err)
	return err
}

// end records a call. One that certainly did nothing is left out; one with an unknown outcome may take
// effect at any later time.
func (r *recorded) end(call int64, in registerCall, out registerAnswer, err error) {
	op := porcupine.Operation{ClientId: r.client, Input: in, Call: call, Return: r.history.now()}
	switch {
	case err == nil:
		out.kind = answered
	case errors.Is(err, kvsync.ErrNotFound):
		out.kind = notFound
	case errors.Is(err, kvsync.ErrRevisionMismatch):
		out.kind = refusal
	case in.kind == Load || errors.Is(err, kvsync.ErrUnavailable) && !errors.Is(err, kvsync.ErrUnknownOutcome):
		return
	default:
		out.kind, op.Return = unknown, math.MaxInt64
	}
	op.Output = out
	r.history.add(op)
}

// register is the state of one key. After a write whose outcome was unknown its revision is only known to
// be above floor.
type register struct {
	present bool
	value   string
	rev     uint64 // 0: not known
	floor   uint64
}

// at reports whether the register may be at rev, and what it is then.
func (s register) at(rev uint64) (register, bool) {
	if s.rev == 0 && rev > s.floor {
		s.rev = rev
	}
	return s, s.rev == rev && rev > 0
}

// wrote is the register after a write with the given revision; 0 when that is not known.
func (s register) wrote(in registerCall, rev uint64) (register, bool) {
	floor := max(s.rev, s.floor)
	next := register{present: in.kind == Swap, rev: rev, floor: floor}
	if next.present {
		next.value = in.value
	}
	return next, rev == 0 || rev > floor
}

// steps are the states that the register may be in after a call.
func (s register) steps(in registerCall, out registerAnswer, loose bool) []any {
	fits := s.present && in.expect != 0
	before := s
	if in.expect == 0 {
		fits = !s.present
	} else {
		var at bool
		before, at = s.at(in.expect)
		fits = fits && at
	}
	switch {
	case in.kind == Load && out.kind == notFound:
		if s.present {
			return nil
		}
		return []any{s}
	case in.kind == Load:
		after, at := s.at(out.rev)
		if !s.present || s.value != out.value || !at {
			return nil
		}
		return []any{after}
	case out.kind == answered:
		// A delete is not told its revision.
		after, grows := before.wrote(in, out.rev)
		if !fits || !grows {
			return nil
		}
		return []any{after}
	case out.kind == unknown && fits:
		after, _ := before.wrote(in, 0)
		return []any{s, after}
	case out.kind == unknown, !fits, s.rev == 0, loose:
		return []any{s}
	}
	return nil // refused at the right revision
}

// Check reports whether the history is linearizable: every answer is one that a single register per key
// could have given, with each call taking effect at one instant between its beginning and its end. It
// gives up after the timeout.
func (h *History) Check(timeout time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	loose := h.LooseRefusals // the checker's goroutines may outlive its verdict
	model := porcupine.NondeterministicModel{
		Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[string][]porcupine.Operation{}
			for _, op := range ops {
				key := op.Input.(registerCall).key
				byKey[key] = append(byKey[key], op)
			}
			parts := make([][]porcupine.Operation, 0, len(byKey))
			for _, part := range byKey {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() []any { return []any{register{}} },
		Step: func(state, input, output any) []any {
			return state.(register).steps(input.(registerCall), output.(registerAnswer), loose)
		},
	}
	switch result := porcupine.CheckOperationsTimeout(model.ToModel(), h.ops, timeout); result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("history of %d calls: not decided within %v", len(h.ops), timeout)
	default:
		return fmt.Errorf("history of %d calls: no order of them explains the answers", len(h.ops))
	}
}
