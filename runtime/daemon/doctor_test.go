package daemon

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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

// well is a checkup that finds nothing: n1 holds k, n2 wants it.
func well() *checkup {
	made := time.Unix(1000, 0)
	c := &checkup{now: time.Unix(2000, 0), fence: 1_500}
	c.in.Bucket, c.in.Exists, c.in.Created = kvstore.SyncBucket, true, made
	c.in.FirstSeq, c.in.LastSeq = 1_000, 2_000
	c.in.ReplicasWanted, c.in.ReplicasActual, c.in.ReplicasOnline = 3, 3, 3
	c.in.Entries = []kvstore.Entry{{Key: "k", Value: []byte(`{"holder":"n1/daemon","generation":1500,"ttl_ms":20000}`), Rev: 1_900, Created: c.now.Add(-time.Second)}}
	answer := func(process string, view LeaseView) ProcessLocks {
		view.Key, view.TTLMS = "k", 20_000
		return ProcessLocks{Process: process, Locks: []LeaseView{view}, SyncSequence: 2_000, SyncCreated: made, SyncAlways: true}
	}
	c.answers = []ProcessLocks{answer("n1/daemon", LeaseView{Held: true, Generation: 1_500}), answer("n2/daemon", LeaseView{})}
	return c
}

func TestDoctorNamesEachFaultAndWhatMendsIt(t *testing.T) {
	require.Empty(t, well().findings())
	type row struct {
		spoil   func(c *checkup)
		what    string
		mend    string
		rebuild bool
	}
	set := func(value string, age time.Duration) func(c *checkup) {
		return func(c *checkup) {
			c.in.Entries[0].Value, c.in.Entries[0].Created = []byte(value), c.now.Add(-age)
		}
	}
	for name, tc := range map[string]row{
		"cannot be looked at": {func(c *checkup) { c.err = errors.New("no leader") }, "cannot be looked at: no leader", mendAudit, false},
		"never made":          {func(c *checkup) { c.in.Exists, c.answers = false, nil }, "does not exist", "spinifex up", false},
		"gone":                {func(c *checkup) { c.in.Exists = false }, "n1/daemon had seen it at sequence 2000", mendRebuild, true},
		"a setting": {func(c *checkup) {
			c.in.Differences = []natskv.Difference{{Setting: "deny_purge", Have: "false", Want: "true"}}
		}, "deny_purge is false, want true", mendOpen, false},
		"a fixed setting": {func(c *checkup) {
			c.in.Differences = []natskv.Difference{{Setting: "max_age", Have: "1h", Want: "0s", Fixed: true}}
		}, "vanish with their age", mendRebuild, true},
		"too few replicas": {func(c *checkup) { c.in.ReplicasActual, c.in.ReplicasOnline = 1, 1 }, "1 replicas, the declared size asks for 3", mendDaemon, false},
		"replicas away":    {func(c *checkup) { c.in.ReplicasOnline, c.in.Away = 2, []string{"s3"} }, "2 of 3 replicas are online, start the NATS server of the others: s3", mendAudit, false},
		"first sequence":   {func(c *checkup) { c.in.FirstSeq = 0 }, "began at sequence 1", mendForce, false},
		"sequence remembered": {func(c *checkup) { c.answers[1].SyncSequence = 2_001 },
			"its last sequence is 2000, n2/daemon had seen 2001", mendRebuild, true},
		"a later stream remembered": {func(c *checkup) { c.answers[1].SyncCreated = c.in.Created.Add(time.Hour) }, "n2/daemon had seen one of", mendRebuild, true},
		"refused":                   {func(c *checkup) { c.answers[0].SyncRegressed = "it is short" }, "n1/daemon refuses it, it is short", mendRebuild, true},
		"made anew too low": {func(c *checkup) {
			c.in.Created = c.in.Created.Add(time.Minute)
			c.answers[0].SyncRegressed = "it was made anew"
		}, "made anew at sequence 1000, n1/daemon had seen 2000", mendRebuild, true},
		"a fence above": {func(c *checkup) { c.fence = 2_001 }, "a bucket is fenced at generation 2001", mendRebuild, true},
		"undecodable": {set("?", 0), "k holds what is no record",
			"spinifex locks break k --generation 1900 --reason TEXT", false},
		"silent holder": {func(c *checkup) { c.answers = c.answers[1:] }, "held by n1/daemon, which does not answer", "spinifex locks show k", false},
		"silent owner of a claim": {set(`{"holder":"n3/daemon","generation":7}`, time.Hour), "claimed by n3/daemon, which does not answer",
			"spinifex locks break k --generation 7 --reason TEXT", false},
		"lapsed and unwanted": {func(c *checkup) {
			set(`{"holder":"n3/daemon","generation":7,"ttl_ms":20000}`, time.Hour)(c)
			c.answers = []ProcessLocks{{Process: "n4/awsgw", SyncAlways: true}}
		}, "nobody wants it", "spinifex locks break k --generation 7 --reason TEXT", false},
		"disowned": {func(c *checkup) {
			c.answers[0].Locks[0] = LeaseView{Key: "k", TTLMS: 20_000}
			c.in.Entries[0].Created = c.now.Add(-5 * time.Second)
		}, "answers that it does not hold it", "spinifex locks show k", false},
		"no leader": {func(c *checkup) {
			c.in.Entries = nil
			c.answers[0].Locks[0] = LeaseView{Key: "k", TTLMS: 20_000, WithoutLeaderMS: 21_000}
			c.answers[1].Locks[0].WithoutLeaderMS = 90_000
		}, "k has had no leader for 21s", "spinifex locks watch k", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := well()
			tc.spoil(c)
			found := c.findings()
			require.Len(t, found, 1, "%+v", found)
			assert.True(t, found[0].Fault)
			assert.Contains(t, found[0].What, tc.what)
			assert.Equal(t, tc.mend, found[0].Mend)
			assert.Equal(t, tc.rebuild, found[0].rebuild)
		})
	}
}

