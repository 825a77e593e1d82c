package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/testkit"
)

const lease = "dns.reconcile"

func token(holder string, generation uint64) kvsync.Token {
	return kvsync.Token{Holder: holder, Generation: generation}
}

// two returns two handles on one bucket, as two nodes have them.
type two func(t *testing.T) (a, b *kvstore.Bucket)

func onOneServer(t *testing.T) (a, b *kvstore.Bucket) {
	srv, _, js := testkit.StartTestJetStream(t)
	other := testkit.NewJetStream(t, testkit.Connect(t, srv))
	return kvstore.Open(js, "b"), kvstore.Open(other, "b")
}

// fenceTests are the promises of a Fence, kept on one server and on three.
var fenceTests = map[string]func(*testing.T, two){
	"writes and deletes":                     fenceWritesAndDeletes,
	"a deposed writer is refused":            deposedWriterIsRefused,
	"every guarded write":                    everyGuardedWrite,
	"revisions beside the fence":             revisionsBesideTheFence,
	"one acquisition may fence again":        sameAcquisitionFencesAgain,
	"a batch is whole or not at all":         fencedBatch,
	"many guarded writes at once":            manyGuardedWrites,
	"two fences of one acquisition at once":  twoFencesAtOnce,
	"handlers and a leader share a key":      handlersAndLeaderShareAKey,
	"leaders follow each other under writes": leadersFollowEachOther,
}

func TestFence(t *testing.T) {
	for name, test := range fenceTests {
		t.Run(name, func(t *testing.T) { test(t, onOneServer) })
	}
}

func fenceWritesAndDeletes(t *testing.T, open two) {
	b, _ := open(t)
	ctx := t.Context()
	f, err := b.Fence(ctx, lease, token("a", 10))
	require.NoError(t, err)
	assert.EqualValues(t, 10, f.Generation())
	rev, err := f.Put(ctx, "k", []byte("1"))
	require.NoError(t, err)
	e, err := b.Get(ctx, "k")
	require.NoError(t, err)
	assert.Equal(t, rev, e.Rev)
	require.NoError(t, f.Delete(ctx, "k"))
	require.NoError(t, f.Delete(ctx, "never"))
	_, err = b.Get(ctx, "k")
	require.ErrorIs(t, err, kvstore.ErrNotFound)
	for e, err := range b.List(ctx, "") {
		require.NoError(t, err)
		t.Errorf("listed %s", e.Key)
	}
	kv, err := b.KV(ctx)
	require.NoError(t, err)
	stamp, err := kv.Get(ctx, "_fence."+lease)
	require.NoError(t, err)
	assert.Equal(t, "10", string(stamp.Value()))

	_, err = f.Put(ctx, "_fence.x", nil)
	require.ErrorIs(t, err, kvstore.ErrReserved)
	require.ErrorIs(t, f.Batch(ctx, []kvstore.Write{{Key: "_x"}}), kvstore.ErrReserved)
	_, err = f.Put(ctx, "bad key", nil)
	require.Error(t, err)
	_, err = b.Fence(ctx, lease, kvsync.Token{})
	require.ErrorContains(t, err, "names no acquisition")
	_, err = b.Fence(ctx, "bad key", token("a", 1))
	require.Error(t, err)
}

func deposedWriterIsRefused(t *testing.T, open two) {
	a, b := open(t)
	ctx := t.Context()
	old, err := a.Fence(ctx, lease, token("a", 10))
	require.NoError(t, err)
	_, err = old.Put(ctx, "k", []byte("old"))
	require.NoError(t, err)
	next, err := b.Fence(ctx, lease, token("b", 20))
	require.NoError(t, err)

	// The refusal must not depend on a write of the next leader.
	_, err = old.Put(ctx, "k", []byte("late"))
	require.ErrorIs(t, err, kvstore.ErrFenced)
	require.ErrorIs(t, err, kvsync.ErrLost)
	require.NotErrorIs(t, err, kvstore.ErrConflict)
	fenced, ok := errors.AsType[*kvstore.FencedError](err)
	require.True(t, ok)
	assert.Equal(t, kvstore.FencedError{Bucket: a.Name(), LeaseKey: lease, Mine: 10, Theirs: 20}, *fenced)
	assert.ErrorContains(t, err, "generation 10 refused, the bucket is fenced at 20")

	_, err = next.Put(ctx, "k", []byte("new"))
	require.NoError(t, err)
	again, err := a.Fence(ctx, lease, token("a", 10))
	require.ErrorIs(t, err, kvstore.ErrFenced)
	require.Nil(t, again)
	_, err = old.Put(ctx, "k", nil)
	require.ErrorIs(t, err, kvstore.ErrFenced, "once fenced, for good")
	e, err := b.Get(ctx, "k")
	require.NoError(t, err)
	assert.Equal(t, "new", string(e.Value))
	// Another lease is another fence.
	other, err := a.Fence(ctx, "route53.realize", token("a", 5))
	require.NoError(t, err)
	_, err = other.Put(ctx, "other", nil)
	require.NoError(t, err)
}

