package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

// ErrHealthy refuses a rebuild that nothing asks for.
var ErrHealthy = errors.New("the bucket of the locks needs no rebuild")

// RebuildOptions say how to rebuild.
type RebuildOptions struct {
	// Size of the NATS cluster.
	Size clustersize.Size
	// TTL is the time to live that processes are configured with; the longest of this one and of those
	// seen is waited for.
	TTL time.Duration
	// Force rebuilds a bucket that is healthy.
	Force bool
	// Wait is told how long the bucket is away before it is made anew; nil is fine.
	Wait func(time.Duration)
}

// Rebuilt is what a rebuild did.
type Rebuilt struct {
	// FirstSequence is above every generation that anybody remembers.
	FirstSequence uint64 `json:"first_sequence"`
	// WaitedMS is how long the bucket was away.
	WaitedMS int64 `json:"waited_ms"`
	// Leases and Claims are the keys that the old bucket held. Leases are acquired again by those who want
	// them; a claim is gone until its owner makes it again.
	Leases []string `json:"leases"`
	Claims []string `json:"claims"`
}

// Rebuild deletes the bucket of the locks and makes it anew, above the clock's microseconds, the old
// stream, every sequence that a live process remembers and every fence.
//
// Between the two it waits for the longest time to live: a holder that is cut off, and has not learned
// yet that its key is gone, has stopped believing before anybody else can acquire it. A rebuild that was
// interrupted is run again.
func (b *LockBook) Rebuild(ctx context.Context, opts RebuildOptions) (Rebuilt, error) {
	c, err := b.checkUp(ctx, opts.Size)
	if err != nil {
		return Rebuilt{}, err
	}
	if c.err != nil {
		return Rebuilt{}, fmt.Errorf("rebuild: %w", c.err)
	}
	if !opts.Force && !c.needsRebuild() {
		return Rebuilt{}, ErrHealthy
	}
	done := Rebuilt{Leases: []string{}, Claims: []string{}}
	wait := c.longestTTL(opts.TTL)
	floor := c.floor()
	for _, entry := range c.in.Entries {
		if record, ok := readLockRecord(entry.Value); ok && record.TTLMillis == 0 {
			done.Claims = append(done.Claims, entry.Key)
		} else {
			done.Leases = append(done.Leases, entry.Key)
		}
	}
	if err := kvstore.CheckRebuild(b.conn.JetStream(), opts.Size, floor); err != nil {
		return done, err
	}
	if _, err := kvstore.DeleteBucketIfExists(ctx, b.conn.JetStream(), b.bucket.Name()); err != nil {
		return done, fmt.Errorf("rebuild: %w", err)
	}
	done.WaitedMS = wait.Milliseconds()
	if opts.Wait != nil {
		opts.Wait(wait)
	}
	if done.FirstSequence, err = b.makeAnew(ctx, opts.Size, floor, wait); err != nil {
		return done, fmt.Errorf("rebuild: the old bucket is deleted, run it again: %w", err)
	}
	return done, nil
}

// makeAnew waits, looks once more who remembers what, since who was cut off may have come back, and makes
// the bucket.
func (b *LockBook) makeAnew(ctx context.Context, size clustersize.Size, floor uint64, wait time.Duration) (uint64, error) {
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	c, err := b.checkUp(ctx, size)
	if err != nil {
		return 0, err
	}
	if c.err != nil {
		return 0, c.err
	}
	return kvstore.RebuildSync(ctx, b.conn.JetStream(), size, max(floor, c.floor()))
}

// floor is the highest sequence that the stream, a process or a fence knows.
func (c *checkup) floor() uint64 {
	floor := max(c.in.LastSeq, c.fence)
	for _, a := range c.answers {
		floor = max(floor, a.SyncSequence)
	}
	return floor
}

func (c *checkup) needsRebuild() bool {
	for _, f := range c.findings() {
		if f.rebuild {
			return true
		}
	}
	// A rebuild that was interrupted, with nobody alive who remembers the bucket.
	return !c.in.Exists
}

// longestTTL is the longest of the times to live that are configured, recorded and answered.
func (c *checkup) longestTTL(configured time.Duration) time.Duration {
	longest := configured
	for _, entry := range c.in.Entries {
		if record, ok := readLockRecord(entry.Value); ok {
			longest = max(longest, min(millis(record.TTLMillis), longestRecordTTL))
		}
	}
	for _, a := range c.answers {
		for _, view := range a.Locks {
			longest = max(longest, min(millis(view.TTLMS), longestRecordTTL))
		}
	}
	return longest
}

// longestRecordTTL bounds what a record or an answer can make a rebuild wait: more than any configuration allows.
const longestRecordTTL = 10 * time.Minute
