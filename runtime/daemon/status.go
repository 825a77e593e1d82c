package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

const (
	// locksSubject is where every process tells which leases it has.
	locksSubject = "spinifex.locks.status"
	// locksWait is how long answers are gathered.
	locksWait = 500 * time.Millisecond
)

// ProcessLocks is what one process says about its leases.
type ProcessLocks struct {
	// Process is the holder name, "<node>/<role>".
	Process     string      `json:"process"`
	Incarnation string      `json:"incarnation"`
	Locks       []LeaseView `json:"locks"`
	// SyncSequence is the highest sequence that the process has seen of the bucket of the locks, and
	// SyncCreated when the stream was made that it obeys; zero before it has opened it.
	SyncSequence uint64    `json:"sync_sequence"`
	SyncCreated  time.Time `json:"sync_created,omitzero"`
	// SyncRegressed says why the process refuses the bucket.
	SyncRegressed string `json:"sync_regressed,omitempty"`
	// SyncAlways is true when the process runs the NATS server itself and it syncs every write.
	SyncAlways bool `json:"sync_always"`
}

// LeaseView is one lease as its process sees it.
type LeaseView struct {
	Key  string `json:"key"`
	Held bool   `json:"held"`
	// Generation of the acquisition, 0 when not held.
	Generation uint64 `json:"generation"`
	// HeldForMS is how long ago the process acquired the key, by its own clock.
	HeldForMS int64 `json:"held_for_ms"`
	// ValidForMS is how long the process may still believe that it holds the key.
	ValidForMS int64 `json:"valid_for_ms"`
	TTLMS      int64 `json:"ttl_ms"`
	// WithoutLeaderMS is how long the process has seen nobody hold the key.
	WithoutLeaderMS int64 `json:"without_leader_ms"`
}

// lockAnswers answers questions about the leases of this process.
type lockAnswers struct {
	process, incarnation string
	leases               []*kvsync.Lease
	sync                 *kvstore.Bucket
	syncAlways           bool
	leaders              *leaderWatch // nil when nobody watches
}

// run answers until ctx ends.
func (l *lockAnswers) run(ctx context.Context, conn *messaging.Conn) error {
	return conn.AnswerSurveys(ctx, locksSubject, func() ([]byte, error) {
		answer := ProcessLocks{
			Process: l.process, Incarnation: l.incarnation, Locks: make([]LeaseView, 0, len(l.leases)), SyncAlways: l.syncAlways,
		}
		if seen, opened := l.sync.Seen(); opened {
			answer.SyncSequence, answer.SyncCreated, answer.SyncRegressed = seen.High, seen.Created, seen.Regressed
		}
		for _, lease := range l.leases {
			view := LeaseView{Key: lease.Key(), ValidForMS: lease.ValidFor().Milliseconds(), TTLMS: lease.TTL().Milliseconds()}
			if tok, held := lease.Token(); held {
				view.Held, view.Generation = true, tok.Generation
			}
			if since, held := lease.Since(); held {
				view.HeldForMS = time.Since(since).Milliseconds()
			}
			if l.leaders != nil {
				view.WithoutLeaderMS = l.leaders.without(lease).Milliseconds()
			}
			answer.Locks = append(answer.Locks, view)
		}
		return json.Marshal(answer)
	})
}

// Lock is a key of the sync bucket, with what its holder and its contenders say about it.
type Lock struct {
	Key        string `json:"key"`
	Holder     string `json:"holder"`
	Generation uint64 `json:"generation"`
	// AgeMS is how long the holder has held the key, null when nobody can say: a renewed record does not
	// show it, so the holder does.
	AgeMS *int64 `json:"age_ms"`
	// RenewedMS is the time since the record was last written, by this machine's clock.
	RenewedMS int64 `json:"renewed_ms"`
	// TTLMS is 0 for a claim, which does not lapse.
	TTLMS int64 `json:"ttl_ms"`
	// Answered is true when the holder's process has answered and holds just this generation; only then
	// ValidForMS says something.
	Answered   bool  `json:"answered"`
	ValidForMS int64 `json:"valid_for_ms"`
	// Contenders are the other processes that want the key.
	Contenders []string `json:"contenders,omitempty"`
	// Reason stands in a record that is being transferred or was broken.
	Reason string `json:"reason,omitempty"`
	// Undecodable is true when the value is no record; Holder is then empty.
	Undecodable bool `json:"undecodable,omitempty"`
}

// ErrNoLocks: no process of this release has made the bucket of the locks yet.
var ErrNoLocks = errors.New("the bucket " + kvstore.SyncBucket + " does not exist: no daemon has started on this NATS server yet")

// LockBook looks at the locks of a cloud and changes none but by Break. It never makes the bucket.
type LockBook struct {
	conn   *messaging.Conn
	bucket *kvstore.Bucket
}

// NewLockBook makes a LockBook on a connection; it does no I/O.
func NewLockBook(conn *messaging.Conn) *LockBook {
	return &LockBook{conn: conn, bucket: kvstore.OpenSyncBucket(conn.JetStream())}
}

