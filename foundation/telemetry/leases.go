package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// LeaseRecorder is a kvsync.Recorder that counts and logs what happens to leases and claims:
//
//	spinifex.lease.held           gauge      1 while this process holds the key
//	spinifex.lease.generation     gauge      generation of this process's last acquisition
//	spinifex.lease.acquisitions   counter    by reason
//	spinifex.lease.losses         counter    by reason
//	spinifex.lease.releases       counter    by reason
//	spinifex.lease.takeovers      counter    by reason
//	spinifex.lease.unknown        counter    writes whose outcome could not be told at once
//	spinifex.lease.renewal        histogram  seconds from sending a renewal to its answer
//	spinifex.lease.margin         histogram  seconds of validity left when a renewal landed
//
// All carry the attribute key. Renewals are not logged, everything else is at level debug: who does
// the work logs its gains and losses.
type LeaseRecorder struct {
	log                                                *slog.Logger
	held, generation                                   metric.Int64Gauge
	acquisitions, losses, releases, takeovers, unknown metric.Int64Counter
	renewal, margin                                    metric.Float64Histogram
}

// renewalBounds, in seconds, lie around what a healthy stream needs (1 ms) and what a stream leader
// that dies costs (4 to 9 s); marginBounds around the validity of the default time to live (13.3 s).
var (
	renewalBounds = []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10}
	marginBounds  = []float64{0.1, 0.5, 1, 2, 4, 6, 8, 10, 12, 13, 14}
)

// NewLeaseRecorder makes the instruments on meter.
func NewLeaseRecorder(meter metric.Meter, log *slog.Logger) (*LeaseRecorder, error) {
	r, m := &LeaseRecorder{log: log}, maker{meter: meter}
	r.held = m.gauge("spinifex.lease.held", "1 while this process holds the key")
	r.generation = m.gauge("spinifex.lease.generation", "Generation of this process's last acquisition")
	r.acquisitions = m.counter("spinifex.lease.acquisitions", "Acquisitions by this process")
	r.losses = m.counter("spinifex.lease.losses", "Acquisitions that ended otherwise than by a release")
	r.releases = m.counter("spinifex.lease.releases", "Acquisitions that were released")
	r.takeovers = m.counter("spinifex.lease.takeovers", "Acquisitions from a holder that had not released")
	r.unknown = m.counter("spinifex.lease.unknown", "Writes whose outcome could not be told at once")
	r.renewal = m.seconds("spinifex.lease.renewal", "Time from sending a renewal to its answer", renewalBounds)
	r.margin = m.seconds("spinifex.lease.margin", "Validity left when a renewal landed", marginBounds)
	return r, m.err
}

// Begin makes the counters of keys show 0 before anything has happened: an increase from nothing to one
// is otherwise no increase to Prometheus.
func (r *LeaseRecorder) Begin(keys ...string) {
	ctx := context.Background() // a key belongs to no request
	for _, key := range keys {
		r.held.Record(ctx, 0, metric.WithAttributes(attribute.String("key", key)))
		r.unknown.Add(ctx, 0, metric.WithAttributes(attribute.String("key", key)))
		for counter, reasons := range map[metric.Int64Counter][]string{
			r.acquisitions: {"created", "adopted", "confirmed"},
			r.takeovers:    {"expired", "dead"},
			r.releases:     {"unlocked", "transferred", "overrun"},
			r.losses:       {"expired", "replaced", "broken", "deleted", "regressed"},
		} {
			for _, reason := range reasons {
				counter.Add(ctx, 0, metric.WithAttributes(attribute.String("key", key), attribute.String("reason", reason)))
			}
		}
	}
}

// Record counts one event.
func (r *LeaseRecorder) Record(e kvsync.Event) {
	ctx := context.Background() // an event belongs to no request
	key := metric.WithAttributes(attribute.String("key", e.Key))
	reason := metric.WithAttributes(attribute.String("key", e.Key), attribute.String("reason", e.Reason))
	switch e.Kind {
	case kvsync.EventAcquired:
		r.acquisitions.Add(ctx, 1, reason)
		r.held.Record(ctx, 1, key)
		r.generation.Record(ctx, int64(e.Token.Generation&(1<<63-1)), key)
	case kvsync.EventRenewed:
		r.renewal.Record(ctx, e.Latency.Seconds(), key)
		r.margin.Record(ctx, e.Margin.Seconds(), key)
		return
	case kvsync.EventUnknown:
		r.unknown.Add(ctx, 1, key)
	case kvsync.EventLost:
		r.losses.Add(ctx, 1, reason)
		r.held.Record(ctx, 0, key)
	case kvsync.EventReleased:
		r.releases.Add(ctx, 1, reason)
		r.held.Record(ctx, 0, key)
	case kvsync.EventTookOver:
		r.takeovers.Add(ctx, 1, reason)
	}
	r.log.Debug("lease event", "event", string(e.Kind), "key", e.Key, "holder", e.Token.Holder,
		"generation", e.Token.Generation, "reason", e.Reason, "latency_ms", e.Latency.Milliseconds())
}

// maker makes instruments and gathers the errors.
type maker struct {
	meter metric.Meter
	err   error
}

func (m *maker) note(err error) {
	if err != nil {
		m.err = errors.Join(m.err, fmt.Errorf("telemetry: %w", err))
	}
}

func (m *maker) gauge(name, description string) metric.Int64Gauge {
	g, err := m.meter.Int64Gauge(name, metric.WithDescription(description))
	m.note(err)
	return g
}

func (m *maker) counter(name, description string) metric.Int64Counter {
	c, err := m.meter.Int64Counter(name, metric.WithDescription(description))
	m.note(err)
	return c
}

func (m *maker) seconds(name, description string, bounds []float64) metric.Float64Histogram {
	h, err := m.meter.Float64Histogram(name, metric.WithDescription(description), metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(bounds...))
	m.note(err)
	return h
}
