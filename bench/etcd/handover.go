package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/mulgadc/spinifex/bench/report"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// relayPlan says how one number of contenders is measured.
type relayPlan struct {
	contenders, turns, perTurn int
	// hold is how long each holder keeps the lock. Those who wait must have settled before the next
	// release: a watch in etcd may take 100 ms until it is served at once.
	hold time.Duration
	// limit of the ratio to etcd.
	limit float64
}

// countingStore counts the compare-and-swaps that a contender sends for a key that was released.
type countingStore struct {
	*kvstore.Bucket
	tries    *atomic.Int64
	entering atomic.Bool // the next one only finds out who has the key
}

// CompareAndSwap implements kvsync.KVStore.
func (s *countingStore) CompareAndSwap(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	if !s.entering.Swap(false) {
		s.tries.Add(1)
	}
	return s.Bucket.CompareAndSwap(ctx, key, value, rev)
}

// countedLocker is a lease on a countingStore. It waits again when it is told that the store has lost
// something, which no store does here, and counts that.
type countedLocker struct {
	leaseLocker
	store  *countingStore
	alarms *atomic.Int64
}

func (l *countedLocker) lock(ctx context.Context) error {
	for {
		l.store.entering.Store(true)
		err := l.leaseLocker.lock(ctx)
		if !errors.Is(err, kvsync.ErrStoreRegressed) {
			return err
		}
		l.alarms.Add(1)
	}
}

// relay passes a lock from contender to contender and takes the times.
type relay struct {
	mu       sync.Mutex
	released time.Time     // when the last holder began to release
	taken    chan struct{} // closed at the next acquisition
	times    []time.Duration
	missing  int // hand-overs to come
	hold     time.Duration
}

// run makes n hand-overs. A contender that has released comes back once another one has the lock.
func (r *relay) run(ctx context.Context, lockers []locker, n int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.missing, r.released, r.taken = n, time.Time{}, make(chan struct{})
	var wg sync.WaitGroup
	errs := make([]error, len(lockers))
	for i, l := range lockers {
		wg.Go(func() { errs[i] = r.contend(ctx, cancel, l) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (r *relay) contend(ctx context.Context, done context.CancelFunc, l locker) error {
	for {
		if err := l.lock(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if r.took(time.Now()) {
			done()
			return l.unlock(context.WithoutCancel(ctx))
		}
		time.Sleep(r.hold)
		taken := r.releasing()
		if err := l.unlock(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		select {
		case <-taken:
		case <-ctx.Done():
			return nil
		}
	}
}

// took notes an acquisition and reports whether it was the last one wanted.
func (r *relay) took(at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.released.IsZero() {
		r.times = append(r.times, at.Sub(r.released))
		r.missing--
	}
	close(r.taken)
	r.taken = make(chan struct{})
	return r.missing <= 0
}

// releasing notes that a release begins and returns what is closed at the next acquisition.
func (r *relay) releasing() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released = time.Now()
	return r.taken
}

// handover measures how soon one who waits has what was released.
func (b *bench) handover(ctx context.Context) error {
	for _, p := range []relayPlan{
		{contenders: 2, turns: 4, perTurn: 30, hold: 120 * time.Millisecond, limit: 1.1},
		{contenders: 20, turns: 6, perTurn: 40, hold: 25 * time.Millisecond, limit: 1.3},
	} {
		if err := b.relays(ctx, p); err != nil {
			return fmt.Errorf("%d contenders: %w", p.contenders, err)
		}
	}
	return nil
}

func (b *bench) relays(ctx context.Context, p relayPlan) error {
	n := p.contenders
	nats, closeNats, err := b.natsClients(ctx, n)
	if err != nil {
		return err
	}
	defer closeNats()
	etcd, closeEtcd, err := etcdClients(b.etcd3, n)
	if err != nil {
		return err
	}
	defer closeEtcd()
	var leases, mutexes []locker
	var tries, alarms atomic.Int64
	for i := range n {
		store := &countingStore{Bucket: nats[i].Bucket, tries: &tries}
		lease := kvsync.NewLease(store, fmt.Sprintf("relay.%d", n), fmt.Sprintf("bench/%d", i), time.Minute)
		leases = append(leases, &countedLocker{leaseLocker{lease: lease}, store, &alarms})
		session, err := concurrency.NewSession(etcd[i], concurrency.WithTTL(sessionTTL))
		if err != nil {
			return err
		}
		mutexes = append(mutexes, &mutexLocker{concurrency.NewMutex(session, fmt.Sprintf("relay/%d", n))})
	}
	ours, theirs := relay{hold: p.hold}, relay{hold: p.hold}
	for turn := range b.scaled(p.turns, 1) {
		if err := inTurn(turn,
			func() error { return ours.run(ctx, leases, p.perTurn) },
			func() error { return theirs.run(ctx, mutexes, p.perTurn) },
		); err != nil {
			return err
		}
	}
	perHandover := float64(tries.Load()) / float64(len(ours.times))
	b.row(fmt.Sprintf("R3 hand-over, %d contenders", n), ours.times, "etcd-3 Mutex", theirs.times)
	b.row(fmt.Sprintf("etcd-3 Mutex hand-over, %d contenders", n), theirs.times, "R3 hand-over", ours.times)
	b.atMost(fmt.Sprintf("R3 hand-over, %d contenders, of etcd-3 Mutex: p50", n),
		report.Ratio(report.Median(ours.times), report.Median(theirs.times)), p.limit)
	b.atMost(fmt.Sprintf("R3 hand-over, %d contenders, of etcd-3 Mutex: p99", n),
		report.Ratio(report.Quantile(ours.times, 0.99), report.Quantile(theirs.times, 0.99)), p.limit)
	b.atMost(fmt.Sprintf("CAS tries per hand-over, %d contenders", n), perHandover, 3)
	b.atMost(fmt.Sprintf("false alarms of a store that lost something, %d contenders", n), float64(alarms.Load()), 0)
	return nil
}
