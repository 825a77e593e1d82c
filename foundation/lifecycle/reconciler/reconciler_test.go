package reconciler_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mulgadc/spinifex/foundation/lifecycle/reconciler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

// trace notes when each pass started, counted from the start of the test.
type trace struct {
	start  time.Time
	passes []time.Duration
}

// script runs a Reconciler for limit; pass number n (from 0) does what step(n) says.
func script(t *testing.T, limit time.Duration, opts reconciler.Options, step func(ctx context.Context, n int) (reconciler.Result, error)) (*trace, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	opts.Name = "x"
	tr := &trace{start: time.Now()}
	err := reconciler.New(opts, func(ctx context.Context) (reconciler.Result, error) {
		tr.passes = append(tr.passes, time.Since(tr.start))
		if step == nil {
			return reconciler.Result{}, nil
		}
		return step(ctx, len(tr.passes)-1)
	}).Run(ctx)
	return tr, err
}

const (
	sec = time.Second
	ms  = time.Millisecond
)

func TestResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := script(t, 25*sec, reconciler.Options{Resync: 10 * sec}, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, []time.Duration{0, 10 * sec, 20 * sec}, tr.passes)
	})
}

func TestRevisitIsBoundedByResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		revisits := []time.Duration{3 * sec, time.Hour, 0, 0}
		tr, err := script(t, 25*sec, reconciler.Options{Resync: 10 * sec}, func(_ context.Context, n int) (reconciler.Result, error) {
			return reconciler.Result{Revisit: revisits[n]}, nil
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, []time.Duration{0, 3 * sec, 13 * sec, 23 * sec}, tr.passes)
	})
}

func TestWakesAreDebouncedAndCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake, woken := reconciler.NewWake()
		go func() {
			time.Sleep(5 * sec)
			for range 5 { // 5.0 .. 5.4 s: within the window of the first
				wake()
				wake()
				time.Sleep(100 * ms)
			}
			time.Sleep(500 * ms)
			wake() // 6.0 s
		}()
		tr, err := script(t, 20*sec, reconciler.Options{Wake: woken, Debounce: 500 * ms, Resync: time.Minute}, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, []time.Duration{0, 5500 * ms, 6500 * ms}, tr.passes)
	})
}

func TestConstantWakesDoNotStarveThePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake, woken := reconciler.NewWake()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(10 * ms)
				wake()
			}
		})
		tr, _ := script(t, 2*sec, reconciler.Options{Wake: woken, Debounce: 500 * ms, Resync: time.Minute}, nil)
		cancel()
		wg.Wait()
		assert.Len(t, tr.passes, 4)
	})
}

func TestWakesDuringAPassAreOneMorePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := make(chan struct{}) // a sender that blocks must not be held up by a pass either
		go func() {
			for range 3 {
				time.Sleep(sec)
				woken <- struct{}{}
			}
		}()
		tr, _ := script(t, time.Minute, reconciler.Options{Wake: woken, Resync: time.Hour}, func(context.Context, int) (reconciler.Result, error) {
			time.Sleep(10 * sec)
			return reconciler.Result{}, nil
		})
		assert.Equal(t, []time.Duration{0, 10 * sec}, tr.passes)
	})
}

func TestClosedWakeLeavesTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := make(chan struct{})
		close(woken)
		var out bytes.Buffer
		tr, _ := script(t, 25*sec, reconciler.Options{Wake: woken, Resync: 10 * sec, Log: slog.New(slog.NewTextHandler(&out, nil))}, nil)
		assert.Equal(t, []time.Duration{0, 10 * sec, 20 * sec}, tr.passes)
		assert.Contains(t, out.String(), "wake channel closed")
	})
}

func TestFailuresBackOffAndSuccessStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var observed []error
		opts := reconciler.Options{
			MinBackoff: sec, MaxBackoff: 4 * sec, Resync: 10 * sec,
			Observe: func(_ reconciler.Result, err error, took time.Duration) {
				assert.Equal(t, 100*ms, took)
				observed = append(observed, err)
			},
		}
		tr, _ := script(t, 30*sec, opts, func(_ context.Context, n int) (reconciler.Result, error) {
			time.Sleep(100 * ms)
			if n == 4 {
				return reconciler.Result{}, nil
			}
			return reconciler.Result{}, errBoom
		})
		want := []time.Duration{0, 1100 * ms, 3200 * ms, 7300 * ms, 11400 * ms, 21500 * ms, 22600 * ms, 24700 * ms, 28800 * ms}
		assert.Equal(t, want, tr.passes)
		require.Len(t, observed, len(want))
		assert.ErrorIs(t, observed[0], errBoom)
		assert.NoError(t, observed[4])
	})
}

