package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// LoopRecorder counts the passes and restarts of loops:
//
//	spinifex.loop.pass       histogram  seconds of a pass, by loop and result (done, failed)
//	spinifex.loop.restarts   counter    restarts by the supervisor, by loop
type LoopRecorder struct {
	pass     metric.Float64Histogram
	restarts metric.Int64Counter
}

var passBounds = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120}

// NewLoopRecorder makes the instruments on meter.
func NewLoopRecorder(meter metric.Meter) (*LoopRecorder, error) {
	m := maker{meter: meter}
	r := &LoopRecorder{
		pass:     m.seconds("spinifex.loop.pass", "Duration of a pass", passBounds),
		restarts: m.counter("spinifex.loop.restarts", "Restarts after an error, a panic or an unwanted return"),
	}
	return r, m.err
}

// Pass counts a pass of a loop; err is nil when it went well.
func (r *LoopRecorder) Pass(loop string, err error, took time.Duration) {
	result := "done"
	if err != nil {
		result = "failed"
	}
	r.pass.Record(context.Background(), took.Seconds(), // a pass belongs to no request
		metric.WithAttributes(attribute.String("loop", loop), attribute.String("result", result)))
}

// Restarted counts a restart; it is what supervise.Options.OnRestart wants.
func (r *LoopRecorder) Restarted(loop string, _ error) {
	r.restarts.Add(context.Background(), 1, metric.WithAttributes(attribute.String("loop", loop)))
}
