package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestTimeWithoutALeader(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		srv, _, _ := testkit.StartTestJetStream(t)
		bucket := kvstore.OpenSyncBucket(inProcess(t, srv).JetStream())
		lease := kvsync.NewLease(bucket, "k", "n1/daemon", 20*time.Second)
		other := kvsync.NewLease(kvstore.OpenSyncBucket(inProcess(t, srv).JetStream()), "k", "n2/daemon", 20*time.Second)
		w := newLeaderWatch(bucket, []*kvsync.Lease{lease})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.run(ctx) }()

		time.Sleep(3 * time.Second)
		assert.Equal(t, 3*time.Second, w.without(lease), "nobody has ever had it")
		tok, err := other.TryLock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.Zero(t, w.without(lease), "another process has it")
		other.Unlock(t.Context(), tok)
		time.Sleep(5 * time.Second)
		assert.Equal(t, 5*time.Second, w.without(lease).Round(time.Millisecond))

		tok, err = lease.TryLock(t.Context())
		require.NoError(t, err)
		assert.Zero(t, w.without(lease))
		lease.Unlock(t.Context(), tok)
		synctest.Wait()

		// A record that nobody renews keeps others away until it lapses.
		require.NoError(t, write(t, bucket, `{"holder":"n3/daemon","ttl_ms":4000}`))
		time.Sleep(10 * time.Second)
		assert.Equal(t, 6*time.Second, w.without(lease).Round(time.Millisecond))
		entry, err := bucket.Get(t.Context(), "k")
		require.NoError(t, err)
		_, err = bucket.CompareAndSwap(t.Context(), "k", []byte(`{"holder":"n3/daemon"}`), entry.Rev)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.Zero(t, w.without(lease), "a claim does not lapse")
		cancel()
		<-ended
	})
}

func write(t *testing.T, bucket *kvstore.Bucket, value string) error {
	t.Helper()
	_, err := bucket.CompareAndSwap(t.Context(), "k", []byte(value), 0)
	return err
}
