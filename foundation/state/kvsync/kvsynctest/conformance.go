package kvsynctest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// Conformance checks what kvsync needs of a store. open returns a handle on one empty store; it is
// called once for each subtest.
func Conformance(t *testing.T, open func(t *testing.T) kvsync.KVStore) {
	t.Helper()
	cases := map[string]func(*testing.T, kvsync.KVStore){
		"absent key":                    absentKey,
		"create, swap, delete":          createSwapDelete,
		"revisions grow across deletes": growingRevisions,
		"one winner of a race":          oneWinner,
		"a value is the caller's own":   ownValue,
		"watch":                         watchKey,
	}
	for name, check := range cases {
		t.Run(name, func(t *testing.T) { check(t, open(t)) })
	}
}

func absentKey(t *testing.T, s kvsync.KVStore) {
	_, _, err := s.Load(t.Context(), "a.b")
	require.ErrorIs(t, err, kvsync.ErrNotFound)
	_, err = s.CompareAndSwap(t.Context(), "a.b", []byte("x"), 7)
	require.ErrorIs(t, err, kvsync.ErrRevisionMismatch)
	err = s.CompareAndDelete(t.Context(), "a.b", 7)
	require.Error(t, err)
	require.NotErrorIs(t, err, kvsync.ErrUnavailable)
}

func createSwapDelete(t *testing.T, s kvsync.KVStore) {
	ctx := t.Context()
	var r1, r2 uint64
	inTheEnd(t, func() (err error) { r1, err = s.CompareAndSwap(ctx, "k", []byte("one"), 0); return err })
	_, err := s.CompareAndSwap(ctx, "k", []byte("two"), 0)
	require.ErrorIs(t, err, kvsync.ErrRevisionMismatch)
	inTheEnd(t, func() (err error) { r2, err = s.CompareAndSwap(ctx, "k", []byte("two"), r1); return err })
	require.Greater(t, r2, r1)
	_, err = s.CompareAndSwap(ctx, "k", []byte("three"), r1)
	require.ErrorIs(t, err, kvsync.ErrRevisionMismatch)
	require.ErrorIs(t, s.CompareAndDelete(ctx, "k", r1), kvsync.ErrRevisionMismatch)
	v, rev, err := s.Load(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, "two", string(v))
	require.Equal(t, r2, rev)
	inTheEnd(t, func() error { return s.CompareAndDelete(ctx, "k", r2) })
	_, _, err = s.Load(ctx, "k")
	require.ErrorIs(t, err, kvsync.ErrNotFound)
}

func growingRevisions(t *testing.T, s kvsync.KVStore) {
	var last uint64
	for range 5 {
		var rev uint64
		inTheEnd(t, func() (err error) {
			rev, err = s.CompareAndSwap(t.Context(), "k", []byte("v"), 0)
			return err
		})
		require.Greater(t, rev, last)
		last = rev
		inTheEnd(t, func() error { return s.CompareAndDelete(t.Context(), "k", rev) })
	}
}

// inTheEnd makes a write at the right revision, which a replicated store may refuse for a moment while
// the one before is still being applied.
func inTheEnd(t *testing.T, write func() error) {
	t.Helper()
	const tries = 200
	var err error
	for range tries {
		if err = write(); !errors.Is(err, kvsync.ErrRevisionMismatch) {
			break
		}
	}
	require.NoError(t, err)
}

func oneWinner(t *testing.T, s kvsync.KVStore) {
	const racers = 16
	var wins atomic.Int32
	var wg sync.WaitGroup
	for range racers {
		wg.Go(func() {
			if _, err := s.CompareAndSwap(t.Context(), "k", []byte("v"), 0); err == nil {
				wins.Add(1)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int32(1), wins.Load())
}

func ownValue(t *testing.T, s kvsync.KVStore) {
	b := []byte("before")
	_, err := s.CompareAndSwap(t.Context(), "k", b, 0)
	require.NoError(t, err)
	copy(b, "AFTER!")
	v, _, err := s.Load(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "before", string(v))
	copy(v, "AFTER!")
	v, _, err = s.Load(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "before", string(v))
}

func watchKey(t *testing.T, s kvsync.KVStore) {
	w, ok := s.(kvsync.Watcher)
	if !ok {
		return // optional
	}
	ctx := t.Context()
	rev, err := s.CompareAndSwap(ctx, "p.a", []byte("1"), 0)
	require.NoError(t, err)
	updates, err := w.Watch(ctx, "p.")
	require.NoError(t, err)
	u := <-updates
	require.Equal(t, kvsync.Update{Key: "p.a", Value: []byte("1"), Rev: rev}, u)
	_, err = s.CompareAndSwap(ctx, "q.a", []byte("other"), 0)
	require.NoError(t, err)
	inTheEnd(t, func() error { return s.CompareAndDelete(ctx, "p.a", rev) })
	u = <-updates
	require.True(t, u.Deleted)
	require.Equal(t, "p.a", u.Key)
	require.Greater(t, u.Rev, rev)
}
