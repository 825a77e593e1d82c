package natskv

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// ErrInFlight is the refusal of a write because another one of the same key has not been applied
// yet. It does not say that the revision is wrong: look after a few milliseconds. It is also
// kvsync.ErrRevisionMismatch.
var ErrInFlight error = inFlight{}

type inFlight struct{}

func (inFlight) Error() string        { return "natskv: another write of the key is in flight" }
func (inFlight) Is(target error) bool { return target == kvsync.ErrRevisionMismatch }

// Error is a failed operation on a key or on the bucket.
type Error struct {
	Op     string // such as "load" or "swap"
	Bucket string
	Key    string // empty for an operation on the bucket
	Kind   error  // the sentinel, nil for a caller's mistake
	Err    error  // the cause, nil when the sentinel says it all
}

// Error names the operation, the bucket, the key and the cause.
func (e *Error) Error() string {
	where := e.Bucket
	if e.Key != "" {
		where += " " + e.Key
	}
	switch {
	case e.Kind == nil:
		return fmt.Sprintf("%s %s: %v", e.Op, where, e.Err)
	case e.Err == nil:
		return fmt.Sprintf("%s %s: %v", e.Op, where, e.Kind)
	default:
		return fmt.Sprintf("%s %s: %v: %v", e.Op, where, e.Kind, e.Err)
	}
}

// Unwrap gives the sentinel and the cause.
func (e *Error) Unwrap() []error {
	out := make([]error, 0, 2)
	if e.Kind != nil {
		out = append(out, e.Kind)
	}
	if e.Err != nil {
		out = append(out, e.Err)
	}
	return out
}

// Codes of JetStream that decide an outcome. The library names only some of them.
const (
	codeAccountResources     jetstream.ErrorCode = 10002
	codeNoPeers              jetstream.ErrorCode = 10005
	codeClusterNotAssigned   jetstream.ErrorCode = 10007
	codeClusterNotAvailable  jetstream.ErrorCode = 10008
	codeClusterNotLeader     jetstream.ErrorCode = 10009
	codeInsufficient         jetstream.ErrorCode = 10023
	codeMemoryResources      jetstream.ErrorCode = 10028
	codeNotEnabledForAccount jetstream.ErrorCode = 10039
	codeStorageResources     jetstream.ErrorCode = 10047
	codeMessageTooLarge      jetstream.ErrorCode = 10054
	codeStreamNotFound       jetstream.ErrorCode = 10059
	codeWrongLastSequence    jetstream.ErrorCode = 10071
	codeNotEnabled           jetstream.ErrorCode = 10076
	codeHeaderTooLarge       jetstream.ErrorCode = 10097
	codeSealed               jetstream.ErrorCode = 10109
	codeStreamOffline        jetstream.ErrorCode = 10118
	codeSequenceNotReady     jetstream.ErrorCode = 10163
	codeInFlight             jetstream.ErrorCode = 10164
	codeTooManyRequests      jetstream.ErrorCode = 10167
	codeAtomicDisabled       jetstream.ErrorCode = 10174
	codeIncompleteBatch      jetstream.ErrorCode = 10176
	codeTooManyBatches       jetstream.ErrorCode = 10210
)

// Classify returns the sentinel that an error of the client library or server stands for, nil for
// nil and for a mistake of the caller. write says that a write may have been sent: then what is
// not known to be refused is unknown.
//
// Whatever is not listed is unavailable, never a refusal: ownership must not be lost to an error
// code that a later server invents.
func Classify(err error, write bool) error {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return classifyCode(api.ErrorCode, write)
	}
	// The library's own JetStream errors carry their code beside themselves.
	if own, ok := errors.AsType[jetstream.JetStreamError](err); ok && own.APIError() != nil {
		return classifyCode(own.APIError().ErrorCode, write)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrKeyDeleted):
		return kvsync.ErrNotFound
	case errors.Is(err, jetstream.ErrBucketNotFound):
		return kvsync.ErrStoreRegressed
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject),
		errors.Is(err, jetstream.ErrInvalidKey), errors.Is(err, jetstream.ErrInvalidBucketName):
		return nil
	// Nobody got these: they failed before anything left, or no server listened.
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse),
		errors.Is(err, nats.ErrConnectionDraining), errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, nats.ErrConnectionReconnecting), errors.Is(err, nats.ErrInvalidConnection),
		errors.Is(err, nats.ErrNoServers):
		return kvsync.ErrUnavailable
	case write:
		return kvsync.ErrUnknownOutcome
	}
	return kvsync.ErrUnavailable
}

func classifyCode(code jetstream.ErrorCode, write bool) error {
	switch code {
	case jetstream.JSErrCodeMessageNotFound:
		return kvsync.ErrNotFound
	case codeWrongLastSequence:
		return kvsync.ErrRevisionMismatch
	case codeInFlight:
		return ErrInFlight
	case codeStreamNotFound:
		return kvsync.ErrStoreRegressed
	case codeMessageTooLarge, codeHeaderTooLarge:
		return nil
	// The server answers these before it proposes or stores anything.
	case codeAccountResources, codeNoPeers, codeClusterNotAssigned, codeClusterNotAvailable,
		codeClusterNotLeader, codeInsufficient, codeMemoryResources, codeNotEnabledForAccount,
		codeStorageResources, codeNotEnabled, codeSealed, codeStreamOffline, codeSequenceNotReady,
		codeTooManyRequests, codeAtomicDisabled, codeIncompleteBatch, codeTooManyBatches:
		return kvsync.ErrUnavailable
	}
	if write {
		return kvsync.ErrUnknownOutcome
	}
	return kvsync.ErrUnavailable
}

// Retryable reports whether a write was refused only because of what the server was doing at the
// moment, so that the same write may be sent again: nothing of it has landed or will.
func Retryable(err error) bool {
	if errors.Is(err, ErrInFlight) {
		return true
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == codeIncompleteBatch || api.ErrorCode == codeTooManyBatches ||
		api.ErrorCode == codeSequenceNotReady || api.ErrorCode == codeTooManyRequests)
}

// opError builds the error of an operation from the library's.
func (s *Store) opError(op, key string, err error, write bool) error {
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[*Error](err); ok && own.Bucket == s.bucket {
		return err
	}
	return &Error{Op: op, Bucket: s.bucket, Key: key, Kind: Classify(err, write), Err: err}
}

// unsent is the error of an operation that was given up before it was sent.
func (s *Store) unsent(op, key string, cause error) error {
	return &Error{Op: op, Bucket: s.bucket, Key: key, Kind: kvsync.ErrUnavailable, Err: cause}
}

// cause prefers the reason of a cancelled context to the bare "context canceled".
func cause(ctx context.Context) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return ctx.Err()
}
