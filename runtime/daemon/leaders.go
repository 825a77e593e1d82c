package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// leaderLook is the pause before a watch that broke is begun anew.
const leaderLook = time.Second

// leaderWatch knows how long the keys of this process's leases have had no leader, whoever it would be.
// It decides nothing: it is for people and their alerts. A store that cannot be watched shows no
// renewals, so that after T it counts as one without leaders.
type leaderWatch struct {
	bucket *kvstore.Bucket
	leases []*kvsync.Lease

	mu sync.Mutex
	// leaderless is when the key of a lease has or will have had no leader, unless it is renewed; the
	// zero time for a key that does not lapse. It is protected by mu.
	leaderless map[string]time.Time
	// revs are the revisions seen, protected by mu: what is told again is no renewal.
	revs map[string]uint64
}

func newLeaderWatch(bucket *kvstore.Bucket, leases []*kvsync.Lease) *leaderWatch {
	w := &leaderWatch{bucket: bucket, leases: leases, leaderless: map[string]time.Time{}, revs: map[string]uint64{}}
	now := time.Now()
	for _, lease := range leases {
		w.leaderless[lease.Key()] = now
	}
	return w
}

// measure makes the instruments:
//
//	spinifex.lease.without_leader   gauge  seconds since anybody held the key, as far as this process saw
//	spinifex.sync_bucket.regressed  gauge  1 while this process refuses the bucket of the locks
func (w *leaderWatch) measure(meter metric.Meter) error {
	_, err := meter.Float64ObservableGauge("spinifex.lease.without_leader", metric.WithUnit("s"),
		metric.WithDescription("Time since anybody held the key"),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			for _, lease := range w.leases {
				o.Observe(w.without(lease).Seconds(), metric.WithAttributes(attribute.String("key", lease.Key())))
			}
			return nil
		}))
	if err != nil {
		return fmt.Errorf("leader watch: %w", err)
	}
	_, err = meter.Int64ObservableGauge("spinifex.sync_bucket.regressed",
		metric.WithDescription("1 while the bucket of the locks is refused because it lost writes"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			regressed := int64(0)
			if seen, _ := w.bucket.Seen(); seen.Regressed != "" {
				regressed = 1
			}
			o.Observe(regressed)
			return nil
		}))
	if err != nil {
		return fmt.Errorf("leader watch: %w", err)
	}
	return nil
}

// run watches until ctx ends and returns its cause.
func (w *leaderWatch) run(ctx context.Context) error {
	for {
		updates, err := w.bucket.Watch(ctx, "")
		if err == nil { // otherwise whoever needs the store says why not
			for u := range updates {
				w.saw(u, time.Now())
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(leaderLook):
		}
	}
}

// saw takes in a change of a key.
func (w *leaderWatch) saw(u kvsync.Update, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ours := w.leaderless[u.Key]; !ours || u.Rev <= w.revs[u.Key] {
		return
	}
	w.revs[u.Key] = u.Rev
	record, ok := readLockRecord(u.Value)
	switch {
	case u.Deleted:
		w.leaderless[u.Key] = now
	case ok && record.TTLMillis == 0:
		w.leaderless[u.Key] = time.Time{}
	default: // one that cannot be read keeps others away, too
		w.leaderless[u.Key] = now.Add(time.Duration(record.TTLMillis) * time.Millisecond)
	}
}

// without is how long the key of a lease has had no leader.
func (w *leaderWatch) without(lease *kvsync.Lease) time.Duration {
	if lease.Held() {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	since := w.leaderless[lease.Key()]
	if since.IsZero() {
		return 0
	}
	return max(0, time.Since(since))
}
