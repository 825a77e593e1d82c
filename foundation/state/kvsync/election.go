package kvsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// RunElection campaigns for lease until ctx ends and leads while it holds it.
//
// onGained is called once per acquisition, with a context that ends with it; it may return at once or
// work until that context ends. If it fails or panics, the lease is released, onLost is not called, and
// this node sits out T/3 so that a healthy peer wins; if it returns nil the node goes on leading.
// onLost is called once per loss, and when ctx ends while leading. Either may be nil.
//
// On every way out the order is: the context of the acquisition ends, onLost runs, onGained has
// returned, the key is released. Work that does not stop within T-V keeps the key from being released
// early: it lapses, with an error in the log. RunElection returns, and campaigns again, only after the
// work has stopped.
func RunElection(ctx context.Context, lease *Lease, onGained func(context.Context) error, onLost func()) {
	c := campaign{lease: lease}
	for ctx.Err() == nil {
		tok, err := c.win(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return
		case lease.forgotten():
			return
		default:
			slog.Error("election is waiting", "key", lease.key, "holder", lease.holder, "error", err)
			if !pause(ctx, lease.ttl/pollPart) {
				return
			}
			continue
		}
		if healthy := lead(ctx, lease, tok, onGained, onLost); !healthy && !pause(ctx, lease.ttl/pollPart) {
			return
		}
	}
}

// lead is one term. It reports whether this node may campaign again at once.
func lead(ctx context.Context, lease *Lease, tok Token, onGained func(context.Context) error, onLost func()) bool {
	term, cancel := context.WithCancelCause(lease.Context(ctx))
	defer cancel(ErrLost)
	lost := lease.Lost()
	asked := lease.openDesk()
	defer lease.closeDesk()
	work := make(chan error, 1)
	go func() {
		defer close(work)
		if onGained == nil {
			work <- nil
			return
		}
		work <- guard(func() error { return onGained(term) })
	}()
	running := work
	for {
		select {
		case err, returned := <-running:
			running = nil // closed, or its one result taken
			if !returned {
				err = errExited
			}
			if err == nil {
				continue
			}
			if term.Err() != nil {
				continue // it ended because the term did
			}
			slog.Error("leader stands down, its work failed", "key", lease.key, "holder", lease.holder,
				"generation", tok.Generation, "error", err)
			cancel(ErrLost)
			lease.Unlock(context.WithoutCancel(ctx), tok)
			return false
		case <-lost:
			cancel(ErrLost)
			callLost(lease, onLost)
			<-closed(work)
			return true
		case h := <-asked:
			cancel(ErrLost)
			h.done <- stopThenTransfer(ctx, lease, tok, work, onLost, h.to)
			return true
		case <-ctx.Done():
			cancel(context.Cause(ctx))
			stopThen(ctx, lease, tok, work, onLost, func() { lease.Unlock(context.WithoutCancel(ctx), tok) })
			return true
		}
	}
}

// stopThen ends a term from this side: the work stops, and then give gives the key away. It reports
// whether it came to that.
func stopThen(ctx context.Context, lease *Lease, tok Token, work <-chan error, onLost, give func()) bool {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		callLost(lease, onLost)
		<-closed(work)
	}()
	budget := time.NewTimer(lease.ttl - validity(lease.ttl))
	defer budget.Stop()
	select {
	case <-stopped:
		give()
		return true
	case <-budget.C:
		slog.Error("leader's work has not stopped in time, the lease is left to lapse",
			"key", lease.key, "holder", lease.holder, "generation", tok.Generation)
		lease.lapse(tok)
		<-stopped
		return false
	}
}

// closed waits for a work channel to be closed, whatever was taken from it.
func closed(work <-chan error) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range work { //nolint:revive // drained
		}
	}()
	return done
}

// callLost runs onLost; its panic is contained, since the key must still be dealt with.
func callLost(lease *Lease, onLost func()) {
	if onLost == nil {
		return
	}
	if err := guard(func() error { onLost(); return nil }); err != nil {
		slog.Error("onLost failed", "key", lease.key, "error", err)
	}
}

var (
	errPanic  = errors.New("panic")
	errExited = errors.New("the goroutine exited without returning")
)

func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, r, debug.Stack())
		}
	}()
	return f()
}

// lapse ends the acquisition here and leaves its record to expire.
func (l *Lease) lapse(tok Token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acq != nil && !l.acq.ended && l.acq.tok == tok {
		l.endLocked(l.acq, EventReleased, "overrun")
	}
}

func (l *Lease) forgotten() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}
