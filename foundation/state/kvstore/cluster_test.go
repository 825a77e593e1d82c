package kvstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// TestOnThreeServers shares one cluster: starting it takes longer than all of its tests.
func TestOnThreeServers(t *testing.T) {
	c := testkit.StartTestCluster(t, 3)
	three := size(t, 3)
	var n atomic.Int32
	open := func(t *testing.T) (a, b *kvstore.Bucket) {
		name := fmt.Sprintf("fence%d", n.Add(1))
		_, js0 := c.Connect(t, 0)
		_, js1 := c.Connect(t, 1)
		return kvstore.Open(js0, name, kvstore.WithSize(three)), kvstore.Open(js1, name, kvstore.WithSize(three))
	}
	for name, test := range fenceTests {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
	t.Run("undeclared size is permanent", func(t *testing.T) { undeclaredSize(t, c) })
	t.Run("replicas are raised and never lowered", func(t *testing.T) { replicasAreRaised(t, c) })
	t.Run("replicas that cannot be placed", func(t *testing.T) { replicasThatCannotBePlaced(t, c) })
	t.Run("sync bucket over a change of leader", func(t *testing.T) { changeOfLeader(t, c) })
	t.Run("sync bucket is rebuilt", func(t *testing.T) { rebuiltOnThree(t, c) }) // the last: it deletes it
}

func rebuiltOnThree(t *testing.T, c *testkit.Cluster) {
	_, js0 := c.Connect(t, 0)
	_, js1 := c.Connect(t, 1)
	require.ErrorIs(t, kvstore.CheckRebuild(js0, clustersize.Size{}, 0), clustersize.ErrUndeclared)
	live := kvstore.OpenSyncBucket(js1, kvstore.WithSize(size(t, 3)))
	lease := kvsync.NewLease(live, "rebuilt", "n1", time.Minute)
	before, err := lease.Lock(t.Context())
	require.NoError(t, err)
	lost := lease.Lost()
	_, err = kvstore.DeleteBucketIfExists(t.Context(), js0, kvstore.SyncBucket)
	require.NoError(t, err)
	lease.Unlock(t.Context(), before)
	<-lost
	_, err = lease.TryLock(t.Context())
	require.Error(t, err, "never made by itself")
	seen, _ := live.Seen()
	first, err := kvstore.RebuildSync(t.Context(), js0, size(t, 3), seen.High)
	require.NoError(t, err)
	require.Equal(t, 3, streamConfig(t, js0, kvstore.SyncBucket).Replicas)
	testkit.Eventually(t, 15*time.Second, func() (bool, string) {
		after, err := lease.TryLock(t.Context())
		if err != nil {
			return false, err.Error()
		}
		lease.Unlock(t.Context(), after)
		return after.Generation > before.Generation && after.Generation > first, after.String()
	})
}

func undeclaredSize(t *testing.T, c *testkit.Cluster) {
	_, js := c.Connect(t, 2)
	_, err := kvstore.Open(js, "nosize").Put(t.Context(), "k", nil)
	require.ErrorIs(t, err, clustersize.ErrUndeclared)
	require.NotErrorIs(t, err, kvsync.ErrUnavailable)
	_, err = js.Stream(t.Context(), "KV_nosize")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	_, err = kvstore.RaiseReplicas(t.Context(), js, clustersize.Size{})
	require.ErrorIs(t, err, clustersize.ErrUndeclared)
	// A bucket that is there is served: nothing has to be guessed.
	_, err = kvstore.Open(js, "nosize", kvstore.WithSize(size(t, 3))).Put(t.Context(), "k", nil)
	require.NoError(t, err)
	_, err = kvstore.Open(js, "nosize").Get(t.Context(), "k")
	require.NoError(t, err)
}

func replicasAreRaised(t *testing.T, c *testkit.Cluster) {
	_, js := c.Connect(t, 0)
	for _, name := range []string{"grow", "later"} {
		b := kvstore.Open(js, name, kvstore.WithSize(size(t, 1)))
		rev, err := b.Put(t.Context(), "k", []byte("v"))
		require.NoError(t, err)
		require.Equal(t, 1, streamConfig(t, js, name).Replicas)
		if name == "later" {
			continue
		}
		grown := kvstore.Open(js, name, kvstore.WithSize(size(t, 4)))
		testkit.Eventually(t, 15*time.Second, func() (bool, string) {
			e, err := grown.Get(t.Context(), "k")
			if err != nil {
				require.ErrorIs(t, err, kvsync.ErrUnavailable)
				return false, err.Error()
			}
			return e.Rev == rev, "another revision"
		})
		require.Equal(t, 3, streamConfig(t, js, name).Replicas)
		require.Empty(t, natskv.Differences(streamConfig(t, js, name), name))
		_, err = kvstore.Open(js, name, kvstore.WithSize(size(t, 1))).Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, 3, streamConfig(t, js, name).Replicas)
	}
	raised, err := kvstore.RaiseReplicas(t.Context(), js, size(t, 3))
	require.NoError(t, err)
	assert.Contains(t, raised, "later")
	assert.NotContains(t, raised, "grow")
	testkit.Eventually(t, 15*time.Second, func() (bool, string) {
		reports, err := kvstore.Audit(t.Context(), js, size(t, 3))
		require.NoError(t, err)
		for _, r := range reports {
			if r.Error != "" || r.ReplicasOnline != 3 || r.Lag != 0 {
				return false, fmt.Sprintf("%+v", r)
			}
			assert.Equal(t, 3, r.ReplicasWanted)
			assert.Equal(t, 3, r.ReplicasActual, r.Bucket)
			assert.NotEmpty(t, r.Leader)
			assert.Empty(t, r.Drift)
		}
		return true, ""
	})
}