// List returns all locks in the order of their keys, after asking every process for half a second.
func (b *LockBook) List(ctx context.Context) ([]Lock, error) {
	if err := b.exists(ctx); err != nil {
		return nil, err
	}
	answers, err := askLocks(ctx, b.conn)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	locks := []Lock{}
	for entry, err := range b.bucket.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("list locks: %w", err)
		}
		locks = append(locks, newLock(entry, answers, now))
	}
	slices.SortFunc(locks, func(a, b Lock) int { return strings.Compare(a.Key, b.Key) })
	return locks, nil
}

// Show returns one lock; its error is kvstore.ErrNotFound when the key is free.
func (b *LockBook) Show(ctx context.Context, key string) (Lock, error) {
	if err := b.exists(ctx); err != nil {
		return Lock{}, err
	}
	answers, err := askLocks(ctx, b.conn)
	if err != nil {
		return Lock{}, err
	}
	entry, err := b.bucket.Get(ctx, key)
	if err != nil {
		return Lock{}, fmt.Errorf("show lock %s: %w", key, err)
	}
	return newLock(entry, answers, time.Now()), nil
}

// Watch sends who has the key, or the keys below a prefix that ends in a dot, or all for "", and then
// each change, until ctx ends or the watch breaks.
func (b *LockBook) Watch(ctx context.Context, keyOrPrefix string) (<-chan kvsync.Change, error) {
	if err := b.exists(ctx); err != nil {
		return nil, err
	}
	return kvsync.Observe(ctx, b.bucket, keyOrPrefix)
}

// Break frees a key that still has the generation given; else it is kvsync.ErrRevisionMismatch.
func (b *LockBook) Break(ctx context.Context, key string, generation uint64, reason string) error {
	if err := b.exists(ctx); err != nil {
		return err
	}
	entry, err := b.bucket.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("break lock %s: %w", key, err)
	}
	lock := newLock(entry, nil, time.Now())
	if lock.Generation != generation {
		return fmt.Errorf("break lock %s: it is at generation %d, not %d: %w", key, lock.Generation, generation, kvsync.ErrRevisionMismatch)
	}
	return kvsync.Break(ctx, b.bucket, key, kvsync.Token{Holder: lock.Holder, Generation: lock.Generation}, reason)
}

// exists keeps a command that only looks from making the bucket: opening it would.
func (b *LockBook) exists(ctx context.Context) error {
	_, _, _, found, err := kvstore.LastWrite(ctx, b.conn.JetStream(), b.bucket.Name())
	if err != nil {
		return err
	}
	if !found { // the bucket's schema version is never deleted
		return ErrNoLocks
	}
	return nil
}

func askLocks(ctx context.Context, conn *messaging.Conn) ([]ProcessLocks, error) {
	raw, err := conn.Survey(ctx, locksSubject, locksWait)
	if err != nil {
		return nil, fmt.Errorf("ask for locks: %w", err)
	}
	var answers []ProcessLocks
	for _, body := range raw {
		var a ProcessLocks
		if json.Unmarshal(body, &a) == nil && a.Process != "" { // another release's answer may be anything
			answers = append(answers, a)
		}
	}
	return answers, nil
}

// lockRecord is what a key of the sync bucket holds, as far as it is for people.
type lockRecord struct {
	Holder     string `json:"holder"`
	Generation uint64 `json:"generation"`
	TTLMillis  int64  `json:"ttl_ms"`
	Reason     string `json:"reason"`
}

func readLockRecord(value []byte) (lockRecord, bool) {
	var record lockRecord
	err := json.Unmarshal(value, &record)
	return record, err == nil && record.Holder != ""
}

// newLock joins a record with the answers.
func newLock(entry kvstore.Entry, answers []ProcessLocks, now time.Time) Lock {
	lock := Lock{Key: entry.Key, Generation: entry.Rev, RenewedMS: max(0, now.Sub(entry.Created).Milliseconds())}
	if record, ok := readLockRecord(entry.Value); !ok {
		lock.Undecodable = true
	} else {
		lock.Holder, lock.TTLMS, lock.Reason = record.Holder, record.TTLMillis, record.Reason
		if record.Generation != 0 { // an acquiring write cannot know its own revision
			lock.Generation = record.Generation
		}
		if lock.Generation == entry.Rev { // the acquiring write itself
			lock.AgeMS = new(lock.RenewedMS)
		}
	}
	for _, a := range answers {
		for _, view := range a.Locks {
			switch {
			case view.Key != lock.Key:
			case a.Process == lock.Holder && view.Held && view.Generation == lock.Generation:
				lock.Answered, lock.ValidForMS, lock.AgeMS = true, view.ValidForMS, new(view.HeldForMS)
			case a.Process != lock.Holder:
				lock.Contenders = append(lock.Contenders, a.Process)
			}
		}
	}
	slices.Sort(lock.Contenders)
	return lock
}
