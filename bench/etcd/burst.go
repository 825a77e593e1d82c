package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mulgadc/spinifex/bench/locks"
	"github.com/mulgadc/spinifex/bench/report"
)

const (
	burstKeys  = 300
	burstTurns = 5
)

// burst measures writes that are sent together, as the renewals of leases that began together are,
// against the same writes one after the other.
func (b *bench) burst(ctx context.Context) error {
	c, err := locks.Connect(ctx, 3, b.r3.URLs)
	if err != nil {
		return err
	}
	defer c.Close()
	revs := make([]uint64, burstKeys)
	write := func(i int) (err error) {
		revs[i], err = c.Bucket.CompareAndSwap(ctx, fmt.Sprintf("burst.%d", i), make([]byte, 160), revs[i])
		return err
	}
	inRow := func() error {
		for i := range revs {
			if err := write(i); err != nil {
				return err
			}
		}
		return nil
	}
	together := func() error {
		var wg sync.WaitGroup
		errs := make([]error, len(revs))
		for i := range revs {
			wg.Go(func() { errs[i] = write(i) })
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	if err := inRow(); err != nil { // the keys are known from here on
		return err
	}
	var ones, burst []time.Duration
	for turn := range b.scaled(burstTurns, 1) {
		if err := inTurn(turn,
			func() error { return locks.Timed(&ones, inRow) },
			func() error { return locks.Timed(&burst, together) },
		); err != nil {
			return err
		}
	}
	b.row(fmt.Sprintf("R3 %d renewals one by one", burstKeys), ones, "a burst", burst)
	b.row(fmt.Sprintf("R3 %d renewals in a burst", burstKeys), burst, "one by one", ones)
	b.atLeast("renewals in a burst, times as fast as one by one", report.Ratio(report.Median(ones), report.Median(burst)), 10)
	return nil
}
