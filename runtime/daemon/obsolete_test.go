package daemon

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// lines is a log that tests look into.
type lines struct{ testkit.Buffer }

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// count returns how many lines contain all of the words.
func (l *lines) count(words ...string) int {
	n := 0
	for line := range strings.Lines(l.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

// oldCloud is a JetStream server, in a bubble, on which earlier releases have worked.
type oldCloud struct {
	t          *testing.T
	js         jetstream.JetStream
	log        lines
	reappeared []string
	remover    *obsoleteRemover
}

func newOldCloud(t *testing.T) *oldCloud {
	srv, _, js := testkit.StartTestJetStream(t)
	c := &oldCloud{t: t, js: js}
	c.remover = &obsoleteRemover{
		store: natsBuckets{inProcess(t, srv)}, log: c.log.logger(),
		reappeared: func(bucket string) { c.reappeared = append(c.reappeared, bucket) },
	}
	return c
}

func inProcess(t *testing.T, srv *server.Server) *messaging.Conn {
	t.Helper()
	conn, err := messaging.Connect(t.Context(), messaging.Options{Name: "n1/daemon", InProcess: srv})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// put writes a key as an earlier release did, making the bucket when it is not there.
func (c *oldCloud) put(bucket, key, value string) {
	c.t.Helper()
	kv, err := c.js.KeyValue(c.t.Context(), bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = c.js.CreateKeyValue(c.t.Context(), jetstream.KeyValueConfig{Bucket: bucket, History: 5})
	}
	require.NoError(c.t, err)
	_, err = kv.Put(c.t.Context(), key, []byte(value))
	require.NoError(c.t, err)
}

func (c *oldCloud) buckets() []string {
	var names []string
	lister := c.js.KeyValueStoreNames(c.t.Context())
	for name := range lister.Name() {
		names = append(names, name)
	}
	require.NoError(c.t, lister.Error())
	return names
}

func TestAllObsoleteBucketsGoAndNoOther(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := newOldCloud(t)
		require.Len(t, obsoleteBuckets, 11)
		for _, bucket := range obsoleteBuckets {
			c.put(bucket, "leader", "old")
		}
		c.put("spinifex-dns-zones", "platform.x", "keep")
		time.Sleep(obsoleteFresh)
		start := time.Now()
		require.NoError(t, c.remover.removeAtStart(t.Context()))
		assert.Zero(t, time.Since(start), "nothing to wait for")
		assert.Equal(t, []string{"spinifex-dns-zones"}, c.buckets())
		assert.Equal(t, 11, c.log.count("obsolete bucket deleted"))

		require.NoError(t, c.remover.removeAtStart(t.Context()), "again, with nothing there")
		assert.Equal(t, 11, c.log.count("obsolete bucket deleted"))
	})
}

func TestStartWaitsWhileAnEarlierReleaseElects(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := newOldCloud(t)
		c.put("spinifex-rds-leader", "leader", `{"node":"old-2"}`)
		c.put("spinifex-ecs-leader", "leader", "old-1")
		last := make(chan time.Time, 1)
		go func() { // the old node renews for 95 s, then stops
			for range 19 {
				time.Sleep(5 * time.Second)
				c.put("spinifex-ecs-leader", "leader", "old-1")
			}
			last <- time.Now()
		}()
		start := time.Now()
		require.NoError(t, c.remover.removeAtStart(t.Context()))
		waited := time.Since(start)
		since := time.Since(<-last)
		assert.GreaterOrEqual(t, since, obsoleteFresh)
		assert.LessOrEqual(t, since, obsoleteFresh+obsoleteLook)
		assert.Empty(t, c.buckets())
		said := c.log.count("start waits", "bucket=spinifex-ecs-leader", "holder=old-1")
		assert.InDelta(t, int(waited/obsoleteSay), said, 1, "every ten seconds")
		assert.InDelta(t, 6, c.log.count("start waits", "bucket=spinifex-rds-leader", "holder=old-2"), 1)
	})
}

func TestAKeyThatWasReleasedDoesNotHoldUp(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := newOldCloud(t)
		c.put("bedrock-leader", "leader", "old-1")
		kv, err := c.js.KeyValue(t.Context(), "bedrock-leader")
		require.NoError(t, err)
		require.NoError(t, kv.Delete(t.Context(), "leader"))
		start := time.Now()
		require.NoError(t, c.remover.removeAtStart(t.Context()))
		assert.Zero(t, time.Since(start))
		assert.Empty(t, c.buckets())
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := newOldCloud(t)
		c.put("bedrock-leader", "leader", "old-1")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.ErrorIs(t, c.remover.removeAtStart(ctx), context.DeadlineExceeded)
		assert.Equal(t, []string{"bedrock-leader"}, c.buckets())
	})
}

func TestBucketThatReappearsIsDeletedNamedAndCounted(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := newOldCloud(t)
		require.NoError(t, c.remover.removeAtStart(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- c.remover.watch(ctx) }()
		time.Sleep(10 * time.Second)
		c.put("spinifex-eks-leader", "leader", "old-1") // fresh: here it is an error, not a reason to wait
		c.put("spinifex-route53", "zone", "keep")
		require.ErrorIs(t, <-ended, context.DeadlineExceeded)
		assert.Equal(t, []string{"spinifex-route53"}, c.buckets())
		assert.Equal(t, []string{"spinifex-eks-leader"}, c.reappeared)
		assert.Equal(t, 1, c.log.count("level=ERROR", "re-appeared", "bucket=spinifex-eks-leader"))
	})
}

// faultyBuckets fails for the buckets named.
type faultyBuckets struct {
	look, del map[string]error
	deleted   []string
}

func (f *faultyBuckets) LastWrite(_ context.Context, bucket string) (string, []byte, time.Duration, bool, error) {
	return "", nil, 0, false, f.look[bucket]
}

func (f *faultyBuckets) Delete(_ context.Context, bucket string) (bool, error) {
	f.deleted = append(f.deleted, bucket)
	return true, f.del[bucket]
}

func TestAFailureIsLoggedAndTheRestTried(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var log lines
		boom := errors.New("boom")
		store := &faultyBuckets{
			look: map[string]error{"spinifex-rds-leader": boom},
			del:  map[string]error{"spinifex-dhcp-leases": boom, "spinifex-quota-reconcile": boom},
		}
		r := &obsoleteRemover{store: store, log: log.logger()}
		start := time.Now()
		require.NoError(t, r.removeAtStart(t.Context()))
		assert.Equal(t, obsoleteBlind, time.Since(start), "a bucket that cannot be looked at may be one that is elected in")
		assert.Equal(t, obsoleteBuckets, store.deleted)
		assert.Equal(t, 2, log.count("level=ERROR", "obsolete bucket not deleted", "boom"))
		assert.Equal(t, 1, log.count("level=ERROR", "cannot be looked at", "bucket=spinifex-rds-leader"))
		assert.Equal(t, 9, log.count("obsolete bucket deleted"))
	})
}

func TestOldHolder(t *testing.T) {
	for value, want := range map[string]string{
		"node-1":                       "node-1",
		`{"holder":"a/b","rev":3}`:     "a/b",
		`{"x":1}`:                      `{"x":1}`,
		"":                             "unknown",
		"\x00\x01":                     "unknown",
		strings.Repeat("x", 500):       strings.Repeat("x", 64),
		`{"leader":"` + "\n" + `evil"`: `{"leader":"evil"`,
	} {
		assert.Equal(t, want, oldHolder([]byte(value)))
	}
}