func TestDoctorIsSilentAboutWhatIsInOrder(t *testing.T) {
	for name, change := range map[string]func(c *checkup){
		"a member of a group": func(c *checkup) { c.answers[0].Locks = nil },
		"freed a moment ago":  func(c *checkup) { c.answers[0].Locks[0].Held = false },
		"free for less than T": func(c *checkup) {
			c.in.Entries = nil
			c.answers = c.answers[1:]
			c.answers[0].Locks[0].WithoutLeaderMS = 19_000
		},
		"somebody sees the leader":   func(c *checkup) { c.answers[1].Locks[0].WithoutLeaderMS = 90_000 },
		"rebuilt and not looked yet": func(c *checkup) { c.in.Created = c.in.Created.Add(time.Hour) },
		"a claim of one who answers": func(c *checkup) {
			c.in.Entries[0].Value = []byte(`{"holder":"n2/daemon","generation":3}`)
			c.answers[1].Locks = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := well()
			change(c)
			assert.Empty(t, c.findings())
		})
	}
	c := well()
	for i := range c.answers {
		c.answers[i].SyncAlways = false
	}
	found := c.findings()
	require.Len(t, found, 1)
	assert.False(t, found[0].Fault, "no client can know")
}

func TestDoctorAndRebuildOfACloud(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		srv, _, js := testkit.StartTestJetStream(t)
		b := book(t, srv)
		found, err := b.Doctor(t.Context(), clustersize.Size{})
		require.NoError(t, err)
		require.Len(t, found, 1)
		assert.Contains(t, found[0].What, "does not exist")

		n1, n2 := startPeer(t, srv, "n1", true), startPeer(t, srv, "n2", true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{}, 2)
		for _, p := range []*peer{n1, n2} {
			go func() { kvsync.RunElection(ctx, p.locks.dns, nil, nil); ended <- struct{}{} }()
		}
		leader := func() (tok kvsync.Token, held int) {
			for _, p := range []*peer{n1, n2} {
				if now, ok := p.locks.dns.Token(); ok {
					tok, held = now, held+1
				}
			}
			return tok, held
		}
		time.Sleep(time.Minute)
		found, err = b.Doctor(t.Context(), clustersize.Size{})
		require.NoError(t, err)
		require.Len(t, found, 1, "%+v", found)
		assert.False(t, found[0].Fault)
		before, held := leader()
		require.Equal(t, 1, held)
		_, err = b.Rebuild(t.Context(), RebuildOptions{TTL: time.Second})
		require.ErrorIs(t, err, ErrHealthy)

		const fence = 1 << 52
		_, err = kvstore.Open(js, "records").Fence(t.Context(), "dns.reconcile", kvsync.Token{Holder: "n3", Generation: fence})
		require.NoError(t, err)
		start := time.Now()
		done, err := b.Rebuild(t.Context(), RebuildOptions{TTL: time.Second}) // the fence above asks for it
		require.NoError(t, err)
		assert.EqualValues(t, fence+1, done.FirstSequence)
		assert.Equal(t, []string{"dns.reconcile"}, done.Leases)
		assert.Empty(t, done.Claims)
		assert.GreaterOrEqual(t, time.Since(start), 20*time.Second, "who is cut off has stopped believing")

		time.Sleep(time.Minute)
		synctest.Wait()
		after, held := leader()
		require.Equal(t, 1, held, "acquired again without a restart")
		assert.Greater(t, after.Generation, before.Generation)
		assert.Greater(t, after.Generation, uint64(fence))
		found, err = b.Doctor(t.Context(), clustersize.Size{})
		require.NoError(t, err)
		require.Len(t, found, 1, "%+v", found)
		assert.False(t, found[0].Fault)
		cancel()
		<-ended
		<-ended
		n1.stop()
		n2.stop()
	})
}

func TestRebuildDoesNotGoBelowWhatSomebodyMadeMeanwhile(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		srv, _, js := testkit.StartTestJetStream(t)
		_, err := kvstore.OpenSyncBucket(js).CompareAndSwap(t.Context(), "claimed", []byte(`{"holder":"n1/daemon"}`), 0)
		require.NoError(t, err)
		done, err := book(t, srv).Rebuild(t.Context(), RebuildOptions{TTL: time.Minute, Force: true, Wait: func(time.Duration) {
			_, err := kvstore.OpenSyncBucket(js).KV(t.Context()) // a daemon that starts
			require.NoError(t, err)
		}})
		require.ErrorIs(t, err, jetstream.ErrStreamNameAlreadyInUse)
		require.ErrorContains(t, err, "run it again")
		assert.Equal(t, []string{"claimed"}, done.Claims)
	})
}

func TestRebuildThatCannotSucceedDeletesNothing(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		srv, _, js := testkit.StartTestJetStream(t)
		_, err := kvstore.OpenSyncBucket(js).KV(t.Context())
		require.NoError(t, err)
		_, err = kvstore.Open(js, "records").Fence(t.Context(), "k", kvsync.Token{Holder: "n1", Generation: 1 << 60})
		require.NoError(t, err)
		_, err = book(t, srv).Rebuild(t.Context(), RebuildOptions{TTL: time.Minute})
		require.ErrorContains(t, err, "highest allowed")
		_, err = js.Stream(t.Context(), "KV_"+kvstore.SyncBucket)
		require.NoError(t, err)
	})
}
