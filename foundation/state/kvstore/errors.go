package kvstore

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
)

var (
	// ErrNotFound is a key that is absent or deleted. It is also kvsync.ErrNotFound.
	ErrNotFound = fmt.Errorf("kvstore: key not found: %w", kvsync.ErrNotFound)
	// ErrConflict is a write refused for the revision of its key. It is also kvsync.ErrRevisionMismatch.
	ErrConflict = fmt.Errorf("kvstore: revision conflict: %w", kvsync.ErrRevisionMismatch)
	// ErrFenced is a guarded write refused because a later acquisition of the lease has fenced the
	// bucket. It is also kvsync.ErrLost, and nothing was written.
	ErrFenced = fmt.Errorf("kvstore: fenced by a later leader: %w", kvsync.ErrLost)
	// ErrTooLarge is a value above the server's limit.
	ErrTooLarge = errors.New("kvstore: value too large")
	// ErrReserved is a key that begins with "_", which only this package writes.
	ErrReserved = errors.New("kvstore: keys that begin with _ are reserved")
	// ErrServerTooOld is a NATS server older than MinServerVersion.
	ErrServerTooOld = errors.New("kvstore: NATS server too old")
	// ErrUnfit is a bucket whose stream cannot be made what it has to be.
	ErrUnfit = errors.New("kvstore: bucket unfit")
	// ErrNewerVersion is a record or bucket written by a newer release, which this one must not touch.
	ErrNewerVersion = errors.New("kvstore: written by a newer release")
)

// marked is an error that also matches a sentinel, without repeating it in its text.
type marked struct {
	error
	kind error
}

func (m *marked) Unwrap() []error { return []error{m.error, m.kind} }

// translate gives an error of natskv this package's sentinel beside kvsync's.
func translate(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrNotFound), errors.Is(err, ErrConflict), errors.Is(err, ErrFenced):
		return err
	case errors.Is(err, kvsync.ErrNotFound):
		return &marked{err, ErrNotFound}
	case errors.Is(err, kvsync.ErrRevisionMismatch):
		return &marked{err, ErrConflict}
	case errors.Is(err, nats.ErrMaxPayload), hasCode(err, 10054):
		return &marked{err, ErrTooLarge}
	}
	return err
}

func hasCode(err error, code jetstream.ErrorCode) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == code
}

// unavailable is an open that was not waited for or did not succeed.
func unavailable(bucket string, cause error) error {
	return &natskv.Error{Op: "open", Bucket: bucket, Kind: kvsync.ErrUnavailable, Err: cause}
}

// FencedError is the ErrFenced of one refused write.
type FencedError struct {
	Bucket   string
	LeaseKey string
	Mine     uint64 // the generation that was refused
	Theirs   uint64 // the generation that the bucket is fenced with; 0 when the fence is gone
}

// Error names the lease and both generations.
func (e *FencedError) Error() string {
	return fmt.Sprintf("%v: %s %s: generation %d refused, the bucket is fenced at %d",
		ErrFenced, e.Bucket, e.LeaseKey, e.Mine, e.Theirs)
}

// Unwrap makes it ErrFenced.
func (e *FencedError) Unwrap() error { return ErrFenced }
