package kvsync

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// reading is what a Load of a key found.
type reading struct {
	rec    record
	rev    uint64
	absent bool  // the store says that there is no such key
	bad    bool  // there is a value, which cannot be decoded
	err    error // the store could not be asked
}

// load reads key. It returns when ctx ends even if the store does not.
func load(ctx context.Context, store KVStore, key string) reading {
	type answer struct {
		value []byte
		rev   uint64
	}
	a, err := bounded(ctx, store, func() (answer, error) {
		v, rev, err := store.Load(ctx, key)
		return answer{v, rev}, err
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return reading{absent: true}
	case err != nil:
		return reading{err: unavailable(err)}
	}
	rec, err := decodeRecord(a.value)
	return reading{rec: rec, rev: a.rev, bad: err != nil}
}

// outcome is one of the three fates of a write, plus what was seen when it did not simply land.
type outcome struct {
	landed bool
	rev    uint64  // of the landed write
	sent   instant // stamped before the request left
	// unknown means that the write may still land: until a newer write moves the key's revision.
	unknown bool
	saw     *reading // the look after a refusal or an unknown outcome
	err     error    // of an unknown or unavailable write; nil after a refusal
}

// swap writes rec at rev and finds out what became of it: landed, refused, or unknown. A write that
// was not answered is looked for by its nonce at the store's leader.
func swap(ctx context.Context, store KVStore, key string, rec record, rev uint64) outcome {
	value, err := rec.encode()
	if err != nil {
		return outcome{err: err}
	}
	o := outcome{sent: readClock()}
	newRev, err := bounded(ctx, store, func() (uint64, error) { return store.CompareAndSwap(ctx, key, value, rev) })
	switch {
	case err == nil:
		o.landed, o.rev = true, newRev
		return o
	case errors.Is(err, ErrStoreRegressed):
		o.err = err
		return o
	case errors.Is(err, ErrRevisionMismatch):
	case errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknownOutcome):
		o.err = err
		return o
	default:
		o.unknown, o.err = true, fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	saw := load(ctx, store, key)
	o.saw = &saw
	switch {
	case saw.err == nil && !saw.absent && !saw.bad && saw.rec.Nonce == rec.Nonce:
		// Also after a mismatch: a store that retries inside may refuse the repeat of what it took.
		return outcome{landed: true, rev: saw.rev, sent: o.sent}
	case o.unknown && rev > 0 && saw.err == nil && !saw.absent && saw.rev > rev:
		// The revision has moved past the one the write expected: it can never land. (A create that
		// expects "absent" may, once the key is deleted again.)
		o.unknown, o.err = false, nil
	}
	return o
}

// remove deletes key at rev, with the errors of CompareAndDelete.
func remove(ctx context.Context, store KVStore, key string, rev uint64) error {
	_, err := bounded(ctx, store, func() (struct{}, error) { return struct{}{}, store.CompareAndDelete(ctx, key, rev) })
	return err
}

// bounded runs f and leaves it behind when ctx ends first: a store may be stuck, and ownership must
// not hang on it. f's goroutine ends when the store lets go.
func bounded[T any](ctx context.Context, store KVStore, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	var zero T
	if err := context.Cause(ctx); err != nil {
		return zero, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if _, ok := store.(Bounded); ok || ctx.Done() == nil {
		v, err := f()
		if err != nil && ctx.Err() != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrRevisionMismatch) &&
			!errors.Is(err, ErrNotFound) && !errors.Is(err, ErrStoreRegressed) {
			err = fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
		}
		return v, err
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		select {
		case r := <-done:
			return r.v, r.err
		default:
		}
		return zero, fmt.Errorf("%w: %w", ErrUnknownOutcome, context.Cause(ctx))
	}
}

// unavailable makes any error of a store that could not be asked match ErrUnavailable.
func unavailable(err error) error {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrStoreRegressed) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// processIncarnation is made at the first use, once per process, for stores without an Identity.
var processIncarnation = sync.OnceValue(newNonce)

func incarnationOf(store KVStore) string {
	if id, ok := store.(Identity); ok {
		if inc := id.Incarnation(); inc != "" {
			return inc
		}
	}
	return processIncarnation()
}

// provenDead reports whether rec's process was another one and is certainly gone.
func provenDead(store KVStore, incarnation string) bool {
	id, ok := store.(Identity)
	return ok && incarnation != "" && incarnation != id.Incarnation() && id.ProvenDead(incarnation)
}

func emit(store KVStore, e Event) {
	if r, ok := store.(Recorder); ok {
		r.Record(e)
	}
}
