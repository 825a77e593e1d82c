package kvsync_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
)

// A lease as a mutex between processes.
func ExampleLease() {
	ctx := context.Background()
	server := kvsynctest.NewServer() // in production: natskv.Open on a JetStream bucket
	mine := kvsync.NewLease(server.Client("process-1"), "reports", "node1/daemon", 20*time.Second)
	theirs := kvsync.NewLease(server.Client("process-2"), "reports", "node2/daemon", 20*time.Second)

	tok, err := mine.TryLock(ctx)
	fmt.Println(mine.Held(), err)
	_, err = theirs.TryLock(ctx)
	if held, ok := errors.AsType[*kvsync.HeldError](err); ok {
		fmt.Println("held by", held.Current.Holder)
	}
	mine.Unlock(ctx, tok)
	tok2, err := theirs.TryLock(ctx)
	fmt.Println(tok2.Generation > tok.Generation, err)
	theirs.Unlock(ctx, tok2)
	// Output:
	// true <nil>
	// held by node1/daemon
	// true <nil>
}

// Leader election with a worker that stops before the key is released.
func ExampleRunElection() {
	ctx, stop := context.WithCancel(context.Background())
	lease := kvsync.NewLease(kvsynctest.NewServer().Client("p"), "scheduler", "node1/daemon", 20*time.Second)
	kvsync.RunElection(ctx, lease, func(ctx context.Context) error {
		fmt.Println("leading")
		stop() // the process is told to end
		<-ctx.Done()
		fmt.Println("work stopped")
		return nil
	}, func() {})
	fmt.Println("released:", !lease.Held())
	// Output:
	// leading
	// work stopped
	// released: true
}

// One lock per resource.
func ExampleLeaseGroup() {
	ctx := context.Background()
	group := kvsync.NewLeaseGroup(kvsynctest.NewServer().Client("p"), "eks.cluster.", "node1/daemon", 20*time.Second)
	err := group.Get("000000000001/blue").Do(ctx, func(ctx context.Context, tok kvsync.Token) error {
		fmt.Println("reconciling blue for", tok.Holder)
		return nil
	})
	group.Forget("000000000001/blue")
	fmt.Println(err)
	// Output:
	// reconciling blue for node1/daemon
	// <nil>
}
