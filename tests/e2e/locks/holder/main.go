package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

func main() {
	url := flag.String("nats", "", "NATS server")
	key := flag.String("key", "", "key of the lease")
	name := flag.String("holder", "holder/daemon", "name of the holder")
	guard := flag.String("guard", "", "bucket of the guarded write")
	ttl := flag.Duration("ttl", 3*time.Second, "time to live")
	flag.Parse()
	if err := hold(context.Background(), *url, *key, *name, *guard, *ttl); err != nil {
		fmt.Fprintln(os.Stderr, "holder:", err)
		os.Exit(1)
	}
}

func hold(ctx context.Context, url, key, name, guard string, ttl time.Duration) error {
	conn, err := nats.Connect(url, nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	lease := kvsync.NewLease(kvstore.OpenSyncBucket(js), key, name, ttl)
	tok, err := lease.Lock(ctx)
	if err != nil {
		return err
	}
	fence, err := kvstore.Open(js, guard).Fence(ctx, key, tok)
	if err != nil {
		return err
	}
	if _, err := fence.Put(ctx, "last", []byte(name)); err != nil {
		return err
	}
	fmt.Println("held", tok.Generation)
	last := time.Now()
	for range time.Tick(time.Millisecond) {
		held := lease.Held()
		if time.Since(last) >= ttl {
			fmt.Printf("woke held=%t\n", held)
			_, err := fence.Put(ctx, "last", []byte(name))
			fmt.Printf("write %v\n", err)
		}
		last = time.Now()
	}
	return nil
}
