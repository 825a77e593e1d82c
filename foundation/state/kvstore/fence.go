package kvstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/mulgadc/spinifex/foundation/fault"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
)

const (
	fencePrefix   = "_fence."
	witnessPrefix = "_witness."
)

const (
	// MaxWrites bounds one Batch of a Fence.
	MaxWrites = natskv.MaxBatch - 1
	// fenceTries bounds how often one write is sent again because of another one in flight.
	fenceTries = 60
	// fencePause is the mean pause between the tries: a replicated write is applied in less.
	fencePause = 4 * time.Millisecond
	// refusalTimeout bounds the question why a write was refused.
	refusalTimeout = 2 * time.Second
)

// beforePublish is the fault point at which a leader has checked everything and sends its write.
const beforePublish = "kvstore.fence.before_publish"

// Fence writes to a bucket on behalf of one acquisition of a lease. Once a later acquisition has
// its own fence on the bucket, every write is refused with ErrFenced. It is safe for concurrent
// use; its writes are sent one after the other.
type Fence struct {
	store    *natskv.Store
	done     func(error) error // Bucket.done for the open bucket
	log      *slog.Logger
	leaseKey string
	tok      kvsync.Token

	// turn holds one value; who has taken it may use the fields below. It is not a mutex because
	// whoever waits for it leaves when its ctx ends.
	turn chan struct{}
	seq  uint64 // of the last stamp
	// doubt is set when a write's fate is not known. The stamp is then written anew before the
	// next write, so that what is still on its way is refused and cannot land after a later write.
	doubt  bool
	fenced error // the refusal, for good
}

// Write is one write of a Batch.
type Write struct {
	Key    string
	Value  []byte
	Delete bool // deletes the key; Value is ignored
	// Expect is the revision that the key must have, 0 for a key that is absent or deleted. nil
	// writes the key whatever it holds.
	Expect *uint64
}

// Fence stamps the bucket with the generation of tok, the current acquisition of the lease of that
// key, and returns the Fence to write with. A higher generation there is ErrFenced. The stamp of
// this very acquisition is taken as it is, so a pass may call Fence each time it begins.
//
// What the leader read before the stamp may have been written by an earlier leader since: read
// after it.
func (b *Bucket) Fence(ctx context.Context, leaseKey string, tok kvsync.Token) (*Fence, error) {
	if err := natskv.CheckKey(leaseKey); err != nil {
		return nil, fmt.Errorf("fence %s: %w", b.name, err)
	}
	if tok.Generation == 0 {
		return nil, fmt.Errorf("fence %s %s: token names no acquisition", b.name, leaseKey)
	}
	o, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	f := &Fence{
		store: o.store, done: func(err error) error { return b.done(o, err) },
		log: b.set.log.With("bucket", b.name, "lease", leaseKey), leaseKey: leaseKey, tok: tok,
		turn: make(chan struct{}, 1),
	}
	if err := f.stamp(ctx); err != nil {
		return nil, f.done(err)
	}
	return f, nil
}

// Generation returns the generation that the fence writes for.
func (f *Fence) Generation() uint64 { return f.tok.Generation }

// Put writes a key whatever it holds and returns its revision.
func (f *Fence) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return f.one(ctx, "put", natskv.Message{Key: key, Value: value})
}

// Delete deletes a key whatever it holds; one that is absent is no error.
func (f *Fence) Delete(ctx context.Context, key string) error {
	_, err := f.one(ctx, "delete", natskv.Message{Key: key, Delete: true})
	return err
}

// Update writes a key that is at revision rev, 0 for one that is absent or deleted, and returns its
// new revision. Another revision is ErrConflict.
func (f *Fence) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	return f.batch(ctx, "update", []Write{{Key: key, Value: value, Expect: &rev}})
}

// DeleteAt deletes a key that is at revision rev. Another revision is ErrConflict.
func (f *Fence) DeleteAt(ctx context.Context, key string, rev uint64) error {
	if rev == 0 {
		return f.done(&natskv.Error{Op: "delete", Bucket: f.store.Bucket(), Key: key, Kind: kvsync.ErrRevisionMismatch})
	}
	_, err := f.batch(ctx, "delete", []Write{{Key: key, Delete: true, Expect: &rev}})
	return err
}

// Batch makes 1 to MaxWrites writes of different keys, all or none. A revision that is not the
// expected one is ErrConflict.
func (f *Fence) Batch(ctx context.Context, writes []Write) error {
	if len(writes) == 0 || len(writes) > MaxWrites {
		return fmt.Errorf("batch %s: %d writes, must be 1 to %d", f.store.Bucket(), len(writes), MaxWrites)
	}
	_, err := f.batch(ctx, "batch", writes)
	return err
}

// one sends a message that carries the fence as its condition.
func (f *Fence) one(ctx context.Context, op string, m natskv.Message) (uint64, error) {
	if natskv.Reserved(m.Key) {
		return 0, &natskv.Error{Op: op, Bucket: f.store.Bucket(), Key: m.Key, Err: ErrReserved}
	}
	return f.guarded(ctx, true, func(seq uint64, _ bool) (uint64, error) {
		m.Guard = &natskv.Guard{Key: fencePrefix + f.leaseKey, Seq: seq}
		return f.store.Send(fault.Point(ctx, beforePublish), op, m)
	})
}

