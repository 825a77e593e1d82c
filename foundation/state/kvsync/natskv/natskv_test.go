package natskv_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// newStore makes a bucket and opens it.
func newStore(t *testing.T, js jetstream.JetStream, bucket string, replicas int) *natskv.Store {
	t.Helper()
	cfg := natskv.StreamConfig(bucket, replicas)
	cfg.FirstSeq = 1000
	_, err := js.CreateStream(t.Context(), cfg)
	require.NoError(t, err)
	s, err := natskv.Open(t.Context(), js, bucket)
	require.NoError(t, err)
	// Another server of a cluster learns a moment later that somebody takes these writes.
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		_, err := s.CompareAndSwap(t.Context(), "_none", nil, 1)
		return errors.Is(err, kvsync.ErrRevisionMismatch), err.Error()
	})
	return s
}

func TestConformance(t *testing.T) {
	kvsynctest.Conformance(t, func(t *testing.T) kvsync.KVStore {
		_, _, js := testkit.StartTestJetStream(t)
		return newStore(t, js, "b", 1)
	})
}

func TestConformanceOnThreeServers(t *testing.T) {
	c := testkit.StartTestCluster(t, 3)
	_, js := c.Connect(t, 0)
	n := 0
	kvsynctest.Conformance(t, func(t *testing.T) kvsync.KVStore {
		n++
		return newStore(t, js, "b"+string(rune('0'+n)), 3)
	})
	t.Run("reads after writes are never stale", func(t *testing.T) {
		writer := newStore(t, js, "reads", 3)
		for i := range 3 {
			_, other := c.Connect(t, i)
			reader, err := natskv.Open(t.Context(), other, "reads")
			require.NoError(t, err)
			for range 100 {
				rev, err := writer.Put(t.Context(), "k", []byte("v"))
				require.NoError(t, err)
				_, got, err := reader.Load(t.Context(), "k")
				require.NoError(t, err)
				require.Equal(t, rev, got)
			}
		}
	})
	t.Run("a refusal is a mismatch, in flight or not", func(t *testing.T) {
		s := newStore(t, js, "race", 3)
		for range 10 {
			_, rev, err := s.Load(t.Context(), "k")
			if err != nil {
				require.ErrorIs(t, err, kvsync.ErrNotFound)
			}
			var wg sync.WaitGroup
			errs := make([]error, 8)
			for i := range errs {
				wg.Go(func() { _, errs[i] = s.CompareAndSwap(t.Context(), "k", []byte("v"), rev) })
			}
			wg.Wait()
			won := 0
			for _, err := range errs {
				if err == nil {
					won++
					continue
				}
				require.ErrorIs(t, err, kvsync.ErrRevisionMismatch)
				require.NotErrorIs(t, err, kvsync.ErrUnavailable)
			}
			require.Equal(t, 1, won)
		}
	})
	t.Run("a new leader of the stream is the same stream", func(t *testing.T) {
		s := newStore(t, js, "moved", 3)
		rev, err := s.Put(t.Context(), "k", []byte("v"))
		require.NoError(t, err)
		leader := c.StreamLeader("KV_moved")
		require.GreaterOrEqual(t, leader, 0)
		stepDown(t, js, "KV_moved")
		testkit.Eventually(t, 15*time.Second, func() (bool, string) {
			err := s.Verify(t.Context())
			require.NotErrorIs(t, err, kvsync.ErrStoreRegressed)
			return err == nil && c.StreamLeader("KV_moved") >= 0, "no leader"
		})
		_, got, err := s.Load(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, rev, got)
	})
}

func stepDown(t *testing.T, js jetstream.JetStream, stream string) {
	t.Helper()
	_, err := js.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil, 5*time.Second)
	require.NoError(t, err)
}

