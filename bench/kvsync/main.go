package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/mulgadc/spinifex/bench/locks"
	"github.com/mulgadc/spinifex/bench/report"
	"github.com/mulgadc/spinifex/internal/process"
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
	binary, err := process.Build(ctx, dir, "./internal/natsd")
	if err != nil {
		return err
	}
	servers, err := locks.StartServers(ctx, binary, dir, 1, synced)
	if err != nil {
		return err
	}
	defer servers.Stop()
	r := &report.Report{
		Name: "kvsync",
		Setup: []string{
			fmt.Sprintf("one NATS server as a process of its own, one replica, sync always: %t", synced),
			"operations in turn; medians are compared",
		},
	}
	if err := locks.Single(ctx, servers.URLs, r); err != nil {
		return err
	}
	return r.Publish(out)
}
