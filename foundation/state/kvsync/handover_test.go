package kvsync_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
)

// candidates are two that campaign, the first leading.
type candidates struct {
	t      *testing.T
	client *kvsynctest.Client // of a
	a, b   *kvsync.Lease
	stop   func()

	mu   sync.Mutex
	did  []string
	gone chan struct{} // what a's work waits for after its context has ended
}

func startCandidates(t *testing.T) *candidates {
	t.Helper()
	_, client, _, a, b := two(t)
	c := &candidates{t: t, client: client, a: a, b: b, gone: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	c.stop = func() { cancel(); wg.Wait() }
	wg.Go(func() {
		kvsync.RunElection(ctx, a, func(term context.Context) error {
			c.note("a works")
			<-term.Done()
			<-c.gone
			c.note("a has stopped")
			return nil
		}, func() { c.note("a stops") })
	})
	synctest.Wait()
	wg.Go(func() {
		kvsync.RunElection(ctx, b, func(context.Context) error { c.note("b works"); return nil }, nil)
	})
	synctest.Wait()
	return c
}

func (c *candidates) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did = append(c.did, what)
}

func (c *candidates) notes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.did...)
}

func TestHandOverStopsTheWorkAndThenTransfers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCandidates(t)
		before, _ := c.a.Token()
		start := time.Now()
		handed := make(chan error, 1)
		go func() { handed <- c.a.HandOver(t.Context(), "b/daemon") }()
		synctest.Wait()
		assert.Equal(t, []string{"a works", "a stops"}, c.notes())
		assert.True(t, c.a.Held(), "the key is kept while work is under way")
		time.Sleep(time.Second)
		require.False(t, c.b.Held())
		close(c.gone)
		require.NoError(t, <-handed)
		synctest.Wait()
		time.Sleep(eps)
		after, held := c.b.Token()
		require.True(t, held, "confirmed at once, not after T")
		assert.Greater(t, after.Generation, before.Generation)
		assert.Less(t, time.Since(start), 2*time.Second)
		assert.Equal(t, []string{"a works", "a stops", "a has stopped", "b works"}, c.notes())
		require.ErrorIs(t, c.a.HandOver(t.Context(), "b/daemon"), kvsync.ErrNotLeading)
		require.Error(t, c.b.HandOver(t.Context(), ""))
		require.Error(t, c.b.HandOver(t.Context(), "b/daemon"))
		// And back: who handed over campaigns on.
		require.NoError(t, c.b.HandOver(t.Context(), "a/daemon"))
		synctest.Wait()
		time.Sleep(eps)
		assert.True(t, c.a.Held())
		c.stop()
	})
}

func TestHandOverOfWorkThatDoesNotStopLetsTheKeyLapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCandidates(t)
		handed := make(chan error, 1)
		go func() { handed <- c.a.HandOver(t.Context(), "b/daemon") }()
		time.Sleep(ttl - valid + eps)
		synctest.Wait()
		assert.False(t, c.a.Held())
		close(c.gone)
		require.ErrorIs(t, <-handed, kvsync.ErrLost)
		time.Sleep(ttl + eps)
		assert.True(t, c.b.Held())
		c.stop()
	})
}

func TestHandOverToNobodyAndWithoutAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCandidates(t)
		close(c.gone)
		require.NoError(t, c.a.HandOver(t.Context(), "c/daemon"))
		time.Sleep(ttl + eps)
		synctest.Wait()
		assert.True(t, c.a.Held() != c.b.Held(), "who does not come lets it lapse")
		c.stop()
	})
	synctest.Test(t, func(t *testing.T) {
		c := startCandidates(t)
		close(c.gone)
		c.client.SetFault(all(kvsynctest.Fate{Err: kvsync.ErrUnavailable}))
		require.ErrorIs(t, c.a.HandOver(t.Context(), "b/daemon"), kvsync.ErrUnavailable)
		assert.False(t, c.a.Held(), "the leadership has ended all the same")
		c.client.SetFault(nil)
		time.Sleep(2*ttl + eps)
		synctest.Wait()
		assert.True(t, c.a.Held() != c.b.Held())
		c.stop()
	})
}
