package locks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/cloud"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// shortTTL is the shortest time to live that a configuration may have.
const shortTTL = 3 * time.Second

// leaseKeys are the elections of a daemon.
func leaseKeys() []string { return []string{"dns.reconcile", "route53.realize", "route53.verify"} }

// generations are the daemon's leases with their generations, without those that nobody answers for.
func generations(node *cloud.Node) map[string]uint64 {
	out := map[string]uint64{}
	for _, lease := range node.Leases() {
		if lease.Answered {
			out[lease.Key] = lease.Generation
		}
	}
	return out
}

// waitLeads waits until the node holds all its leases, with generations above floor.
func waitLeads(t *testing.T, node *cloud.Node, floor map[string]uint64) map[string]uint64 {
	t.Helper()
	var have map[string]uint64
	testkit.Eventually(t, time.Minute, func() (bool, string) {
		have = generations(node)
		for _, key := range leaseKeys() {
			if have[key] <= floor[key] {
				return false, fmt.Sprintf("%s is at %d, want more than %d", key, have[key], floor[key])
			}
		}
		return true, ""
	})
	return have
}

// TestAStoreThatWentBackInTimeIsRefusedAndRebuilt brings a NATS server up on an older copy of its data, with
// a daemon that has seen more and is not restarted.
func TestAStoreThatWentBackInTimeIsRefusedAndRebuilt(t *testing.T) {
	t.Parallel()
	nats := startServers(t, 1)[0]
	node := cloud.Start(t, cloud.Options{Binary: binary, NATS: nats.url(), TTL: shortTTL.String()})
	js := connect(t, nats)
	lease := kvsync.NewLease(kvstore.OpenSyncBucket(js), "e2e.lock", "test/e2e", shortTTL)
	waitLeads(t, node, nil)

	nats.kill()
	older := filepath.Join(t.TempDir(), "older")
	require.NoError(t, os.CopyFS(older, os.DirFS(nats.dir)))
	nats.start()
	before := waitLeads(t, node, nil)
	tok, err := lease.Lock(t.Context())
	require.NoError(t, err)
	deposed, err := kvstore.Open(js, "e2e-records").Fence(t.Context(), lease.Key(), tok)
	require.NoError(t, err)
	_, err = deposed.Put(t.Context(), "record", []byte("1"))
	require.NoError(t, err)
	lost := lease.Lost()

	nats.kill()
	require.NoError(t, os.RemoveAll(nats.dir))
	require.NoError(t, os.CopyFS(nats.dir, os.DirFS(older)))
	nats.start()
	<-lost
	testkit.Eventually(t, time.Minute, func() (bool, string) {
		r := node.Spinifex("locks", "doctor")
		return r.Status == 1 && strings.Contains(r.Stdout, "the store has regressed") &&
			strings.Contains(r.Stdout, "spinifex locks rebuild --yes"), r.Stdout + r.Stderr
	})
	// Nothing is granted, however long the old records go unrenewed.
	testkit.Eventually(t, 10*shortTTL, func() (bool, string) {
		held := generations(node)
		return len(held) == 0 && strings.Contains(node.Output(), "kvsync: store regressed"), fmt.Sprint(held)
	})
	for end := time.Now().Add(2 * shortTTL); time.Now().Before(end); {
		require.Empty(t, generations(node)) // half a second each
		_, err := lease.TryLock(t.Context())
		require.ErrorIs(t, err, kvsync.ErrStoreRegressed)
	}

	r := node.Spinifex("locks", "rebuild", "--yes")
	require.Equal(t, 0, r.Status, r.Stderr)
	after := waitLeads(t, node, before)
	t.Logf("generations before %v, after %v", before, after)
	newer, err := lease.Lock(t.Context())
	require.NoError(t, err)
	assert.Greater(t, newer.Generation, tok.Generation)

	// A handle that is new to this store, as a process that starts has.
	records := kvstore.Open(connect(t, nats), "e2e-records")
	_, err = records.Fence(t.Context(), lease.Key(), newer)
	require.NoError(t, err)
	_, err = records.Fence(t.Context(), lease.Key(), tok)
	require.ErrorIs(t, err, kvstore.ErrFenced)
	_, err = deposed.Put(t.Context(), "record", []byte("2"))
	require.Error(t, err)
	assert.True(t, errors.Is(err, kvstore.ErrFenced) || errors.Is(err, kvsync.ErrStoreRegressed), err)
	testkit.Eventually(t, time.Minute, func() (bool, string) {
		r := node.Spinifex("locks", "doctor")
		// The test's own lease is held by no daemon.
		return strings.Count(r.Stdout, "fault:") == 1 && strings.Contains(r.Stdout, "e2e.lock is held by test/e2e"), r.Stdout + r.Stderr
	})
}
