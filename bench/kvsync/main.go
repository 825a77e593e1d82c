package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mulgadc/spinifex/bench/report"
	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/process"
)

const (
	rounds   = 40
	perRound = 50
	warmUp   = 200
	// renewals are timed at the pace of a lease with this time to live: one each 40 ms.
	renewTTL  = 240 * time.Millisecond
	renewTime = 6 * time.Second
)

func main() {
	out := flag.String("out", "", "directory to keep the result in; empty keeps nothing")
	synced := flag.Bool("sync", false, "sync each write to disk: measures the disk more than the library")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out, *synced); err != nil {
		fmt.Fprintln(os.Stderr, "bench/kvsync:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string, synced bool) error {
	dir, err := os.MkdirTemp("", "bench-kvsync")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	url, stop, err := startServer(ctx, dir, synced)
	if err != nil {
		return err
	}
	defer stop()
	conn, err := nats.Connect(url, nats.ReconnectBufSize(-1))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	size, err := clustersize.Declare(1)
	if err != nil {
		return err
	}
	events := &renewals{}
	bucket := kvstore.OpenSyncBucket(js, kvstore.WithSize(size), kvstore.WithRecorder(events))
	b := &bench{js: js, bucket: bucket, renewals: events}
	if err := b.measure(ctx); err != nil {
		return err
	}
	return b.report(synced).Publish(out)
}

// startServer runs a NATS server of one replica until stop is called.
func startServer(ctx context.Context, dir string, synced bool) (url string, stop func(), err error) {
	binary, err := process.Build(ctx, dir, "./internal/natsd")
	if err != nil {
		return "", nil, err
	}
	p, err := process.Start(process.Options{Path: binary, Args: []string{"-dir", dir, fmt.Sprintf("-sync=%t", synced)}})
	if err != nil {
		return "", nil, err
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		if url, ok := strings.CutPrefix(p.Output(), "ready "); ok && strings.HasSuffix(url, "\n") {
			return strings.TrimSpace(url), func() { _ = p.Kill() }, nil
		}
		select {
		case <-ticker.C:
		case <-p.Done():
			return "", nil, errors.New("the NATS server ended: " + p.Output())
		case <-ctx.Done():
			return "", nil, errors.Join(context.Cause(ctx), p.Kill())
		}
	}
}

// renewals records how long the writes took that renewed a lease.
type renewals struct {
	mu    sync.Mutex
	times []time.Duration
}

// Record implements kvsync.Recorder.
func (r *renewals) Record(e kvsync.Event) {
	if e.Kind != kvsync.EventRenewed {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times = append(r.times, e.Latency)
}

func (r *renewals) take() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.times
	r.times = nil
	return taken
}

// bench holds the durations of each kind of operation.
type bench struct {
	js       jetstream.JetStream
	bucket   *kvstore.Bucket
	renewals *renewals

	cas, deletes, reads, warm, cold, renewed, paced []time.Duration
	cells                                           int // names used for cold keys
}

func (b *bench) measure(ctx context.Context) error {
	kv, err := b.bucket.KV(ctx) // creates the bucket
	if err != nil {
		return err
	}
	stream, err := b.js.Stream(ctx, "KV_"+kv.Bucket())
	if err != nil {
		return err
	}
	raw := &rawKey{js: b.js, stream: stream, subject: "$KV." + kv.Bucket() + ".bench.raw"}
	lease := kvsync.NewLease(b.bucket, "bench.warm", "bench/holder", time.Minute)
	for range warmUp {
		if err := errors.Join(raw.put(ctx), pair(ctx, lease)); err != nil {
			return err
		}
	}
	for range rounds {
		if err := b.round(ctx, raw, lease); err != nil {
			return err
		}
	}
	return b.measureRenewals(ctx, raw)
}

// round times each kind a few times.
func (b *bench) round(ctx context.Context, raw *rawKey, lease *kvsync.Lease) error {
	for range perRound {
		cold := kvsync.NewLease(b.bucket, fmt.Sprintf("bench.cold.%d", b.cells), "bench/holder", time.Minute)
		b.cells++
		err := errors.Join(
			timed(&b.cas, func() error { return raw.put(ctx) }),
			timed(&b.warm, func() error { return pair(ctx, lease) }),
			timed(&b.deletes, func() error { return raw.del(ctx) }),
			timed(&b.reads, func() error { return raw.read(ctx) }),
			timed(&b.cold, func() error { return pair(ctx, cold) }),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// measureRenewals holds a lease that renews itself, and sends raw writes at the same pace beside it.
func (b *bench) measureRenewals(ctx context.Context, raw *rawKey) error {
	lease := kvsync.NewLease(b.bucket, "bench.renewed", "bench/holder", renewTTL)
	token, err := lease.TryLock(ctx)
	if err != nil {
		return err
	}
	b.renewals.take()
	pace := time.NewTicker(renewTTL / 6)
	defer pace.Stop()
	end := time.After(renewTime)
	for running := true; running; {
		select {
		case <-pace.C:
			if err := timed(&b.paced, func() error { return raw.put(ctx) }); err != nil {
				return err
			}
		case <-lease.Lost():
			return errors.New("the lease was lost: the machine is too busy to measure")
		case <-end:
			running = false
		}
	}
	b.renewed = b.renewals.take()
	lease.Unlock(ctx, token)
	return nil
}

func pair(ctx context.Context, lease *kvsync.Lease) error {
	token, err := lease.TryLock(ctx)
	if err != nil {
		return err
	}
	lease.Unlock(ctx, token)
	return nil
}

func timed(into *[]time.Duration, op func() error) error {
	start := time.Now()
	err := op()
	*into = append(*into, time.Since(start))
	return err
}

// rawKey writes one subject with the revision it knows, as a lease does, without the lease.
type rawKey struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	subject string
	rev     uint64
}

// read asks the stream's leader, as a lease does for a key that it does not know.
func (r *rawKey) read(ctx context.Context) error {
	_, err := r.stream.GetLastMsgForSubject(ctx, r.subject)
	return err
}

func (r *rawKey) put(ctx context.Context) error {
	return r.publish(ctx, &nats.Msg{Subject: r.subject, Data: make([]byte, 160)})
}

func (r *rawKey) del(ctx context.Context) error {
	return r.publish(ctx, &nats.Msg{Subject: r.subject, Header: nats.Header{"KV-Operation": {"DEL"}}})
}

func (r *rawKey) publish(ctx context.Context, msg *nats.Msg) error {
	ack, err := r.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(r.rev), jetstream.WithRetryAttempts(0))
	if err != nil {
		return err
	}
	r.rev = ack.Sequence
	return nil
}

func (b *bench) report(synced bool) *report.Report {
	r := &report.Report{
		Name: "kvsync",
		Setup: []string{
			fmt.Sprintf("one NATS server as a process of its own, one replica, sync always: %t", synced),
			fmt.Sprintf("%d of each, in turn; medians are compared", rounds*perRound),
		},
		Columns: []string{"operation", "count", "p50", "p99", "of one CAS"},
	}
	cas := quantile(b.cas, 0.5)
	for _, row := range []struct {
		name  string
		times []time.Duration
		base  time.Duration
	}{
		{"raw CAS", b.cas, cas},
		{"raw delete", b.deletes, cas},
		{"raw read at the stream leader", b.reads, cas},
		{"TryLock+Unlock, warm", b.warm, cas},
		{"TryLock+Unlock, cold", b.cold, cas},
		{"raw CAS, one each 40 ms", b.paced, quantile(b.paced, 0.5)},
		{"renewal, one each 40 ms", b.renewed, quantile(b.paced, 0.5)},
	} {
		p50 := quantile(row.times, 0.5)
		r.Rows = append(r.Rows, []string{
			row.name, fmt.Sprint(len(row.times)), p50.Round(time.Microsecond).String(),
			quantile(row.times, 0.99).Round(time.Microsecond).String(), fmt.Sprintf("%.2f", ratio(p50, row.base)),
		})
	}
	pairTime := quantile(b.warm, 0.5)
	r.Goals = []report.Goal{
		{What: "TryLock+Unlock of one raw CAS", Value: ratio(pairTime, cas), Limit: 2.5},
		{What: "the same on a key never seen", Value: ratio(quantile(b.cold, 0.5), cas), Limit: 3},
		{What: "TryLock+Unlock of the two raw writes it is made of", Value: ratio(pairTime, cas+quantile(b.deletes, 0.5)), Limit: 1.1},
		{What: "renewal of one raw CAS", Value: ratio(quantile(b.renewed, 0.5), quantile(b.paced, 0.5)), Limit: 1.1},
	}
	return r
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(max(b, 1)) }

// quantile sorts the durations; 0 when there are none.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.SortFunc(times, cmp.Compare)
	return times[min(int(float64(len(times))*q), len(times)-1)]
}
