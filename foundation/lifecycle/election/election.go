package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// DefaultTTL is the time to live of a leader lease. A NATS stream leader that is killed stalls
// writes for up to 8.4 s; with validity 2T/3 = 13.3 s a holder outlives that.
const DefaultTTL = 20 * time.Second

const (
	startWait = 60 * time.Second // AcquireLeaderAtStart waits this long for a cluster still forming
	startStep = time.Second
)

// Option changes how a leader lease is made.
type Option func(*options)

type options struct{ ttl time.Duration }

// WithTTL replaces DefaultTTL.
func WithTTL(d time.Duration) Option { return func(o *options) { o.ttl = d } }

// NewLeaderLease makes the lease that elects the one leader of key. holder is "<node>/<role>".
// It panics on what kvsync.NewLease panics on.
func NewLeaderLease(store kvsync.KVStore, key, holder string, opts ...Option) *kvsync.Lease {
	o := options{ttl: DefaultTTL}
	for _, opt := range opts {
		opt(&o)
	}
	return kvsync.NewLease(store, key, holder, o.ttl)
}

// Lead campaigns for lease until ctx ends and, each time it is won, runs work. work's context ends
// with the leadership; its return, with or without an error, ends the leadership too, and then this
// node sits out one interval. The lease is released only after work has returned.
// Lead returns the cause of ctx.
func Lead(ctx context.Context, lease *kvsync.Lease, log *slog.Logger, work func(context.Context, kvsync.Token) error) error {
	log = log.With("lease", lease.Key())
	gained := func(ctx context.Context) error {
		tok, ok := lease.Token()
		if !ok {
			return kvsync.ErrLost
		}
		log.Info("leadership gained", "holder", tok.Holder, "generation", tok.Generation)
		err := work(ctx, tok)
		switch {
		case err != nil && ctx.Err() == nil:
			log.Error("leader's work failed, standing down", "generation", tok.Generation, "error", err)
		case ctx.Err() == nil:
			err = errors.New("leader's work ended by itself")
			log.Warn("leader's work ended, standing down", "generation", tok.Generation)
		}
		return err
	}
	lost := func() {
		if ctx.Err() != nil {
			log.Info("leadership given up", "cause", context.Cause(ctx))
			return
		}
		log.Warn("leadership lost")
	}
	kvsync.RunElection(ctx, lease, gained, lost)
	return context.Cause(ctx)
}

// AcquireLeader tries once to acquire lease. release unlocks it and is never nil. A refusal is logged
// with the holder's name.
func AcquireLeader(ctx context.Context, lease *kvsync.Lease) (release func(), ok bool) {
	tok, err := lease.TryLock(ctx)
	if err != nil {
		logRefusal(ctx, lease, err)
		return func() {}, false
	}
	return func() { lease.Unlock(context.WithoutCancel(ctx), tok) }, true
}

// ElectPass elects the node that does this pass. ok means that this node won and works under
// lease.Context(ctx) until it calls release; otherwise the pass comes back after revisit, which is
// within T/3.
func ElectPass(ctx context.Context, lease *kvsync.Lease) (release func(), revisit time.Duration, ok bool) {
	release, ok = AcquireLeader(ctx, lease)
	if !ok {
		return release, lease.TTL() / 3, false
	}
	return release, 0, true
}

// AcquireLeaderAtStart is a one-shot election at start: it answers at once when the lease is held
// by another (ok false, no error) or the fault is permanent (an undeclared cluster size, a store that
// regressed), and waits up to 60 s in steps of 1 s for a store that a cluster still forming cannot
// serve yet.
func AcquireLeaderAtStart(ctx context.Context, lease *kvsync.Lease) (release func(), ok bool, err error) {
	deadline := time.Now().Add(startWait)
	for {
		tok, err := lease.TryLock(ctx)
		if err == nil {
			return func() { lease.Unlock(context.WithoutCancel(ctx), tok) }, true, nil
		}
		if _, held := errors.AsType[*kvsync.HeldError](err); held {
			logRefusal(ctx, lease, err)
			return func() {}, false, nil
		}
		if permanent(err) || !time.Now().Add(startStep).Before(deadline) {
			return func() {}, false, fmt.Errorf("elect %s at start: %w", lease.Key(), err)
		}
		select {
		case <-ctx.Done():
			return func() {}, false, fmt.Errorf("elect %s at start: %w", lease.Key(), context.Cause(ctx))
		case <-time.After(startStep):
		}
	}
}

func permanent(err error) bool {
	return errors.Is(err, clustersize.ErrUndeclared) || errors.Is(err, kvsync.ErrStoreRegressed) ||
		!errors.Is(err, kvsync.ErrUnavailable)
}

func logRefusal(ctx context.Context, lease *kvsync.Lease, err error) {
	if held, ok := errors.AsType[*kvsync.HeldError](err); ok {
		slog.DebugContext(ctx, "lease is held", "lease", lease.Key(), "holder", held.Current.Holder,
			"generation", held.Current.Generation)
		return
	}
	slog.WarnContext(ctx, "lease not acquired", "lease", lease.Key(), "error", err)
}
