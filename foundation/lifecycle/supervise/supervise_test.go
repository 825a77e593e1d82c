package supervise_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mulgadc/spinifex/foundation/lifecycle/supervise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

func TestRestartsWithDoublingBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		start := time.Now()
		var at []time.Duration
		var reported []error
		opts := supervise.Options{
			Name: "x", MinBackoff: time.Second, MaxBackoff: 4 * time.Second,
			OnRestart: func(name string, err error) {
				assert.Equal(t, "x", name)
				reported = append(reported, err)
			},
		}
		stop := errors.New("stop")
		err := supervise.Run(ctx, opts, func(context.Context) error {
			at = append(at, time.Since(start))
			if len(at) == 6 {
				cancel(stop)
			}
			return errBoom
		})
		require.ErrorIs(t, err, stop)
		assert.Equal(t, []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 11 * time.Second, 15 * time.Second}, at)
		assert.Len(t, reported, 5, "the sixth fault came after the stop")
		for _, err := range reported {
			assert.ErrorIs(t, err, errBoom)
		}
	})
}

func TestBackoffStartsAnewAfterALongRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var ended []time.Time
		var gaps []time.Duration
		runs := []time.Duration{0, 0, 0, 10 * time.Second, 0}
		err := supervise.Run(ctx, supervise.Options{Name: "x", MinBackoff: time.Second, MaxBackoff: 10 * time.Second},
			func(ctx context.Context) error {
				n := len(ended)
				if n > 0 {
					gaps = append(gaps, time.Since(ended[n-1]))
				}
				if n == len(runs)-1 {
					cancel()
				}
				time.Sleep(runs[n])
				ended = append(ended, time.Now())
				return errBoom
			})
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, time.Second}, gaps)
	})
}

func TestFaultsThatAreNotErrorsRestartToo(t *testing.T) {
	cases := map[string]struct {
		fn    func()
		check func(t *testing.T, err error)
	}{
		"return": {func() {}, func(t *testing.T, err error) { assert.ErrorIs(t, err, supervise.ErrEnded) }},
		"panic": {func() { panic("kaboom") }, func(t *testing.T, err error) {
			p, ok := errors.AsType[*supervise.PanicError](err)
			require.True(t, ok)
			assert.Equal(t, "kaboom", p.Value)
			assert.Contains(t, string(p.Stack), "supervise_test.go")
		}},
		"panic with error": {func() { panic(errBoom) }, func(t *testing.T, err error) { assert.ErrorIs(t, err, errBoom) }},
		"goexit":           {runtime.Goexit, func(t *testing.T, err error) { assert.ErrorContains(t, err, "goroutine exited") }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var fault error
				runs := 0
				opts := supervise.Options{Name: "x", OnRestart: func(_ string, err error) { fault = err }}
				err := supervise.Run(ctx, opts, func(context.Context) error {
					if runs++; runs == 2 {
						cancel()
						return nil
					}
					tc.fn()
					return nil
				})
				require.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, 2, runs)
				tc.check(t, fault)
			})
		})
	}
}

func TestPanicIsLoggedWithItsStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		runs := 0
		opts := supervise.Options{Name: "zones", Log: slog.New(slog.NewTextHandler(&out, nil))}
		err := supervise.Run(ctx, opts, func(context.Context) error {
			if runs++; runs == 2 {
				cancel()
			}
			panic("kaboom")
		})
		require.ErrorIs(t, err, context.Canceled)
		assert.Contains(t, out.String(), "loop=zones")
		assert.Contains(t, out.String(), "panic: kaboom")
		assert.Contains(t, out.String(), "supervise_test.go")
		assert.Contains(t, out.String(), "loop panicked while stopping")
	})
}

func TestStopDuringBackoffAndDuringWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		err := supervise.Run(ctx, supervise.Options{Name: "x", MinBackoff: time.Minute, MaxBackoff: time.Minute},
			func(context.Context) error { return errBoom })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 3*time.Second, time.Since(start))
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		err := supervise.Run(ctx, supervise.Options{Name: "x"}, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second) // work winds down; Run waits for it
			return nil
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 4*time.Second, time.Since(start))
	})
}

func TestInvalidOptions(t *testing.T) {
	never := func(context.Context) error { t.Error("called"); return nil }
	require.ErrorContains(t, supervise.Run(t.Context(), supervise.Options{}, never), "no name")
	err := supervise.Run(t.Context(), supervise.Options{Name: "x", MinBackoff: 2, MaxBackoff: 1}, never)
	require.ErrorContains(t, err, "back-off")
}
