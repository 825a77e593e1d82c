package kvstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
)

const (
	// VersionKey holds the schema version of a bucket, a decimal number.
	VersionKey = "_version"
	// SyncVersion is the schema version of the sync bucket that this release writes and reads.
	SyncVersion = 1
)

// ReadVersion returns the schema version of a bucket, 0 when it has none.
func ReadVersion(ctx context.Context, kv jetstream.KeyValue) (int, error) {
	e, err := kv.Get(ctx, VersionKey)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read version of %s: %w", kv.Bucket(), err)
	}
	return parseVersion(kv.Bucket(), e.Value())
}

// WriteVersion stores the schema version of a bucket.
func WriteVersion(ctx context.Context, kv jetstream.KeyValue, n int) error {
	if n < 1 {
		return fmt.Errorf("write version of %s: %d: must be 1 or more", kv.Bucket(), n)
	}
	if _, err := kv.Put(ctx, VersionKey, []byte(strconv.Itoa(n))); err != nil {
		return fmt.Errorf("write version of %s: %w", kv.Bucket(), err)
	}
	return nil
}

func parseVersion(bucket string, value []byte) (int, error) {
	n, err := strconv.Atoi(string(value))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: %s: version %.32q is no number", ErrUnfit, bucket, value)
	}
	return n, nil
}

// ensureVersion stamps the sync bucket with its schema version, or refuses a newer one.
func ensureVersion(ctx context.Context, s *natskv.Store) error {
	e, err := s.Get(ctx, VersionKey)
	if errors.Is(err, kvsync.ErrNotFound) {
		_, err = s.CompareAndSwap(ctx, VersionKey, []byte(strconv.Itoa(SyncVersion)), 0)
		if !errors.Is(err, kvsync.ErrRevisionMismatch) {
			return err
		}
		// Another process stamped it meanwhile, with what version is not known.
		e, err = s.Get(ctx, VersionKey)
	}
	if err != nil {
		return err
	}
	n, err := parseVersion(s.Bucket(), e.Value)
	if err != nil {
		return err
	}
	if n > SyncVersion {
		return fmt.Errorf("%w: %s has schema version %d, this release knows %d", ErrNewerVersion, s.Bucket(), n, SyncVersion)
	}
	return nil
}
