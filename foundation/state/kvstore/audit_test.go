package kvstore_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestAudit(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	reports, err := kvstore.Audit(t.Context(), js, clustersize.Size{})
	require.NoError(t, err)
	assert.Empty(t, reports)

	sync := kvstore.OpenSyncBucket(js)
	_, err = sync.CompareAndSwap(t.Context(), "k", nil, 0)
	require.NoError(t, err)
	_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "another"})
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "no-bucket", Subjects: []string{"x"}})
	require.NoError(t, err)
	reports, err = kvstore.Audit(t.Context(), js, size(t, 3))
	require.NoError(t, err)
	require.Len(t, reports, 2)
	assert.Equal(t, "another", reports[0].Bucket)
	assert.NotEmpty(t, reports[0].Drift)
	got := reports[1]
	assert.Positive(t, got.Bytes)
	got.Bytes = 0
	assert.Equal(t, kvstore.BucketReport{
		Bucket: "spinifex-sync", ReplicasWanted: 3, ReplicasActual: 1, ReplicasOnline: 1, Leader: "test", Keys: 2,
	}, got)

	cfg := streamConfig(t, js, "spinifex-sync")
	cfg.AllowDirect = true
	_, err = js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	reports, err = kvstore.Audit(t.Context(), js, size(t, 1))
	require.NoError(t, err)
	assert.Equal(t, []string{"allow_direct is true, want false"}, reports[1].Drift)
}

func TestSizeWithoutACluster(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	_, err := kvstore.Open(js, "one", kvstore.WithSize(size(t, 2))).Put(t.Context(), "k", nil)
	require.NoError(t, err)
	_, err = kvstore.Open(js, "three", kvstore.WithSize(size(t, 3))).Put(t.Context(), "k", nil)
	require.ErrorIs(t, err, kvstore.ErrUnfit, "never a silent single replica")
	require.ErrorContains(t, err, "not clustered")
}

func TestLastWriteAndDelete(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	ctx := t.Context()
	last := func() (string, string, bool) {
		key, value, at, found, err := kvstore.LastWrite(ctx, js, "dns-leader")
		require.NoError(t, err)
		if found {
			require.WithinDuration(t, time.Now(), at, time.Minute)
		}
		return key, string(value), found
	}
	_, _, found := last()
	assert.False(t, found)
	_, err := js.Stream(ctx, "KV_dns-leader")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "looking makes nothing")

	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "dns-leader", TTL: time.Hour})
	require.NoError(t, err)
	_, _, found = last()
	assert.False(t, found)
	_, err = kv.PutString(ctx, "older", "node-1")
	require.NoError(t, err)
	_, err = kv.PutString(ctx, "leader", "node-2")
	require.NoError(t, err)
	key, value, found := last()
	assert.True(t, found)
	assert.Equal(t, "leader=node-2", key+"="+value)
	require.NoError(t, kv.Delete(ctx, "leader"))
	key, value, found = last()
	assert.True(t, found)
	assert.Equal(t, "older=node-1", key+"="+value)
	require.NoError(t, kv.Purge(ctx, "older"))
	_, _, found = last()
	assert.False(t, found)
	_, _, _, _, err = kvstore.LastWrite(ctx, js, "bad.name")
	require.Error(t, err)

	existed, err := kvstore.DeleteBucketIfExists(ctx, js, "dns-leader")
	require.NoError(t, err)
	assert.True(t, existed)
	existed, err = kvstore.DeleteBucketIfExists(ctx, js, "dns-leader")
	require.NoError(t, err)
	assert.False(t, existed)
	_, err = kvstore.DeleteBucketIfExists(ctx, js, "bad.name")
	require.Error(t, err)
}
