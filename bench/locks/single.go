package locks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mulgadc/spinifex/bench/report"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

const (
	rounds   = 40
	perRound = 50
	warmUp   = 200
	// renewals are timed at the pace of a lease with this time to live: one each 40 ms.
	renewTTL  = 240 * time.Millisecond
	renewTime = 6 * time.Second
)

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

// single holds the durations of each kind of operation on one replica.
type single struct {
	*Client
	renewals *renewals

	cas, deletes, reads, warm, cold, renewed, paced []time.Duration
	cells                                           int // names used for cold keys
}

// Single measures on a server of one replica what a lease costs against a raw compare-and-swap, and
// adds the rows and goals to the report.
func Single(ctx context.Context, urls []string, r *report.Report) error {
	events := &renewals{}
	c, err := Connect(ctx, 1, urls, kvstore.WithRecorder(events))
	if err != nil {
		return err
	}
	defer c.Close()
	b := &single{Client: c, renewals: events}
	if err := b.measure(ctx); err != nil {
		return err
	}
	b.report(r)
	return nil
}

func (b *single) measure(ctx context.Context) error {
	raw, err := b.Raw(ctx, "bench.raw")
	if err != nil {
		return err
	}
	lease := kvsync.NewLease(b.Bucket, "bench.warm", "bench/holder", time.Minute)
	for range warmUp {
		if err := errors.Join(raw.CAS(ctx), Pair(ctx, lease)); err != nil {
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
func (b *single) round(ctx context.Context, raw *RawKey, lease *kvsync.Lease) error {
	for range perRound {
		cold := kvsync.NewLease(b.Bucket, fmt.Sprintf("bench.cold.%d", b.cells), "bench/holder", time.Minute)
		b.cells++
		err := errors.Join(
			Timed(&b.cas, func() error { return raw.CAS(ctx) }),
			Timed(&b.warm, func() error { return Pair(ctx, lease) }),
			Timed(&b.deletes, func() error { return raw.Delete(ctx) }),
			Timed(&b.reads, func() error { return raw.Read(ctx) }),
			Timed(&b.cold, func() error { return Pair(ctx, cold) }),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// measureRenewals holds a lease that renews itself, and sends raw writes at the same pace beside it.
func (b *single) measureRenewals(ctx context.Context, raw *RawKey) error {
	lease := kvsync.NewLease(b.Bucket, "bench.renewed", "bench/holder", renewTTL)
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
			if err := Timed(&b.paced, func() error { return raw.CAS(ctx) }); err != nil {
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

func (b *single) report(r *report.Report) {
	cas, paced := report.Median(b.cas), report.Median(b.paced)
	r.Columns = report.TimesColumns()
	for _, row := range []struct {
		name  string
		times []time.Duration
		to    string
		base  []time.Duration
	}{
		{"R1 raw CAS", b.cas, "R1 raw CAS", b.cas},
		{"R1 raw delete", b.deletes, "R1 raw CAS", b.cas},
		{"R1 raw read at the stream leader", b.reads, "R1 raw CAS", b.cas},
		{"R1 TryLock+Unlock, warm", b.warm, "R1 raw CAS", b.cas},
		{"R1 TryLock+Unlock, cold", b.cold, "R1 raw CAS", b.cas},
		{"R1 raw CAS, one each 40 ms", b.paced, "such a raw CAS", b.paced},
		{"R1 renewal, one each 40 ms", b.renewed, "such a raw CAS", b.paced},
	} {
		r.Rows = append(r.Rows, report.TimesRow(row.name, row.times, row.to, row.base))
	}
	pairTime := report.Median(b.warm)
	r.Goals = append(r.Goals,
		report.Goal{What: "R1: TryLock+Unlock of one raw CAS", Value: report.Ratio(pairTime, cas), Limit: 2.5},
		report.Goal{What: "R1: the same on a key never seen", Value: report.Ratio(report.Median(b.cold), cas), Limit: 3},
		report.Goal{What: "R1: TryLock+Unlock of the two raw writes it is made of", Value: report.Ratio(pairTime, cas+report.Median(b.deletes)), Limit: 1.1},
		report.Goal{What: "R1: renewal of one raw CAS", Value: report.Ratio(report.Median(b.renewed), paced), Limit: 1.1},
	)
}
