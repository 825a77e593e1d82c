package route53

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/foundation/lifecycle/election"
	"github.com/mulgadc/spinifex/foundation/lifecycle/reconciler"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

const (
	// realizeDebounce gathers the changes of one moment into one pass, and is all that a lone change
	// waits for.
	realizeDebounce = 5 * time.Millisecond
	// realizeResync is how often everything is read again, whatever the watch has told.
	realizeResync = 5 * time.Minute
	realizePass   = 2 * time.Minute
	// rewatch is the wait before a watch that broke is made again.
	rewatch = time.Second
)

// RunRealizer publishes active hosted zones while this process holds RealizeLease, and blocks until
// ctx ends. The lease is kept between passes and released when the work has stopped.
func (s *Service) RunRealizer(ctx context.Context) error {
	log := s.deps.Log.With("loop", RealizeLeaseKey)
	return election.Lead(ctx, s.deps.RealizeLease, log, func(ctx context.Context, tok kvsync.Token) error {
		return s.realize(ctx, tok, log)
	})
}

// realize is one leadership: both fences are stamped, then all is read.
func (s *Service) realize(ctx context.Context, tok kvsync.Token, log *slog.Logger) error {
	writer, err := s.deps.ZoneWriter(ctx, tok)
	if err != nil {
		return fmt.Errorf("fence the zones: %w", err)
	}
	fence, err := s.deps.Bucket.Fence(ctx, RealizeLeaseKey, tok)
	if err != nil {
		return fmt.Errorf("fence %s: %w", Bucket, err)
	}
	wake, woken := reconciler.NewWake()
	r := &realizer{s: s, writer: writer, fence: fence, log: log, hints: newHints(wake)}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { s.follow(ctx, log, r.hints) })
	defer watching.Wait()
	defer cancel()
	return reconciler.New(reconciler.Options{
		Name: RealizeLeaseKey, Log: s.deps.Log, Wake: woken, Debounce: realizeDebounce,
		Resync: realizeResync, PassTimeout: realizePass, Observe: s.observer(RealizeLeaseKey),
	}, r.pass).Run(ctx)
}

// observer gives Deps.Observe the passes of a loop.
func (s *Service) observer(loop string) func(reconciler.Result, error, time.Duration) {
	return func(_ reconciler.Result, err error, took time.Duration) {
		if s.deps.Observe != nil {
			s.deps.Observe(loop, err, took)
		}
	}
}

// realizer is the work of one leadership. Only the reconciler's pass uses it, hints excepted.
type realizer struct {
	s      *Service
	writer dnsapi.ZoneWriter
	fence  *kvstore.Fence
	log    *slog.Logger
	hints  *hints

	// seen is what was read from the leaders of the buckets, under the fences. Keys that a hint
	// names are read again before a pass decides; nothing is taken from the watch itself.
	seen      observed
	refreshed time.Time // of the last complete read; zero when the next pass has to make one
	// refused are the digests of zone objects that the store will not take. They are tried again
	// after the next complete read only, so that one zone does not hold up the others.
	refused map[zoneRef]string
}

// pass reads what may have changed, plans and applies.
func (r *realizer) pass(ctx context.Context) (reconciler.Result, error) {
	if err := r.observe(ctx); err != nil {
		return reconciler.Result{}, terminalIfLost(err)
	}
	a := plan(r.seen, rules{verified: r.s.deps.Delegation != DelegationTrust, reserved: r.s.reserved})
	return reconciler.Result{}, terminalIfLost(r.apply(ctx, a))
}

// terminalIfLost ends the leadership when the store has refused a write for a later leader.
func terminalIfLost(err error) error {
	if errors.Is(err, kvsync.ErrLost) {
		return reconciler.Terminal(err)
	}
	return err
}

// observe brings seen up to date.
func (r *realizer) observe(ctx context.Context) error {
	keys, all := r.hints.take()
	if all || r.refreshed.IsZero() || time.Since(r.refreshed) >= realizeResync {
		r.refreshed = time.Time{}
		start := time.Now()
		seen, err := r.s.readAll(ctx, r.log)
		if err != nil {
			return err
		}
		r.seen, r.refreshed, r.refused = seen, start, map[zoneRef]string{}
		return nil
	}
	for i, key := range keys {
		if err := r.reread(ctx, key); err != nil {
			r.hints.giveBack(keys[i:])
			return err
		}
	}
	return nil
}