func TestOpenWantsABucketThatIsThereAndFit(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	_, err := natskv.Open(t.Context(), js, "absent")
	require.ErrorIs(t, err, jetstream.ErrBucketNotFound)
	_, err = natskv.Open(t.Context(), js, "a.b")
	require.ErrorIs(t, err, natskv.ErrKey)

	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_odd", Subjects: []string{"$KV.odd.>"}, MaxMsgsPerSubject: 3,
		AllowDirect: true, AllowRollup: true, MaxAge: time.Hour, Storage: jetstream.MemoryStorage,
	})
	require.NoError(t, err)
	_, err = natskv.Open(t.Context(), js, "odd")
	for _, setting := range []string{"storage", "max_age", "allow_direct", "allow_rollup_hdrs", "deny_delete",
		"deny_purge", "allow_atomic", "max_msgs_per_subject", "discard"} {
		require.ErrorContains(t, err, setting+" is ")
	}
	stream, err := js.Stream(t.Context(), "KV_odd")
	require.NoError(t, err)
	cfg := natskv.Repaired(stream.CachedInfo().Config, "odd")
	left := natskv.Differences(cfg, "odd")
	require.Len(t, left, 2)
	for i, setting := range []string{"storage", "max_age"} {
		assert.Equal(t, setting, left[i].Setting)
		assert.True(t, left[i].Fixed)
	}
	_, err = js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err, "the server takes the repair")
}

// counted counts the requests of a connection by listening to what it publishes.
func countRequests(t *testing.T, srvConn *nats.Conn, do func()) int {
	t.Helper()
	before := srvConn.Stats().OutMsgs
	do()
	return int(srvConn.Stats().OutMsgs - before)
}

func TestRoundTrips(t *testing.T) {
	_, conn, js := testkit.StartTestJetStream(t)
	ctx := t.Context()
	s := newStore(t, js, "b", 1)
	var rev uint64
	var err error
	assert.Equal(t, 2, countRequests(t, conn, func() { rev, err = s.CompareAndSwap(ctx, "k", []byte("1"), 0) }), "cold create")
	require.NoError(t, err)
	assert.Equal(t, 1, countRequests(t, conn, func() { rev, err = s.CompareAndSwap(ctx, "k", []byte("2"), rev) }), "swap")
	require.NoError(t, err)
	assert.Equal(t, 1, countRequests(t, conn, func() { err = s.CompareAndDelete(ctx, "k", rev) }), "delete")
	require.NoError(t, err)
	assert.Equal(t, 1, countRequests(t, conn, func() { _, err = s.CompareAndSwap(ctx, "k", []byte("3"), 0) }), "create over a known marker")
	require.NoError(t, err)
	assert.Equal(t, 1, countRequests(t, conn, func() { _, err = s.CompareAndSwap(ctx, "k", []byte("4"), 0) }), "create of a key that exists")
	require.ErrorIs(t, err, kvsync.ErrRevisionMismatch)
	assert.Equal(t, 1, countRequests(t, conn, func() { _, _, err = s.Load(ctx, "k") }), "load")
	require.NoError(t, err)
}