// everyGuardedWrite refuses each kind of write by the store, not by what the Fence remembers.
func everyGuardedWrite(t *testing.T, open two) {
	a, b := open(t)
	ctx := t.Context()
	writes := map[string]func(f *kvstore.Fence, rev uint64) error{
		"put":       func(f *kvstore.Fence, _ uint64) error { _, err := f.Put(ctx, "k", nil); return err },
		"delete":    func(f *kvstore.Fence, _ uint64) error { return f.Delete(ctx, "k") },
		"update":    func(f *kvstore.Fence, rev uint64) error { _, err := f.Update(ctx, "k", nil, rev); return err },
		"create":    func(f *kvstore.Fence, _ uint64) error { _, err := f.Update(ctx, "new", nil, 0); return err },
		"delete at": func(f *kvstore.Fence, rev uint64) error { return f.DeleteAt(ctx, "k", rev) },
		"batch":     func(f *kvstore.Fence, _ uint64) error { return f.Batch(ctx, []kvstore.Write{{Key: "k"}, {Key: "l"}}) },
	}
	generation := uint64(0)
	for name, write := range writes {
		generation += 2
		old, err := a.Fence(ctx, lease, token("a", generation))
		require.NoError(t, err)
		next, err := b.Fence(ctx, lease, token("b", generation+1))
		require.NoError(t, err)
		rev, err := next.Put(ctx, "k", []byte("new"))
		require.NoError(t, err)
		require.ErrorIs(t, write(old, rev), kvstore.ErrFenced, name)
		e, err := b.Get(ctx, "k")
		require.NoError(t, err, name)
		require.Equal(t, rev, e.Rev, name)
		_, err = b.Get(ctx, "new")
		require.ErrorIs(t, err, kvstore.ErrNotFound, name)
	}
}

func revisionsBesideTheFence(t *testing.T, open two) {
	a, b := open(t)
	ctx := t.Context()
	f, err := a.Fence(ctx, lease, token("a", 10))
	require.NoError(t, err)
	rev, err := f.Update(ctx, "k", []byte("1"), 0)
	require.NoError(t, err)
	_, err = f.Update(ctx, "k", []byte("x"), 0)
	require.ErrorIs(t, err, kvstore.ErrConflict)
	require.NotErrorIs(t, err, kvstore.ErrFenced)
	_, err = f.Update(ctx, "k", []byte("x"), rev+1000)
	require.ErrorIs(t, err, kvstore.ErrConflict)
	rev, err = f.Update(ctx, "k", []byte("2"), rev)
	require.NoError(t, err)
	e, err := b.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, rev, e.Rev)
	require.ErrorIs(t, f.DeleteAt(ctx, "k", rev-1), kvstore.ErrConflict)
	require.ErrorIs(t, f.DeleteAt(ctx, "k", 0), kvstore.ErrConflict)
	require.NoError(t, f.DeleteAt(ctx, "k", rev))
	_, err = f.Update(ctx, "k", []byte("3"), 0)
	require.NoError(t, err, "over its own marker")
	// Over a marker that another node wrote since the last look.
	require.NoError(t, f.Delete(ctx, "k"))
	require.NoError(t, b.Delete(ctx, "k"))
	_, err = f.Update(ctx, "k", []byte("4"), 0)
	require.NoError(t, err)
}

func sameAcquisitionFencesAgain(t *testing.T, open two) {
	a, b := open(t)
	ctx := t.Context()
	first, err := a.Fence(ctx, lease, token("a", 10))
	require.NoError(t, err)
	kv, err := a.KV(ctx)
	require.NoError(t, err)
	before, err := kv.Get(ctx, "_fence."+lease)
	require.NoError(t, err)
	second, err := b.Fence(ctx, lease, token("a", 10))
	require.NoError(t, err)
	after, err := kv.Get(ctx, "_fence."+lease)
	require.NoError(t, err)
	assert.Equal(t, before.Revision(), after.Revision(), "the stamp is taken as it is")
	_, err = second.Put(ctx, "k", nil)
	require.NoError(t, err)
	_, err = first.Put(ctx, "k", nil)
	require.NoError(t, err)
}

