package kvsync_test

import (
	"testing"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
)

// BenchmarkTryLockUnlock is the library's own cost: the store is in memory.
func BenchmarkTryLockUnlock(b *testing.B) {
	l := kvsync.NewLease(kvsynctest.NewServer().Client("p"), "k", "h", ttl)
	b.ReportAllocs()
	for b.Loop() {
		tok, err := l.TryLock(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		l.Unlock(b.Context(), tok)
	}
}

// BenchmarkHeld is what a loop pays that asks before every step.
func BenchmarkHeld(b *testing.B) {
	l := kvsync.NewLease(kvsynctest.NewServer().Client("p"), "k", "h", ttl)
	tok, err := l.TryLock(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer l.Unlock(b.Context(), tok)
	b.ReportAllocs()
	for b.Loop() {
		if !l.Held() {
			b.Fatal("lost")
		}
	}
}
