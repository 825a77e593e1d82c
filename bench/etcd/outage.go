package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mulgadc/spinifex/bench/locks"
	"github.com/mulgadc/spinifex/bench/report"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

const (
	outageTTL    = 20 * time.Second
	outageLeases = 50
	// outagePatience is for the election of a new stream leader.
	outagePatience = 30 * time.Second
)

// outage holds leases while the server is killed that leads their stream.
func (b *bench) outage(ctx context.Context) error {
	c, err := locks.Connect(ctx, 3, b.r3.URLs)
	if err != nil {
		return err
	}
	defer c.Close()
	leases := make([]*kvsync.Lease, outageLeases)
	for i := range leases {
		leases[i] = kvsync.NewLease(c.Bucket, fmt.Sprintf("outage.%d", i), "bench/holder", outageTTL)
		if _, err := leases[i].TryLock(ctx); err != nil {
			return err
		}
	}
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	for i := range b.r3.URLs {
		if locks.ServerName(i) == leader {
			if err := b.r3.Kill(i); err != nil {
				return err
			}
		}
	}
	killed := time.Now()
	stalled, err := awaitWrite(ctx, c)
	if err != nil {
		return err
	}
	select { // until every lease would have ended that was not renewed after the kill
	case <-time.After(outageTTL*2/3 - time.Since(killed)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	lost := 0
	for _, l := range leases {
		if !l.Held() {
			lost++
		}
	}
	b.report.More = append(b.report.More, report.Table{
		Title: "The server that leads the stream is killed", Columns: []string{"leases held, T = 20 s", "no writes for", "leases lost"},
		Rows: [][]string{{fmt.Sprint(outageLeases), stalled.Round(100 * time.Millisecond).String(), fmt.Sprint(lost)}},
	})
	b.atMost("leases lost when the stream leader is killed", float64(lost), 0)
	return nil
}

// awaitWrite returns how long it takes until a write lands.
func awaitWrite(ctx context.Context, c *locks.Client) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, outagePatience)
	defer cancel()
	began := time.Now()
	for {
		wctx, done := context.WithTimeout(ctx, 250*time.Millisecond)
		_, err := c.Bucket.Put(wctx, "outage.probe", []byte("x"))
		done()
		if err == nil {
			return time.Since(began), nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return 0, errors.Join(errors.New("no write landed after the stream leader was killed"), err)
		}
	}
}