func fencedBatch(t *testing.T, open two) {
	a, b := open(t)
	ctx := t.Context()
	f, err := a.Fence(ctx, lease, token("a", 10))
	require.NoError(t, err)
	writes := make([]kvstore.Write, kvstore.MaxWrites)
	for i := range writes {
		writes[i] = kvstore.Write{Key: fmt.Sprintf("k.%03d", i), Value: []byte("1"), Expect: new(uint64)}
	}
	require.NoError(t, f.Batch(ctx, writes))
	n := 0
	revs := map[string]uint64{}
	for e, err := range b.List(ctx, "k.") {
		require.NoError(t, err)
		revs[e.Key] = e.Rev
		n++
	}
	require.Equal(t, kvstore.MaxWrites, n)
	require.ErrorIs(t, f.Batch(ctx, writes), kvstore.ErrConflict, "they exist")
	require.NoError(t, f.Batch(ctx, []kvstore.Write{
		{Key: "k.000", Delete: true, Expect: new(revs["k.000"])},
		{Key: "k.001", Value: []byte("2"), Expect: new(revs["k.001"])},
		{Key: "k.002", Value: []byte("2")},
	}))
	require.ErrorIs(t, f.Batch(ctx, []kvstore.Write{
		{Key: "k.003", Value: []byte("3")},
		{Key: "k.001", Value: []byte("3"), Expect: new(revs["k.001"])},
	}), kvstore.ErrConflict)
	e, err := b.Get(ctx, "k.003")
	require.NoError(t, err)
	require.Equal(t, "1", string(e.Value), "nothing of a refused batch lands")
	_, err = b.Get(ctx, "k.000")
	require.ErrorIs(t, err, kvstore.ErrNotFound)
	require.ErrorContains(t, f.Batch(ctx, nil), "0 writes")
	require.ErrorContains(t, f.Batch(ctx, make([]kvstore.Write, kvstore.MaxWrites+1)), "101 writes")
	require.ErrorContains(t, f.Batch(ctx, []kvstore.Write{{Key: "k.1"}, {Key: "k.1"}}), "twice")
}

func manyGuardedWrites(t *testing.T, open two) {
	a, _ := open(t)
	f, err := a.Fence(t.Context(), lease, token("a", 10))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			_, err := f.Put(t.Context(), fmt.Sprintf("k.%d", i%16), []byte("v"))
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.Put(ctx, "k", nil)
	require.ErrorIs(t, err, kvsync.ErrUnavailable)
}

func twoFencesAtOnce(t *testing.T, open two) {
	a, b := open(t)
	var wg sync.WaitGroup
	for _, bucket := range []*kvstore.Bucket{a, b} {
		f, err := bucket.Fence(t.Context(), lease, token("a", 10))
		require.NoError(t, err)
		for i := range 20 {
			wg.Go(func() {
				_, err := f.Put(t.Context(), fmt.Sprintf("k.%d", i), nil)
				assert.NoError(t, err)
			})
		}
	}
	wg.Wait()
}

func handlersAndLeaderShareAKey(t *testing.T, open two) {
	a, b := open(t)
	ctx := t.Context()
	_, err := a.Put(ctx, "n", []byte{0})
	require.NoError(t, err)
	f, err := a.Fence(ctx, lease, token("a", 10))
	require.NoError(t, err)
	const each = 15
	// add counts up by read and conditional write, again on a conflict.
	add := func(update func([]byte, uint64) (uint64, error)) {
		for done := 0; done < each; {
			e, err := b.Get(ctx, "n")
			if !assert.NoError(t, err) {
				return
			}
			_, err = update([]byte{e.Value[0] + 1}, e.Rev)
			if err == nil {
				done++
				continue
			}
			if !assert.ErrorIs(t, err, kvstore.ErrConflict) {
				return
			}
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		add(func(v []byte, rev uint64) (uint64, error) { return f.Update(ctx, "n", v, rev) })
	})
	wg.Go(func() {
		add(func(v []byte, rev uint64) (uint64, error) { return b.Update(ctx, "n", v, rev) })
	})
	wg.Wait()
	e, err := b.Get(ctx, "n")
	require.NoError(t, err)
	require.EqualValues(t, 2*each, e.Value[0])
}