func replicasThatCannotBePlaced(t *testing.T, c *testkit.Cluster) {
	_, js := c.Connect(t, 0)
	_, err := kvstore.Open(js, "five", kvstore.WithSize(size(t, 5))).Get(t.Context(), "k")
	require.ErrorIs(t, err, kvsync.ErrUnavailable, "servers may still come")
	require.NotErrorIs(t, err, clustersize.ErrUndeclared)
	_, err = kvstore.Open(js, "five", kvstore.WithSize(size(t, 3))).Put(t.Context(), "k", nil)
	require.NoError(t, err)
	var log logBuffer
	_, err = kvstore.Open(js, "five", kvstore.WithSize(size(t, 5)), kvstore.WithLogger(log.logger())).Get(t.Context(), "k")
	require.NoError(t, err, "a raise that cannot be placed yet fails no open")
	assert.Contains(t, log.String(), "replicas not raised")
}

func changeOfLeader(t *testing.T, c *testkit.Cluster) {
	_, js := c.Connect(t, 0)
	b := kvstore.OpenSyncBucket(js, kvstore.WithSize(size(t, 3)))
	rev, err := b.CompareAndSwap(t.Context(), "k", []byte("v"), 0)
	require.NoError(t, err)
	assert.Equal(t, 3, streamConfig(t, js, b.Name()).Replicas)
	f, err := b.Fence(t.Context(), lease, token("a", 1))
	require.NoError(t, err)
	for range 2 {
		_, err := js.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN.KV_spinifex-sync", nil, 5*time.Second)
		require.NoError(t, err)
		testkit.Eventually(t, 20*time.Second, func() (bool, string) {
			// A request that meets the change of leader is answered by nobody.
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			next, err := b.CompareAndSwap(ctx, "k", []byte("v"), rev)
			if err != nil {
				require.NotErrorIs(t, err, kvsync.ErrStoreRegressed)
				if _, now, lerr := b.Load(t.Context(), "k"); lerr == nil {
					rev = now
				}
				return false, err.Error()
			}
			rev = next
			return true, ""
		})
		testkit.Eventually(t, 20*time.Second, func() (bool, string) {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_, err := f.Put(ctx, "guarded", nil)
			if err != nil {
				require.NotErrorIs(t, err, kvstore.ErrFenced)
				return false, err.Error()
			}
			return true, ""
		})
	}
}
