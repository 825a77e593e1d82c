package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mulgadc/spinifex/foundation/lifecycle/supervise"
)

// Defaults of Options.
const (
	DefaultResync      = 5 * time.Minute
	DefaultPassTimeout = 2 * time.Minute
	DefaultMinBackoff  = time.Second
	DefaultMaxBackoff  = time.Minute
)

// stuckEvery is how often a pass that does not stop is complained about.
const stuckEvery = 10 * time.Second

// ErrPassTimeout is the cause of a pass's context when its time is up, and ends Run.
var ErrPassTimeout = errors.New("reconciler: pass exceeded its time limit")

// Result is what a pass that did not fail wants next; the zero Result waits for a wake or the resync.
type Result struct {
	// Revisit asks for another pass after this long; 0 does not.
	Revisit time.Duration
}

// Options say when passes run.
type Options struct {
	// Name of the loop in logs; required.
	Name string
	// Log receives one line per pass: debug when it went well, error when not. Nil discards them.
	Log *slog.Logger
	// Wake asks for a pass soon; nil when only time drives the loop. See NewWake.
	Wake <-chan struct{}
	// Debounce is how long the loop gathers wakes before the pass, from the first of them on. 0: none.
	Debounce time.Duration
	// Resync is the longest time between two passes. 0 takes the default.
	Resync time.Duration
	// PassTimeout bounds one pass. 0 takes the default.
	PassTimeout time.Duration
	// MinBackoff is the wait after a first failed pass; it doubles up to MaxBackoff while passes
	// fail. A wake shortens the wait, though never below MinBackoff. 0 takes the defaults.
	MinBackoff, MaxBackoff time.Duration
	// Observe is told of every pass with its duration, for metrics; nil is fine. It must not block.
	Observe func(Result, error, time.Duration)
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&o.Resync, DefaultResync)
	set(&o.PassTimeout, DefaultPassTimeout)
	set(&o.MinBackoff, DefaultMinBackoff)
	set(&o.MaxBackoff, max(DefaultMaxBackoff, o.MinBackoff))
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(Result, error, time.Duration) {}
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Name == "":
		return errors.New("reconciler: no name")
	case o.Debounce < 0, o.Resync < 0, o.PassTimeout < 0, o.MinBackoff < 0, o.MaxBackoff < o.MinBackoff:
		return fmt.Errorf("reconciler %s: a duration is negative, or MaxBackoff below MinBackoff", o.Name)
	}
	return nil
}

// Terminal marks an error that another pass of this loop cannot heal: Run returns it. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

type terminalError struct{ error }

func (e *terminalError) Unwrap() error { return e.error }

// IsTerminal reports whether err was marked with Terminal.
func IsTerminal(err error) bool {
	_, ok := errors.AsType[*terminalError](err)
	return ok
}

// NewWake returns a channel for Options.Wake and the function that signals it. wake never blocks and
// may be called from any goroutine; calls that the loop has not seen yet are one.
func NewWake() (wake func(), woken <-chan struct{}) {
	ch := make(chan struct{}, 1)
	return func() {
		select {
		case ch <- struct{}{}:
		default:
		}
	}, ch
}

// Reconciler runs passes. Make one with New.
type Reconciler struct {
	opts Options
	pass func(context.Context) (Result, error)
	wake <-chan struct{} // nil once the caller has closed it
}

// New makes a Reconciler; invalid options are reported by Run.
func New(opts Options, pass func(ctx context.Context) (Result, error)) *Reconciler {
	opts = opts.withDefaults()
	opts.Log = opts.Log.With("loop", opts.Name)
	return &Reconciler{opts: opts, pass: pass, wake: opts.Wake}
}

// Run passes until ctx ends and returns its cause, or until a fault that the loop cannot heal, and
// returns that. It must not be called while another Run of the same Reconciler is going on.
func (r *Reconciler) Run(ctx context.Context) error {
	if err := r.opts.validate(); err != nil {
		return err
	}
	failures := 0
	for ctx.Err() == nil {
		out := r.runPass(ctx)
		if ctx.Err() != nil {
			break
		}
		r.opts.Observe(out.result, out.err, out.took)
		if err := r.report(out); err != nil {
			return err
		}
		if out.err == nil {
			failures = 0
		} else {
			failures++
		}
		if !r.wait(ctx, schedule(r.opts, failures, out.result), out.woken) {
			break
		}
	}
	return context.Cause(ctx)
}

