package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mulgadc/spinifex/bench/report"
)

// patience bounds a run, which takes about 4 minutes on 2 CPUs.
const patience = 10 * time.Minute

// part is one measurement.
type part struct {
	name string
	run  func(*bench, context.Context) error
}

// parts in the order they run. The last one kills a server.
func parts() []part {
	return []part{
		{"single", (*bench).single},
		{"pairs", (*bench).pairs},
		{"crowd", (*bench).crowd},
		{"handover", (*bench).handover},
		{"takeover", (*bench).takeover},
		{"group", (*bench).group},
		{"burst", (*bench).burst},
		{"outage", (*bench).outage},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench/etcd:", err)
		stop()
		os.Exit(1)
	}
}

// run is the benchmark, or with the name of a child as its first argument that child.
func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		if child, ok := children()[args[0]]; ok {
			return child(ctx, args[1:])
		}
	}
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	out := flags.String("out", "", "directory to keep the result in; empty keeps nothing")
	only := flags.String("only", "", "parts to run, with commas between them; empty means all")
	scale := flags.Float64("scale", 1, "how much of everything; below 1 the figures are for a look only")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted, err := chosen(*only)
	if err != nil {
		return err
	}
	b := &bench{scale: *scale, report: &report.Report{
		Name: "locks",
		Setup: []string{
			"NATS and etcd " + etcdVersion() + " on loopback, every server a process of its own",
			"R1: one NATS server without sync; synced: one that syncs each write; R3: three, each syncs; etcd always syncs",
			"systems in turn; medians are compared",
		},
		Columns: report.TimesColumns(),
	}}
	if err := b.start(ctx); err != nil {
		return err
	}
	defer b.stop()
	return errors.Join(b.measure(ctx, wanted), b.report.Publish(*out))
}

// measure runs the parts. One that fails, such as for a machine too busy to keep a lease, is told in the
// report and does not keep the others from it.
func (b *bench) measure(ctx context.Context, wanted []part) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var errs []error
	for _, p := range wanted {
		began := time.Now()
		if err := p.run(b, ctx); err != nil {
			err = fmt.Errorf("%s failed: %w", p.name, err)
			b.report.Setup = append(b.report.Setup, err.Error())
			errs = append(errs, err)
		}
		fmt.Fprintf(os.Stderr, "%s took %v\n", p.name, time.Since(began).Round(100*time.Millisecond))
	}
	return errors.Join(errs...)
}

func chosen(only string) ([]part, error) {
	all := parts()
	if only == "" {
		return all, nil
	}
	var names []string
	for _, p := range all {
		names = append(names, p.name)
	}
	asked := strings.Split(only, ",")
	for _, name := range asked {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("no part %q, there are %s", name, strings.Join(names, ", "))
		}
	}
	return slices.DeleteFunc(all, func(p part) bool { return !slices.Contains(asked, p.name) }), nil
}
