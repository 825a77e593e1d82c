package kvstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// A Bucket is everything that kvsync can use.
var (
	_ kvsync.KVStore  = (*kvstore.Bucket)(nil)
	_ kvsync.Watcher  = (*kvstore.Bucket)(nil)
	_ kvsync.Identity = (*kvstore.Bucket)(nil)
	_ kvsync.Recorder = (*kvstore.Bucket)(nil)
)

func TestSyncBucketConforms(t *testing.T) {
	kvsynctest.Conformance(t, func(t *testing.T) kvsync.KVStore {
		_, _, js := testkit.StartTestJetStream(t)
		return kvstore.OpenSyncBucket(js)
	})
}

func TestSyncBucketIsMadeToHoldLocks(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	b := kvstore.OpenSyncBucket(js)
	assert.Equal(t, "spinifex-sync", b.Name())
	_, err := js.Stream(t.Context(), "KV_spinifex-sync")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "opening does no I/O")

	before := time.Now().UnixMicro()
	rev, err := b.CompareAndSwap(t.Context(), "k", []byte("v"), 0)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, rev, uint64(before))
	cfg := streamConfig(t, js, "spinifex-sync")
	assert.Empty(t, natskv.Differences(cfg, "spinifex-sync"))
	assert.GreaterOrEqual(t, cfg.FirstSeq, uint64(before))
	assert.Zero(t, cfg.MaxAge)
	assert.False(t, cfg.AllowDirect)
	assert.True(t, cfg.DenyDelete)
	assert.True(t, cfg.DenyPurge)
	assert.False(t, cfg.AllowRollup)
	assert.True(t, cfg.AllowAtomicPublish)
	assert.Equal(t, jetstream.FileStorage, cfg.Storage)
	assert.Equal(t, 1, cfg.Replicas)

	kv, err := b.KV(t.Context())
	require.NoError(t, err)
	version, err := kvstore.ReadVersion(t.Context(), kv)
	require.NoError(t, err)
	assert.Equal(t, 1, version)
	e, err := kv.Get(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, rev, e.Revision())
}

func TestVersions(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	kv, err := kvstore.Open(js, "b").KV(t.Context())
	require.NoError(t, err)
	n, err := kvstore.ReadVersion(t.Context(), kv)
	require.NoError(t, err)
	assert.Zero(t, n)
	require.Error(t, kvstore.WriteVersion(t.Context(), kv, 0))
	require.NoError(t, kvstore.WriteVersion(t.Context(), kv, 7))
	n, err = kvstore.ReadVersion(t.Context(), kv)
	require.NoError(t, err)
	assert.Equal(t, 7, n)
	_, err = kv.Put(t.Context(), "_version", []byte("seven"))
	require.NoError(t, err)
	_, err = kvstore.ReadVersion(t.Context(), kv)
	require.ErrorIs(t, err, kvstore.ErrUnfit)

	sync, err := kvstore.OpenSyncBucket(js).KV(t.Context())
	require.NoError(t, err)
	require.NoError(t, kvstore.WriteVersion(t.Context(), sync, kvstore.SyncVersion+1))
	_, _, err = kvstore.OpenSyncBucket(js).Load(t.Context(), "k")
	require.ErrorIs(t, err, kvstore.ErrNewerVersion)
	require.NotErrorIs(t, err, kvsync.ErrUnavailable, "it does not get better")
}

func TestSyncBucketWarnsOfWhatWeakensIt(t *testing.T) {
	srv, conn, js := testkit.StartTestJetStream(t)
	var quiet, loud logBuffer
	_, err := kvstore.OpenSyncBucket(js, kvstore.WithLogger(quiet.logger()), kvstore.WithSyncAlways()).KV(t.Context())
	require.NoError(t, err)
	assert.Empty(t, quiet.String())
	buffered := testkit.Connect(t, srv, nats.ReconnectBufSize(1<<20))
	_, err = kvstore.OpenSyncBucket(testkit.NewJetStream(t, buffered), kvstore.WithLogger(loud.logger())).KV(t.Context())
	require.NoError(t, err)
	assert.Contains(t, loud.String(), "reconnect buffer")
	assert.Contains(t, loud.String(), "not known to sync every write")
	_ = conn
}

