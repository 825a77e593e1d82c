package messaging

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.opentelemetry.io/otel/propagation"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/lifecycle/supervise"
)

// HeartbeatInterval is how often a daemon says that it still works on a call.
const HeartbeatInterval = time.Second

// queueGroup is the one group of all daemons: one of them gets a call.
const queueGroup = "daemons"

// Subject is where an operation is served by all daemons.
func Subject(service, operation string) string { return "aws." + service + "." + operation }

// LocalSubject is where the daemon of one node serves an operation.
func LocalSubject(service, operation, node string) string {
	return Subject(service, operation) + "." + node
}

// Headers and kinds of a daemon's messages to the caller.
const (
	headerKind = "Spinifex-Answer"

	kindOutput  = "output"  // the body is the output
	kindError   = "error"   // the body is a wireError
	kindWorking = "working" // a sign of life, no body
	kindRefused = "refused" // a wireError; nothing of the call has been carried out
)

// wireError is how an aws.Error crosses.
type wireError struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Status  int             `json:"status,omitzero"`
	Detail  json.RawMessage `json:"detail,omitzero"`
}

// replyOverhead is what headers and protocol take of the largest message that NATS carries.
const replyOverhead = 4 << 10

// ServiceOptions says how a Service works. The zero value of a field takes its default.
type ServiceOptions struct {
	// Version of the program in the form of SemVer, shown by the discovery of NATS services; "0.0.0".
	Version string
	// Node, when it is set, is also served on the subjects of that node. At most 63 of [-_a-zA-Z0-9].
	Node string
	// MaxConcurrent is how many handlers run at once; 64.
	MaxConcurrent int
	// MaxQueued is how many more calls may wait for a handler; 1024. Further ones are refused at once.
	MaxQueued int
	// DrainTimeout is how long the running handlers have when the service stops, before their
	// context ends; 20 s. They then have one more second.
	DrainTimeout time.Duration
	// Log gets the errors and panics of handlers, once each. The default discards them.
	Log *slog.Logger
}

