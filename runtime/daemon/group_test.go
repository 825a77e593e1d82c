package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func testGroup(t *testing.T) (*group, *lines) {
	var log lines
	return newGroup(t.Context(), log.logger(), nil), &log
}

func TestGroupStopsItsLoopsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log lines
		g := newGroup(ctx, log.logger(), nil)
		causes := make(chan error, 2)
		for range 2 {
			g.run("x", func(ctx context.Context) error {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				time.Sleep(time.Second) // winding down
				return nil
			})
		}
		cancel()
		synctest.Wait()
		assert.Empty(t, causes, "the end of the start's context is not the end of the loops")
		start := time.Now()
		require.NoError(t, g.stop(t.Context()))
		assert.Equal(t, time.Second, time.Since(start))
		assert.Equal(t, errStopping, <-causes)
		assert.Equal(t, errStopping, <-causes)
		assert.Empty(t, log.String())
	})
}

func TestGroupNamesTheLoopsThatDoNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := testGroup(t)
		finish := make(chan struct{})
		g.run("good", func(ctx context.Context) error { <-ctx.Done(); return nil })
		g.run("stuck", func(context.Context) error { <-finish; return nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := g.stop(ctx)
		require.ErrorContains(t, err, "still running: stuck:")
		close(finish)
		require.NoError(t, g.stop(t.Context()))
	})
}

func TestGroupStartReturnsTheFirstFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, log := testGroup(t)
		boom := errors.New("address in use")
		var calls atomic.Int64
		err := g.start(t.Context(), "gateway", make(chan struct{}), func(context.Context) error { calls.Add(1); return boom })
		require.ErrorIs(t, err, boom)
		time.Sleep(time.Hour)
		assert.Equal(t, int64(1), calls.Load(), "the start fails, it is not repaired")
		assert.Empty(t, log.String(), "returned, so not logged")
		require.NoError(t, g.stop(t.Context()))
	})
}

func TestGroupStartReturnsWhenReadyAndRepairsFromThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, log := testGroup(t)
		ready := make(chan struct{})
		var calls atomic.Int64
		require.NoError(t, g.start(t.Context(), "gateway", ready, func(ctx context.Context) error {
			if calls.Add(1) == 1 {
				close(ready)
				time.Sleep(time.Second)
				return errors.New("broke")
			}
			<-ctx.Done()
			return nil
		}))
		time.Sleep(time.Minute)
		assert.Equal(t, int64(2), calls.Load())
		assert.Equal(t, 1, log.count("level=ERROR", "loop=gateway", "broke"))
		require.NoError(t, g.stop(t.Context()))
	})
}

func TestGroupStartIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := testGroup(t)
		slow := errors.New("not done within 1s")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, slow)
		defer cancel()
		err := g.start(ctx, "gateway", make(chan struct{}), func(ctx context.Context) error { <-ctx.Done(); return nil })
		require.ErrorIs(t, err, slow)
		require.NoError(t, g.stop(t.Context()))
	})
}
