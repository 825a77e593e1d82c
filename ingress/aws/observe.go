package awsingress

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics are the instruments of the pipeline:
//
//	spinifex.awsgw.requests           counter    by service, action, status and code
//	spinifex.awsgw.request.duration   histogram  seconds, by service and action
//	spinifex.awsgw.requests.underway  gauge      requests being answered
//	spinifex.awsgw.lockouts           counter    addresses locked out
//
// service and action are names of the API models, never a client's words.
type metrics struct {
	requests, lockouts metric.Int64Counter
	duration           metric.Float64Histogram
	current            metric.Int64UpDownCounter
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	m, errs := &metrics{}, make([]error, 4)
	m.requests, errs[0] = meter.Int64Counter("spinifex.awsgw.requests", metric.WithDescription("Requests answered"))
	m.duration, errs[1] = meter.Float64Histogram("spinifex.awsgw.request.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from a request's arrival to the end of its answer"),
		metric.WithExplicitBucketBoundaries(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30))
	m.current, errs[2] = meter.Int64UpDownCounter("spinifex.awsgw.requests.underway", metric.WithDescription("Requests being answered"))
	m.lockouts, errs[3] = meter.Int64Counter("spinifex.awsgw.lockouts", metric.WithDescription("Addresses locked out for failing to authenticate"))
	return m, errors.Join(errs...)
}

func (m *metrics) underWay(ctx context.Context, n int64) { m.current.Add(ctx, n) }

func (m *metrics) lockedOut(ctx context.Context) { m.lockouts.Add(ctx, 1) }

// observe logs and measures a request that has been answered.
func (p *Pipeline) observe(x *exchange) {
	took := time.Since(x.received)
	service, action := x.serviceName(), x.action()
	if action == "" {
		action = "unknown"
	}
	ctx := x.r.Context()
	where := []attribute.KeyValue{attribute.String("service", service), attribute.String("action", action)}
	p.metrics.duration.Record(ctx, took.Seconds(), metric.WithAttributes(where...))
	p.metrics.requests.Add(ctx, 1, metric.WithAttributes(append(where,
		attribute.Int("status", x.w.status), attribute.String("code", x.code))...))

	level := slog.LevelInfo
	if x.w.status >= 500 {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("request_id", x.id), slog.String("service", service), slog.String("action", action),
		slog.Int("status", x.w.status), slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.String("source_ip", x.source.String()), slog.Int("bytes_in", len(x.body)), slog.Int64("bytes_out", x.w.bytes),
		slog.String("user_agent", bounded(x.r.UserAgent())),
	}
	if x.scope.AccessKeyID != "" {
		attrs = append(attrs, slog.String("access_key_id", bounded(x.scope.AccessKeyID)))
	}
	if x.call != nil {
		attrs = append(attrs, slog.String("principal", x.call.Principal))
	}
	if x.code != "" {
		attrs = append(attrs, slog.String("code", x.code))
	}
	if x.cause != nil {
		attrs = append(attrs, slog.Any("error", x.cause))
	}
	p.opts.Log.LogAttrs(ctx, level, "request", attrs...)
}

// bounded cuts what a client said before it is logged.
func bounded(text string) string {
	const most = 200
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}
