package kvsync_test

import (
	"context"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
)

// valueStore is a store that is no pointer.
type valueStore struct{ kvsync.KVStore }

func TestWiringErrorsPanic(t *testing.T) {
	store := func() kvsync.KVStore { return kvsynctest.NewServer().Client("i") }
	lease := func(s kvsync.KVStore, key string) { kvsync.NewLease(s, key, "h", ttl) }
	cases := map[string]func(){
		"nil store":         func() { lease(nil, "k") },
		"nil pointer":       func() { lease((*kvsynctest.Client)(nil), "k") },
		"empty holder":      func() { kvsync.NewLease(store(), "k", "", ttl) },
		"zero ttl":          func() { kvsync.NewLease(store(), "k", "h", 0) },
		"negative ttl":      func() { kvsync.NewLeaseGroup(store(), "k.", "h", -time.Second) },
		"empty key":         func() { lease(store(), "") },
		"space":             func() { lease(store(), "a b") },
		"wildcard":          func() { lease(store(), "a.*") },
		"leading dot":       func() { lease(store(), ".a") },
		"trailing dot":      func() { lease(store(), "a.") },
		"doubled dot":       func() { lease(store(), "a..b") },
		"reserved":          func() { lease(store(), "_version") },
		"reserved prefix":   func() { kvsync.NewLeaseGroup(store(), "_x.", "h", ttl) },
		"prefix sans dot":   func() { kvsync.NewClaimGroup(store(), "x", "h") },
		"only a dot":        func() { kvsync.NewClaimGroup(store(), ".", "h") },
		"twice":             func() { s := store(); lease(s, "k"); kvsync.NewClaim(s, "k", "h") },
		"under a prefix":    func() { s := store(); kvsync.NewClaimGroup(s, "p.", "h"); lease(s, "p.k") },
		"over a key":        func() { s := store(); lease(s, "p.k"); kvsync.NewLeaseGroup(s, "p.", "h", ttl) },
		"overlapping":       func() { s := store(); kvsync.NewClaimGroup(s, "p.q.", "h"); kvsync.NewClaimGroup(s, "p.", "h") },
		"same prefix":       func() { s := store(); kvsync.NewClaimGroup(s, "p.", "h"); kvsync.NewClaimGroup(s, "p.", "h") },
		"bad member name":   func() { kvsync.NewClaimGroup(store(), "p.", "h").Get("a..b") },
		"empty member name": func() { kvsync.NewLeaseGroup(store(), "p.", "h", ttl).Get("") },
		"value store twice": func() { s := valueStore{store()}; lease(s, "k"); lease(s, "k") },
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) { require.Panics(t, f) })
	}
	require.NotPanics(t, func() {
		s1, s2 := store(), store()
		lease(s1, "k")
		lease(s2, "k") // against another store value
		lease(s1, "p")
		kvsync.NewLeaseGroup(s1, "p.", "h", ttl)
		kvsync.NewLeaseGroup(s1, "pp.", "h", ttl)
		lease(s1, "eks.cluster.0001/blue=x")
	})
}

func TestRegistryDoesNotLeakStores(t *testing.T) {
	made := func() weak.Pointer[kvsynctest.Client] {
		s := kvsynctest.NewServer().Client("i")
		l := kvsync.NewLease(s, "k", "h", ttl)
		tok, err := l.TryLock(context.Background())
		require.NoError(t, err)
		l.Unlock(context.Background(), tok)
		return weak.Make(s)
	}
	p := made()
	for range 100 {
		runtime.GC()
		if p.Value() == nil {
			return
		}
		runtime.Gosched()
	}
	t.Fatal("the store is still referenced")
}
