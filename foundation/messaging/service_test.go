package messaging

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestStopFinishesWhatWasTaken(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		op := echoOperation("Slow", true, func(ctx context.Context, _ *aws.Call, in *echoIn) (*echoOut, error) {
			select {
			case <-time.After(10 * time.Second):
				return &echoOut{Text: in.Text}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
		stop := b.serve(t, ServiceOptions{}, op)
		answers := make(chan error, 1)
		go func() {
			out, err := b.call(t, op, "r1", "finished")
			if err == nil {
				assert.Equal(t, "finished", out.Text)
			}
			answers <- err
		}()
		synctest.Wait()
		begin := time.Now()
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		synctest.Wait()

		_, err := b.call(t, op, "r2", "")
		require.ErrorIs(t, err, ErrNoResponder, "a service that stops takes nothing more")
		require.NoError(t, <-answers)
		require.NoError(t, <-stopped)
		assert.Equal(t, 10*time.Second, time.Since(begin).Round(time.Second))
	})
}

func TestStopIsBounded(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		cause := make(chan error, 1)
		polite := echoOperation("Polite", true, func(ctx context.Context, _ *aws.Call, _ *echoIn) (*echoOut, error) {
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil, ctx.Err()
		})
		release := make(chan struct{})
		deaf := echoOperation("Deaf", true, func(context.Context, *aws.Call, *echoIn) (*echoOut, error) {
			<-release
			return &echoOut{}, nil
		})
		stop := b.serve(t, ServiceOptions{DrainTimeout: 3 * time.Second}, polite, deaf)
		var calls sync.WaitGroup
		calls.Go(func() {
			_, err := b.call(t, polite, "r1", "")
			assert.Equal(t, "The call was ended before it was done; it may have been carried out in part.", visibleOf(t, err).Message)
		})
		calls.Go(func() { _, _ = b.call(t, deaf, "r2", "") })
		synctest.Wait()
		begin := time.Now()
		require.NoError(t, stop())
		assert.LessOrEqual(t, time.Since(begin), 5*time.Second)
		require.ErrorIs(t, <-cause, errStopping)
		close(release)
		calls.Wait()
	})
}

func TestAMessageThatComesAfterTheStopIsRefused(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		op := echoOperation("Say", true, echo)
		service, err := NewService(b.conn, []aws.Operation{op}, b.verifier, ServiceOptions{})
		require.NoError(t, err)
		service.stopped = true
		sub, err := micro.AddService(b.conn, micro.Config{Name: "x", Version: "1.0.0", Endpoint: &micro.EndpointConfig{
			Subject: Subject("echo", "Say"),
			Handler: micro.HandlerFunc(func(req micro.Request) { service.take(t.Context(), op, req) }),
		}})
		require.NoError(t, err)
		flush(t, b.conn)
		defer func() { _ = sub.Stop(); time.Sleep(time.Second) }() // as in serve
		_, err = b.call(t, op, "r1", "")
		require.ErrorIs(t, err, ErrNoResponder, "nothing was carried out")
		assert.Equal(t, "The daemon is stopping.", visibleOf(t, err).Message)
	})
}

func TestConcurrencyIsBounded(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		var running, most, done atomic.Int32
		op := echoOperation("Slow", true, func(context.Context, *aws.Call, *echoIn) (*echoOut, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(8 * time.Second)
			return &echoOut{}, nil
		})
		b.serve(t, ServiceOptions{MaxConcurrent: 2, MaxQueued: 3}, op)
		var calls sync.WaitGroup
		var refused atomic.Int32
		for i := range 8 {
			calls.Go(func() {
				_, err := b.call(t, op, "r"+strconv.Itoa(i), "")
				if err == nil {
					done.Add(1)
				} else if assert.ErrorIs(t, err, ErrNoResponder) {
					refused.Add(1)
					assert.Equal(t, "The daemon has too many calls to carry out, try again.", visibleOf(t, err).Message)
				}
			})
		}
		calls.Wait()
		assert.EqualValues(t, 2, most.Load())
		assert.EqualValues(t, 5, done.Load(), "those that wait for a handler give signs of life, too")
		assert.EqualValues(t, 3, refused.Load())
	})
}

func TestOneDaemonOfManyGetsACall(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		var ran atomic.Int32
		op := echoOperation("Say", true, func(ctx context.Context, call *aws.Call, in *echoIn) (*echoOut, error) {
			ran.Add(1)
			return echo(ctx, call, in)
		})
		for range 3 {
			b.serve(t, ServiceOptions{}, op)
		}
		for i := range 30 {
			_, err := b.call(t, op, "r"+strconv.Itoa(i), "")
			require.NoError(t, err)
		}
		assert.EqualValues(t, 30, ran.Load())
	})
}

func TestServicesAreDiscovered(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		b.serve(t, ServiceOptions{Version: "1.2.3"}, echoOperation("Say", true, echo), echoOperation("Sing", false, echo))
		reply, err := b.conn.RequestWithContext(t.Context(), "$SRV.INFO.aws-echo", nil)
		require.NoError(t, err)
		var info micro.Info
		require.NoError(t, json.Unmarshal(reply.Data, &info))
		assert.Equal(t, "1.2.3", info.Version)
		require.Len(t, info.Endpoints, 2)
		assert.Equal(t, "aws.echo.Say", info.Endpoints[0].Subject)
		assert.Equal(t, queueGroup, info.Endpoints[0].QueueGroup)
	})
}

func TestRunEndsWithItsConnection(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		conn := testkit.Connect(t, b.srv)
		service := func() *Service {
			s, err := NewService(conn, []aws.Operation{echoOperation("Say", true, echo)}, b.verifier, ServiceOptions{})
			require.NoError(t, err)
			return s
		}
		ended, running := make(chan error, 1), service()
		go func() { ended <- running.Run(t.Context()) }()
		synctest.Wait()
		conn.Close()
		require.ErrorIs(t, <-ended, nats.ErrConnectionClosed)
		require.ErrorIs(t, service().Run(t.Context()), nats.ErrConnectionClosed)
	})
}

func TestNewServiceRefusesBadTables(t *testing.T) {
	good := echoOperation("Say", true, echo)
	for name, ops := range map[string][]aws.Operation{
		"twice":      {good, good},
		"no name":    {echoOperation("", true, echo)},
		"a wildcard": {echoOperation("Say.*", true, echo)},
		"no handler": {{Service: "echo", Name: "Say", NewInput: func() any { return nil }}},
	} {
		_, err := NewService(nil, ops, nil, ServiceOptions{})
		assert.Error(t, err, name)
	}
	_, err := NewService(nil, nil, nil, ServiceOptions{MaxConcurrent: -1})
	require.Error(t, err)
	for _, opts := range []ClientOptions{{Timeout: -1}, {Timeout: time.Hour}, {Silence: time.Second}, {RetryPause: -1}} {
		_, err := NewClient(nil, nil, opts)
		assert.Error(t, err, "%+v", opts)
	}
}