func (o ServiceOptions) withDefaults() (ServiceOptions, error) {
	if o.Version == "" {
		o.Version = "0.0.0"
	}
	if o.MaxConcurrent == 0 {
		o.MaxConcurrent = 64
	}
	if o.MaxQueued == 0 {
		o.MaxQueued = 1024
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = 20 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxConcurrent < 0 || o.MaxQueued < 0 || o.DrainTimeout < 0 {
		return o, fmt.Errorf("messaging: MaxConcurrent %d, MaxQueued %d and DrainTimeout %s must not be negative",
			o.MaxConcurrent, o.MaxQueued, o.DrainTimeout)
	}
	return o, nil
}

// Service answers the operations of a table.
type Service struct {
	conn     *nats.Conn
	ops      []aws.Operation
	verifier *Verifier
	opts     ServiceOptions

	// slots has room for the handlers that run, admitted for these and the waiting ones.
	slots, admitted chan struct{}

	mu      sync.Mutex
	stopped bool
	calls   sync.WaitGroup
}

// NewService makes a Service; nothing is served before Run.
func NewService(conn *nats.Conn, ops []aws.Operation, verifier *Verifier, opts ServiceOptions) (*Service, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, op := range ops {
		subject := Subject(op.Service, op.Name)
		if names[subject] {
			return nil, fmt.Errorf("messaging: operation %s of %s stands in the table twice", op.Name, op.Service)
		}
		names[subject] = true
		if op.Handler == nil || op.NewInput == nil || strings.ContainsAny(op.Service+op.Name, ".*> \t\r\n") || op.Service == "" || op.Name == "" {
			return nil, fmt.Errorf("messaging: operation %q of %q lacks a handler or an input type, or has no usable name", op.Name, op.Service)
		}
	}
	return &Service{
		conn: conn, ops: ops, verifier: verifier, opts: opts,
		slots:    make(chan struct{}, opts.MaxConcurrent),
		admitted: make(chan struct{}, opts.MaxConcurrent+opts.MaxQueued),
	}, nil
}

// Run serves until ctx ends. Then no further calls are taken, those that have been taken are
// finished within DrainTimeout, and Run returns nil. It returns an error when the endpoints cannot
// be set up or the connection closes for good. Run must be called once.
func (s *Service) Run(ctx context.Context) error {
	// Handlers outlive ctx while the service drains.
	handlers, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(errStopping)

	closed := s.conn.StatusChanged(nats.CLOSED)
	defer s.conn.RemoveStatusListener(closed)
	services, err := s.addServices(handlers)
	if err != nil {
		return errors.Join(err, stopServices(services))
	}
	var ended error
	select {
	case <-ctx.Done():
	case <-closed:
		ended = fmt.Errorf("serve AWS operations: %w", nats.ErrConnectionClosed)
	}
	s.drain(context.WithoutCancel(ctx), services, cancel)
	return ended
}

// addServices sets up one NATS service per AWS service with one endpoint per operation.
func (s *Service) addServices(handlers context.Context) (map[string]micro.Service, error) {
	services := map[string]micro.Service{}
	for _, op := range s.ops {
		service, ok := services[op.Service]
		if !ok {
			var err error
			service, err = micro.AddService(s.conn, micro.Config{
				Name: "aws-" + op.Service, Version: s.opts.Version, QueueGroup: queueGroup,
				Description: "AWS operations of " + op.Service,
			})
			if err != nil {
				return services, fmt.Errorf("serve %s: %w", op.Service, err)
			}
			services[op.Service] = service
		}
		endpoints := map[string]string{op.Name: Subject(op.Service, op.Name)}
		if s.opts.Node != "" {
			endpoints[op.Name+"-at-"+s.opts.Node] = LocalSubject(op.Service, op.Name, s.opts.Node)
		}
		take := micro.HandlerFunc(func(req micro.Request) { s.take(handlers, op, req) })
		for name, subject := range endpoints {
			if err := service.AddEndpoint(name, take, micro.WithEndpointSubject(subject)); err != nil {
				return services, fmt.Errorf("serve %s on %s: %w", op.Service, subject, err)
			}
		}
	}
	return services, nil
}

func stopServices(services map[string]micro.Service) error {
	var errs []error
	for _, service := range services {
		errs = append(errs, service.Stop())
	}
	return errors.Join(errs...)
}

// drain ends the subscriptions, then waits for the calls that have been taken.
func (s *Service) drain(ctx context.Context, services map[string]micro.Service, cancel context.CancelCauseFunc) {
	if err := errors.Join(stopServices(services), s.flush(ctx)); err != nil {
		s.opts.Log.Warn("stopping the operations was not clean", "error", err)
	}
	// What the server sent before it knew is taken while take is not refusing yet, or refused with
	// an answer that says that nothing was carried out.
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()

	done := make(chan struct{})
	go func() { s.calls.Wait(); close(done) }()
	if !waitFor(done, s.opts.DrainTimeout) {
		s.opts.Log.Warn("calls still run after the drain time and are ended", "drain_timeout", s.opts.DrainTimeout)
		cancel(errStopping)
		waitFor(done, time.Second)
	}
	if err := s.flush(ctx); err != nil {
		s.opts.Log.Warn("the last answers may not have been sent", "error", err)
	}
}

// errStopping is the cause with which handlers' contexts end when the daemon stops.
var errStopping = errors.New("messaging: the daemon is stopping")

// flush is bounded: a connection that is away must not hold up the end of the process.
func (s *Service) flush(ctx context.Context) error {
	if !s.conn.IsConnected() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return s.conn.FlushWithContext(ctx)
}

func waitFor(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// take accepts or refuses a message at once, so that no call waits behind another one of its
// operation. The answers are sent by the connection: req must not be used after take has returned.
func (s *Service) take(handlers context.Context, op aws.Operation, req micro.Request) {
	msg := incoming{op: op, subject: req.Subject(), reply: req.Reply(), header: nats.Header(req.Headers()), body: req.Data()}
	if msg.reply == "" {
		s.opts.Log.Warn("a call without a reply subject is dropped", "service", op.Service, "operation", op.Name)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		s.answerError(msg, kindRefused, aws.Unavailable("The daemon is stopping."))
		return
	}
	select {
	case s.admitted <- struct{}{}:
	default:
		s.answerError(msg, kindRefused, aws.Unavailable("The daemon has too many calls to carry out, try again."))
		return
	}
	s.calls.Go(func() {
		defer func() { <-s.admitted }()
		s.carryOut(handlers, msg)
	})
}

// incoming is one message of a caller.
type incoming struct {
	op             aws.Operation
	subject, reply string
	header         nats.Header
	body           []byte
}

// carryOut verifies a call, waits for a slot, runs the handler and answers.
func (s *Service) carryOut(handlers context.Context, msg incoming) {
	stopSigns := s.signsOfLife(msg)
	defer stopSigns()

	log := s.opts.Log.With("service", msg.op.Service, "operation", msg.op.Name)
	verifyCtx, cancelVerify := context.WithTimeout(handlers, 5*time.Second)
	call, err := s.verifier.Verify(verifyCtx, msg.subject, msg.header, msg.body)
	cancelVerify()
	if err != nil {
		log.Warn("a call is refused", "gateway", bounded(first(msg.header, headerGateway)), "error", err)
		s.answerError(msg, kindRefused, refusal(err))
		return
	}
	log = log.With("request_id", call.RequestID, "account", call.Account)

	ctx, cancel := context.WithDeadlineCause(handlers, call.Deadline, fmt.Errorf("%w: the deadline of the call has passed", context.DeadlineExceeded))
	defer cancel()
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(canonical(msg.header)))
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		s.answerError(msg, kindRefused, aws.Unavailable("The daemon had no time for the call before its deadline."))
		return
	}
	out, err := runHandler(ctx, msg.op, call, msg.body)
	if err != nil {
		s.answerError(msg, kindError, s.visible(ctx, log, err))
		return
	}
	s.answerOutput(log, msg, out)
}

