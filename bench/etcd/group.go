package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mulgadc/spinifex/bench/locks"
	"github.com/mulgadc/spinifex/bench/report"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/process"
)

const (
	groupTTL    = 3 * time.Second
	groupWindow = 20 * time.Second
	groupSmall  = 10
	groupLarge  = 10_000
	groupHands  = 64 // acquisitions under way at once
)

// usage is what a process used in a window, and what it has at its end.
type usage struct {
	Writes     int64         // of the store
	CPU        time.Duration // of the process, user and system
	Heap       uint64        // bytes reachable, measured after a collection
	RSS        uint64        // bytes resident
	Goroutines int
	Lost       int // leases lost, which spoils everything
}

// writeCounter counts the writes of a process.
type writeCounter struct {
	*kvstore.Bucket
	writes atomic.Int64
}

// CompareAndSwap implements kvsync.KVStore.
func (s *writeCounter) CompareAndSwap(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	s.writes.Add(1)
	return s.Bucket.CompareAndSwap(ctx, key, value, rev)
}

// CompareAndDelete implements kvsync.KVStore.
func (s *writeCounter) CompareAndDelete(ctx context.Context, key string, rev uint64) error {
	s.writes.Add(1)
	return s.Bucket.CompareAndDelete(ctx, key, rev)
}

// groupHolder is the child that holds many leases of one group. It measures itself over a window that
// begins at SIGUSR1 and prints "ready JSON" of the usage.
func groupHolder(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("group", flag.ContinueOnError)
	urls := flags.String("nats", "", "NATS servers, with commas between them")
	n := flags.Int("n", 0, "leases to hold")
	window := flags.Duration("window", 0, "how long to measure")
	if err := flags.Parse(args); err != nil {
		return err
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1)
	c, err := locks.Connect(ctx, 1, strings.Split(*urls, ","))
	if err != nil {
		return err
	}
	defer c.Close()
	store := &writeCounter{Bucket: c.Bucket}
	group := kvsync.NewLeaseGroup(store, fmt.Sprintf("group%d.", *n), "bench/group", groupTTL)
	if err := acquireAll(ctx, group, *n); err != nil {
		return err
	}
	fmt.Println("holding")
	select {
	case <-told:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	runtime.GC()
	writes, cpu := store.writes.Load(), cpuTime()
	select {
	case <-time.After(*window):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	u := usage{Writes: store.writes.Load() - writes, CPU: cpuTime() - cpu, Goroutines: runtime.NumGoroutine()}
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	u.Heap, u.RSS = mem.HeapAlloc, resident()
	for i := range *n {
		if !group.Get(strconv.Itoa(i)).Held() {
			u.Lost++
		}
	}
	text, err := json.Marshal(u)
	if err != nil {
		return err
	}
	fmt.Printf("ready %s\n", text)
	untilTold(ctx)
	return nil
}

func acquireAll(ctx context.Context, group *kvsync.LeaseGroup, n int) error {
	var wg sync.WaitGroup
	errs := make([]error, groupHands)
	for hand := range groupHands {
		wg.Go(func() {
			for i := hand; i < n && errs[hand] == nil; i += groupHands {
				_, errs[hand] = group.Get(strconv.Itoa(i)).TryLock(ctx)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is the memory of this process, 0 where it cannot be told.
func resident() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

// group measures what holding many leases costs, beside holding few at the same time.
func (b *bench) group(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	window := max(time.Duration(float64(groupWindow)*b.scale), groupTTL)
	sizes := []int{groupSmall, groupLarge}
	var procs []*process.Process
	for _, n := range sizes {
		p, err := child("group", "-nats", strings.Join(b.r1.URLs, ","), "-n", strconv.Itoa(n), "-window", window.String())
		if err != nil {
			return err
		}
		defer func() { _ = p.Kill() }()
		procs = append(procs, p)
	}
	for _, p := range procs {
		if err := awaitLine(ctx, p, "holding"); err != nil {
			return err
		}
	}
	for _, p := range procs {
		if err := p.Signal(syscall.SIGUSR1); err != nil {
			return err
		}
	}
	used := make([]usage, len(sizes))
	for i, p := range procs {
		line, err := locks.Ready(ctx, p)
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(line), &used[i]); err != nil {
			return err
		}
		if used[i].Lost > 0 {
			return fmt.Errorf("%d of %d leases were lost: the machine is too busy to measure", used[i].Lost, sizes[i])
		}
	}
	b.reportGroup(used[0], used[1], window)
	return nil
}

func (b *bench) reportGroup(small, large usage, window time.Duration) {
	const mib = 1 << 20
	line := func(n int, u usage) []string {
		return []string{
			strconv.Itoa(n), fmt.Sprintf("%.2f", float64(u.Writes)/window.Seconds()),
			fmt.Sprintf("%.2f", u.CPU.Seconds()*1000/window.Seconds()), strconv.Itoa(u.Goroutines),
			fmt.Sprintf("%.1f", float64(u.Heap)/mib), fmt.Sprintf("%.1f", float64(u.RSS)/mib),
		}
	}
	b.report.More = append(b.report.More, report.Table{
		Title:   fmt.Sprintf("Leases of one group held by one process, T = %v; %d bytes of heap each", groupTTL, (large.Heap-small.Heap)/(groupLarge-groupSmall)),
		Columns: []string{"leases", "writes/s", "CPU ms/s", "goroutines", "heap MiB", "resident MiB"},
		Rows:    [][]string{line(groupSmall, small), line(groupLarge, large)},
	})
	const flat = 1.2
	of := func(a, b float64) float64 { return a / max(b, 1e-9) }
	b.atMost("10,000 leases of a group, of 10: writes", of(float64(large.Writes), float64(small.Writes)), flat)
	b.atMost("10,000 leases of a group, of 10: CPU", of(float64(large.CPU), float64(small.CPU)), flat)
	b.atMost("10,000 leases of a group, of 10: goroutines", of(float64(large.Goroutines), float64(small.Goroutines)), flat)
	b.atMost("10,000 leases of a group, of 10: resident memory", of(float64(large.RSS), float64(small.RSS)), flat)
	alone := float64(groupLarge) * window.Seconds() / (groupTTL / 6).Seconds()
	b.atLeast("writes of 10,000 leases that renew themselves, of a group's", of(alone, float64(large.Writes)), 50)
}

// awaitLine waits until a process has written a line.
func awaitLine(ctx context.Context, p *process.Process, line string) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !strings.Contains("\n"+p.Output(), "\n"+line+"\n") {
		select {
		case <-ticker.C:
		case <-p.Done():
			return errors.New("the child ended: " + p.Output())
		case <-ctx.Done():
			return fmt.Errorf("the child is not ready: %w", context.Cause(ctx))
		}
	}
	return nil
}
