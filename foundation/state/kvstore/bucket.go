package kvstore

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
)

// SyncBucket holds every claim, lease and election of the platform.
const SyncBucket = "spinifex-sync"

// openTimeout bounds one attempt to open a bucket, its creation included.
const openTimeout = 10 * time.Second

// Entry is the value of a key at a revision. Deleted is set in changes only.
type Entry = natskv.Entry

// Change is one step of Follow.
type Change = natskv.Change

// Bucket is a KV bucket that is opened at first use. It implements kvsync.KVStore, kvsync.Watcher,
// kvsync.Identity and kvsync.Recorder, and is safe for concurrent use.
type Bucket struct {
	js   jetstream.JetStream
	name string
	set  settings
	sync bool // the sync bucket

	incarnation string

	mu sync.Mutex
	// Everything below is protected by mu.
	opened *opened
	flight *flight
}

// opened is what an open yields.
type opened struct {
	store *natskv.Store
	kv    jetstream.KeyValue
}

// flight is one attempt to open, shared by everybody who waits for it.
type flight struct {
	done   chan struct{} // closed when opened or err is set
	opened *opened
	err    error
}

// Open returns the bucket of that name, without any I/O. A bad name is reported at first use.
func Open(js jetstream.JetStream, bucket string, opts ...Option) *Bucket {
	return &Bucket{js: js, name: bucket, set: newSettings(opts), sync: bucket == SyncBucket, incarnation: nuid.Next()}
}

// OpenSyncBucket returns the bucket of all locks, without any I/O. Give it a connection of its own
// that has no reconnect buffer: a buffered compare-and-swap sent seconds later is a write that
// nobody waits for.
func OpenSyncBucket(js jetstream.JetStream, opts ...Option) *Bucket {
	return Open(js, SyncBucket, opts...)
}

// Name returns the bucket's name.
func (b *Bucket) Name() string { return b.name }

// KV returns the raw handle, opening the bucket when it is not. Its reads go to the stream's leader.
func (b *Bucket) KV(ctx context.Context) (jetstream.KeyValue, error) {
	o, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	return o.kv, nil
}

// open returns the open bucket. Nobody holds the lock while the network is waited for: the attempt
// runs by itself, bounded by openTimeout, and a caller leaves it when its ctx ends.
func (b *Bucket) open(ctx context.Context) (*opened, error) {
	if ctx.Err() != nil {
		return nil, unavailable(b.name, context.Cause(ctx))
	}
	b.mu.Lock()
	if b.opened != nil {
		o := b.opened
		b.mu.Unlock()
		return o, nil
	}
	f := b.flight
	if f == nil {
		f = &flight{done: make(chan struct{})}
		b.flight = f
		go b.fly(context.WithoutCancel(ctx), f)
	}
	b.mu.Unlock()
	select {
	case <-f.done:
		return f.opened, f.err
	case <-ctx.Done():
		return nil, unavailable(b.name, context.Cause(ctx))
	}
}

// fly makes one attempt and tells everybody who waits.
func (b *Bucket) fly(ctx context.Context, f *flight) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	f.opened, f.err = b.connect(ctx)
	b.mu.Lock()
	b.opened, b.flight = f.opened, nil
	b.mu.Unlock()
	close(f.done)
}

// done translates the error of an operation on o. A bucket that may be created again is forgotten
// when it is gone, so that the next operation does so; this one is not repeated on an empty bucket.
func (b *Bucket) done(o *opened, err error) error {
	if err == nil {
		return nil
	}
	if b.set.recreate && !b.sync && errors.Is(err, kvsync.ErrStoreRegressed) {
		b.mu.Lock()
		if b.opened == o {
			b.opened = nil
		}
		b.mu.Unlock()
		return unavailable(b.name, errors.New(err.Error()))
	}
	if b.sync && errors.Is(err, kvsync.ErrStoreRegressed) {
		return &marked{errors.New(err.Error() + "; see spinifex locks rebuild"), kvsync.ErrStoreRegressed}
	}
	return translate(err)
}

// Seen is what this process has seen of the bucket's stream; false before the bucket was opened. It asks
// nobody.
func (b *Bucket) Seen() (natskv.Seen, bool) {
	b.mu.Lock()
	o := b.opened
	b.mu.Unlock()
	if o == nil {
		return natskv.Seen{}, false
	}
	return o.store.Seen(), true
}

// Bounded implements kvsync.Bounded: every wait ends with its context, that for an open too.
func (b *Bucket) Bounded() {}

