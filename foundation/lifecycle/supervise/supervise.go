package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// Defaults of Options.
const (
	DefaultMinBackoff = 500 * time.Millisecond
	DefaultMaxBackoff = 30 * time.Second
)

// ErrEnded is the fault of a function that returned without an error while its context was alive.
var ErrEnded = errors.New("supervise: ended by itself")

// errGoexit is the fault of a function that called runtime.Goexit.
var errGoexit = errors.New("supervise: goroutine exited")

// PanicError is a panic turned into an error.
type PanicError struct {
	// Value is what was given to panic.
	Value any
	// Stack is the panicking goroutine's, as runtime/debug.Stack formats it.
	Stack []byte
}

// Error names the value; the stack is for the log.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value when it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Options say what is supervised and how patiently.
type Options struct {
	// Name of the loop in logs and metrics; required.
	Name string
	// Log receives one line per restart; nil discards them.
	Log *slog.Logger
	// MinBackoff is the wait before the first restart; it doubles up to MaxBackoff and starts anew
	// after a run that lasted MaxBackoff. Zero takes the defaults.
	MinBackoff, MaxBackoff time.Duration
	// OnRestart is told of each fault before the wait, for counting; nil is fine. It must not block.
	OnRestart func(name string, err error)
}

func (o Options) withDefaults() (Options, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MinBackoff == 0 {
		o.MinBackoff = DefaultMinBackoff
	}
	if o.MaxBackoff == 0 {
		o.MaxBackoff = max(DefaultMaxBackoff, o.MinBackoff)
	}
	switch {
	case o.Name == "":
		return o, errors.New("supervise: no name")
	case o.MinBackoff < 0 || o.MaxBackoff < o.MinBackoff:
		return o, fmt.Errorf("supervise %s: back-off from %v to %v", o.Name, o.MinBackoff, o.MaxBackoff)
	}
	return o, nil
}

// Run calls fn again and again until ctx ends, and then returns the cause of ctx. The only other
// error is that of invalid options, before fn is called.
func Run(ctx context.Context, opts Options, fn func(context.Context) error) error {
	opts, err := opts.withDefaults()
	if err != nil {
		return err
	}
	log := opts.Log.With("loop", opts.Name)
	backoff := opts.MinBackoff
	for restarts := 1; ; restarts++ {
		start := time.Now()
		err := Call(ctx, fn)
		if ctx.Err() != nil {
			logStop(log, err)
			return context.Cause(ctx)
		}
		if err == nil {
			err = ErrEnded
		}
		if time.Since(start) >= opts.MaxBackoff {
			backoff = opts.MinBackoff
		}
		logRestart(log, err, restarts, backoff)
		if opts.OnRestart != nil {
			opts.OnRestart(opts.Name, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, opts.MaxBackoff)
	}
}

// Call runs fn once on a goroutine of its own and waits for it; a panic comes back as *PanicError.
func Call(ctx context.Context, fn func(context.Context) error) error {
	done := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			}
			done <- err
		}()
		err = fn(ctx)
	}()
	return <-done
}

func logRestart(log *slog.Logger, err error, restarts int, backoff time.Duration) {
	attrs := []any{"error", err, "restarts", restarts, "backoff_ms", backoff.Milliseconds()}
	if p, ok := errors.AsType[*PanicError](err); ok {
		attrs = append(attrs, "stack", string(p.Stack))
	}
	log.Error("loop failed, restarting", attrs...)
}

// logStop reports what must not be lost although the loop is stopping: a panic on the way out.
func logStop(log *slog.Logger, err error) {
	if p, ok := errors.AsType[*PanicError](err); ok {
		log.Error("loop panicked while stopping", "error", err, "stack", string(p.Stack))
		return
	}
	log.Debug("loop stopped")
}
