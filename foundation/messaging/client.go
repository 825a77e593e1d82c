package messaging

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"

	"github.com/mulgadc/spinifex/foundation/aws"
)

// Reasons why a call has no answer; the *aws.Error that Call returns wraps one of them.
var (
	// ErrNoResponder: no daemon serves the operation, or the one that got the call refused it
	// before carrying out anything of it.
	ErrNoResponder = errors.New("messaging: nobody serves the operation")
	// ErrTimeout: a daemon works on the call but the deadline has passed.
	ErrTimeout = errors.New("messaging: no answer before the deadline")
	// ErrResponderLost: the daemon that had the call gives no more signs of life.
	ErrResponderLost = errors.New("messaging: the daemon stopped answering")
	// ErrTooLarge: the request or the answer does not fit into a message.
	ErrTooLarge = errors.New("messaging: too large for a message")
	// ErrNotAccepted: the daemon refused the signed identity of the call; its log says why.
	ErrNotAccepted = errors.New("messaging: the daemon does not accept the gateway's identity")
	// ErrDisconnected: there is no connection to NATS.
	ErrDisconnected = errors.New("messaging: no connection to NATS")
)

// ClientOptions says how long a Client waits. The zero value of a field takes its default.
type ClientOptions struct {
	// Timeout is the deadline of a call that has none; 30 s. At most MaxLifetime.
	Timeout time.Duration
	// Node is the node whose daemon gets the calls while it serves them: a gateway and the daemon of
	// its node stop together, while a daemon that hangs elsewhere would keep its share of all calls.
	// Empty: any daemon.
	Node string
	// Silence is how long a daemon may give no sign of life before it counts as lost; 5 s. It is to
	// be several times HeartbeatInterval.
	Silence time.Duration
	// RetryPause is how long the client waits before the one retry; 100 ms, up to half of it more
	// at random.
	RetryPause time.Duration
}

func (o ClientOptions) withDefaults() (ClientOptions, error) {
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Silence == 0 {
		o.Silence = 5 * time.Second
	}
	if o.RetryPause == 0 {
		o.RetryPause = 100 * time.Millisecond
	}
	if o.Timeout < 0 || o.Timeout > MaxLifetime {
		return o, fmt.Errorf("messaging: Timeout %s: want more than 0 and at most %s", o.Timeout, MaxLifetime)
	}
	if o.Silence <= HeartbeatInterval || o.RetryPause < 0 {
		return o, fmt.Errorf("messaging: Silence %s must be more than %s, RetryPause %s not negative", o.Silence, HeartbeatInterval, o.RetryPause)
	}
	return o, nil
}

// Client sends calls to the daemons.
type Client struct {
	conn   *nats.Conn
	signer *Signer
	opts   ClientOptions
}

// NewClient makes a Client that signs with signer.
func NewClient(conn *nats.Conn, signer *Signer, opts ClientOptions) (*Client, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, signer: signer, opts: opts}, nil
}

// Connected says whether calls can be sent now.
func (c *Client) Connected() bool { return c.conn.IsConnected() }

// Call has op carried out by a daemon. It returns a pointer to the operation's output type, or an
// error that is always an *aws.Error: the handler's, or one that wraps a sentinel of this file. The
// Detail of a handler's error is a json.RawMessage. Where call.Deadline is zero the client sets it;
// a deadline of ctx that is nearer counts.
func (c *Client) Call(ctx context.Context, call *aws.Call, op aws.Operation, in any) (any, error) {
	signed := *call
	if signed.Deadline.IsZero() {
		signed.Deadline = time.Now().Add(c.opts.Timeout)
	}
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(signed.Deadline) {
		signed.Deadline = deadline
	}
	body, err := json.Marshal(in)
	if err != nil {
		return nil, aws.InternalFailure().WithCause(fmt.Errorf("encode the input of %s %s: %w", op.Service, op.Name, err))
	}
	if int64(len(body)) > c.conn.MaxPayload()-replyOverhead && c.conn.IsConnected() {
		return nil, (&aws.Error{
			Code: "RequestEntityTooLarge", Status: 413, Message: "The request is too large to be carried out.",
		}).WithCause(fmt.Errorf("%w: the input of %s %s has %d bytes", ErrTooLarge, op.Service, op.Name, len(body)))
	}
	ctx, cancel := context.WithDeadline(ctx, signed.Deadline)
	defer cancel()
	answer, err := c.send(ctx, &signed, op, body)
	if err != nil {
		return nil, noAnswer(op, err)
	}
	return decodeAnswer(op, answer)
}

// send has the call carried out by the node's own daemon or, when that one has certainly not begun, by
// any. Where nothing can change by it, a call that got no answer is sent once more.
func (c *Client) send(ctx context.Context, call *aws.Call, op aws.Operation, body []byte) (*nats.Msg, error) {
	again := func(err error) bool {
		return errors.Is(err, ErrNoResponder) || !op.Mutating && errors.Is(err, ErrResponderLost)
	}
	number := 1
	if c.opts.Node != "" {
		answer, err := c.attempt(ctx, call, LocalSubject(op.Service, op.Name, c.opts.Node), body, number)
		if err == nil || !again(err) {
			return answer, err
		}
		number++
	}
	answer, err := c.attempt(ctx, call, Subject(op.Service, op.Name), body, number)
	if err == nil || op.Mutating || !again(err) {
		return answer, err
	}
	select {
	case <-time.After(c.opts.RetryPause + rand.N(c.opts.RetryPause/2+1)):
		return c.attempt(ctx, call, Subject(op.Service, op.Name), body, number+1)
	case <-ctx.Done():
		return nil, err
	}
}