// next says when the pass after this one runs, counted from the end of this one.
type next struct {
	latest   time.Duration // when nothing wakes the loop
	earliest time.Duration // however often it is woken
}

// schedule decides the next pass from the number of passes that failed in a row and the last result.
func schedule(o Options, failures int, res Result) next {
	if failures > 0 {
		backoff := o.MinBackoff
		for range failures - 1 {
			if backoff = min(2*backoff, o.MaxBackoff); backoff == o.MaxBackoff {
				break
			}
		}
		return next{latest: backoff, earliest: min(o.MinBackoff, backoff)}
	}
	latest := o.Resync
	if res.Revisit > 0 {
		latest = min(latest, res.Revisit)
	}
	return next{latest: latest}
}

// wait sleeps until the next pass is due and reports whether ctx is still alive. woken says that a
// wake is already waiting.
func (r *Reconciler) wait(ctx context.Context, n next, woken bool) bool {
	start := time.Now()
	timer := time.NewTimer(n.latest)
	defer timer.Stop()
	for {
		wake := r.wake
		if woken {
			wake = nil // the pass is due; what else arrives before it is the same wake
			due := max(r.opts.Debounce, n.earliest-time.Since(start))
			timer.Reset(min(due, n.latest-time.Since(start)))
		}
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			r.drain()
			return true
		case _, ok := <-wake:
			woken = r.sawWake(ok)
		}
	}
}

// drain takes the wake that arrived while one was already due.
func (r *Reconciler) drain() {
	select {
	case _, ok := <-r.wake:
		r.sawWake(ok)
	default:
	}
}

// sawWake handles a receive from the wake channel; a closed one is left alone from then on.
func (r *Reconciler) sawWake(ok bool) bool {
	if !ok {
		r.wake = nil
		r.opts.Log.Warn("wake channel closed, only time drives the loop now")
	}
	return ok
}

type outcome struct {
	result Result
	err    error
	took   time.Duration
	woken  bool // a wake arrived during the pass
}

// runPass runs one pass and meanwhile takes the wakes, so that none is lost however the caller sends them.
func (r *Reconciler) runPass(ctx context.Context) outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, r.opts.PassTimeout, ErrPassTimeout)
	defer cancel()
	start := time.Now()
	done := make(chan outcome, 1)
	go func() {
		var out outcome
		out.err = supervise.Call(ctx, func(ctx context.Context) (err error) {
			out.result, err = r.pass(ctx)
			return err
		})
		done <- out
	}()
	woken := false
	stuck := time.NewTimer(r.opts.PassTimeout + stuckEvery)
	defer stuck.Stop()
	for {
		select {
		case out := <-done:
			out.woken, out.took = woken, time.Since(start)
			if errors.Is(context.Cause(ctx), ErrPassTimeout) {
				out.err = errors.Join(ErrPassTimeout, out.err)
			}
			return out
		case _, ok := <-r.wake:
			woken = r.sawWake(ok) || woken
		case <-stuck.C:
			r.opts.Log.Error("pass does not stop", "running_ms", time.Since(start).Milliseconds())
			stuck.Reset(stuckEvery)
		}
	}
}

// report logs the pass, and returns the error when it ends Run.
func (r *Reconciler) report(out outcome) error {
	ms := out.took.Milliseconds()
	if out.err == nil {
		r.opts.Log.Debug("pass done", "duration_ms", ms, "revisit_ms", out.result.Revisit.Milliseconds())
		return nil
	}
	if IsTerminal(out.err) || errors.Is(out.err, ErrPassTimeout) {
		return fmt.Errorf("loop %s: %w", r.opts.Name, out.err)
	}
	attrs := []any{"duration_ms", ms, "error", out.err}
	if p, ok := errors.AsType[*supervise.PanicError](out.err); ok {
		attrs = append(attrs, "stack", string(p.Stack))
	}
	r.opts.Log.Error("pass failed", attrs...)
	return nil
}