// Load implements kvsync.KVStore.
func (b *Bucket) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	e, err := b.Get(ctx, key)
	return e.Value, e.Rev, err
}

// CompareAndSwap implements kvsync.KVStore.
func (b *Bucket) CompareAndSwap(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	return b.write(ctx, func(s *natskv.Store) (uint64, error) { return s.CompareAndSwap(ctx, key, value, rev) })
}

// CompareAndDelete implements kvsync.KVStore.
func (b *Bucket) CompareAndDelete(ctx context.Context, key string, rev uint64) error {
	_, err := b.write(ctx, func(s *natskv.Store) (uint64, error) { return 0, s.CompareAndDelete(ctx, key, rev) })
	return err
}

// Watch implements kvsync.Watcher; "" watches all keys.
func (b *Bucket) Watch(ctx context.Context, keyOrPrefix string) (<-chan kvsync.Update, error) {
	o, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	ch, err := o.store.Watch(ctx, keyOrPrefix)
	return ch, b.done(o, err)
}

// Follow is Watch with the time of each entry, and with a step that says when the entries that
// existed at the start are through. The channel closes when ctx ends or the watch breaks; whoever
// follows on calls it again.
func (b *Bucket) Follow(ctx context.Context, keyOrPrefix string) (<-chan Change, error) {
	o, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	ch, err := o.store.Follow(ctx, keyOrPrefix)
	return ch, b.done(o, err)
}

// Incarnation implements kvsync.Identity.
func (b *Bucket) Incarnation() string {
	if b.set.identity != nil {
		return b.set.identity.Incarnation()
	}
	return b.incarnation
}

// ProvenDead implements kvsync.Identity.
func (b *Bucket) ProvenDead(incarnation string) bool {
	return b.set.identity != nil && b.set.identity.ProvenDead(incarnation)
}

// Record implements kvsync.Recorder.
func (b *Bucket) Record(e kvsync.Event) {
	if b.set.recorder != nil {
		b.set.recorder.Record(e)
	}
}

// Get returns the entry of a key, or ErrNotFound.
func (b *Bucket) Get(ctx context.Context, key string) (Entry, error) {
	o, err := b.open(ctx)
	if err != nil {
		return Entry{}, err
	}
	e, err := o.store.Get(ctx, key)
	return e, b.done(o, err)
}

// List yields the entries of the keys below a prefix that ends in a dot, of one key, or of all keys
// for "", in the order of the keys. Each is read from the stream's leader. An error ends the list.
func (b *Bucket) List(ctx context.Context, keyOrPrefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		o, err := b.open(ctx)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for e, err := range o.store.List(ctx, keyOrPrefix) {
			if !yield(e, b.done(o, err)) {
				return
			}
		}
	}
}

// Create writes a key that is absent or deleted, else it is ErrConflict.
func (b *Bucket) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return b.record(ctx, key, func(s *natskv.Store) (uint64, error) { return s.CompareAndSwap(ctx, key, value, 0) })
}

// Put writes a key whatever it holds.
func (b *Bucket) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return b.record(ctx, key, func(s *natskv.Store) (uint64, error) { return s.Put(ctx, key, value) })
}

// Update writes a key that is at revision rev, else it is ErrConflict. Revision 0 is Create.
func (b *Bucket) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	return b.record(ctx, key, func(s *natskv.Store) (uint64, error) { return s.CompareAndSwap(ctx, key, value, rev) })
}

// Delete deletes a key whatever it holds; one that is absent is no error.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	_, err := b.record(ctx, key, func(s *natskv.Store) (uint64, error) { return s.Delete(ctx, key) })
	return err
}

// DeleteAt deletes a key that is at revision rev, else it is ErrConflict.
func (b *Bucket) DeleteAt(ctx context.Context, key string, rev uint64) error {
	_, err := b.record(ctx, key, func(s *natskv.Store) (uint64, error) { return 0, s.CompareAndDelete(ctx, key, rev) })
	return err
}

// record is write for keys that are not reserved.
func (b *Bucket) record(ctx context.Context, key string, do func(*natskv.Store) (uint64, error)) (uint64, error) {
	if natskv.Reserved(key) {
		return 0, &natskv.Error{Op: "write", Bucket: b.name, Key: key, Err: ErrReserved}
	}
	return b.write(ctx, do)
}

func (b *Bucket) write(ctx context.Context, do func(*natskv.Store) (uint64, error)) (uint64, error) {
	o, err := b.open(ctx)
	if err != nil {
		return 0, err
	}
	rev, err := do(o.store)
	return rev, b.done(o, err)
}
