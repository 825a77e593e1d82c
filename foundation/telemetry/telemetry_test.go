package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTelemetry(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.New(telemetry.Options{Service: "daemon", Version: "1.2.3", Node: "n1"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.WithoutCancel(t.Context()))) })
	return tel
}

// serve runs a server until the test's end and returns a function that gets a path.
func serve(t *testing.T, tel *telemetry.Telemetry, readiness *telemetry.Readiness) func(path string) (int, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := telemetry.NewServer(listener, tel, readiness, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx) }()
	stop := errors.New("stop")
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		cancel(stop)
		require.ErrorIs(t, <-ended, stop)
	})
	return func(path string) (int, string) {
		t.Helper()
		resp, err := client.Get("http://" + srv.Addr() + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
}

func TestHealthAndReadiness(t *testing.T) {
	var readiness telemetry.Readiness
	get := serve(t, newTelemetry(t), &readiness)
	status, body := get("/healthz")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "ok\n", body)

	status, body = get("/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.Equal(t, "starting\n", body)
	readiness.SetStep("wait for JetStream")
	_, body = get("/readyz")
	assert.Equal(t, "wait for JetStream\n", body)
	readiness.SetReady()
	status, body = get("/readyz")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "ready\n", body)
	readiness.SetStep("stopping")
	status, _ = get("/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status)

	status, _ = get("/")
	assert.Equal(t, http.StatusNotFound, status)
}

func TestLeaseEventsBecomeMetricsAndLogs(t *testing.T) {
	tel := newTelemetry(t)
	var out bytes.Buffer
	rec, err := telemetry.NewLeaseRecorder(tel.Meter("test"), telemetry.NewLogger(&out, slog.LevelDebug, true))
	require.NoError(t, err)
	get := serve(t, tel, &telemetry.Readiness{})
	tok := kvsync.Token{Holder: "n1/daemon", Generation: 42}
	event := func(kind kvsync.EventKind, reason string) {
		rec.Record(kvsync.Event{Kind: kind, Key: "dns.reconcile", Token: tok, Reason: reason, Latency: 2 * time.Millisecond, Margin: 12 * time.Second})
	}
	event(kvsync.EventTookOver, "expired")
	event(kvsync.EventAcquired, "expired")
	event(kvsync.EventRenewed, "")
	event(kvsync.EventUnknown, "")
	_, body := get("/metrics")
	for _, line := range []string{
		`spinifex_lease_held{key="dns.reconcile"} 1`,
		`spinifex_lease_generation{key="dns.reconcile"} 42`,
		`spinifex_lease_acquisitions_total{key="dns.reconcile",reason="expired"} 1`,
		`spinifex_lease_takeovers_total{key="dns.reconcile",reason="expired"} 1`,
		`spinifex_lease_unknown_total{key="dns.reconcile"} 1`,
		`spinifex_lease_renewal_seconds_bucket{key="dns.reconcile",le="0.002"} 1`,
		`spinifex_lease_margin_seconds_bucket{key="dns.reconcile",le="12"} 1`,
		`service_name="spinifex-daemon"`, "go_goroutines",
	} {
		assert.Contains(t, body, line)
	}
	event(kvsync.EventLost, "replaced")
	event(kvsync.EventReleased, "unlocked")
	_, body = get("/metrics")
	for _, line := range []string{
		`spinifex_lease_held{key="dns.reconcile"} 0`,
		`spinifex_lease_losses_total{key="dns.reconcile",reason="replaced"} 1`,
		`spinifex_lease_releases_total{key="dns.reconcile",reason="unlocked"} 1`,
	} {
		assert.Contains(t, body, line)
	}
	assert.Contains(t, out.String(), `"event":"lost","key":"dns.reconcile","holder":"n1/daemon","generation":42,"reason":"replaced"`)
	assert.NotContains(t, out.String(), `"event":"renewed"`)
}

func TestCountersOfAKeyBeginAtZero(t *testing.T) {
	tel := newTelemetry(t)
	rec, err := telemetry.NewLeaseRecorder(tel.Meter("kvsync"), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	rec.Begin("a.lease")
	var readiness telemetry.Readiness
	get := serve(t, tel, &readiness)
	_, body := get("/metrics")
	for _, line := range []string{
		`spinifex_lease_held{key="a.lease"} 0`,
		`spinifex_lease_losses_total{key="a.lease",reason="regressed"} 0`,
		`spinifex_lease_unknown_total{key="a.lease"} 0`,
		`spinifex_lease_takeovers_total{key="a.lease",reason="expired"} 0`,
	} {
		assert.Contains(t, body, line)
	}
	rec.Record(kvsync.Event{Kind: kvsync.EventLost, Key: "a.lease", Reason: "regressed"})
	_, body = get("/metrics")
	assert.Contains(t, body, `spinifex_lease_losses_total{key="a.lease",reason="regressed"} 1`)
}

func TestLoopsBecomeMetrics(t *testing.T) {
	tel := newTelemetry(t)
	rec, err := telemetry.NewLoopRecorder(tel.Meter("test"))
	require.NoError(t, err)
	get := serve(t, tel, &telemetry.Readiness{})
	rec.Pass("dns.drift", nil, 20*time.Millisecond)
	rec.Pass("dns.drift", errors.New("boom"), time.Second)
	rec.Restarted("dns.drift", errors.New("boom"))
	_, body := get("/metrics")
	assert.Contains(t, body, `spinifex_loop_pass_seconds_count{loop="dns.drift",result="done"} 1`)
	assert.Contains(t, body, `spinifex_loop_pass_seconds_count{loop="dns.drift",result="failed"} 1`)
	assert.Contains(t, body, `spinifex_loop_restarts_total{loop="dns.drift"} 1`)
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	log := telemetry.NewLogger(&out, slog.LevelWarn, false)
	log.Info("quiet")
	log.Warn("loud", "n", 1)
	assert.NotContains(t, out.String(), "quiet")
	assert.Contains(t, out.String(), "msg=loud n=1")
}
