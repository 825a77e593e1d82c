package kvstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
)

// BucketReport is what an audit says about one bucket.
type BucketReport struct {
	Bucket string `json:"bucket"`
	// ReplicasWanted is what the declared size asks for, 0 when it is undeclared.
	ReplicasWanted int `json:"replicas_wanted"`
	// ReplicasActual is what the stream is configured with.
	ReplicasActual int `json:"replicas_actual"`
	// ReplicasOnline are those that answer and are up to date, the leader included.
	ReplicasOnline int `json:"replicas_online"`
	// Leader is the server that leads the stream, empty when none does.
	Leader string `json:"leader,omitzero"`
	// Lag is how many writes the replica that is furthest behind misses.
	Lag uint64 `json:"lag"`
	// Keys counts the keys, with deleted ones, whose markers are kept, and reserved ones.
	Keys  uint64 `json:"keys"`
	Bytes uint64 `json:"bytes"`
	// Drift names each setting that is not what it has to be.
	Drift []string `json:"drift,omitzero"`
	// Error says why the bucket could not be looked at; then only Bucket and ReplicasWanted are set.
	Error string `json:"error,omitzero"`
}

// Audit reports on every KV bucket, in the order of their names. It changes nothing. A bucket that
// cannot be looked at has its Error; a list of buckets that cannot be had is the error returned.
func Audit(ctx context.Context, js jetstream.JetStream, size clustersize.Size) ([]BucketReport, error) {
	names, err := bucketNames(ctx, js)
	if err != nil {
		return nil, err
	}
	reports := make([]BucketReport, 0, len(names))
	for _, name := range names {
		r := BucketReport{Bucket: name, ReplicasWanted: size.Replicas()}
		stream, err := js.Stream(ctx, natskv.StreamName(name))
		if err != nil {
			r.Error = err.Error()
		} else {
			r.fill(stream.CachedInfo())
		}
		reports = append(reports, r)
	}
	return reports, nil
}

func (r *BucketReport) fill(info *jetstream.StreamInfo) {
	r.ReplicasActual = info.Config.Replicas
	r.Keys, r.Bytes = info.State.NumSubjects, info.State.Bytes
	for _, d := range natskv.Differences(info.Config, r.Bucket) {
		r.Drift = append(r.Drift, d.String())
	}
	if info.Cluster == nil {
		r.ReplicasOnline = 1
		return
	}
	r.Leader = info.Cluster.Leader
	if r.Leader != "" {
		r.ReplicasOnline++
	}
	for _, peer := range info.Cluster.Replicas {
		r.Lag = max(r.Lag, peer.Lag)
		if peer.Current && !peer.Offline {
			r.ReplicasOnline++
		}
	}
}

// bucketNames lists the KV buckets, sorted.
func bucketNames(ctx context.Context, js jetstream.JetStream) ([]string, error) {
	lister := js.KeyValueStoreNames(ctx)
	var names []string
	for name := range lister.Name() {
		names = append(names, name)
	}
	if err := lister.Error(); err != nil {
		return nil, fmt.Errorf("list buckets: %w", err)
	}
	slices.Sort(names)
	return names, nil
}
