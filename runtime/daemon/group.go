package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/mulgadc/spinifex/foundation/lifecycle/supervise"
)

// errStopping is the cause with which the contexts of loops end when the process stops.
var errStopping = errors.New("the process is stopping")

// group is a set of supervised loops that stop together.
type group struct {
	log       *slog.Logger
	restarted func(loop string, err error)
	cancel    context.CancelCauseFunc
	run       func(name string, fn func(context.Context) error)
	wg        sync.WaitGroup

	mu sync.Mutex
	// running is protected by mu.
	running []string
}

// newGroup makes an empty group. Its loops have the values of ctx and not its end: they stop when the
// way back from the start sequence comes to them.
func newGroup(ctx context.Context, log *slog.Logger, restarted func(loop string, err error)) *group {
	g := &group{log: log, restarted: restarted}
	ctx, g.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	g.run = func(name string, fn func(context.Context) error) {
		g.note(name, true)
		g.wg.Go(func() {
			defer g.note(name, false)
			opts := supervise.Options{Name: name, Log: log, OnRestart: restarted}
			if err := supervise.Run(ctx, opts, fn); !errors.Is(err, errStopping) {
				log.Error("loop ended", "loop", name, "error", err) // only for options that are wrong
			}
		})
	}
	return g
}

func (g *group) note(name string, runs bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if runs {
		g.running = append(g.running, name)
		return
	}
	if i := slices.Index(g.running, name); i >= 0 {
		g.running = slices.Delete(g.running, i, i+1)
	}
}

// start runs a loop and returns once ready is closed. An error of the loop before that is returned and
// not repaired: an address that is in use at the start stays so. ctx bounds the wait only.
func (g *group) start(ctx context.Context, name string, ready <-chan struct{}, fn func(context.Context) error) error {
	fault := make(chan error, 1)
	g.run(name, func(ctx context.Context) error {
		err := fn(ctx)
		select {
		case <-ready:
			return err
		default:
		}
		if err == nil {
			err = supervise.ErrEnded
		}
		select {
		case fault <- err:
		default:
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	select {
	case <-ready:
		return nil
	case err := <-fault:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: not ready: %w", name, context.Cause(ctx))
	}
}

// stop ends the loops and waits for them until ctx ends; then it says which are still running.
func (g *group) stop(ctx context.Context) error {
	g.cancel(errStopping)
	done := make(chan struct{})
	go func() { g.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		return fmt.Errorf("still running: %s: %w", strings.Join(g.running, ", "), context.Cause(ctx))
	}
}