func TestCreateOverEachKindOfMarker(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	ctx := t.Context()
	// The kinds that this package never makes need a stream that allows them.
	s := newStore(t, js, "b", 1)
	subject := "$KV.b."
	mark := func(key string, header nats.Header) uint64 {
		ack, err := js.PublishMsg(ctx, &nats.Msg{Subject: subject + key, Header: header})
		require.NoError(t, err)
		return ack.Sequence
	}
	kinds := map[string]nats.Header{
		"deleted": {"KV-Operation": []string{"DEL"}},
		"purged":  {"KV-Operation": []string{"PURGE"}},
		"aged":    {"Nats-Marker-Reason": []string{"MaxAge"}},
		"removed": {"Nats-Marker-Reason": []string{"Remove"}},
		"swept":   {"Nats-Marker-Reason": []string{"Purge"}},
	}
	for key, header := range kinds {
		rev := mark(key, header)
		_, _, err := s.Load(ctx, key)
		require.ErrorIs(t, err, kvsync.ErrNotFound, key)
		e, err := s.Last(ctx, key)
		require.NoError(t, err)
		require.Equal(t, rev, e.Rev)
		require.True(t, e.Deleted)
		got, err := s.CompareAndSwap(ctx, key, []byte("v"), 0)
		require.NoError(t, err, key)
		require.Greater(t, got, rev)
	}
	t.Run("a marker that somebody else replaced", func(t *testing.T) {
		rev, err := s.CompareAndSwap(ctx, "k", []byte("v"), 0)
		require.NoError(t, err)
		require.NoError(t, s.CompareAndDelete(ctx, "k", rev))
		mark("k", kinds["deleted"])
		_, err = s.CompareAndSwap(ctx, "k", []byte("v"), 0)
		require.NoError(t, err, "one look and one more try")
	})
	t.Run("a marker that somebody else wrote over", func(t *testing.T) {
		rev, err := s.CompareAndSwap(ctx, "l", []byte("v"), 0)
		require.NoError(t, err)
		require.NoError(t, s.CompareAndDelete(ctx, "l", rev))
		_, err = js.Publish(ctx, subject+"l", []byte("theirs"))
		require.NoError(t, err)
		_, err = s.CompareAndSwap(ctx, "l", []byte("v"), 0)
		require.ErrorIs(t, err, kvsync.ErrRevisionMismatch)
		v, _, err := s.Load(ctx, "l")
		require.NoError(t, err)
		assert.Equal(t, "theirs", string(v))
	})
}

func TestBatchLandsWholeOrNotAtAll(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	ctx := t.Context()
	s := newStore(t, js, "b", 1)
	guard, err := s.Put(ctx, "g", nil)
	require.NoError(t, err)
	last, err := s.SendBatch(ctx, "batch", []natskv.Message{
		{Key: "w", Guard: &natskv.Guard{Key: "g", Seq: guard}},
		{Key: "a", Value: []byte("1"), Expect: new(uint64)},
		{Key: "b", Value: []byte("2")},
	})
	require.NoError(t, err)
	_, rev, err := s.Load(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, last-1, rev, "the sequences of a batch are contiguous")

	refused := [][]natskv.Message{
		{{Key: "w", Guard: &natskv.Guard{Key: "g", Seq: guard - 1}}, {Key: "b", Value: []byte("x")}},
		{{Key: "b", Value: []byte("x")}, {Key: "a", Value: []byte("x"), Expect: new(rev - 1)}},
		{{Key: "b", Value: []byte("x")}, {Key: "new", Expect: new(uint64(7))}},
	}
	for _, batch := range refused {
		_, err := s.SendBatch(ctx, "batch", batch)
		require.ErrorIs(t, err, kvsync.ErrRevisionMismatch)
		v, _, err := s.Load(ctx, "b")
		require.NoError(t, err)
		require.Equal(t, "2", string(v))
	}
	_, err = s.SendBatch(ctx, "batch", []natskv.Message{{Key: "a"}, {Key: "a"}})
	require.ErrorContains(t, err, "twice")
	_, err = s.SendBatch(ctx, "batch", nil)
	require.ErrorContains(t, err, "0 messages")
	_, err = s.SendBatch(ctx, "batch", make([]natskv.Message, natskv.MaxBatch+1))
	require.ErrorContains(t, err, "102 messages")
}

func TestBadKeysAreRefusedHere(t *testing.T) {
	_, conn, js := testkit.StartTestJetStream(t)
	s := newStore(t, js, "b", 1)
	sent := countRequests(t, conn, func() {
		for _, key := range []string{"", ".a", "a.", "a..b", "a b", "a*", ">", "é", "a\r\nPUB x 0"} {
			_, _, err := s.Load(t.Context(), key)
			assert.ErrorIs(t, err, natskv.ErrKey, key)
			_, err = s.CompareAndSwap(t.Context(), key, nil, 1)
			assert.ErrorIs(t, err, natskv.ErrKey, key)
			assert.NotErrorIs(t, err, kvsync.ErrUnavailable, key)
			assert.ErrorIs(t, s.CompareAndDelete(t.Context(), key, 1), natskv.ErrKey, key)
		}
		_, err := s.Watch(t.Context(), "a.*.")
		assert.ErrorIs(t, err, natskv.ErrKey)
	})
	assert.Zero(t, sent)
}

