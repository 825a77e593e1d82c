package kvstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
)

// This file is the only one that creates, changes and deletes buckets.

// createTimeout bounds the making of a stream, which in a cluster waits for its first leader.
const createTimeout = 5 * time.Second

// create makes the stream of the bucket. One that was made by somebody else meanwhile is fine.
func (b *Bucket) create(ctx context.Context) error {
	replicas, err := b.replicas()
	if err != nil {
		return err
	}
	cfg := natskv.StreamConfig(b.name, replicas)
	// Revisions must not repeat in the life of a key, not even in a bucket made anew, and no
	// earlier one has counted as fast as microseconds pass.
	cfg.FirstSeq = uint64(time.Now().UnixMicro())
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	_, err = b.js.CreateStream(ctx, cfg)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return err
	}
	return b.awaitInterest(ctx)
}

// awaitInterest waits until a write of the new bucket finds its stream. The server that this
// process is connected to learns that a moment after the stream was made, where another leads it.
func (b *Bucket) awaitInterest(ctx context.Context) error {
	for {
		// Refused wherever it arrives: no key of a new bucket is at this revision.
		_, err := b.js.Publish(ctx, "$KV."+b.name+"."+VersionKey, nil,
			jetstream.WithExpectLastSequencePerSubject(1), jetstream.WithRetryAttempts(0))
		if !errors.Is(err, jetstream.ErrNoStreamResponse) {
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// replicas returns how many replicas a new bucket gets.
func (b *Bucket) replicas() (int, error) {
	clustered := b.js.Conn().ConnectedClusterName() != ""
	switch {
	case !clustered && b.set.size.Replicas() > 1:
		return 0, fmt.Errorf("%w: %s: %d replicas wanted, but the NATS server is not clustered",
			ErrUnfit, b.name, b.set.size.Replicas())
	case !clustered:
		return 1, nil
	case !b.set.size.Declared():
		return 0, fmt.Errorf("create bucket %s: %w", b.name, clustersize.ErrUndeclared)
	}
	return b.set.size.Replicas(), nil
}

// highestFirst bounds the first sequence of a rebuilt bucket, the microseconds of the year 2255: a number that
// nobody can have reached honestly must not use up the sequences of the rebuilt bucket.
const highestFirst = 1 << 53

// CheckRebuild says what would keep RebuildSync from making the bucket, apart from the server: ask it
// before the old one is deleted.
func CheckRebuild(js jetstream.JetStream, size clustersize.Size, above uint64) error {
	_, err := rebuiltConfig(js, size, above)
	return err
}

func rebuiltConfig(js jetstream.JetStream, size clustersize.Size, above uint64) (jetstream.StreamConfig, error) {
	b := OpenSyncBucket(js, WithSize(size))
	if above >= highestFirst {
		return jetstream.StreamConfig{}, fmt.Errorf("rebuild %s: nothing can be made above sequence %d, the highest allowed is %d", b.name, above, uint64(highestFirst))
	}
	replicas, err := b.replicas()
	if err != nil {
		return jetstream.StreamConfig{}, err
	}
	cfg := natskv.StreamConfig(b.name, replicas)
	cfg.FirstSeq = max(uint64(time.Now().UnixMicro()), above+1)
	return cfg, nil
}

// RebuildSync makes the sync bucket, which must not exist, with a first sequence above a number and above
// every one that time alone would give. It returns the first sequence.
func RebuildSync(ctx context.Context, js jetstream.JetStream, size clustersize.Size, above uint64) (uint64, error) {
	cfg, err := rebuiltConfig(js, size, above)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if _, err := js.CreateStream(ctx, cfg); err != nil {
		return 0, fmt.Errorf("rebuild %s: %w", SyncBucket, err)
	}
	b := OpenSyncBucket(js, WithSize(size))
	if err := b.awaitInterest(ctx); err != nil {
		return 0, fmt.Errorf("rebuild %s: %w", SyncBucket, err)
	}
	_, err = b.open(ctx) // stamps the schema version
	return cfg.FirstSeq, err
}

// repair puts the stored settings right that make the bucket unfit, such as the direct reads that
// every KV client turns on, and returns what is stored then. What cannot be changed is ErrUnfit.
func (b *Bucket) repair(ctx context.Context, stored jetstream.StreamConfig) (jetstream.StreamConfig, error) {
	diff := natskv.Differences(stored, b.name)
	if len(diff) == 0 {
		return stored, nil
	}
	for _, d := range diff {
		if d.Fixed {
			return stored, fmt.Errorf("%w: %s: %s", ErrUnfit, b.name, d)
		}
		b.set.log.Warn("bucket setting repaired", "bucket", b.name,
			"setting", d.Setting, "have", d.Have, "want", d.Want)
	}
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	stream, err := b.js.UpdateStream(ctx, natskv.Repaired(stored, b.name))
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.Code < 503 {
		return stored, fmt.Errorf("%w: %s: %v: %w", ErrUnfit, b.name, diff, err)
	}
	if err != nil {
		return stored, err
	}
	return stream.CachedInfo().Config, nil
}

// raise gives a stream more replicas, on its stored configuration, and never fewer. It reports
// whether it did.
func raise(ctx context.Context, js jetstream.JetStream, stored jetstream.StreamConfig, size clustersize.Size) (bool, error) {
	if stored.Replicas >= size.Replicas() || js.Conn().ConnectedClusterName() == "" {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	stored.Replicas = size.Replicas()
	_, err := js.UpdateStream(ctx, stored)
	return err == nil, err
}

// RaiseReplicas gives every bucket that has fewer the replicas of the declared size, and returns
// the names of those it has changed. One that cannot be raised yet, for lack of servers, does not
// keep the others from it; call it again later.
func RaiseReplicas(ctx context.Context, js jetstream.JetStream, size clustersize.Size) ([]string, error) {
	if !size.Declared() {
		return nil, clustersize.ErrUndeclared
	}
	names, err := bucketNames(ctx, js)
	if err != nil {
		return nil, err
	}
	var raised []string
	var errs []error
	for _, name := range names {
		stream, err := js.Stream(ctx, natskv.StreamName(name))
		if err != nil {
			errs = append(errs, fmt.Errorf("raise replicas of %s: %w", name, err))
			continue
		}
		did, err := raise(ctx, js, stream.CachedInfo().Config, size)
		if err != nil {
			errs = append(errs, fmt.Errorf("raise replicas of %s: %w", name, err))
		}
		if did {
			raised = append(raised, name)
		}
	}
	return raised, errors.Join(errs...)
}

// DeleteBucketIfExists deletes a bucket with everything in it and reports whether it existed.
func DeleteBucketIfExists(ctx context.Context, js jetstream.JetStream, name string) (bool, error) {
	if err := natskv.CheckBucket(name); err != nil {
		return false, err
	}
	err := js.DeleteKeyValue(ctx, name)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		return false, nil
	}
	return false, fmt.Errorf("delete bucket %s: %w", name, err)
}
