package messaging

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/internal/testkit"
)

type echoIn struct{ Text string }

type echoOut struct {
	Text string
	Call aws.Call
}

type echoDetail struct{ Reasons []string }

// echoOperation makes an operation of the service "echo".
func echoOperation(name string, mutating bool, h func(context.Context, *aws.Call, *echoIn) (*echoOut, error)) aws.Operation {
	return aws.NewOperation("echo", name, mutating, nil, h)
}

func echo(_ context.Context, call *aws.Call, in *echoIn) (*echoOut, error) {
	return &echoOut{Text: in.Text, Call: *call}, nil
}

// bench is one server, a client and what they need; services run until the end of the test.
type bench struct {
	srv      *server.Server
	conn     *nats.Conn
	signer   *Signer
	verifier *Verifier
	client   *Client
	log      *testkit.Buffer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	srv, conn, _ := testkit.StartTestJetStream(t)
	b := &bench{srv: srv, conn: conn, log: &testkit.Buffer{}}
	b.signer, b.verifier = testIdentity(t)
	client, err := NewClient(testkit.Connect(t, srv), b.signer, ClientOptions{})
	require.NoError(t, err)
	b.client = client
	return b
}

// serve runs a Service on a connection of its own and returns how to stop it; the returned function
// waits for its end.
func (b *bench) serve(t *testing.T, opts ServiceOptions, ops ...aws.Operation) (stop func() error) {
	t.Helper()
	opts.Log = slog.New(slog.NewTextHandler(b.log, nil))
	conn := testkit.Connect(t, b.srv)
	service, err := NewService(conn, ops, b.verifier, opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	synctest.Wait() // the endpoints are subscribed
	flush(t, conn)
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		_ = stop()
		time.Sleep(time.Second) // nats.go looks every 100 ms whether a subscription has drained
	})
	return stop
}

func (b *bench) call(t *testing.T, op aws.Operation, id, text string) (*echoOut, error) {
	t.Helper()
	call := testCall(id)
	call.Deadline = time.Time{}
	out, err := b.client.Call(t.Context(), call, op, &echoIn{Text: text})
	if err != nil {
		_, ok := errors.AsType[*aws.Error](err)
		assert.True(t, ok, "every error is an *aws.Error: %v", err)
		return nil, err
	}
	return out.(*echoOut), nil
}

// flush waits until the server knows of every subscription.
func flush(t *testing.T, conn *nats.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.NoError(t, conn.FlushWithContext(ctx))
}

// visibleOf is what a client would see of an error.
func visibleOf(t *testing.T, err error) aws.Error {
	t.Helper()
	seen, ok := errors.AsType[*aws.Error](err)
	require.True(t, ok, "%v", err)
	return aws.Error{Code: seen.Code, Message: seen.Message, Status: seen.Status, Detail: seen.Detail}
}

func TestCallReachesTheHandlerAndBack(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		op := echoOperation("Say", true, echo)
		b.serve(t, ServiceOptions{}, op)
		out, err := b.call(t, op, "r1", "hello")
		require.NoError(t, err)
		assert.Equal(t, "hello", out.Text)
		want := testCall("r1")
		want.Deadline = out.Call.Deadline
		assert.Equal(t, *want, out.Call)
		assert.WithinDuration(t, time.Now().Add(30*time.Second), out.Call.Deadline, time.Second)
	})
}

func TestNearestDeadlineReachesTheHandler(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		var left time.Duration
		op := echoOperation("Say", true, func(ctx context.Context, _ *aws.Call, _ *echoIn) (*echoOut, error) {
			deadline, _ := ctx.Deadline()
			left = time.Until(deadline)
			return &echoOut{}, nil
		})
		b.serve(t, ServiceOptions{}, op)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := b.client.Call(ctx, testCall("r1"), op, &echoIn{})
		require.NoError(t, err)
		assert.InDelta(t, 3*time.Second, left, float64(10*time.Millisecond))
	})
}