func TestServerThatIsTooOldIsRefusedByName(t *testing.T) {
	for version, ok := range map[string]bool{"2.9.10": false, "2.14.3": false, "v2.13.9-beta": false} {
		conn, err := nats.Connect("", nats.InProcessServer(oldServer{version}))
		require.NoError(t, err)
		t.Cleanup(conn.Close)
		_, err = kvstore.OpenSyncBucket(testkit.NewJetStream(t, conn)).KV(t.Context())
		require.ErrorIs(t, err, kvstore.ErrServerTooOld)
		require.NotErrorIs(t, err, kvsync.ErrUnavailable)
		assert.ErrorContains(t, err, "nats-server "+version)
		assert.ErrorContains(t, err, "relic")
		assert.ErrorContains(t, err, "2.14.4")
		assert.False(t, ok)
	}
}

func TestBucketOfAnotherMakerIsRepaired(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	old, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "spinifex-sync", History: 5})
	require.NoError(t, err)
	rev, err := old.Put(t.Context(), "k", []byte("kept"))
	require.NoError(t, err)
	var log logBuffer
	b := kvstore.OpenSyncBucket(js, kvstore.WithLogger(log.logger()))
	v, got, err := b.Load(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, "kept", string(v))
	assert.Equal(t, rev, got)
	assert.Empty(t, natskv.Differences(streamConfig(t, js, "spinifex-sync"), "spinifex-sync"))
	assert.Contains(t, log.String(), "setting=allow_direct")
	assert.Contains(t, log.String(), "setting=max_msgs_per_subject")

	// What has expired is gone; a store that forgets by itself is not obeyed from then on either.
	_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "aged", TTL: time.Hour})
	require.NoError(t, err)
	_, err = kvstore.Open(js, "aged").Get(t.Context(), "k")
	require.ErrorIs(t, err, kvstore.ErrUnfit)
	assert.ErrorContains(t, err, "max_age is 1h")
	_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "memory", Storage: jetstream.MemoryStorage})
	require.NoError(t, err)
	_, err = kvstore.Open(js, "memory").Get(t.Context(), "k")
	require.ErrorIs(t, err, kvstore.ErrUnfit)
	assert.ErrorContains(t, err, "storage is Memory")
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KV_odd", Subjects: []string{"odd"}})
	require.NoError(t, err)
	_, err = kvstore.Open(js, "odd").Get(t.Context(), "k")
	require.ErrorIs(t, err, kvstore.ErrUnfit)
}

func TestManyCallersShareOneOpen(t *testing.T) {
	srv, _, js := testkit.StartTestJetStream(t)
	spy := testkit.Connect(t, srv)
	creates, err := spy.SubscribeSync("$JS.API.STREAM.CREATE.>")
	require.NoError(t, err)
	require.NoError(t, spy.Flush())
	b := kvstore.Open(js, "b")
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			_, err := b.Get(t.Context(), "k")
			assert.ErrorIs(t, err, kvstore.ErrNotFound)
		})
	}
	wg.Wait()
	require.NoError(t, spy.Flush())
	n, _, err := creates.Pending()
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}

func TestOpenThatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A server whose JetStream hears every request and answers none.
		srv := testkit.StartTestServer(t, &server.Options{ServerName: "mute", DontListen: true})
		conn := testkit.Connect(t, srv)
		requests, err := conn.SubscribeSync("$JS.API.>")
		require.NoError(t, err)
		b := kvstore.Open(testkit.NewJetStream(t, conn), "b")
		var wg sync.WaitGroup
		start := time.Now()
		for i := range 2 {
			wg.Go(func() {
				patience := time.Duration(i+1) * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				_, err := b.Get(ctx, "k")
				assert.ErrorIs(t, err, kvsync.ErrUnavailable)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, patience, time.Since(start), "each waits for as long as it wants")
			})
		}
		wg.Wait()
		// Without a deadline of the caller's, the attempt ends by its own.
		_, err = b.Get(t.Context(), "k")
		require.ErrorIs(t, err, kvsync.ErrUnavailable)
		require.Equal(t, 3*time.Second, time.Since(start))
		n, _, err := requests.Pending()
		require.NoError(t, err)
		require.Equal(t, 1, n, "one attempt for all")
	})
}