// batch sends writes behind a witness: a message carries one condition, so the fence is the
// witness's and the revisions are the writes'.
func (f *Fence) batch(ctx context.Context, op string, writes []Write) (uint64, error) {
	msgs := make([]natskv.Message, 1, len(writes)+1)
	remembered := false
	for _, w := range writes {
		if natskv.Reserved(w.Key) {
			return 0, &natskv.Error{Op: op, Bucket: f.store.Bucket(), Key: w.Key, Err: ErrReserved}
		}
		remembered = remembered || w.Expect != nil && *w.Expect == 0
		msgs = append(msgs, natskv.Message{Key: w.Key, Value: w.Value, Delete: w.Delete, Expect: w.Expect})
	}
	return f.guarded(ctx, remembered, func(seq uint64, again bool) (uint64, error) {
		for i, w := range writes {
			if w.Expect != nil && *w.Expect == 0 {
				absent, err := f.store.Absent(ctx, w.Key, again)
				if err != nil {
					return 0, err
				}
				msgs[i+1].Expect = &absent
			}
		}
		msgs[0] = natskv.Message{
			Key:   witnessPrefix + f.leaseKey,
			Guard: &natskv.Guard{Key: fencePrefix + f.leaseKey, Seq: seq},
		}
		return f.store.SendBatch(fault.Point(ctx, beforePublish), op, msgs)
	})
}

// guarded takes its turn and sends a write until it landed or was refused for good. again says that
// a refusal which is not the fence's is worth a second try, because the write has no condition of
// its own or one from memory; send is told the sequence that the fence must have, and whether this
// is the second try.
func (f *Fence) guarded(ctx context.Context, again bool, send func(seq uint64, again bool) (uint64, error)) (uint64, error) {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return 0, unavailable(f.store.Bucket(), context.Cause(ctx))
	}
	if f.fenced != nil {
		return 0, f.fenced
	}
	if f.doubt {
		if err := f.stamp(ctx); err != nil {
			return 0, f.done(err)
		}
	}
	refused := false
	var err error
	for range fenceTries {
		var rev uint64
		if rev, err = send(f.seq, refused); err == nil {
			return rev, nil
		}
		switch {
		case natskv.Retryable(err):
			if perr := pause(ctx); perr != nil {
				return 0, f.done(err)
			}
		case errors.Is(err, kvsync.ErrRevisionMismatch):
			moved, lerr := f.look(ctx)
			if lerr != nil {
				return 0, f.done(lerr)
			}
			if !moved && (!again || refused) {
				return 0, f.done(err)
			}
			refused = refused || !moved
		default:
			f.doubt = errors.Is(err, kvsync.ErrUnknownOutcome)
			return 0, f.done(err)
		}
	}
	return 0, unavailable(f.store.Bucket(), fmt.Errorf("gave up after %d tries: %s", fenceTries, err))
}

// stamp writes the fence's generation, or takes the stamp of this acquisition that is there. After
// a write whose fate is not known it writes it anew.
func (f *Fence) stamp(ctx context.Context) error {
	value := []byte(strconv.FormatUint(f.tok.Generation, 10))
	var err error
	for range fenceTries {
		var there, seq uint64
		if there, seq, err = f.current(ctx); err != nil {
			return err
		}
		if there > f.tok.Generation {
			return f.refuse(there)
		}
		// A stamp later than the one in doubt is as good as a new one: it refuses the same writes.
		if there == f.tok.Generation && (!f.doubt || seq > f.seq) {
			f.seq, f.doubt = seq, false
			return nil
		}
		seq, err = f.store.Send(ctx, "fence", natskv.Message{Key: fencePrefix + f.leaseKey, Value: value, Expect: &seq})
		switch {
		case err == nil:
			f.seq, f.doubt = seq, false
			return nil
		case !errors.Is(err, kvsync.ErrRevisionMismatch) && !errors.Is(err, kvsync.ErrUnknownOutcome) && !natskv.Retryable(err):
			return err
		}
		if perr := pause(ctx); perr != nil {
			return err
		}
	}
	return err
}

// look asks the leader why a write was refused, also when ctx has ended meanwhile: a deposed leader is to
// learn, and to log, that it was. A later generation is ErrFenced; a later stamp of
// this generation, made by another Fence of the same acquisition, is taken and reported as moved.
func (f *Fence) look(ctx context.Context) (moved bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusalTimeout)
	defer cancel()
	there, seq, err := f.current(ctx)
	if err != nil {
		return false, err
	}
	if there != f.tok.Generation {
		return false, f.refuse(there)
	}
	moved = seq != f.seq
	f.seq = seq
	return moved, nil
}

// current returns the generation that the bucket is fenced with and the sequence of its stamp.
func (f *Fence) current(ctx context.Context) (generation, seq uint64, err error) {
	e, err := f.store.Last(ctx, fencePrefix+f.leaseKey)
	switch {
	case errors.Is(err, kvsync.ErrNotFound):
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	case e.Deleted:
		return 0, e.Rev, nil
	}
	generation, err = strconv.ParseUint(string(e.Value), 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %s: fence of %s is %.32q, not a number", ErrUnfit, f.store.Bucket(), f.leaseKey, e.Value)
	}
	return generation, e.Rev, nil
}

// refuse ends the fence for good.
func (f *Fence) refuse(theirs uint64) error {
	f.fenced = &FencedError{Bucket: f.store.Bucket(), LeaseKey: f.leaseKey, Mine: f.tok.Generation, Theirs: theirs}
	f.log.Warn("guarded write refused: a later leader has fenced the bucket",
		"holder", f.tok.Holder, "generation", f.tok.Generation, "fenced_generation", theirs)
	return f.fenced
}

// pause waits a little, so that what is in flight lands, and not as long as another waiter.
func pause(ctx context.Context) error {
	t := time.NewTimer(fencePause/2 + rand.N(fencePause))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