// attempt sends the call once and waits for the answer. Its errors wrap the sentinels.
func (c *Client) attempt(ctx context.Context, call *aws.Call, subject string, body []byte, number int) (*nats.Msg, error) {
	if !c.conn.IsConnected() {
		return nil, ErrDisconnected
	}
	inbox := c.conn.NewInbox()
	sub, err := c.conn.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is gone, and the subscription with it

	trace := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, trace)
	err = c.conn.PublishMsg(&nats.Msg{
		Subject: subject, Reply: inbox, Data: body,
		Header: c.signer.sign(subject, body, call, number, trace),
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	return c.await(ctx, sub)
}

// await returns the answer, whatever signs of life come before it.
func (c *Client) await(ctx context.Context, sub *nats.Subscription) (*nats.Msg, error) {
	for {
		quiet, cancel := context.WithTimeout(ctx, c.opts.Silence)
		msg, err := sub.NextMsgWithContext(quiet)
		cancel()
		switch {
		case err == nil && first(msg.Header, headerKind) == kindWorking:
			continue
		case err == nil && first(msg.Header, headerKind) == kindRefused:
			return nil, refusedError(msg)
		case err == nil:
			return msg, nil
		case errors.Is(err, nats.ErrNoResponders):
			return nil, ErrNoResponder
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", ErrTimeout, context.Cause(ctx))
		case !c.conn.IsConnected():
			return nil, fmt.Errorf("%w: %w while waiting for the answer: %w", errSent, ErrDisconnected, err)
		case errors.Is(err, context.DeadlineExceeded):
			return nil, fmt.Errorf("%w: silent for %s", ErrResponderLost, c.opts.Silence)
		default:
			return nil, fmt.Errorf("%w: %w: %w", errSent, ErrDisconnected, err)
		}
	}
}

// refusedError keeps the daemon's words for the caller, and lets the call be retried like one
// that nobody got.
func refusedError(msg *nats.Msg) error {
	var crossing wireError
	if err := json.Unmarshal(msg.Data, &crossing); err != nil || crossing.Code == "" {
		return fmt.Errorf("%w: a refusal that cannot be read", ErrNoResponder)
	}
	refused := &aws.Error{Code: crossing.Code, Message: crossing.Message, Status: crossing.Status}
	if crossing.Message == notAcceptedMessage {
		return refused.WithCause(ErrNotAccepted)
	}
	return refused.WithCause(ErrNoResponder)
}

// errSent goes with an ErrDisconnected of a call that a daemon may have got.
var errSent = errors.New("messaging: the call has been sent")

// noAnswer makes the caller's answer of a failed attempt.
func noAnswer(op aws.Operation, err error) *aws.Error {
	if told, ok := errors.AsType[*aws.Error](err); ok {
		return told
	}
	unknown := ""
	if op.Mutating {
		unknown = " It may have been carried out all the same."
	}
	var answer *aws.Error
	switch {
	case errors.Is(err, ErrNoResponder):
		answer = aws.Unavailable("No daemon of this cloud serves " + op.Name + " at the moment.")
	case errors.Is(err, ErrTimeout):
		answer = aws.Unavailable("The request was not carried out in time." + unknown)
	case errors.Is(err, ErrResponderLost):
		answer = aws.Unavailable("The daemon that was carrying out the request stopped answering." + unknown)
	case errors.Is(err, errSent):
		answer = aws.Unavailable("The gateway has lost its connection to the daemons." + unknown)
	default:
		answer = aws.Unavailable("The gateway has no connection to the daemons.")
	}
	return answer.WithCause(fmt.Errorf("call %s %s: %w", op.Service, op.Name, err))
}

// decodeAnswer reads a daemon's answer.
func decodeAnswer(op aws.Operation, msg *nats.Msg) (any, error) {
	switch kind := first(msg.Header, headerKind); kind {
	case kindOutput:
		out := op.NewOutput()
		if err := json.Unmarshal(msg.Data, out); err != nil {
			return nil, aws.InternalFailure().WithCause(fmt.Errorf("decode the output of %s %s: %w", op.Service, op.Name, err))
		}
		return out, nil
	case kindError:
		var crossing wireError
		if err := json.Unmarshal(msg.Data, &crossing); err != nil {
			return nil, aws.InternalFailure().WithCause(fmt.Errorf("decode the error of %s %s: %w", op.Service, op.Name, err))
		}
		answer := &aws.Error{Code: crossing.Code, Message: crossing.Message, Status: crossing.Status}
		if crossing.Detail != nil {
			answer.Detail = crossing.Detail
		}
		if crossing.Code == "InternalFailure" && crossing.Message == tooLargeMessage {
			return nil, answer.WithCause(ErrTooLarge)
		}
		return nil, answer
	default:
		return nil, aws.InternalFailure().WithCause(fmt.Errorf("the answer to %s %s is of the unknown kind %q", op.Service, op.Name, bounded(kind)))
	}
}
