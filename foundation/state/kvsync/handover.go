package kvsync

import (
	"context"
	"errors"
	"fmt"
)

// ErrNotLeading is a HandOver of a lease under which no election of this process leads.
var ErrNotLeading = errors.New("kvsync: not leading")

// handOver asks a leader to give its key to another holder.
type handOver struct {
	to   string
	done chan error // has room for the answer
}

// HandOver asks the leader that RunElection runs under this lease to stop its work and, when it has stopped,
// to transfer the key to another holder, who takes it at once. The order is that of every way out of
// RunElection, which goes on campaigning.
//
// It returns nil once the key is the other's to take, ErrNotLeading when nobody leads here, and ErrLost
// when the leadership ended otherwise or the work did not stop in time, in which case the key lapses. When
// ctx ends before, the hand-over may still happen.
func (l *Lease) HandOver(ctx context.Context, to string) error {
	if to == "" || to == l.holder {
		return fmt.Errorf("hand over lease %s: to %q: another holder is needed", l.key, to)
	}
	l.mu.Lock()
	desk, lost := l.desk, l.closed
	if l.acq != nil {
		lost = l.acq.lost
	}
	l.mu.Unlock()
	if desk == nil {
		return fmt.Errorf("hand over lease %s: %w", l.key, ErrNotLeading)
	}
	h := handOver{to: to, done: make(chan error, 1)}
	select {
	case desk <- h:
	case <-lost:
		return fmt.Errorf("hand over lease %s: %w", l.key, ErrLost)
	case <-ctx.Done():
		return fmt.Errorf("hand over lease %s: %w", l.key, context.Cause(ctx))
	}
	select {
	case err := <-h.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("hand over lease %s: %w", l.key, context.Cause(ctx))
	}
}

// openDesk begins to take requests to hand over, for one term.
func (l *Lease) openDesk() <-chan handOver {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.desk = make(chan handOver)
	return l.desk
}

func (l *Lease) closeDesk() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.desk = nil
}

// stopThenTransfer ends a term by giving the key to another holder.
func stopThenTransfer(ctx context.Context, lease *Lease, tok Token, work <-chan error, onLost func(), to string) error {
	err := fmt.Errorf("hand over lease %s: its work did not stop in time: %w", lease.key, ErrLost)
	stopThen(ctx, lease, tok, work, onLost, func() {
		tctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockBudget)
		defer cancel()
		err = lease.Transfer(tctx, tok, to)
	})
	return err
}