func TestListIsSortedAndWithoutDeletedAndReservedKeys(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	ctx := t.Context()
	s := newStore(t, js, "b", 1)
	var want []string
	for i := range 150 {
		key := "p." + string(rune('a'+i%26)) + "." + string(rune('a'+i/26))
		want = append(want, key)
		_, err := s.Put(ctx, key, []byte(key))
		require.NoError(t, err)
	}
	slices.Sort(want)
	for _, key := range []string{"q.x", "_fence.x", "p", "pp.a"} {
		_, err := s.Put(ctx, key, nil)
		require.NoError(t, err)
	}
	_, err := s.Delete(ctx, want[3])
	require.NoError(t, err)
	want = slices.Delete(want, 3, 4)
	list := func(prefix string) (keys []string) {
		for e, err := range s.List(ctx, prefix) {
			require.NoError(t, err)
			keys = append(keys, e.Key)
		}
		return keys
	}
	assert.Equal(t, want, list("p."))
	assert.Equal(t, []string{"q.x"}, list("q.x"))
	assert.Len(t, list(""), len(want)+3)
	assert.Empty(t, list("none."))
	n := 0
	for range s.List(ctx, "p.") {
		if n++; n == 3 {
			break
		}
	}
	assert.Equal(t, 3, n)
}

func TestFollowSaysWhenTheCurrentEntriesAreThrough(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	s := newStore(t, js, "b", 1)
	ctx, cancel := context.WithCancel(t.Context())
	empty, err := s.Follow(ctx, "")
	require.NoError(t, err)
	require.True(t, (<-empty).Ready)
	for _, key := range []string{"p.a", "_fence.x", "p.b", "q"} {
		_, err := s.Put(ctx, key, []byte(key))
		require.NoError(t, err)
	}
	assert.Equal(t, "p.a", (<-empty).Key)
	changes, err := s.Follow(ctx, "p.")
	require.NoError(t, err)
	assert.Equal(t, "p.a", (<-changes).Key)
	assert.Equal(t, "p.b", (<-changes).Key)
	assert.True(t, (<-changes).Ready)
	_, err = s.Delete(ctx, "p.a")
	require.NoError(t, err)
	gone := <-changes
	assert.True(t, gone.Deleted)
	assert.Equal(t, "p.a", gone.Key)
	assert.False(t, gone.Created.IsZero())
	// A single key is not hidden, even when its name is reserved.
	one, err := s.Follow(ctx, "_fence.x")
	require.NoError(t, err)
	assert.Equal(t, "_fence.x", (<-one).Key)
	cancel()
	for range changes {
		// drained until closed
	}
}

func TestWatchFeedsTheMemoryOfMarkers(t *testing.T) {
	srv, conn, js := testkit.StartTestJetStream(t)
	s := newStore(t, js, "b", 1)
	other, err := natskv.Open(t.Context(), testkit.NewJetStream(t, testkit.Connect(t, srv)), "b")
	require.NoError(t, err)
	updates, err := s.Watch(t.Context(), "p.")
	require.NoError(t, err)
	rev, err := other.CompareAndSwap(t.Context(), "p.k", []byte("v"), 0)
	require.NoError(t, err)
	require.NoError(t, other.CompareAndDelete(t.Context(), "p.k", rev))
	require.Equal(t, rev, (<-updates).Rev)
	require.True(t, (<-updates).Deleted)
	sent := countRequests(t, conn, func() { _, err = s.CompareAndSwap(t.Context(), "p.k", []byte("v"), 0) })
	require.NoError(t, err)
	assert.Equal(t, 1, sent)
}