func TestCallerWhoHasGivenUpOpensNothing(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	b := kvstore.Open(js, "b")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Get(ctx, "k")
	require.ErrorIs(t, err, kvsync.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	_, err = js.Stream(t.Context(), "KV_b")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
}

func TestBucketOnceOpenIsNeverMadeAgain(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	for _, b := range []*kvstore.Bucket{kvstore.OpenSyncBucket(js, kvstore.WithRecreate()), kvstore.Open(js, "b")} {
		rev, err := b.Put(t.Context(), "k", []byte("v"))
		require.NoError(t, err)
		f, err := b.Fence(t.Context(), "l", kvsync.Token{Holder: "a", Generation: 3})
		require.NoError(t, err)
		existed, err := kvstore.DeleteBucketIfExists(t.Context(), js, b.Name())
		require.NoError(t, err)
		require.True(t, existed)

		_, err = b.Get(t.Context(), "k")
		require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
		require.NotErrorIs(t, err, kvstore.ErrNotFound)
		_, err = b.Update(t.Context(), "k", nil, rev)
		require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
		_, err = b.Create(t.Context(), "new", nil)
		require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
		_, err = f.Put(t.Context(), "k", nil)
		require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
		for _, err := range b.List(t.Context(), "") {
			require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
		}
		_, err = js.Stream(t.Context(), "KV_"+b.Name())
		require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	}
	_, err := kvstore.OpenSyncBucket(js).Get(t.Context(), "k")
	require.ErrorIs(t, err, kvstore.ErrNotFound, "a process that never had it open makes it")
}

func TestSyncBucketThatIsGoneNamesTheRemedy(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	b := kvstore.OpenSyncBucket(js)
	_, err := b.CompareAndSwap(t.Context(), "k", nil, 0)
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), "KV_spinifex-sync"))
	_, _, err = b.Load(t.Context(), "k")
	require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
	require.ErrorContains(t, err, "spinifex locks rebuild")
}

func TestWithRecreateMakesItAgainAndReplaysNothing(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	b := kvstore.Open(js, "b", kvstore.WithRecreate())
	rev, err := b.Put(t.Context(), "k", []byte("v"))
	require.NoError(t, err)
	f, err := b.Fence(t.Context(), "l", kvsync.Token{Holder: "a", Generation: 3})
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), "KV_b"))
	_, err = b.Put(t.Context(), "k", []byte("lost"))
	require.ErrorIs(t, err, kvsync.ErrUnavailable)
	require.NotErrorIs(t, err, kvsync.ErrStoreRegressed)
	_, err = b.Get(t.Context(), "k")
	require.ErrorIs(t, err, kvstore.ErrNotFound)
	later, err := b.Create(t.Context(), "k", []byte("new"))
	require.NoError(t, err)
	require.Greater(t, later, rev)
	_, err = f.Put(t.Context(), "k", []byte("late"))
	require.ErrorIs(t, err, kvstore.ErrFenced, "the fence went with the bucket")
	e, err := b.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "new", string(e.Value))
}

