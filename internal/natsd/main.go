package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	var (
		dir    = flag.String("dir", "", "directory of the streams; required")
		port   = flag.Int("port", -1, "port on 127.0.0.1; -1 takes a free one")
		synced = flag.Bool("sync", true, "sync each write to disk before it is acknowledged")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, *port, *synced); err != nil {
		fmt.Fprintln(os.Stderr, "natsd:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, port int, synced bool) error {
	if dir == "" {
		return errors.New("-dir is required")
	}
	srv, err := server.NewServer(&server.Options{
		ServerName: "natsd", Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir, SyncAlways: synced,
	})
	if err != nil {
		return err
	}
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	if !srv.ReadyForConnections(20 * time.Second) {
		return errors.New("not ready within 20 s")
	}
	fmt.Println("ready", srv.ClientURL())

	orphaned := make(chan struct{})
	go func() {
		defer close(orphaned)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case <-ctx.Done():
	case <-orphaned:
	}
	return nil
}