func TestWatchEndsWithItsConnectionAndStartsAnew(t *testing.T) {
	srv, conn, js := testkit.StartTestJetStream(t)
	s := newStore(t, js, "b", 1)
	_, err := s.Put(t.Context(), "k", []byte("1"))
	require.NoError(t, err)
	updates, err := s.Watch(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "1", string((<-updates).Value))
	require.NoError(t, conn.ForceReconnect())
	for range updates {
		// nothing more, then closed
	}
	other := testkit.NewJetStream(t, testkit.Connect(t, srv))
	_, err = other.Publish(t.Context(), "$KV.b.k", []byte("2"))
	require.NoError(t, err)
	testkit.Eventually(t, 5*time.Second, func() (bool, string) {
		updates, err = s.Watch(t.Context(), "k")
		if err != nil {
			require.ErrorIs(t, err, kvsync.ErrUnavailable)
			return false, err.Error()
		}
		return true, ""
	})
	assert.Equal(t, "2", string((<-updates).Value))
}

func TestWatchEndsWhenItsConsumerIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, js := testkit.StartTestJetStream(t)
		s := newStore(t, js, "b", 1)
		updates, err := s.Watch(t.Context(), "")
		require.NoError(t, err)
		start := time.Now()
		time.Sleep(time.Minute) // virtual: heartbeats keep a quiet watch
		_, err = s.Put(t.Context(), "k", nil)
		require.NoError(t, err)
		require.Equal(t, "k", (<-updates).Key)
		require.NoError(t, js.DeleteStream(t.Context(), "KV_b"))
		_, open := <-updates
		require.False(t, open)
		require.Less(t, time.Since(start), time.Minute+15*time.Second)
	})
}

func TestStreamThatIsGone(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	s := newStore(t, js, "b", 1)
	rev, err := s.CompareAndSwap(t.Context(), "k", []byte("v"), 0)
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), "KV_b"))
	_, _, err = s.Load(t.Context(), "k")
	require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
	require.NotErrorIs(t, err, kvsync.ErrUnavailable)
	_, err = s.CompareAndSwap(t.Context(), "k", []byte("v"), rev)
	require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
	for _, err := range s.List(t.Context(), "") {
		require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
	}
	_, err = s.Watch(t.Context(), "")
	require.ErrorIs(t, err, kvsync.ErrStoreRegressed)

	t.Run("made anew below what was seen", func(t *testing.T) {
		_, err := js.CreateStream(t.Context(), natskv.StreamConfig("b", 1))
		require.NoError(t, err)
		_, err = s.CompareAndSwap(t.Context(), "k", []byte("v"), 0)
		require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
		for range 2000 {
			_, err := js.Publish(t.Context(), "$KV.b.other", nil)
			require.NoError(t, err)
		}
		_, _, err = s.Load(t.Context(), "k")
		require.ErrorIs(t, err, kvsync.ErrStoreRegressed, "growing past the mark gives nothing back")
	})
	t.Run("made anew above", func(t *testing.T) {
		require.NoError(t, js.DeleteStream(t.Context(), "KV_b"))
		cfg := natskv.StreamConfig("b", 1)
		cfg.FirstSeq = 1_000_000
		_, err := js.CreateStream(t.Context(), cfg)
		require.NoError(t, err)
		got, err := s.CompareAndSwap(t.Context(), "k", []byte("v"), 0)
		require.NoError(t, err)
		require.Greater(t, got, rev)
	})
}

func TestReadBelowWhatWasSeen(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	s := newStore(t, js, "b", 1)
	_, err := s.Put(t.Context(), "k", []byte("v"))
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), "KV_b"))
	_, err = js.CreateStream(t.Context(), natskv.StreamConfig("b", 1))
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "$KV.b.k", []byte("older"))
	require.NoError(t, err)
	_, _, err = s.Load(t.Context(), "k")
	require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
}

