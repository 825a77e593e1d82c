package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
)

// obsoleteBuckets are those in which earlier releases elected each loop. Nothing in them is read any
// more. No other bucket is ever deleted at a start.
var obsoleteBuckets = []string{
	"spinifex-dhcp-leases",
	"spinifex-vpcd-reconcile",
	"spinifex-dns-reconcile",
	"spinifex-route53-realize",
	"spinifex-route53-verify",
	"spinifex-quota-reconcile",
	"spinifex-rds-leader",
	"spinifex-ecs-leader",
	"bedrock-leader",
	"spinifex-eks-leader",
	"spinifex-elbv2-leader",
}

const (
	// obsoleteFresh is how long ago a key must have been written for nobody to elect by it any more.
	obsoleteFresh = 60 * time.Second
	// obsoleteLook is how often a start that waits looks.
	obsoleteLook = 2 * time.Second
	// obsoleteSay is how often it says what it waits for.
	obsoleteSay = 10 * time.Second
	// obsoleteBlind is how long a bucket that cannot be looked at holds a start up: longer than
	// anybody could have renewed a key in it unseen.
	obsoleteBlind = 2 * obsoleteFresh
	// obsoleteAgain is how often a running daemon looks.
	obsoleteAgain = time.Minute
	// obsoleteCall bounds one request.
	obsoleteCall = 10 * time.Second
)

// bucketStore is what the obsolete buckets are looked at and deleted with.
type bucketStore interface {
	// LastWrite returns the key written last among those that a bucket holds, and how long ago by the
	// clock of the server; found is false when it holds none or does not exist.
	LastWrite(ctx context.Context, bucket string) (key string, value []byte, age time.Duration, found bool, err error)
	// Delete deletes a bucket and reports whether it existed.
	Delete(ctx context.Context, bucket string) (existed bool, err error)
}

// obsoleteRemover removes the obsolete buckets. A rolling upgrade must never give two leaders: while an
// earlier release still elects in one of them, the leases of this one must not be built.
type obsoleteRemover struct {
	store bucketStore
	log   *slog.Logger
	// reappeared is told of a bucket that was deleted before and is there again.
	reappeared func(bucket string)
}

// removeAtStart waits until nobody elects in an obsolete bucket any more and then deletes all of them.
// It returns early only with the cause of ctx: a bucket that cannot be deleted is logged, and tried
// again by watch and by the next start.
func (r *obsoleteRemover) removeAtStart(ctx context.Context) error {
	if err := r.waitUntilLapsed(ctx); err != nil {
		return err
	}
	return r.deleteAll(ctx, func(bucket string) { r.log.Info("obsolete bucket deleted", "bucket", bucket) })
}

// watch looks every minute until ctx ends and returns its cause.
func (r *obsoleteRemover) watch(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(obsoleteAgain):
		}
		err := r.deleteAll(ctx, func(bucket string) {
			r.log.Error("obsolete bucket has re-appeared and was deleted again: a node runs an earlier release", "bucket", bucket)
			r.reappeared(bucket)
		})
		if err != nil {
			return err
		}
	}
}

// deleteAll tries to delete every obsolete bucket and tells of those that were there. Its only error is
// the cause of ctx.
func (r *obsoleteRemover) deleteAll(ctx context.Context, deleted func(bucket string)) error {
	for _, bucket := range obsoleteBuckets {
		existed, err := r.delete(ctx, bucket)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			r.log.Error("obsolete bucket not deleted", "bucket", bucket, "error", err)
		case existed:
			deleted(bucket)
		}
	}
	return nil
}

// waitUntilLapsed returns when no obsolete bucket holds a key that was written within obsoleteFresh.
func (r *obsoleteRemover) waitUntilLapsed(ctx context.Context) error {
	start, said := time.Now(), time.Time{}
	for {
		waiting := false
		say := said.IsZero() || time.Since(said) >= obsoleteSay
		for _, bucket := range obsoleteBuckets {
			blocks, attrs := r.look(ctx, bucket, time.Since(start))
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if waiting = waiting || blocks; blocks && say {
				said = time.Now()
				r.log.Warn("start waits: an earlier release still elects in an obsolete bucket",
					append(attrs, "waited_ms", time.Since(start).Milliseconds())...)
			}
		}
		if !waiting {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(obsoleteLook):
		}
	}
}

// look decides whether a bucket holds the start up, and says why in attributes. waited is how long the
// start has been held up.
func (r *obsoleteRemover) look(ctx context.Context, bucket string, waited time.Duration) (blocks bool, attrs []any) {
	ctx, cancel := context.WithTimeout(ctx, obsoleteCall)
	defer cancel()
	key, value, age, found, err := r.store.LastWrite(ctx, bucket)
	switch {
	case err != nil && waited < obsoleteBlind:
		return true, []any{"bucket", bucket, "error", err}
	case err != nil:
		r.log.Error("obsolete bucket cannot be looked at, the start goes on", "bucket", bucket, "error", err)
		return false, nil
	case !found || age >= obsoleteFresh:
		return false, nil
	}
	return true, []any{"bucket", bucket, "key", key, "holder", oldHolder(value), "age_ms", age.Milliseconds()}
}

func (r *obsoleteRemover) delete(ctx context.Context, bucket string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, obsoleteCall)
	defer cancel()
	return r.store.Delete(ctx, bucket)
}

// oldHolder finds a name in what an earlier release wrote: a member of a JSON object that may hold
// one, or the text itself.
func oldHolder(value []byte) string {
	var object map[string]any
	if json.Unmarshal(value, &object) == nil {
		for _, member := range []string{"holder", "leader", "node", "owner", "id"} {
			if name, ok := object[member].(string); ok && name != "" {
				return printable(name)
			}
		}
	}
	return printable(string(value))
}

// printable shortens a text of unknown origin for a log line.
func printable(s string) string {
	const longest = 64
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s[:min(len(s), longest)])
	if s == "" {
		return "unknown"
	}
	return s
}

// natsBuckets is the bucketStore on a connection.
type natsBuckets struct{ conn *messaging.Conn }

func (b natsBuckets) LastWrite(ctx context.Context, bucket string) (string, []byte, time.Duration, bool, error) {
	key, value, at, found, err := kvstore.LastWrite(ctx, b.conn.JetStream(), bucket)
	if err != nil || !found {
		return "", nil, 0, false, err
	}
	// The age by the server's own clock: this node's may be wrong.
	stream, err := b.conn.JetStream().Stream(ctx, natskv.StreamName(bucket))
	if err != nil {
		return "", nil, 0, false, fmt.Errorf("last write of %s: %w", bucket, err)
	}
	now := stream.CachedInfo().TimeStamp
	return key, value, now.Sub(at), true, nil
}

func (b natsBuckets) Delete(ctx context.Context, bucket string) (bool, error) {
	return kvstore.DeleteBucketIfExists(ctx, b.conn.JetStream(), bucket)
}