func TestTraceContextIsCarried(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		var got trace.SpanContext
		op := echoOperation("Say", false, func(ctx context.Context, _ *aws.Call, _ *echoIn) (*echoOut, error) {
			got = trace.SpanContextFromContext(ctx)
			return &echoOut{}, nil
		})
		b.serve(t, ServiceOptions{}, op)
		ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier(testTrace()))
		_, err := b.client.Call(ctx, testCall("r1"), op, &echoIn{})
		require.NoError(t, err)
		assert.Equal(t, "0af7651916cd43dd8448eb211c80319c", got.TraceID().String())
		assert.Equal(t, "b", got.TraceState().Get("a"))
		assert.True(t, got.IsRemote())
	})
}

func TestErrorsOfHandlers(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		failing := func(err error) func(context.Context, *aws.Call, *echoIn) (*echoOut, error) {
			return func(context.Context, *aws.Call, *echoIn) (*echoOut, error) { return nil, err }
		}
		modelled := echoOperation("Modelled", true, failing(&aws.Error{
			Code: "NoSuchThing", Message: "There is none.", Status: 404, Detail: &echoDetail{Reasons: []string{"a", "b"}},
		}))
		caused := echoOperation("Caused", true, failing(aws.Errorf("Bad", "no").WithCause(errors.New("the secret cause"))))
		internal := echoOperation("Internal", true, failing(errors.New("disk 7 is on fire")))
		panicking := echoOperation("Panicking", true, func(context.Context, *aws.Call, *echoIn) (*echoOut, error) {
			var nothing *echoOut
			return &echoOut{Text: nothing.Text}, nil
		})
		b.serve(t, ServiceOptions{}, modelled, caused, internal, panicking)

		_, err := b.call(t, modelled, "r1", "")
		assert.Equal(t, aws.Error{
			Code: "NoSuchThing", Message: "There is none.", Status: 404, Detail: json.RawMessage(`{"Reasons":["a","b"]}`),
		}, visibleOf(t, err))

		_, err = b.call(t, caused, "r2", "")
		assert.Equal(t, "Bad: no", err.Error())

		for id, op := range map[string]aws.Operation{"r3": internal, "r4": panicking} {
			_, err = b.call(t, op, id, "")
			assert.Equal(t, aws.Error{
				Code: "InternalFailure", Status: 500, Message: "The request processing has failed because of an unknown error.",
			}, visibleOf(t, err))
		}
		log := b.log.String()
		assert.Equal(t, 1, strings.Count(log, "the secret cause"))
		assert.Equal(t, 1, strings.Count(log, "disk 7 is on fire"))
		assert.Equal(t, 1, strings.Count(log, "a handler panicked"))
		assert.Contains(t, log, "call_test.go", "the stack names the line")
		assert.Contains(t, log, "request_id=r4")
	})
}

func TestNobodyServesTheOperation(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		begin := time.Now()
		_, err := b.call(t, echoOperation("Say", true, echo), "r1", "")
		require.ErrorIs(t, err, ErrNoResponder)
		assert.Equal(t, aws.Error{
			Code: "ServiceUnavailable", Status: 503, Message: "No daemon of this cloud serves Say at the moment.",
		}, visibleOf(t, err))
		assert.Less(t, time.Since(begin), 50*time.Millisecond, "at once")
	})
}

func TestOnlyACallThatChangesNothingIsTriedAgain(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		reading, writing := echoOperation("Read", false, echo), echoOperation("Write", true, echo)
		service, err := NewService(testkit.Connect(t, b.srv), []aws.Operation{reading, writing}, b.verifier, ServiceOptions{})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			time.Sleep(50 * time.Millisecond) // the daemon comes up between the first try and the second
			ended <- service.Run(ctx)
		}()
		_, err = b.call(t, writing, "r1", "")
		require.ErrorIs(t, err, ErrNoResponder)
		out, err := b.call(t, reading, "r2", "again")
		require.NoError(t, err)
		assert.Equal(t, "again", out.Text)
		cancel()
		require.NoError(t, <-ended)
		time.Sleep(time.Second) // as in serve
	})
}