func TestWakeShortensABackoffButNotBelowItsMinimum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake, woken := reconciler.NewWake()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(3*sec + 500*ms)
			for ctx.Err() == nil {
				wake()
				time.Sleep(10 * ms)
			}
		})
		opts := reconciler.Options{Wake: woken, MinBackoff: 2 * sec, MaxBackoff: time.Minute, Resync: time.Hour}
		tr, _ := script(t, 9*sec, opts, func(context.Context, int) (reconciler.Result, error) { return reconciler.Result{}, errBoom })
		cancel()
		wg.Wait()
		assert.Equal(t, []time.Duration{0, 2 * sec, 4 * sec, 6 * sec, 8 * sec}, tr.passes)
	})
}

func TestTerminalErrorEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := script(t, time.Hour, reconciler.Options{}, func(_ context.Context, n int) (reconciler.Result, error) {
			if n == 1 {
				return reconciler.Result{}, reconciler.Terminal(errBoom)
			}
			return reconciler.Result{Revisit: sec}, nil
		})
		require.ErrorIs(t, err, errBoom)
		assert.True(t, reconciler.IsTerminal(err))
		assert.ErrorContains(t, err, "loop x")
		assert.Equal(t, []time.Duration{0, sec}, tr.passes)
	})
	require.NoError(t, reconciler.Terminal(nil))
	assert.False(t, reconciler.IsTerminal(errBoom))
}

func TestPassTimeoutEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		tr, err := script(t, time.Hour, reconciler.Options{PassTimeout: 5 * sec}, func(ctx context.Context, _ int) (reconciler.Result, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return reconciler.Result{}, ctx.Err()
		})
		require.ErrorIs(t, err, reconciler.ErrPassTimeout)
		require.ErrorIs(t, cause, reconciler.ErrPassTimeout)
		assert.Equal(t, 5*sec, time.Since(tr.start))
	})
}

func TestPassThatDoesNotStopIsWaitedForAndNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		opts := reconciler.Options{PassTimeout: 5 * sec, Log: slog.New(slog.NewTextHandler(&out, nil))}
		tr, err := script(t, time.Hour, opts, func(context.Context, int) (reconciler.Result, error) {
			time.Sleep(30 * sec)
			return reconciler.Result{}, nil
		})
		require.ErrorIs(t, err, reconciler.ErrPassTimeout)
		assert.Equal(t, 30*sec, time.Since(tr.start))
		assert.Contains(t, out.String(), "pass does not stop")
	})
}

func TestPanicIsAFailedPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		opts := reconciler.Options{MinBackoff: sec, Log: slog.New(slog.NewTextHandler(&out, nil))}
		tr, _ := script(t, 2500*ms, opts, func(context.Context, int) (reconciler.Result, error) { panic("kaboom") })
		assert.Equal(t, []time.Duration{0, sec}, tr.passes)
		assert.Contains(t, out.String(), "kaboom")
		assert.Contains(t, out.String(), "reconciler_test.go")
	})
}

func TestStopWaitsForThePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		opts := reconciler.Options{Log: slog.New(slog.NewTextHandler(&out, nil))}
		tr, err := script(t, 3*sec, opts, func(ctx context.Context, _ int) (reconciler.Result, error) {
			<-ctx.Done()
			time.Sleep(2 * sec)
			return reconciler.Result{}, ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 5*sec, time.Since(tr.start))
		assert.Empty(t, out.String(), "a pass that ends because the loop stops is no fault")
	})
}

func TestInvalidOptions(t *testing.T) {
	pass := func(context.Context) (reconciler.Result, error) { return reconciler.Result{}, nil }
	require.ErrorContains(t, reconciler.New(reconciler.Options{}, pass).Run(t.Context()), "no name")
	err := reconciler.New(reconciler.Options{Name: "x", Debounce: -1}, pass).Run(t.Context())
	require.ErrorContains(t, err, "negative")
}
