package locks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// streamLeader returns the index of the server that leads the bucket of the locks; ready says that all its
// replicas are up to date.
func streamLeader(ctx context.Context, js jetstream.JetStream, servers []*natsServer) (leader int, ready bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, "KV_"+kvstore.SyncBucket)
	if err != nil {
		return -1, false, err
	}
	info := stream.CachedInfo()
	if info.Cluster == nil || info.Cluster.Leader == "" {
		return -1, false, nil
	}
	leader = slices.IndexFunc(servers, func(s *natsServer) bool { return s.name == info.Cluster.Leader })
	current := 0
	for _, peer := range info.Cluster.Replicas {
		if peer.Current && !peer.Offline {
			current++
		}
	}
	return leader, current == len(servers)-1, nil
}

// TestLeasesOutliveTheLeadersOfTheirStream holds 50 leases at the default time to live and kills the server
// that leads their stream, again and again.
func TestLeasesOutliveTheLeadersOfTheirStream(t *testing.T) {
	t.Parallel()
	const leases, ttl = 50, 20 * time.Second
	servers := startServers(t, 3)
	js := connect(t, servers...)
	size, err := clustersize.Declare(3)
	require.NoError(t, err)
	bucket := kvstore.OpenSyncBucket(js, kvstore.WithSize(size))
	testkit.Eventually(t, time.Minute, func() (bool, string) {
		_, err := bucket.KV(t.Context())
		return err == nil, fmt.Sprint(err)
	})
	var losses atomic.Int32
	var held sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(held.Wait)
	t.Cleanup(cancel)
	all := make([]*kvsync.Lease, leases)
	for i := range all {
		all[i] = kvsync.NewLease(bucket, fmt.Sprintf("e2e.k%d", i), "test/e2e", ttl)
		tok, err := all[i].Lock(ctx)
		require.NoError(t, err)
		lost := all[i].Lost()
		held.Go(func() {
			select {
			case <-lost:
				losses.Add(1)
			case <-ctx.Done():
				all[i].Unlock(context.WithoutCancel(ctx), tok)
			}
		})
	}
	least := ttl
	for range *kills {
		leader := -1
		testkit.Eventually(t, 2*time.Minute, func() (bool, string) {
			at, ready, err := streamLeader(t.Context(), js, servers)
			leader = at
			return err == nil && ready && at >= 0, fmt.Sprint(at, ready, err)
		})
		killed := time.Now()
		servers[leader].kill()
		testkit.Eventually(t, 2*time.Minute, func() (bool, string) {
			for _, l := range all {
				least = min(least, l.ValidFor())
			}
			at, _, err := streamLeader(t.Context(), js, servers)
			return err == nil && at >= 0 && at != leader, fmt.Sprint(at, err)
		})
		t.Logf("another server leads %.1f s after the kill", time.Since(killed).Seconds())
		servers[leader].start()
	}
	for _, l := range all {
		least = min(least, l.ValidFor())
	}
	t.Logf("%d kills, %d leases at %v, %d lost, least validity seen %.1f s", *kills, leases, ttl, losses.Load(), least.Seconds())
	require.Zero(t, losses.Load())
}

// TestAKilledHolderIsReplacedAfterItsTimeToLive kills the processes that hold leases, all at once.
func TestAKilledHolderIsReplacedAfterItsTimeToLive(t *testing.T) {
	t.Parallel()
	const ttl = shortTTL
	nats := startServers(t, 1)[0]
	bucket := kvstore.OpenSyncBucket(connect(t, nats))
	takeOvers := make(chan time.Duration, *holders)
	for i := range *holders {
		key := fmt.Sprintf("e2e.k%d", i)
		p, generation := startHolder(t, nats.url(), key, fmt.Sprintf("e2e-records-%d", i), ttl)
		contender := kvsync.NewLease(bucket, key, "test/e2e", ttl)
		acquired := make(chan time.Time, 1)
		go func() {
			tok, err := contender.Lock(t.Context())
			acquired <- time.Now()
			assert.NoError(t, err)
			assert.Greater(t, tok.Generation, generation)
			contender.Unlock(context.WithoutCancel(t.Context()), tok)
		}()
		// The contender has seen the record and waits; each holder is at another point of its interval.
		seen, cancel := context.WithTimeout(t.Context(), ttl/6*time.Duration(i%6+1)/6+ttl/6)
		<-seen.Done()
		cancel()
		killed := time.Now()
		require.NoError(t, p.Kill())
		go func() { takeOvers <- (<-acquired).Sub(killed) }()
	}
	var times []time.Duration
	for range *holders {
		times = append(times, (<-takeOvers).Round(time.Millisecond))
	}
	slices.Sort(times)
	within := 0
	for _, d := range times {
		if d <= ttl+500*time.Millisecond {
			within++
		}
	}
	t.Logf("T = %v, R = %v: take-overs after %v; %d of %d within T-R and T+0.5 s", ttl, ttl/6, times, within, len(times))
	assert.GreaterOrEqual(t, times[0], ttl-ttl/6, "before the holder's validity and the contender's T were over")
	assert.LessOrEqual(t, times[len(times)/2], ttl+500*time.Millisecond)
	assert.LessOrEqual(t, times[len(times)-1], ttl*4/3+500*time.Millisecond, "the bound without a watch")
}

// TestAStoppedHolderKnowsAtOnceThatItHasLost stops a holder for twice its time to live.
func TestAStoppedHolderKnowsAtOnceThatItHasLost(t *testing.T) {
	t.Parallel()
	const ttl = shortTTL
	nats := startServers(t, 1)[0]
	js := connect(t, nats)
	p, generation := startHolder(t, nats.url(), "e2e.stopped", "e2e-guarded", ttl)
	stopped := time.Now()
	require.NoError(t, p.Signal(syscall.SIGSTOP))
	contender := kvsync.NewLease(kvstore.OpenSyncBucket(js), "e2e.stopped", "test/e2e", ttl)
	tok, err := contender.Lock(t.Context())
	require.NoError(t, err)
	require.Greater(t, tok.Generation, generation)
	guarded := kvstore.Open(js, "e2e-guarded")
	fence, err := guarded.Fence(t.Context(), contender.Key(), tok)
	require.NoError(t, err)
	_, err = fence.Put(t.Context(), "last", []byte("test/e2e"))
	require.NoError(t, err)
	testkit.Eventually(t, 4*ttl, func() (bool, string) {
		return time.Since(stopped) >= 2*ttl, "waiting for twice T"
	})
	require.NoError(t, p.Signal(syscall.SIGCONT))
	testkit.Eventually(t, 30*time.Second, func() (bool, string) {
		return strings.Count(p.Output(), "\n") >= 3, p.Output()
	})
	t.Logf("after %v: %q", time.Since(stopped).Round(time.Millisecond), strings.Split(p.Output(), "\n"))
	assert.Contains(t, p.Output(), "woke held=false\n")
	assert.Contains(t, p.Output(), "write "+kvstore.ErrFenced.Error())
	entry, err := guarded.Get(t.Context(), "last")
	require.NoError(t, err)
	assert.Equal(t, "test/e2e", string(entry.Value))
	contender.Unlock(t.Context(), tok)
}
