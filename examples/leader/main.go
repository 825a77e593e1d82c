// Command leader shows the lock library on its own: two processes started with the same NATS server
// elect one that works. It imports kvsync and natskv only.
//
//	go run ./leader -nats nats://127.0.0.1:4222 -name a &
//	go run ./leader -nats nats://127.0.0.1:4222 -name b
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
)

func main() {
	url := flag.String("nats", nats.DefaultURL, "URL of the NATS server")
	name := flag.String("name", "a", "name of this process")
	ttl := flag.Duration("ttl", 20*time.Second, "time to live of the lease")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, *name, *ttl); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, name string, ttl time.Duration) error {
	// A compare-and-swap must not be sent seconds later from a reconnect buffer.
	nc, err := nats.Connect(url, nats.ReconnectBufSize(-1), nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", url, err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if _, err := js.CreateStream(ctx, natskv.StreamConfig("example-locks", 1)); err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return fmt.Errorf("create the bucket: %w", err)
	}
	store, err := natskv.Open(ctx, js, "example-locks")
	if err != nil {
		return err
	}
	lease := kvsync.NewLease(store, "worker", name+"/example", ttl)
	kvsync.RunElection(ctx, lease, func(ctx context.Context) error {
		tok, _ := lease.Token()
		fmt.Println("leading, generation", tok.Generation)
		<-ctx.Done() // the work: it stops by its context
		fmt.Println("stopped:", context.Cause(ctx))
		return nil
	}, func() { fmt.Println("not leading any more") })
	return nil
}