func TestSlowHandler(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		handled := make(chan error, 2)
		op := echoOperation("Slow", true, func(ctx context.Context, _ *aws.Call, in *echoIn) (*echoOut, error) {
			if in.Text == "just in time" {
				time.Sleep(29 * time.Second)
				return &echoOut{Text: "done"}, nil
			}
			<-ctx.Done()
			handled <- context.Cause(ctx)
			time.Sleep(time.Second) // the deadline is the caller's, too: an answer at once would race with it
			return nil, ctx.Err()
		})
		b.serve(t, ServiceOptions{}, op)
		out, err := b.call(t, op, "r1", "just in time")
		require.NoError(t, err, "signs of life keep the call waiting")
		assert.Equal(t, "done", out.Text)

		begin := time.Now()
		_, err = b.call(t, op, "r2", "too late")
		require.ErrorIs(t, err, ErrTimeout)
		assert.Equal(t, 30*time.Second, time.Since(begin).Round(time.Second))
		assert.Equal(t, aws.Error{
			Code: "ServiceUnavailable", Status: 503,
			Message: "The request was not carried out in time. It may have been carried out all the same.",
		}, visibleOf(t, err))
		assert.ErrorIs(t, <-handled, context.DeadlineExceeded)
	})
}

// dyingDaemon gives one sign of life for each call and then none, as a process that was killed.
func dyingDaemon(t *testing.T, b *bench, op aws.Operation) *atomic.Int32 {
	t.Helper()
	var got atomic.Int32
	conn := testkit.Connect(t, b.srv)
	_, err := conn.QueueSubscribe(Subject(op.Service, op.Name), queueGroup, func(msg *nats.Msg) {
		got.Add(1)
		_ = msg.RespondMsg(&nats.Msg{Header: nats.Header{headerKind: {kindWorking}}})
	})
	require.NoError(t, err)
	flush(t, conn)
	return &got
}

func TestDaemonDiesInTheMiddleOfACall(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		op := echoOperation("Write", true, echo)
		got := dyingDaemon(t, b, op)
		begin := time.Now()
		_, err := b.call(t, op, "r1", "")
		require.ErrorIs(t, err, ErrResponderLost)
		assert.Equal(t, 5*time.Second, time.Since(begin).Round(time.Second))
		assert.Equal(t, aws.Error{
			Code: "ServiceUnavailable", Status: 503,
			Message: "The daemon that was carrying out the request stopped answering. It may have been carried out all the same.",
		}, visibleOf(t, err))
		assert.EqualValues(t, 1, got.Load(), "a call that changes something is sent once")

		read := echoOperation("Read", false, echo)
		got = dyingDaemon(t, b, read)
		_, err = b.call(t, read, "r2", "")
		require.ErrorIs(t, err, ErrResponderLost)
		assert.Equal(t, "The daemon that was carrying out the request stopped answering.", visibleOf(t, err).Message)
		assert.EqualValues(t, 2, got.Load())
	})
}

func TestTooLarge(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		op := echoOperation("Grow", false, func(_ context.Context, _ *aws.Call, in *echoIn) (*echoOut, error) {
			return &echoOut{Text: strings.Repeat(in.Text, 2<<20)}, nil
		})
		long := echoOperation("LongError", false, func(context.Context, *aws.Call, *echoIn) (*echoOut, error) {
			return nil, aws.Errorf("Bad", "%s", strings.Repeat("x", 2<<20))
		})
		b.serve(t, ServiceOptions{}, op, long)
		_, err := b.call(t, op, "r1", "x")
		require.ErrorIs(t, err, ErrTooLarge)
		assert.Equal(t, aws.Error{Code: "InternalFailure", Status: 500, Message: tooLargeMessage}, visibleOf(t, err))
		assert.Contains(t, b.log.String(), "an output is too large")

		_, err = b.call(t, op, "r2", strings.Repeat("x", 2<<20))
		require.ErrorIs(t, err, ErrTooLarge)
		assert.Equal(t, 413, visibleOf(t, err).Status)

		_, err = b.call(t, long, "r3", "")
		assert.Equal(t, aws.Error{Code: "Bad", Message: strings.Repeat("x", 512)}, visibleOf(t, err))
	})
}

