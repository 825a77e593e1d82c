package kvsync

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// KVStore is the compare-and-swap store that ownership is built on.
//
// Revisions of a key only grow, also across a delete, and Load is linearizable
// with the writes: it must not be answered by a lagging replica.
// Errors are matched with errors.Is against this package's sentinels.
type KVStore interface {
	// Load returns the value and revision of key, or ErrNotFound when the key is absent or deleted.
	Load(ctx context.Context, key string) (value []byte, rev uint64, err error)
	// CompareAndSwap writes value if the key's revision is still rev and returns the new revision.
	// rev 0 means that the key must be absent or deleted. A refusal is ErrRevisionMismatch; a write
	// whose fate is not known is ErrUnknownOutcome; one that certainly did not happen for lack of a
	// store is ErrUnavailable.
	CompareAndSwap(ctx context.Context, key string, value []byte, rev uint64) (newRev uint64, err error)
	// CompareAndDelete deletes key if its revision is still rev, with the errors of CompareAndSwap.
	CompareAndDelete(ctx context.Context, key string, rev uint64) error
}

// Watcher is implemented by a store that can push changes. Leases work without it, slower.
type Watcher interface {
	// Watch sends the current entries of a key, or of every key below a prefix that ends in a dot,
	// and then every change, until ctx ends or the watch breaks; then it closes the channel.
	Watch(ctx context.Context, keyOrPrefix string) (<-chan Update, error)
}

// Update is one change of a watched key.
type Update struct {
	Key     string
	Value   []byte
	Rev     uint64
	Deleted bool
}

// Recorder is implemented by a store that wants an Event for each thing that happens to a lease or
// claim on it: the seam for metrics and traces. Record must not block.
type Recorder interface{ Record(Event) }

// Bounded is implemented by a store whose calls return soon after their context ends, whatever the
// server does. The calls of any other store are made in goroutines that can be left behind, which
// costs a little.
type Bounded interface{ Bounded() }

// Identity is implemented by a store that knows which process this is. Without it a random
// incarnation is made once per process and nobody is ever proven dead.
type Identity interface {
	// Incarnation names this start of this process; never empty.
	Incarnation() string
	// ProvenDead reports whether the process of that incarnation is certainly gone, such as an
	// earlier owner of a data directory whose lock this process now has.
	ProvenDead(incarnation string) bool
}

// Token names one acquisition of a key.
type Token struct {
	// Holder is the stable name of the owner, "<node>/<role>".
	Holder string
	// Generation is the store revision of the acquiring write: a later holder's is always greater.
	// It is the fencing token. Zero names nothing.
	Generation uint64
}

// String formats the token for logs and errors.
func (t Token) String() string { return fmt.Sprintf("%s@%d", t.Holder, t.Generation) }

var (
	// ErrNotFound is a key that is absent or deleted.
	ErrNotFound = errors.New("kvsync: key not found")
	// ErrRevisionMismatch is a compare-and-swap that the store refused.
	ErrRevisionMismatch = errors.New("kvsync: revision mismatch")
	// ErrUnavailable is a store that could not be asked; nothing is known to have changed.
	ErrUnavailable = errors.New("kvsync: store unavailable")
	// ErrUnknownOutcome is a write that may have landed or may land later. It is also ErrUnavailable.
	ErrUnknownOutcome error = unknownOutcome{}
	// ErrLost is ownership that has ended; the cause of a lease's context.
	ErrLost = errors.New("kvsync: ownership lost")
	// ErrStoreRegressed is a store whose revisions or identity went backwards: nothing is granted on it.
	ErrStoreRegressed = errors.New("kvsync: store regressed")
)

type unknownOutcome struct{}

func (unknownOutcome) Error() string        { return "kvsync: outcome of the write unknown" }
func (unknownOutcome) Is(target error) bool { return target == ErrUnavailable }

// HeldError is returned when somebody else has the key. Current is the zero Token when a TakeOver
// found the key absent, and has generation 0 when the record could not be read.
type HeldError struct {
	Key     string
	Current Token
}

// Error names the key and its holder.
func (e *HeldError) Error() string {
	if e.Current == (Token{}) {
		return fmt.Sprintf("kvsync: %s is not held", e.Key)
	}
	return fmt.Sprintf("kvsync: %s is held by %s", e.Key, e.Current)
}

// EventKind says what an Event reports.
type EventKind string

// The kinds of Event.
const (
	EventAcquired EventKind = "acquired"  // Reason: created, adopted, expired, confirmed
	EventRenewed  EventKind = "renewed"   // Latency and Margin are set
	EventUnknown  EventKind = "unknown"   // a write whose outcome could not be told at once
	EventLost     EventKind = "lost"      // Reason: expired, replaced, broken, regressed
	EventReleased EventKind = "released"  // Reason: unlocked, transferred, overrun
	EventTookOver EventKind = "took_over" // Reason: expired, dead, claim
)

// Event is one thing that happened to a key, as seen by this process.
type Event struct {
	Kind    EventKind
	Key     string
	Token   Token
	Reason  string
	Latency time.Duration // of the write
	Margin  time.Duration // validity left when a renewal landed
}