func TestEntries(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	ctx := t.Context()
	b := kvstore.Open(js, "b")
	rev, err := b.Create(ctx, "a.k", []byte("1"))
	require.NoError(t, err)
	_, err = b.Create(ctx, "a.k", nil)
	require.ErrorIs(t, err, kvstore.ErrConflict)
	require.ErrorIs(t, err, kvsync.ErrRevisionMismatch)
	_, err = b.Update(ctx, "a.k", nil, rev-1)
	require.ErrorIs(t, err, kvstore.ErrConflict)
	rev, err = b.Update(ctx, "a.k", []byte("2"), rev)
	require.NoError(t, err)
	e, err := b.Get(ctx, "a.k")
	require.NoError(t, err)
	assert.Equal(t, "2", string(e.Value))
	assert.Equal(t, rev, e.Rev)
	assert.WithinDuration(t, time.Now(), e.Created, time.Minute)
	require.ErrorIs(t, b.DeleteAt(ctx, "a.k", rev-1), kvstore.ErrConflict)
	require.NoError(t, b.DeleteAt(ctx, "a.k", rev))
	_, err = b.Get(ctx, "a.k")
	require.ErrorIs(t, err, kvstore.ErrNotFound)
	require.ErrorIs(t, err, kvsync.ErrNotFound)
	require.NoError(t, b.Delete(ctx, "a.k"))
	_, err = b.Create(ctx, "a.k", []byte("3"))
	require.NoError(t, err)

	for _, key := range []string{"_version", "_fence.x"} {
		_, err := b.Put(ctx, key, nil)
		require.ErrorIs(t, err, kvstore.ErrReserved)
		require.ErrorIs(t, b.Delete(ctx, key), kvstore.ErrReserved)
	}
	_, err = b.Put(ctx, "big", make([]byte, 2<<20))
	require.ErrorIs(t, err, kvstore.ErrTooLarge)
	require.NotErrorIs(t, err, kvsync.ErrUnavailable)
	_, err = b.Put(ctx, "bad key", nil)
	require.ErrorIs(t, err, natskv.ErrKey)
	_, err = kvstore.Open(js, "bad.name").Get(ctx, "k")
	require.ErrorIs(t, err, natskv.ErrKey)
}

func TestFollow(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	b := kvstore.Open(js, "b")
	_, err := b.Put(t.Context(), "a.k", []byte("1"))
	require.NoError(t, err)
	changes, err := b.Follow(t.Context(), "a.")
	require.NoError(t, err)
	assert.Equal(t, "a.k", (<-changes).Key)
	assert.True(t, (<-changes).Ready)
	require.NoError(t, b.Delete(t.Context(), "a.k"))
	assert.True(t, (<-changes).Deleted)
}

// identity is a process whose predecessor is known to be gone.
type identity struct{}

func (identity) Incarnation() string        { return "now" }
func (identity) ProvenDead(inc string) bool { return inc == "before" }

type recorder struct{ events []kvsync.Event }

func (r *recorder) Record(e kvsync.Event) { r.events = append(r.events, e) }

func TestIdentityAndRecorder(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	plain := kvstore.OpenSyncBucket(js)
	other := kvstore.OpenSyncBucket(js)
	assert.NotEmpty(t, plain.Incarnation())
	assert.NotEqual(t, plain.Incarnation(), other.Incarnation())
	assert.False(t, plain.ProvenDead("anyone"))
	plain.Record(kvsync.Event{}) // nobody listens

	var rec recorder
	b := kvstore.OpenSyncBucket(js, kvstore.WithIdentity(identity{}), kvstore.WithRecorder(&rec))
	assert.Equal(t, "now", b.Incarnation())
	assert.True(t, b.ProvenDead("before"))
	assert.False(t, b.ProvenDead("now"))
	b.Record(kvsync.Event{Kind: kvsync.EventAcquired, Key: "k"})
	assert.Equal(t, []kvsync.Event{{Kind: kvsync.EventAcquired, Key: "k"}}, rec.events)
}

func TestConnectionThatIsDown(t *testing.T) {
	srv, conn, js := testkit.StartTestJetStream(t)
	testkit.StopServer(srv)
	testkit.Eventually(t, 5*time.Second, func() (bool, string) { return !conn.IsConnected(), "connected" })
	_, err := kvstore.OpenSyncBucket(js).CompareAndSwap(t.Context(), "k", nil, 0)
	require.ErrorIs(t, err, kvsync.ErrUnavailable)
	require.False(t, errors.Is(err, kvsync.ErrUnknownOutcome))
}
