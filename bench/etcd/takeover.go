package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/mulgadc/spinifex/bench/locks"
	"github.com/mulgadc/spinifex/bench/report"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

const (
	takeoverTTL    = 2 * time.Second
	takeoverRounds = 3
	takeoverKeys   = 10 // of each kind, held by the process that is killed
)

// unwatched is a store without its watch.
type unwatched struct {
	kvsync.KVStore
	kvsync.Bounded
	kvsync.Identity
}

// holder is the child that holds locks until it is killed: leases under both prefixes, and mutexes.
func holder(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("holder", flag.ContinueOnError)
	urls := flags.String("nats", "", "NATS servers, with commas between them")
	etcd := flags.String("etcd", "", "an etcd member")
	prefixes := flags.String("prefixes", "", "prefixes of leases, with commas between them")
	mutexes := flags.String("mutexes", "", "prefix of mutexes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := locks.Connect(ctx, 3, strings.Split(*urls, ","))
	if err != nil {
		return err
	}
	defer c.Close()
	client, err := etcdClient(*etcd)
	if err != nil {
		return err
	}
	defer client.Close()
	for i := range takeoverKeys {
		for prefix := range strings.SplitSeq(*prefixes, ",") {
			lease := kvsync.NewLease(c.Bucket, fmt.Sprintf("%s.%d", prefix, i), "bench/holder", takeoverTTL)
			if _, err := lease.TryLock(ctx); err != nil {
				return err
			}
		}
		session, err := concurrency.NewSession(client, concurrency.WithTTL(int(takeoverTTL.Seconds())))
		if err != nil {
			return err
		}
		if err := concurrency.NewMutex(session, fmt.Sprintf("%s/%d", *mutexes, i)).Lock(ctx); err != nil {
			return err
		}
		time.Sleep(takeoverTTL / 6 / takeoverKeys) // the renewals of all keys are spread over an interval
	}
	fmt.Println("holding")
	untilTold(ctx)
	return nil
}

// takeovers are the times of one kind of waiter.
type takeovers struct {
	kill    []time.Duration // from the kill to the acquisition
	silence []time.Duration // from the last write of the holder to that of the new one, by the server's clock
}

// takeover measures when holders are replaced that were killed.
func (b *bench) takeover(ctx context.Context) error {
	watcher, err := locks.Connect(ctx, 3, b.r3.URLs)
	if err != nil {
		return err
	}
	defer watcher.Close()
	var watched, polled, etcd takeovers
	for round := range b.scaled(takeoverRounds, 1) {
		if err := b.takeoverRound(ctx, watcher, round, &watched, &polled, &etcd); err != nil {
			return err
		}
	}
	b.row("R3 take-over after a kill, watched, T = 2 s", watched.kill, "etcd-3 session", etcd.kill)
	b.row("R3 take-over after a kill, not watched", polled.kill, "etcd-3 session", etcd.kill)
	b.row("etcd-3 take-over after a kill, session of 2 s", etcd.kill, "R3 watched", watched.kill)
	var rows [][]string
	for _, k := range []struct {
		name string
		t    *takeovers
	}{{"watched", &watched}, {"not watched", &polled}} {
		row := []string{k.name}
		for _, q := range []float64{0, 0.1, 0.5, 0.9, 1} {
			row = append(row, report.Quantile(k.t.silence, q).Round(time.Millisecond).String())
		}
		rows = append(rows, row)
	}
	b.report.More = append(b.report.More, report.Table{
		Title:   "From the last write of a killed holder to the write of the next, T = 2 s",
		Columns: []string{"contender", "least", "p10", "p50", "p90", "most"}, Rows: rows,
	})
	const t = float64(takeoverTTL)
	shortest := min(report.Quantile(watched.silence, 0), report.Quantile(polled.silence, 0))
	b.atLeast("take-over, soonest, in T", float64(shortest)/t, 1)
	half := 500 * time.Millisecond
	b.atMost("take-over with a watch, latest, seconds", report.Quantile(watched.silence, 1).Seconds(), (takeoverTTL + half).Seconds())
	b.atMost("take-over without a watch, latest, seconds", report.Quantile(polled.silence, 1).Seconds(), (takeoverTTL*4/3 + half).Seconds())
	return nil
}

func (b *bench) takeoverRound(ctx context.Context, c *locks.Client, round int, watched, polled, etcd *takeovers) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	prefix := fmt.Sprintf("take%d", round)
	wp, pp, mp := prefix+".watched", prefix+".polled", prefix+"/mutex"
	p, err := child("holder", "-nats", strings.Join(b.r3.URLs, ","), "-etcd", b.etcd3.urls[round%3],
		"-prefixes", wp+","+pp, "-mutexes", mp)
	if err != nil {
		return err
	}
	defer func() { _ = p.Kill() }()
	if err := awaitLine(ctx, p, "holding"); err != nil {
		return err
	}
	seen, err := follow(ctx, c.Bucket, prefix+".")
	if err != nil {
		return err
	}
	client, err := b.etcd3.client((round + 1) % 3)
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := concurrency.NewSession(client, concurrency.WithTTL(sessionTTL))
	if err != nil {
		return err
	}
	var w waiters
	noWatch := &unwatched{c.Bucket, c.Bucket, c.Bucket}
	for i := range takeoverKeys {
		push := kvsync.NewLease(c.Bucket, fmt.Sprintf("%s.%d", wp, i), "bench/waiter", takeoverTTL)
		poll := kvsync.NewLease(noWatch, fmt.Sprintf("%s.%d", pp, i), "bench/waiter", takeoverTTL)
		w.wait(ctx, &leaseLocker{lease: push}, watched)
		w.wait(ctx, &leaseLocker{lease: poll}, polled)
		w.wait(ctx, &mutexLocker{concurrency.NewMutex(session, fmt.Sprintf("%s/%d", mp, i))}, etcd)
	}
	select { // long enough for everybody to wait and for some renewals
	case <-time.After(takeoverTTL * 3 / 4):
	case <-p.Done():
		return errors.New("the holder ended: " + p.Output())
	}
	killed := time.Now()
	if err := p.Kill(); err != nil {
		return err
	}
	if err := w.all(killed); err != nil {
		return err
	}
	seen.collect(wp, watched)
	seen.collect(pp, polled)
	return nil
}