// reread reads one zone or delegation record.
func (r *realizer) reread(ctx context.Context, key string) error {
	account, kind, id, _ := splitKey(key)
	ref := zoneRef{account, id}
	switch kind {
	case kindZone:
		e, err := r.s.deps.Bucket.Get(ctx, key)
		switch {
		case errors.Is(err, kvstore.ErrNotFound):
			delete(r.seen.zones, ref)
		case err != nil:
			return fmt.Errorf("read hosted zone %s: %w", key, err)
		default:
			r.seen.zones[ref] = r.s.viewOf(key, e.Value, r.log)
		}
	case kindDelegation:
		d, _, err := r.s.delegations.Get(ctx, key)
		switch {
		case errors.Is(err, kvstore.ErrNotFound):
			delete(r.seen.delegations, ref)
		case err != nil:
			return fmt.Errorf("read delegation %s: %w", key, err)
		default:
			r.seen.delegations[ref] = *d
		}
	}
	return nil
}

// apply does what was planned. A zone that cannot be published keeps no other from being published;
// its status is not written, so that its changes stay pending.
func (r *realizer) apply(ctx context.Context, a actions) error {
	var errs []error
	failed := map[zoneRef]bool{}
	note := func(err error) (lost bool) {
		errs = append(errs, err)
		return errors.Is(err, kvsync.ErrLost) || ctx.Err() != nil
	}
	for _, ref := range a.publish {
		digest := r.seen.zones[ref].digest
		if r.refused[ref] == digest {
			failed[ref] = true
			continue
		}
		err := r.publish(ctx, ref)
		if err == nil {
			continue
		}
		failed[ref] = true
		if permanent(err) {
			r.refused[ref] = digest
			r.log.ErrorContext(ctx, "hosted zone cannot be published", "zone", ref.id, "account", ref.account, "error", err)
			continue
		}
		if note(err) {
			return errors.Join(errs...)
		}
	}
	for _, name := range a.withdraw {
		if err := r.withdraw(ctx, name); err != nil && note(err) {
			return errors.Join(errs...)
		}
	}
	for _, c := range a.statuses {
		if failed[c.ref] {
			continue
		}
		if err := r.setStatus(ctx, c); err != nil && note(err) {
			return errors.Join(errs...)
		}
	}
	for _, ref := range a.forget {
		if err := r.forget(ctx, ref); err != nil && note(err) {
			return errors.Join(errs...)
		}
	}
	return errors.Join(errs...)
}

// permanent reports whether the store's refusal of one zone is about that zone.
func permanent(err error) bool {
	return !errors.Is(err, kvsync.ErrUnavailable) && !errors.Is(err, kvsync.ErrLost) && !errors.Is(err, kvsync.ErrStoreRegressed) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

func (r *realizer) publish(ctx context.Context, ref zoneRef) error {
	z := r.seen.zones[ref]
	object, err := render(z.rec)
	if err != nil {
		return err
	}
	// Until the write has succeeded nothing is known to be published, so that it is repeated.
	r.seen.published[z.name] = publishedZone{id: ref.id}
	if err := r.writer.Put(ctx, object); err != nil {
		return fmt.Errorf("publish hosted zone %s: %w", ref.id, err)
	}
	r.seen.published[z.name] = publishedZone{id: ref.id, digest: z.digest}
	r.log.InfoContext(ctx, "hosted zone published", "zone", ref.id, "name", z.name, "account", ref.account,
		"serial", object.Serial, "record_sets", len(object.RRSets))
	return nil
}

func (r *realizer) withdraw(ctx context.Context, name string) error {
	was := r.seen.published[name]
	if err := r.writer.Delete(ctx, name); err != nil {
		return fmt.Errorf("withdraw zone %s: %w", name, err)
	}
	delete(r.seen.published, name)
	r.log.InfoContext(ctx, "hosted zone withdrawn", "zone", was.id, "name", name)
	return nil
}

func (r *realizer) setStatus(ctx context.Context, c statusChange) error {
	key := statusKey(c.ref.account, c.ref.id)
	rec := statusRecord{State: c.state, Since: time.Now().UTC().Truncate(time.Millisecond)}
	stored, err := r.s.statuses.Encode(&rec)
	if err == nil {
		_, err = r.fence.Put(ctx, key, stored)
	}
	if err != nil {
		return fmt.Errorf("write status %s: %w", key, err)
	}
	r.log.InfoContext(ctx, "state of hosted zone changed", "zone", c.ref.id, "account", c.ref.account,
		"from", string(r.seen.statuses[c.ref].State), "to", string(c.state))
	r.seen.statuses[c.ref] = rec
	return nil
}

func (r *realizer) forget(ctx context.Context, ref zoneRef) error {
	if err := r.fence.Delete(ctx, statusKey(ref.account, ref.id)); err != nil {
		return fmt.Errorf("delete status %s: %w", statusKey(ref.account, ref.id), err)
	}
	delete(r.seen.statuses, ref)
	return nil
}
