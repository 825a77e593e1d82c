package daemon

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/testkit"
	"github.com/mulgadc/spinifex/runtime/node"
)

// allRoles are the roles that this release has.
var allRoles = []node.Role{node.RoleNATS, node.RoleDaemon, node.RoleDNS, node.RoleAWSGW}

func TestEveryRoleAtOnceBuildsItsLeasesWithoutACollision(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, _, js := testkit.StartTestJetStream(t)
		locks := newDaemonLocks(kvstore.OpenSyncBucket(js), "n1", allRoles, 20*time.Second)
		var keys []string
		for _, lease := range locks.all() {
			keys = append(keys, lease.Key())
			assert.Equal(t, 20*time.Second, lease.TTL())
		}
		assert.Equal(t, []string{"dns.reconcile", "route53.realize", "route53.verify"}, keys)

		assert.Empty(t, newDaemonLocks(kvstore.OpenSyncBucket(js), "n1", []node.Role{node.RoleAWSGW, node.RoleDNS}, time.Second).all())
		assert.Panics(t, func() {
			store := kvstore.OpenSyncBucket(js)
			newDaemonLocks(store, "n1", allRoles, time.Second)
			newDaemonLocks(store, "n1", allRoles, time.Second)
		}, "one process, one bucket, one set of leases")
	})
}

// peer is a process that has the leases of a node.
type peer struct {
	locks *daemonLocks
	stop  func()
}

func startPeer(t *testing.T, srv *server.Server, name string, answers bool) *peer {
	t.Helper()
	conn := inProcess(t, srv)
	bucket := kvstore.OpenSyncBucket(conn.JetStream())
	p := &peer{locks: newDaemonLocks(bucket, name, allRoles, 20*time.Second)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if answers {
			answers := lockAnswers{process: name + "/daemon", incarnation: bucket.Incarnation(), leases: p.locks.all(), sync: bucket}
			_ = answers.run(ctx, conn)
		}
	}()
	p.stop = func() { cancel(); <-ended; p.locks.release(context.WithoutCancel(ctx), slog.New(slog.DiscardHandler)) }
	return p
}

func book(t *testing.T, srv *server.Server) *LockBook { return NewLockBook(inProcess(t, srv)) }

func TestLocksAreListedWithWhatTheirHoldersSay(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		srv, _, _ := testkit.StartTestJetStream(t)
		_, err := book(t, srv).List(t.Context())
		require.ErrorIs(t, err, ErrNoLocks, "looking does not make the bucket")

		n1, n2 := startPeer(t, srv, "n1", true), startPeer(t, srv, "n2", true)
		silent := startPeer(t, srv, "n3", false)
		tok1, err := n1.locks.dns.TryLock(t.Context())
		require.NoError(t, err)
		tok2, err := n2.locks.route53Realize.TryLock(t.Context())
		require.NoError(t, err)
		tok3, err := silent.locks.route53Verify.TryLock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)

		list, err := book(t, srv).List(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 3)
		held := new((time.Second).Milliseconds())
		validity := (20*time.Second*2/3 - time.Second).Milliseconds()
		ttl := (20 * time.Second).Milliseconds()
		age := (1500 * time.Millisecond).Milliseconds() // answers were waited for
		assert.Equal(t, Lock{
			Key: "dns.reconcile", Holder: "n1/daemon", Generation: tok1.Generation, AgeMS: held, RenewedMS: age, TTLMS: ttl,
			Answered: true, ValidForMS: validity, Contenders: []string{"n2/daemon"},
		}, list[0])
		assert.Equal(t, Lock{
			Key: "route53.realize", Holder: "n2/daemon", Generation: tok2.Generation, AgeMS: held, RenewedMS: age, TTLMS: ttl,
			Answered: true, ValidForMS: validity, Contenders: []string{"n1/daemon"},
		}, list[1])
		assert.Equal(t, Lock{
			Key: "route53.verify", Holder: "n3/daemon", Generation: tok3.Generation, AgeMS: &age, RenewedMS: age, TTLMS: ttl,
			Contenders: []string{"n1/daemon", "n2/daemon"},
		}, list[2], "nobody answers for it")

		one, err := book(t, srv).Show(t.Context(), "dns.reconcile")
		require.NoError(t, err)
		assert.Equal(t, tok1.Generation, one.Generation)
		assert.True(t, one.Answered)

		// Renewals are due every 3.3 s: the age is that of the acquisition all the same.
		time.Sleep(10 * time.Second)
		list, err = book(t, srv).List(t.Context())
		require.NoError(t, err)
		assert.Greater(t, *list[0].AgeMS, int64(10_000))
		assert.Less(t, list[0].RenewedMS, int64(4_000))
		assert.Nil(t, list[2].AgeMS, "nobody answers for it, and its record was renewed since")
		_, err = book(t, srv).Show(t.Context(), "absent")
		require.ErrorIs(t, err, kvstore.ErrNotFound)
		n1.stop()
		n2.stop()
		silent.stop()
	})
}

func TestBreakNeedsTheGenerationAndIsSeen(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		srv, _, _ := testkit.StartTestJetStream(t)
		n1 := startPeer(t, srv, "n1", true)
		tok, err := n1.locks.dns.TryLock(t.Context())
		require.NoError(t, err)
		lost := n1.locks.dns.Lost()

		b := book(t, srv)
		ctx, cancel := context.WithCancel(t.Context())
		changes, err := b.Watch(ctx, "")
		require.NoError(t, err)
		assert.Equal(t, kvsync.Change{Key: "dns.reconcile", Token: tok, Why: kvsync.WhyAcquired}, <-changes)
		require.ErrorIs(t, b.Break(t.Context(), "dns.reconcile", tok.Generation+1, "test"), kvsync.ErrRevisionMismatch)
		require.NoError(t, b.Break(t.Context(), "dns.reconcile", tok.Generation, "test"))
		// The reason is gone with the record when the watch comes to it late.
		assert.Contains(t, []kvsync.Why{kvsync.WhyBroken, kvsync.WhyReleased}, (<-changes).Why)
		cancel()
		for range changes {
		}
		<-lost
		require.ErrorIs(t, b.Break(t.Context(), "dns.reconcile", tok.Generation, "test"), kvstore.ErrNotFound)
		n1.stop()
	})
}

func TestUnreadableRecordAndForeignAnswers(t *testing.T) {
	entry := kvstore.Entry{Key: "k", Value: []byte("garbage"), Rev: 7}
	lock := newLock(entry, []ProcessLocks{{Process: "n1/daemon", Locks: []LeaseView{{Key: "k"}, {Key: "other", Held: true}}}}, time.Now())
	assert.True(t, lock.Undecodable)
	assert.Equal(t, uint64(7), lock.Generation)
	assert.Equal(t, []string{"n1/daemon"}, lock.Contenders)

	entry.Value = []byte(`{"holder":"n1/daemon","generation":3}`)
	lock = newLock(entry, []ProcessLocks{{Process: "n1/daemon", Locks: []LeaseView{{Key: "k", Held: true, Generation: 2}}}}, time.Now())
	assert.False(t, lock.Answered, "the holder speaks of an older acquisition")

	testkit.Bubble(t, func(t *testing.T) {
		srv, _, _ := testkit.StartTestJetStream(t)
		conn := inProcess(t, srv)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- conn.AnswerSurveys(ctx, locksSubject, func() ([]byte, error) { return []byte("?"), nil })
		}()
		synctest.Wait()
		answers, err := askLocks(t.Context(), inProcess(t, srv))
		require.NoError(t, err)
		assert.Empty(t, answers)
		cancel()
		<-ended
	})
}
