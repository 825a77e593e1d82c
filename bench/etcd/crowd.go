package main

import (
	"context"
	"errors"
	"fmt"

	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/mulgadc/spinifex/bench/locks"
	"github.com/mulgadc/spinifex/bench/report"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

const (
	crowdSize   = 64
	crowdTurns  = 6
	crowdWindow = 1500 * time.Millisecond
)

// locker acquires one lock, waiting for it, and releases it.
type locker interface {
	lock(ctx context.Context) error
	unlock(ctx context.Context) error
}

// leaseLocker is a lease.
type leaseLocker struct {
	lease *kvsync.Lease
	tok   kvsync.Token
}

func (l *leaseLocker) lock(ctx context.Context) (err error) {
	l.tok, err = l.lease.Lock(ctx)
	return err
}

func (l *leaseLocker) unlock(ctx context.Context) error {
	l.lease.Unlock(ctx, l.tok)
	return nil
}

// tryLocker is a lease for which nobody waits.
type tryLocker struct{ leaseLocker }

func (l *tryLocker) lock(ctx context.Context) (err error) {
	l.tok, err = l.lease.TryLock(ctx)
	return err
}

// mutexLocker is etcd's Mutex on a session of its own.
type mutexLocker struct{ mutex *concurrency.Mutex }

func (l *mutexLocker) lock(ctx context.Context) error   { return l.mutex.Lock(ctx) }
func (l *mutexLocker) unlock(ctx context.Context) error { return l.mutex.Unlock(ctx) }

// tally is what a crowd has done.
type tally struct {
	mu    sync.Mutex
	times []time.Duration
	spent time.Duration
}

// perSecond is the number of pairs.
func (t *tally) perSecond() float64 { return float64(len(t.times)) / t.spent.Seconds() }

// run lets all lock and unlock for the window.
func (t *tally) run(ctx context.Context, lockers []locker, window time.Duration) error {
	began := time.Now()
	var wg sync.WaitGroup
	errs := make([]error, len(lockers))
	for i, l := range lockers {
		wg.Go(func() {
			var times []time.Duration
			for errs[i] == nil && time.Since(began) < window {
				errs[i] = locks.Timed(&times, func() error { return errors.Join(l.lock(ctx), l.unlock(ctx)) })
			}
			t.mu.Lock()
			defer t.mu.Unlock()
			t.times = append(t.times, times...)
		})
	}
	wg.Wait()
	t.spent += time.Since(began)
	return errors.Join(errs...)
}

// crowd measures many clients, each with a connection and a key of its own.
func (b *bench) crowd(ctx context.Context) error {
	nats, closeNats, err := b.natsClients(ctx, crowdSize)
	if err != nil {
		return err
	}
	defer closeNats()
	etcd, closeEtcd, err := etcdClients(b.etcd3, crowdSize)
	if err != nil {
		return err
	}
	defer closeEtcd()
	var leases, mutexes []locker
	for i := range crowdSize {
		lease := kvsync.NewLease(nats[i].Bucket, fmt.Sprintf("crowd.%d", i), fmt.Sprintf("bench/%d", i), time.Minute)
		leases = append(leases, &tryLocker{leaseLocker{lease: lease}})
		session, err := concurrency.NewSession(etcd[i], concurrency.WithTTL(sessionTTL))
		if err != nil {
			return err
		}
		mutexes = append(mutexes, &mutexLocker{concurrency.NewMutex(session, fmt.Sprintf("crowd/%d", i))})
	}
	var ours, theirs, ignored tally
	warmUp := crowdWindow / 5
	if err := errors.Join(ignored.run(ctx, leases, warmUp), ignored.run(ctx, mutexes, warmUp)); err != nil {
		return err
	}
	for turn := range b.scaled(crowdTurns, 1) {
		if err := inTurn(turn,
			func() error { return ours.run(ctx, leases, crowdWindow) },
			func() error { return theirs.run(ctx, mutexes, crowdWindow) },
		); err != nil {
			return err
		}
	}
	b.row(fmt.Sprintf("R3 TryLock+Unlock, %d clients", crowdSize), ours.times, "etcd-3 Mutex", theirs.times)
	b.row(fmt.Sprintf("etcd-3 Mutex Lock+Unlock, %d clients", crowdSize), theirs.times, "R3 pair", ours.times)
	b.report.More = append(b.report.More, report.Table{
		Title: fmt.Sprintf("Throughput of %d clients", crowdSize), Columns: []string{"system", "pairs per second"},
		Rows: [][]string{
			{"R3 lease", fmt.Sprintf("%.0f", ours.perSecond())},
			{"etcd-3 Mutex", fmt.Sprintf("%.0f", theirs.perSecond())},
		},
	})
	b.atMost(fmt.Sprintf("R3 pair, %d clients, of etcd-3 Mutex: latency", crowdSize),
		report.Ratio(report.Median(ours.times), report.Median(theirs.times)), 0.75)
	b.atLeast(fmt.Sprintf("R3 pair, %d clients, of etcd-3 Mutex: throughput", crowdSize), ours.perSecond()/theirs.perSecond(), 1.5)
	return nil
}
