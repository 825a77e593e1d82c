package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// NewLogger makes a logger that writes text or JSON lines of at least the level to w.
func NewLogger(w io.Writer, level slog.Level, json bool) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if json {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// Options name the process in its metrics.
type Options struct {
	// Service is the role or roles that the process runs, such as "daemon".
	Service string
	// Version of the program.
	Version string
	// Node is the node's name.
	Node string
}

// Telemetry holds the metrics of a process.
type Telemetry struct {
	registry *prometheus.Registry
	provider *sdkmetric.MeterProvider
}

// New makes the registry and the meter provider; nothing is served yet.
func New(opts Options) (*Telemetry, error) {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("telemetry: %w", err)
		}
	}
	exp, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	provider := sdkmetric.NewMeterProvider(
		sdkmetric.WithReader(exp),
		sdkmetric.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "spinifex-"+opts.Service),
			attribute.String("service.version", opts.Version),
			attribute.String("service.instance.id", opts.Node),
		)),
	)
	return &Telemetry{registry: registry, provider: provider}, nil
}

// Meter returns the meter of a package, named by its path in the repository such as "domains/dns".
func (t *Telemetry) Meter(name string) metric.Meter { return t.provider.Meter(name) }

// Handler answers a scrape.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Shutdown ends the meter provider; instruments do nothing from then on.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	return nil
}
