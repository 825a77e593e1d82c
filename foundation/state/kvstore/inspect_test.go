package kvstore_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestInspectMakesAndMendsNothing(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	in, err := kvstore.Inspect(t.Context(), js, kvstore.SyncBucket, clustersize.Size{})
	require.NoError(t, err)
	assert.False(t, in.Exists)
	_, err = js.Stream(t.Context(), "KV_"+kvstore.SyncBucket)
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)

	sync := kvstore.OpenSyncBucket(js)
	rev, err := sync.CompareAndSwap(t.Context(), "b", []byte("1"), 0)
	require.NoError(t, err)
	gone, err := sync.CompareAndSwap(t.Context(), "a", []byte("2"), 0)
	require.NoError(t, err)
	require.NoError(t, sync.CompareAndDelete(t.Context(), "a", gone))
	cfg := streamConfig(t, js, kvstore.SyncBucket)
	cfg.AllowDirect = true
	_, err = js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)

	in, err = kvstore.Inspect(t.Context(), js, kvstore.SyncBucket, clustersize.Size{})
	require.NoError(t, err)
	assert.True(t, in.Exists)
	assert.Equal(t, cfg.FirstSeq, in.FirstSeq)
	assert.Equal(t, gone+1, in.LastSeq)
	require.Len(t, in.Differences, 1)
	require.Len(t, in.Entries, 1)
	assert.Equal(t, "b", in.Entries[0].Key)
	assert.Equal(t, rev, in.Entries[0].Rev)
	assert.True(t, streamConfig(t, js, kvstore.SyncBucket).AllowDirect)

	seen, opened := sync.Seen()
	assert.True(t, opened)
	assert.Equal(t, gone+1, seen.High)
	assert.Equal(t, in.Created, seen.Created)
	assert.Empty(t, seen.Regressed)
	_, opened = kvstore.OpenSyncBucket(js).Seen()
	assert.False(t, opened)
}

func TestRebuildBeginsAboveEverything(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	highest, err := kvstore.HighestFence(t.Context(), js)
	require.NoError(t, err)
	assert.Zero(t, highest)
	sync := kvstore.OpenSyncBucket(js)
	before, err := sync.CompareAndSwap(t.Context(), "k", []byte("1"), 0)
	require.NoError(t, err)
	_, err = kvstore.RebuildSync(t.Context(), js, clustersize.Size{}, 0)
	require.ErrorIs(t, err, jetstream.ErrStreamNameAlreadyInUse)

	const above = 1 << 52 // later than the microseconds of today
	records := kvstore.Open(js, "records")
	for _, generation := range []uint64{5, above} {
		_, err = records.Fence(t.Context(), "k", kvsync.Token{Holder: "n1", Generation: generation})
		require.NoError(t, err)
	}
	highest, err = kvstore.HighestFence(t.Context(), js)
	require.NoError(t, err)
	assert.EqualValues(t, above, highest)

	_, err = kvstore.DeleteBucketIfExists(t.Context(), js, kvstore.SyncBucket)
	require.NoError(t, err)
	_, _, err = sync.Load(t.Context(), "k")
	require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
	_, err = kvstore.RebuildSync(t.Context(), js, clustersize.Size{}, 1<<60)
	require.ErrorContains(t, err, "highest allowed")
	first, err := kvstore.RebuildSync(t.Context(), js, clustersize.Size{}, highest)
	require.NoError(t, err)
	assert.EqualValues(t, above+1, first)

	// A process that had the old one open goes on with the new one.
	_, _, err = sync.Load(t.Context(), "k")
	require.ErrorIs(t, err, kvsync.ErrNotFound)
	after, err := sync.CompareAndSwap(t.Context(), "k", []byte("2"), 0)
	require.NoError(t, err)
	assert.Greater(t, after, before)
	assert.Greater(t, after, uint64(above))
	version, err := kvstore.OpenSyncBucket(js).KV(t.Context())
	require.NoError(t, err)
	n, err := kvstore.ReadVersion(t.Context(), version)
	require.NoError(t, err)
	assert.Equal(t, kvstore.SyncVersion, n)
}