// waiters wait for locks, each in a goroutine of its own.
type waiters struct {
	wg   sync.WaitGroup
	mu   sync.Mutex
	errs []error
	got  map[*takeovers][]time.Time
}

func (w *waiters) wait(ctx context.Context, l locker, kind *takeovers) {
	w.wg.Go(func() {
		err := l.lock(ctx)
		at := time.Now()
		if err == nil {
			err = l.unlock(ctx)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.errs = append(w.errs, err)
		if w.got == nil {
			w.got = map[*takeovers][]time.Time{}
		}
		w.got[kind] = append(w.got[kind], at)
	})
}

// all waits until every one has its lock, and notes how long after the kill that was.
func (w *waiters) all(killed time.Time) error {
	w.wg.Wait()
	for kind, at := range w.got {
		for _, t := range at {
			kind.kill = append(kind.kill, t.Sub(killed))
		}
	}
	return errors.Join(w.errs...)
}

// history is what was written below a prefix.
type history struct {
	mu     sync.Mutex
	writes map[string][]kvstore.Entry
}

// follow writes down the history below prefix until ctx ends.
func follow(ctx context.Context, bucket *kvstore.Bucket, prefix string) (*history, error) {
	changes, err := bucket.Follow(ctx, prefix)
	if err != nil {
		return nil, err
	}
	h := &history{writes: map[string][]kvstore.Entry{}}
	go func() {
		for c := range changes {
			if c.Ready {
				continue
			}
			h.mu.Lock()
			h.writes[c.Key] = append(h.writes[c.Key], c.Entry)
			h.mu.Unlock()
		}
	}()
	return h, nil
}

// collect finds on each key below prefix the write that took it over.
func (h *history) collect(prefix string, into *takeovers) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, writes := range h.writes {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		for i := 1; i < len(writes); i++ {
			if strings.Contains(string(writes[i].Value), "bench/waiter") {
				into.silence = append(into.silence, writes[i].Created.Sub(writes[i-1].Created))
				break
			}
		}
	}
}
