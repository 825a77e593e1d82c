package kvstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
)

// inspectTimeout bounds one question of an inspection. Where nobody leads the stream there is no answer.
const inspectTimeout = 5 * time.Second

// Inspection is a look at a bucket as it is stored, fit or not.
type Inspection struct {
	BucketReport
	// Exists is false when there is no such bucket; then only Bucket and ReplicasWanted are set.
	Exists bool
	// Created is when the stream was made, FirstSeq the sequence that it was made to begin with, LastSeq
	// that of its last write.
	Created           time.Time
	FirstSeq, LastSeq uint64
	// Away are the servers whose replica is offline or behind.
	Away []string
	// Differences are the settings that are not what they have to be (see BucketReport.Drift).
	Differences []natskv.Difference
	// Entries are the keys that are neither deleted nor reserved, in their order.
	Entries []Entry
}

// Inspect looks at a bucket, and unlike an open it neither makes nor mends anything.
func Inspect(ctx context.Context, js jetstream.JetStream, bucket string, size clustersize.Size) (Inspection, error) {
	in := Inspection{BucketReport: BucketReport{Bucket: bucket, ReplicasWanted: size.Replicas()}}
	stream, info, err := look(ctx, js, bucket, ">")
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return in, nil
	}
	if err != nil {
		return in, fmt.Errorf("inspect %s: %w", bucket, err)
	}
	in.Exists, in.Created, in.FirstSeq, in.LastSeq = true, info.Created, info.Config.FirstSeq, info.State.LastSeq
	in.fill(info)
	in.Differences = natskv.Differences(info.Config, bucket)
	if info.Cluster != nil {
		for _, peer := range info.Cluster.Replicas {
			if !peer.Current || peer.Offline {
				in.Away = append(in.Away, peer.Name)
			}
		}
	}
	for subject := range info.State.Subjects {
		key := strings.TrimPrefix(subject, keySubject(bucket, ""))
		if natskv.Reserved(key) {
			continue
		}
		e, err := lastEntry(ctx, stream, bucket, key)
		if err != nil {
			return in, fmt.Errorf("inspect %s: %w", bucket, err)
		}
		if e.Rev > 0 && !e.Deleted {
			in.Entries = append(in.Entries, e)
		}
	}
	slices.SortFunc(in.Entries, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return in, nil
}

// HighestFence returns the highest generation that any bucket is fenced with, 0 when none is. A fence that
// cannot be read is an error: what is not known may be higher.
func HighestFence(ctx context.Context, js jetstream.JetStream) (uint64, error) {
	names, err := bucketNames(ctx, js)
	if err != nil {
		return 0, err
	}
	highest := uint64(0)
	for _, bucket := range names {
		stream, info, err := look(ctx, js, bucket, fencePrefix+">")
		if err != nil {
			return 0, fmt.Errorf("fences of %s: %w", bucket, err)
		}
		for subject := range info.State.Subjects {
			e, err := lastEntry(ctx, stream, bucket, strings.TrimPrefix(subject, keySubject(bucket, "")))
			if err != nil {
				return 0, fmt.Errorf("fences of %s: %w", bucket, err)
			}
			if e.Rev == 0 || e.Deleted {
				continue
			}
			generation, err := strconv.ParseUint(string(e.Value), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%w: %s: %s is %.32q, not a number", ErrUnfit, bucket, e.Key, e.Value)
			}
			highest = max(highest, generation)
		}
	}
	return highest, nil
}

func keySubject(bucket, key string) string { return "$KV." + bucket + "." + key }

// look asks for a stream and its subjects that match a key with wildcards.
func look(ctx context.Context, js jetstream.JetStream, bucket, keys string) (jetstream.Stream, *jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, natskv.StreamName(bucket))
	if err != nil {
		return nil, nil, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(keySubject(bucket, keys)))
	return stream, info, err
}

// lastEntry is the last message of a key; its revision is 0 when there is none any more.
func lastEntry(ctx context.Context, stream jetstream.Stream, bucket, key string) (Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	m, err := stream.GetLastMsgForSubject(ctx, keySubject(bucket, key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Entry{Key: key}, nil
	}
	if err != nil {
		return Entry{}, err
	}
	return Entry{Key: key, Value: m.Data, Rev: m.Sequence, Created: m.Time, Deleted: natskv.IsMarker(m.Header)}, nil
}
