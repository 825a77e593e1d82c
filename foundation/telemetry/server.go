package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	requestTimeout  = 10 * time.Second
	shutdownTimeout = time.Second
	maxHeader       = 16 << 10
)

// Readiness is whether a process is ready for work, and if not, what it is doing. The zero value is
// not ready. It is safe for concurrent use.
type Readiness struct{ waiting atomic.Pointer[string] }

// ready is what waiting points to when the process is ready; a step never has this name.
const ready = "ready"

// SetReady says that the process is ready.
func (r *Readiness) SetReady() { r.waiting.Store(new(ready)) }

// SetStep says that the process is not ready, and in which step it is.
func (r *Readiness) SetStep(step string) { r.waiting.Store(new(step)) }

// Ready answers whether the process is ready, and otherwise the step.
func (r *Readiness) Ready() (ok bool, step string) {
	s := r.waiting.Load()
	switch {
	case s == nil:
		return false, "starting"
	case *s == ready:
		return true, ""
	}
	return false, *s
}

// Server answers /metrics, /healthz (the process serves) and /readyz (503 with the step until ready).
type Server struct {
	listener net.Listener
	http     *http.Server
}

// NewServer makes a Server on a listener, which it closes when Run returns.
func NewServer(listener net.Listener, tel *Telemetry, readiness *Readiness, log *slog.Logger) *Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", tel.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if ok, step := readiness.Ready(); !ok {
			answer(w, http.StatusServiceUnavailable, step)
			return
		}
		answer(w, http.StatusOK, "ready")
	})
	return &Server{listener: listener, http: &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      3 * requestTimeout,
		IdleTimeout:       6 * requestTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // the client has gone; there is nobody to tell
}

// Addr is the address that the server listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx ends and returns its cause. It can be called once.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("telemetry: serve %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(stop); err != nil {
		_ = s.http.Close() // the shutdown's error says more
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("telemetry: serve %s: %w", s.Addr(), err)
	}
	return context.Cause(ctx)
}
