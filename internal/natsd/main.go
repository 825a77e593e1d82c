package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// options are the flags.
type options struct {
	dir    string
	port   int
	synced bool
	name   string
	route  int
	peers  string
	http   int
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "", "directory of the streams; required")
	flag.IntVar(&o.port, "port", -1, "port on 127.0.0.1; -1 takes a free one")
	flag.BoolVar(&o.synced, "sync", true, "sync each write to disk before it is acknowledged")
	flag.StringVar(&o.name, "name", "natsd", "name of the server, different for each one of a cluster")
	flag.IntVar(&o.route, "route", 0, "port on 127.0.0.1 for the other servers of a cluster; 0 makes no cluster")
	flag.StringVar(&o.peers, "peers", "", "route ports of all servers of the cluster, with commas between them")
	flag.IntVar(&o.http, "monitor", 0, "port on 127.0.0.1 of NATS's monitoring, such as /healthz; 0 has none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "natsd:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.dir == "" {
		return errors.New("-dir is required")
	}
	opts := &server.Options{
		ServerName: o.name, Host: "127.0.0.1", Port: o.port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: o.dir, SyncAlways: o.synced, HTTPHost: "127.0.0.1", HTTPPort: o.http,
	}
	if o.route > 0 {
		opts.Cluster = server.ClusterOpts{Name: "natsd", Host: "127.0.0.1", Port: o.route}
		for port := range strings.SplitSeq(o.peers, ",") {
			opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats", Host: "127.0.0.1:" + port})
		}
	}
	srv, err := server.NewServer(opts)
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