func TestNATSAway(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		op := echoOperation("Hang", true, func(ctx context.Context, _ *aws.Call, _ *echoIn) (*echoOut, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		b.serve(t, ServiceOptions{DrainTimeout: time.Millisecond}, op)
		during := make(chan error, 1)
		go func() { _, err := b.call(t, op, "r1", ""); during <- err }()
		synctest.Wait()
		testkit.StopServer(b.srv)
		synctest.Wait()

		begin := time.Now()
		_, err := b.call(t, op, "r2", "")
		require.ErrorIs(t, err, ErrDisconnected)
		assert.Equal(t, aws.Error{
			Code: "ServiceUnavailable", Status: 503, Message: "The gateway has no connection to the daemons.",
		}, visibleOf(t, err))
		assert.Zero(t, time.Since(begin), "no waiting")
		assert.False(t, b.client.Connected())

		err = <-during
		require.ErrorIs(t, err, ErrDisconnected)
		assert.Equal(t, aws.Error{
			Code: "ServiceUnavailable", Status: 503,
			Message: "The gateway has lost its connection to the daemons. It may have been carried out all the same.",
		}, visibleOf(t, err))
		assert.LessOrEqual(t, time.Since(begin), 5*time.Second)
		b.client.conn.Close()
		_, err = b.call(t, op, "r3", "")
		require.ErrorIs(t, err, ErrDisconnected)
	})
}

func TestUnsignedAndReplayedMessagesAreRefused(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		var ran atomic.Int32
		op := echoOperation("Say", true, func(ctx context.Context, call *aws.Call, in *echoIn) (*echoOut, error) {
			ran.Add(1)
			return echo(ctx, call, in)
		})
		b.serve(t, ServiceOptions{}, op)
		spy, err := b.conn.SubscribeSync(Subject("echo", "Say"))
		require.NoError(t, err)
		flush(t, b.conn)

		reply, err := b.conn.RequestMsgWithContext(t.Context(), &nats.Msg{Subject: Subject("echo", "Say"), Data: []byte("{}")})
		require.NoError(t, err)
		assert.Equal(t, kindRefused, reply.Header.Get(headerKind))
		_, err = spy.NextMsgWithContext(t.Context())
		require.NoError(t, err)

		_, err = b.call(t, op, "r1", "once")
		require.NoError(t, err)
		heard, err := spy.NextMsgWithContext(t.Context())
		require.NoError(t, err)
		reply, err = b.conn.RequestMsgWithContext(t.Context(), &nats.Msg{Subject: heard.Subject, Header: heard.Header, Data: heard.Data})
		require.NoError(t, err)
		assert.Equal(t, kindRefused, reply.Header.Get(headerKind))
		assert.NotContains(t, string(reply.Data), "before", "the answer does not say which check failed")
		assert.EqualValues(t, 1, ran.Load())
		assert.Contains(t, b.log.String(), ErrReplayed.Error())
		assert.Contains(t, b.log.String(), ErrUnsigned.Error())

		stranger, err := NewSigner("stranger", testKey(9))
		require.NoError(t, err)
		b.client.signer = stranger
		_, err = b.call(t, op, "r2", "")
		require.ErrorIs(t, err, ErrNotAccepted)
		assert.Equal(t, 500, visibleOf(t, err).Status)
		assert.EqualValues(t, 1, ran.Load())
	})
}

func TestInputThatIsNoJSON(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		op := echoOperation("Say", true, echo)
		b.serve(t, ServiceOptions{}, op)
		body := []byte(`{"Text":7}`)
		reply, err := b.conn.RequestMsgWithContext(t.Context(), &nats.Msg{
			Subject: Subject("echo", "Say"), Data: body,
			Header: b.signer.sign(Subject("echo", "Say"), body, testCall("r1"), 1, nil),
		})
		require.NoError(t, err)
		assert.Equal(t, kindError, reply.Header.Get(headerKind))
		assert.Contains(t, string(reply.Data), "InternalFailure")
	})
}