// leadersFollowEachOther checks S4: after the first guarded write of a leader, no guarded write of
// an earlier one lands.
func leadersFollowEachOther(t *testing.T, open two) {
	a, b := open(t)
	ctx := t.Context()
	var mu sync.Mutex
	landed := map[uint64][]uint64{} // generation → revisions of its writes
	var wg sync.WaitGroup
	for gen := uint64(1); gen <= 6; gen++ {
		bucket := a
		if gen%2 == 0 {
			bucket = b
		}
		f, err := bucket.Fence(ctx, lease, token("x", gen))
		require.NoError(t, err)
		began := make(chan struct{})
		var once sync.Once
		wg.Go(func() {
			defer once.Do(func() { close(began) })
			for {
				rev, err := f.Put(ctx, "k", fmt.Append(nil, gen))
				if err != nil {
					assert.ErrorIs(t, err, kvstore.ErrFenced)
					return
				}
				mu.Lock()
				landed[gen] = append(landed[gen], rev)
				mu.Unlock()
				once.Do(func() { close(began) })
			}
		})
		<-began
	}
	last, err := a.Fence(ctx, lease, token("end", 99))
	require.NoError(t, err)
	wg.Wait()
	_, err = last.Put(ctx, "k", nil)
	require.NoError(t, err)
	for gen := uint64(2); gen <= 6; gen++ {
		for _, rev := range landed[gen-1] {
			require.Less(t, rev, landed[gen][0], "generation %d wrote after %d had begun", gen-1, gen)
		}
	}
}

func TestFenceRefusalIsLoggedWithBothGenerations(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	var log logBuffer
	b := kvstore.Open(js, "b", kvstore.WithLogger(log.logger()))
	f, err := b.Fence(t.Context(), lease, token("node-a/daemon", 10))
	require.NoError(t, err)
	_, err = b.Fence(t.Context(), lease, token("node-b/daemon", 20))
	require.NoError(t, err)
	_, err = f.Put(t.Context(), "k", nil)
	require.ErrorIs(t, err, kvstore.ErrFenced)
	assert.Contains(t, log.String(), "lease=dns.reconcile holder=node-a/daemon generation=10 fenced_generation=20")
}

func TestFenceThatIsNoNumberIsNotGuessed(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	b := kvstore.Open(js, "b")
	kv, err := b.KV(t.Context())
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), "_fence."+lease, []byte("?"))
	require.NoError(t, err)
	_, err = b.Fence(t.Context(), lease, token("a", 1))
	require.ErrorIs(t, err, kvstore.ErrUnfit)
}

// TestWriteThatArrivesLate sends a write into a connection that holds it back until the leader has
// given it up, reconnected and written again. The late one must not win.
func TestWriteThatArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, plain := testkit.StartTestJetStream(t)
		wire := &holder{provider: srv}
		conn := testkit.Connect(t, srv, nats.InProcessServer(wire))
		b := kvstore.Open(testkit.NewJetStream(t, conn), "b")
		f, err := b.Fence(t.Context(), lease, token("a", 10))
		require.NoError(t, err)
		_, err = f.Put(t.Context(), "k", []byte("first"))
		require.NoError(t, err)

		late := wire.hold()
		start := time.Now()
		_, err = f.Put(t.Context(), "k", []byte("late"))
		require.ErrorIs(t, err, kvsync.ErrUnknownOutcome)
		require.ErrorIs(t, err, kvsync.ErrUnavailable)
		require.Equal(t, 5*time.Second, time.Since(start))
		require.NoError(t, conn.ForceReconnect())
		synctest.Wait()
		time.Sleep(time.Second) // virtual: the connection is made anew
		_, err = f.Put(t.Context(), "k", []byte("second"))
		require.NoError(t, err)

		messages := lastSequence(t, plain)
		require.NoError(t, late.release())
		synctest.Wait()
		late.discard()
		e, err := b.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, "second", string(e.Value))
		require.Equal(t, messages, lastSequence(t, plain), "the server refused it")
	})
}

// TestWriteWhoseAnswerIsLost makes a compare-and-swap land whose answer never comes.
func TestWriteWhoseAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, _ := testkit.StartTestJetStream(t)
		wire := &holder{provider: srv}
		conn := testkit.Connect(t, srv, nats.InProcessServer(wire))
		b := kvstore.OpenSyncBucket(testkit.NewJetStream(t, conn))
		rev, err := b.CompareAndSwap(t.Context(), "k", []byte("1"), 0)
		require.NoError(t, err)
		held := wire.hold()
		_, err = b.CompareAndSwap(t.Context(), "k", []byte("2"), rev)
		require.ErrorIs(t, err, kvsync.ErrUnknownOutcome)
		require.NotErrorIs(t, err, kvsync.ErrRevisionMismatch)
		require.NoError(t, conn.ForceReconnect())
		time.Sleep(time.Second) // virtual
		require.NoError(t, held.release())
		synctest.Wait()
		held.discard()
		v, got, err := b.Load(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, "2", string(v))
		require.Greater(t, got, rev)
	})
}

func lastSequence(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), "KV_b")
	require.NoError(t, err)
	return stream.CachedInfo().State.LastSeq
}
