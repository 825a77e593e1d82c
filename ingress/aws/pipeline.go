package awsingress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/sigv4"
)

// Verifier says who signed a request; *sigv4.Verifier is one.
type Verifier interface {
	Verify(ctx context.Context, r *http.Request, bodySHA256 string) (*sigv4.Identity, sigv4.Scope, error)
}

// Dispatcher has an operation carried out; *messaging.Client is one. Its errors are *aws.Error.
type Dispatcher interface {
	Call(ctx context.Context, call *aws.Call, op aws.Operation, in any) (any, error)
}

// Authorizer decides whether a caller may perform an operation on resources, which are ARNs or "*".
// A denial is an *aws.Error.
type Authorizer func(call *aws.Call, op aws.Operation, resources []string) error

// Options make a Pipeline.
type Options struct {
	// Operations are those that are served, such as all.Operations(); required.
	Operations []aws.Operation
	// Verifier, Authorize and Dispatcher do what their types say; required.
	Verifier   Verifier
	Authorize  Authorizer
	Dispatcher Dispatcher
	// Region is the cloud's; required.
	Region string

	// BodyLimit is the most bytes that a request body may have; 1 MiB.
	BodyLimit int64
	// MaxRequests is how many requests may be carried out at once, and how many may have a large body
	// (readBody), and so times BodyLimit the most memory for large bodies; 256.
	MaxRequests int
	// CallTimeout is how long a daemon has for a call; 30 s.
	CallTimeout time.Duration

	// Ready says why the gateway cannot serve, for GET /health; nil says that it always can.
	Ready func() error
	// Meter makes the instruments; nil measures nothing.
	Meter metric.Meter
	// Log gets one line per request; nil discards.
	Log *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Verifier == nil || o.Authorize == nil || o.Dispatcher == nil || o.Region == "" {
		return o, errors.New("ingress: Verifier, Authorize, Dispatcher and Region are required")
	}
	if o.BodyLimit < 0 || o.MaxRequests < 0 || o.CallTimeout < 0 {
		return o, fmt.Errorf("ingress: BodyLimit %d, MaxRequests %d and CallTimeout %s must not be negative", o.BodyLimit, o.MaxRequests, o.CallTimeout)
	}
	if o.BodyLimit == 0 {
		o.BodyLimit = 1 << 20
	}
	if o.MaxRequests == 0 {
		o.MaxRequests = 256
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = 30 * time.Second
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.Meter == nil {
		o.Meter = noop.Meter{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Pipeline answers the requests of AWS clients.
type Pipeline struct {
	opts     Options
	services map[string]*service // by signing name
	room     chan struct{}       // has an element for each request that is carried out
	bodies   chan struct{}       // and for each with a large body, from before that arrives
	lockout  *lockout
	metrics  *metrics
}

// New makes a Pipeline.
func New(opts Options) (*Pipeline, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	services, err := loadServices(opts.Operations, opts.Log)
	if err != nil {
		return nil, err
	}
	metrics, err := newMetrics(opts.Meter)
	if err != nil {
		return nil, fmt.Errorf("ingress: %w", err)
	}
	return &Pipeline{
		opts: opts, services: services, room: make(chan struct{}, opts.MaxRequests),
		bodies: make(chan struct{}, opts.MaxRequests), lockout: newLockout(), metrics: metrics,
	}, nil
}

// ServeHTTP answers one request.
func (p *Pipeline) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isHealth(r) {
		p.health(w)
		return
	}
	x := newExchange(w, r, time.Now())
	defer p.finish(x)
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	if err := p.run(ctx, x); err != nil {
		p.fail(x, err)
	}
}

// run takes the exchange through the stages, until one fails.
func (p *Pipeline) run(ctx context.Context, x *exchange) error {
	p.metrics.underWay(x.r.Context(), 1)
	defer p.metrics.underWay(x.r.Context(), -1)
	defer x.leave()
	for _, stage := range []func(context.Context, *exchange) error{
		p.identify, p.readBody, p.admit, p.authenticate, p.find, p.decode, p.authorise, p.dispatch, p.encode,
	} {
		if err := stage(ctx, x); err != nil {
			return err
		}
	}
	return nil
}
