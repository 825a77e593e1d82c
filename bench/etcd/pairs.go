package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/mulgadc/spinifex/bench/locks"
	"github.com/mulgadc/spinifex/bench/report"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// sessionTTL of etcd sessions that are not to end by themselves, in seconds.
const sessionTTL = 60

// pairsTime is when the part on one client is content with fewer operations, on a slow machine.
const pairsTime = 45 * time.Second

// pairTimes are the durations of uncontended operations of one client on one pair of systems.
type pairTimes struct{ cas, pair, cold, txn, mutex, election, session []time.Duration }

// duo is one client of each system.
type duo struct {
	*locks.Client
	raw   *locks.RawKey
	lease *kvsync.Lease
	cells int

	etcd     *clientv3.Client
	key      *etcdKey
	session  *concurrency.Session
	mutex    *concurrency.Mutex
	election *concurrency.Election
}

func newDuo(ctx context.Context, c *locks.Client, etcd *clientv3.Client, name string) (*duo, error) {
	raw, err := c.Raw(ctx, "duo.raw."+name)
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(etcd, concurrency.WithTTL(sessionTTL))
	if err != nil {
		return nil, err
	}
	return &duo{
		Client: c, raw: raw, lease: kvsync.NewLease(c.Bucket, "duo.lease."+name, "bench/"+name, time.Minute),
		etcd: etcd, key: &etcdKey{client: etcd, key: "duo/raw/" + name}, session: session,
		mutex:    concurrency.NewMutex(session, "duo/mutex/"+name),
		election: concurrency.NewElection(session, "duo/election/"+name),
	}, nil
}

// once does each operation once.
func (d *duo) once(ctx context.Context, turn int, into *pairTimes) error {
	d.cells++
	cold := kvsync.NewLease(d.Bucket, fmt.Sprintf("%s.cold.%d", d.lease.Key(), d.cells), "bench/cold", time.Minute)
	return inTurn(turn,
		func() error { return locks.Timed(&into.cas, func() error { return d.raw.CAS(ctx) }) },
		func() error { return locks.Timed(&into.txn, func() error { return d.key.cas(ctx) }) },
		func() error { return locks.Timed(&into.pair, func() error { return locks.Pair(ctx, d.lease) }) },
		func() error {
			return locks.Timed(&into.mutex, func() error { return errors.Join(d.mutex.Lock(ctx), d.mutex.Unlock(ctx)) })
		},
		func() error { return locks.Timed(&into.cold, func() error { return locks.Pair(ctx, cold) }) },
		func() error {
			return locks.Timed(&into.election, func() error {
				return errors.Join(d.election.Campaign(ctx, "bench"), d.election.Resign(ctx))
			})
		},
		func() error { return locks.Timed(&into.session, func() error { return d.oneShot(ctx) }) },
	)
}

// oneShot locks once, with all that one who comes for one lock has to do.
func (d *duo) oneShot(ctx context.Context) error {
	session, err := concurrency.NewSession(d.etcd, concurrency.WithTTL(sessionTTL))
	if err != nil {
		return err
	}
	mutex := concurrency.NewMutex(session, "duo/oneshot")
	return errors.Join(mutex.Lock(ctx), mutex.Unlock(ctx), session.Close())
}

// pairs measures one client, connected to each server in turn: what leads differs between systems.
func (b *bench) pairs(ctx context.Context) error {
	const warmUp = 50
	began := time.Now()
	var one, three, ignored pairTimes
	var duos []*duo
	for i := range 3 {
		d, closeAll, err := b.connectDuo(ctx, i)
		if err != nil {
			return err
		}
		defer closeAll()
		duos = append(duos, d)
	}
	single, closeAll, err := b.connectDuo(ctx, -1)
	if err != nil {
		return err
	}
	defer closeAll()
	for i := range b.scaled(1000, 30) + warmUp {
		if time.Since(began) > pairsTime {
			break
		}
		into3, into1 := &three, &one
		if i < warmUp {
			into3, into1 = &ignored, &ignored
		}
		if err := duos[i%3].once(ctx, i, into3); err != nil {
			return err
		}
		if i%3 == 0 {
			if err := single.once(ctx, i, into1); err != nil {
				return err
			}
		}
	}
	b.reportPairs("R3", "etcd-3", three)
	b.reportPairs("synced", "etcd-1", one)
	p50 := report.Median
	b.atMost("R3 pair, one client, of etcd-3 Mutex", report.Ratio(p50(three.pair), p50(three.mutex)), 1)
	b.atMost("R3 pair of etcd-3 Election", report.Ratio(p50(three.pair), p50(three.election)), 0.8)
	b.atMost("R3 pair of etcd-3 one-shot session lock", report.Ratio(p50(three.pair), p50(three.session)), 0.5)
	b.atMost("R3 pair on a key never seen, of the same", report.Ratio(p50(three.cold), p50(three.session)), 0.5)
	return nil
}

// connectDuo connects to server i of the three, or to the single ones when it is negative.
func (b *bench) connectDuo(ctx context.Context, i int) (d *duo, closeAll func(), err error) {
	name, replicas, urls, m, at := "one", 1, b.synced.URLs, b.etcd1, 0
	if i >= 0 {
		name, replicas, urls, m, at = fmt.Sprintf("three%d", i), 3, rotated(b.r3.URLs, i), b.etcd3, i
	}
	c, err := locks.Connect(ctx, replicas, urls)
	if err != nil {
		return nil, nil, err
	}
	etcd, err := m.client(at)
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	closeAll = func() {
		c.Close()
		_ = etcd.Close()
	}
	if d, err = newDuo(ctx, c, etcd, name); err != nil {
		closeAll()
		return nil, nil, err
	}
	return d, closeAll, nil
}

func (b *bench) reportPairs(nats, etcd string, t pairTimes) {
	b.row(nats+" raw CAS", t.cas, etcd+" transaction", t.txn)
	b.row(nats+" TryLock+Unlock, warm", t.pair, etcd+" Mutex", t.mutex)
	b.row(nats+" TryLock+Unlock, cold", t.cold, etcd+" one-shot session lock", t.session)
	b.row(etcd+" transaction", t.txn, nats+" raw CAS", t.cas)
	b.row(etcd+" Mutex Lock+Unlock", t.mutex, etcd+" transaction", t.txn)
	b.row(etcd+" Campaign+Resign", t.election, etcd+" transaction", t.txn)
	b.row(etcd+" one-shot session lock", t.session, etcd+" transaction", t.txn)
}