// visible turns a handler's error into what the caller may see, and logs what it may not.
func (s *Service) visible(ctx context.Context, log *slog.Logger, err error) *aws.Error {
	if seen, ok := errors.AsType[*aws.Error](err); ok {
		if seen.Unwrap() != nil {
			log.Info("a call failed", "code", seen.Code, "error", err)
		}
		return seen
	}
	if panicked, ok := errors.AsType[*supervise.PanicError](err); ok {
		log.Error("a handler panicked", "panic", panicked.Value, "stack", string(panicked.Stack))
		return aws.InternalFailure()
	}
	if cause := context.Cause(ctx); cause != nil {
		log.Warn("a call was ended before it was done", "cause", cause, "error", err)
		return aws.Unavailable("The call was ended before it was done; it may have been carried out in part.")
	}
	log.Error("a handler failed", "error", err)
	return aws.InternalFailure()
}

// refusal is the answer to a call whose identity was not accepted. Which check failed is logged,
// not told.
func refusal(err error) *aws.Error {
	for _, wrong := range []error{ErrUnsigned, ErrUnknownGateway, ErrBadSignature, ErrStale, ErrReplayed} {
		if errors.Is(err, wrong) {
			return &aws.Error{Code: "InternalFailure", Status: 500, Message: notAcceptedMessage}
		}
	}
	return aws.Unavailable("The daemon cannot verify the gateway's identity now.")
}

// notAcceptedMessage is how the client tells this failure from other InternalFailures. It is not
// the fault of the one who asks, whose own signature the gateway has verified.
const notAcceptedMessage = "The daemon does not accept the identity that the gateway sent."

// runHandler decodes the input and runs the handler; its panics are errors.
func runHandler(ctx context.Context, op aws.Operation, call *aws.Call, body []byte) (out any, err error) {
	err = supervise.Call(ctx, func(ctx context.Context) (err error) {
		in := op.NewInput()
		if err := json.Unmarshal(body, in); err != nil {
			return fmt.Errorf("decode the input: %w", err)
		}
		out, err = op.Handler(ctx, call, in)
		return err
	})
	return out, err
}

// signsOfLife tells the caller every HeartbeatInterval that the call is being worked on, until the
// returned function is called.
func (s *Service) signsOfLife(msg incoming) (stop func()) {
	done := make(chan struct{})
	var signs sync.WaitGroup
	signs.Go(func() {
		ticker := time.NewTicker(HeartbeatInterval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				// A sign that cannot be sent is missed by the caller, which is its purpose.
				_ = s.conn.PublishMsg(&nats.Msg{Subject: msg.reply, Header: nats.Header{headerKind: {kindWorking}}})
			}
		}
	})
	return func() { close(done); signs.Wait() }
}

func (s *Service) answerOutput(log *slog.Logger, msg incoming, out any) {
	body, err := json.Marshal(out)
	if err != nil {
		log.Error("an output cannot be encoded", "error", err)
		s.answerError(msg, kindError, aws.InternalFailure())
		return
	}
	if limit := s.conn.MaxPayload() - replyOverhead; int64(len(body)) > limit {
		log.Error("an output is too large to be sent", "bytes", len(body), "limit", limit)
		s.answerError(msg, kindError, tooLargeAnswer())
		return
	}
	s.publish(log, msg, kindOutput, body)
}

// tooLargeMessage is how the client tells this failure from other InternalFailures.
const tooLargeMessage = "The answer is too large to be sent; ask for fewer items."

func tooLargeAnswer() *aws.Error {
	return &aws.Error{Code: "InternalFailure", Status: 500, Message: tooLargeMessage}
}

func (s *Service) answerError(msg incoming, kind string, answer *aws.Error) {
	log := s.opts.Log.With("service", msg.op.Service, "operation", msg.op.Name)
	crossing := wireError{Code: answer.Code, Message: answer.Message, Status: answer.Status}
	if answer.Detail != nil {
		detail, err := json.Marshal(answer.Detail)
		if err != nil {
			log.Error("the detail of an error cannot be encoded", "code", answer.Code, "error", err)
		}
		crossing.Detail = detail
	}
	body, err := json.Marshal(crossing)
	if err == nil && int64(len(body)) > s.conn.MaxPayload()-replyOverhead {
		log.Error("an error is too large to be sent", "code", answer.Code, "bytes", len(body))
		body, err = json.Marshal(wireError{Code: answer.Code, Status: answer.Status, Message: bounded(answer.Message)})
	}
	if err != nil {
		log.Error("an error cannot be encoded", "code", answer.Code, "error", err)
		return
	}
	s.publish(log, msg, kind, body)
}

func (s *Service) publish(log *slog.Logger, msg incoming, kind string, body []byte) {
	err := s.conn.PublishMsg(&nats.Msg{Subject: msg.reply, Header: nats.Header{headerKind: {kind}}, Data: body})
	if err != nil {
		log.Warn("an answer cannot be sent", "error", err)
	}
}

// bounded cuts what comes from outside before it is logged or sent back.
func bounded(text string) string {
	const most = 512
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// canonical copies the trace headers under the names that propagation looks for.
func canonical(h nats.Header) map[string][]string {
	return map[string][]string{
		"Traceparent": slices.Clone(h[headerTrace]),
		"Tracestate":  slices.Clone(h[headerTraceMore]),
	}
}