// switchable is a server that can be replaced under a connection.
type switchable struct{ srv atomic.Pointer[server.Server] }

func (s *switchable) InProcessConn() (net.Conn, error) { return s.srv.Load().InProcessConn() }

func TestStoreRolledBackToAnOlderCopy(t *testing.T) {
	dir, older := t.TempDir(), t.TempDir()
	start := func(dir string) *server.Server {
		return testkit.StartTestServer(t, &server.Options{ServerName: "s", DontListen: true, JetStream: true, StoreDir: dir})
	}
	var at switchable
	at.srv.Store(start(dir))
	conn := testkit.Connect(t, at.srv.Load(), nats.InProcessServer(&at))
	s := newStore(t, testkit.NewJetStream(t, conn), "b", 1)
	restart := func(dir string) {
		reconnects := conn.Stats().Reconnects
		testkit.StopServer(at.srv.Load())
		at.srv.Store(start(dir))
		testkit.Eventually(t, 10*time.Second, func() (bool, string) {
			return conn.IsConnected() && conn.Stats().Reconnects > reconnects, conn.Status().String()
		})
	}
	_, err := s.Put(t.Context(), "k", []byte("v"))
	require.NoError(t, err)
	restart(dir)
	rev, err := s.Put(t.Context(), "k", []byte("v"))
	require.NoError(t, err, "a restart alone is no harm")
	testkit.StopServer(at.srv.Load())
	require.NoError(t, os.CopyFS(older, os.DirFS(dir)))
	restart(dir)
	_, err = s.Put(t.Context(), "k", []byte("later"))
	require.NoError(t, err)

	restart(older)
	_, err = s.CompareAndSwap(t.Context(), "k", []byte("w"), rev)
	require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
	require.ErrorContains(t, err, "last sequence is")
	_, _, err = s.Load(t.Context(), "k")
	require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
	fresh, err := natskv.Open(t.Context(), testkit.NewJetStream(t, conn), "b")
	require.NoError(t, err)
	for range 3 {
		_, err = fresh.Put(t.Context(), "other", nil)
		require.NoError(t, err)
	}
	_, _, err = s.Load(t.Context(), "k")
	require.ErrorIs(t, err, kvsync.ErrStoreRegressed, "what was lost is lost when others have written since")
}

func TestCallerWhoHasGivenUpSendsNothing(t *testing.T) {
	_, conn, js := testkit.StartTestJetStream(t)
	s := newStore(t, js, "b", 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("had enough")
	cancel(reason)
	sent := countRequests(t, conn, func() {
		_, err := s.CompareAndSwap(ctx, "k", nil, 1)
		require.ErrorIs(t, err, kvsync.ErrUnavailable)
		require.ErrorIs(t, err, reason)
		require.NotErrorIs(t, err, kvsync.ErrUnknownOutcome)
		_, _, err = s.Load(ctx, "k")
		require.ErrorIs(t, err, reason)
	})
	assert.Zero(t, sent)
}

func TestConnectionThatIsDownSendsNothing(t *testing.T) {
	srv, conn, js := testkit.StartTestJetStream(t)
	s := newStore(t, js, "b", 1)
	testkit.StopServer(srv)
	testkit.Eventually(t, 5*time.Second, func() (bool, string) {
		return conn.Status() == nats.RECONNECTING, conn.Status().String()
	})
	_, err := s.CompareAndSwap(t.Context(), "k", nil, 1)
	require.ErrorIs(t, err, kvsync.ErrUnavailable)
	require.NotErrorIs(t, err, kvsync.ErrUnknownOutcome)
	conn.Close()
	_, _, err = s.Load(t.Context(), "k")
	require.ErrorIs(t, err, kvsync.ErrUnavailable)
}
