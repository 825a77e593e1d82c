// Package telemetry is what a process shows of itself: structured logs, OpenTelemetry metrics with a
// Prometheus endpoint, and the answers to "alive?" and "ready?".
//
// Nothing here is global: a Telemetry has a registry and a meter provider of its own, loggers are
// handed to those who log. LeaseRecorder turns the events of kvsync into metrics and debug lines;
// LoopRecorder does so for reconcile loops and supervised restarts.
//
// Metric names are those of the instruments with dots as underscores, units and _total appended, as
// the Prometheus exporter of OpenTelemetry forms them: spinifex.lease.losses is
// spinifex_lease_losses_total.
package telemetry
