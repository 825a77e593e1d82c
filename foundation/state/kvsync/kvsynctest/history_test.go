package kvsynctest_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
)

// exercise has clients read, write and delete two keys at random.
func exercise(t *testing.T, fault func(*rand.Rand, kvsynctest.Request) kvsynctest.Fate) *kvsynctest.History {
	var h kvsynctest.History
	synctest.Test(t, func(t *testing.T) {
		srv := kvsynctest.NewServer()
		var wg sync.WaitGroup
		for i := range 3 {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			c := srv.Client("inc")
			c.SetTimeout(10 * time.Millisecond)
			c.SetFault(func(r kvsynctest.Request) kvsynctest.Fate { return fault(rng, r) })
			s := h.Record(i, c)
			wg.Go(func() {
				for range 60 {
					key := []string{"a", "b"}[rng.IntN(2)]
					value, rev, err := s.Load(t.Context(), key)
					switch {
					case err != nil && !errors.Is(err, kvsync.ErrNotFound):
					case err == nil && rng.IntN(4) == 0:
						_ = s.CompareAndDelete(t.Context(), key, rev)
					default:
						_, _ = s.CompareAndSwap(t.Context(), key, append(value[:min(len(value), 8)], byte('a'+rng.IntN(26))), rev)
					}
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute)
	})
	return &h
}

func TestHistoryOfTheFaultStoreIsLinearizable(t *testing.T) {
	h := exercise(t, func(rng *rand.Rand, _ kvsynctest.Request) kvsynctest.Fate {
		f := kvsynctest.Fate{Delay: time.Duration(rng.IntN(1e6)), Reply: time.Duration(rng.IntN(1e6))}
		switch rng.IntN(20) {
		case 0:
			f.Unanswered = true
		case 1:
			f.Late = time.Duration(rng.IntN(3e7))
		case 2:
			f.Lost = true
		}
		return f
	})
	calls, unknowns := h.Len()
	require.Greater(t, calls, 200)
	require.Positive(t, unknowns)
	require.NoError(t, h.Check(time.Minute))
}

func TestHistoryShowsAStaleRead(t *testing.T) {
	h := exercise(t, func(rng *rand.Rand, r kvsynctest.Request) kvsynctest.Fate {
		return kvsynctest.Fate{
			Delay: time.Duration(rng.IntN(1e6)), Reply: time.Duration(rng.IntN(1e6)),
			Stale: r.Kind == kvsynctest.Load && rng.IntN(10) == 0,
		}
	})
	require.ErrorContains(t, h.Check(time.Minute), "no order")
}

func TestHistoryShowsARefusalOfNoCause(t *testing.T) {
	fault := func(rng *rand.Rand, r kvsynctest.Request) kvsynctest.Fate {
		if r.Kind == kvsynctest.Swap && rng.IntN(10) == 0 {
			return kvsynctest.Fate{Err: kvsync.ErrRevisionMismatch}
		}
		return kvsynctest.Fate{Delay: time.Duration(rng.IntN(1e6)), Reply: time.Duration(rng.IntN(1e6))}
	}
	h := exercise(t, fault)
	require.Error(t, h.Check(time.Minute))
	h.LooseRefusals = true
	require.NoError(t, h.Check(time.Minute))
}
