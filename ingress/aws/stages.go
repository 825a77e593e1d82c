package awsingress

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/sigv4"
	"github.com/mulgadc/spinifex/foundation/aws/wire"
)

// identify finds the service that the request is for, and refuses addresses that are locked out.
func (p *Pipeline) identify(_ context.Context, x *exchange) error {
	scope, ok := sigv4.ScopeOf(x.r)
	if ok {
		x.scope, x.service = scope, p.services[scope.Service]
	}
	if wait := p.lockout.locked(x.source, x.scope.AccessKeyID, x.received); wait > 0 {
		return &aws.Error{
			Code: "AccessDenied", Status: http.StatusForbidden,
			Message: fmt.Sprintf("Too many requests from this address failed to authenticate. Try again in %d seconds.", int(wait.Seconds())+1),
		}
	}
	if ok && x.service == nil {
		return foreignService(scope.Service)
	}
	return nil
}

const (
	// discardLimit and discardTime bound how much of a body that is too large is read to its end, so
	// that the client, which is still sending, gets to see the answer.
	discardLimit = 256 << 20
	discardTime  = 5 * time.Second
)

// smallBody is what a body may have, in bytes, without room of its own. Few requests are larger.
const smallBody = 64 << 10

// readBody reads the body within the limit. One that may become large needs room from before it
// arrives, so that memory is bounded; whoever sends such bodies slowly keeps out only others of them.
func (p *Pipeline) readBody(_ context.Context, x *exchange) error {
	if (x.r.ContentLength < 0 || x.r.ContentLength > smallBody) && !x.enter(p.bodies) {
		return aws.Unavailable("The gateway has too many large requests under way; try again.")
	}
	waits := strings.EqualFold(x.r.Header.Get("Expect"), "100-continue")
	if waits && x.r.ContentLength > p.opts.BodyLimit {
		// The client has not sent it yet, and need not.
		return &aws.Error{
			Code: "RequestEntityTooLarge", Status: http.StatusRequestEntityTooLarge,
			Message: fmt.Sprintf("The request body is larger than %d bytes, the most that is accepted.", p.opts.BodyLimit),
		}
	}
	body, err := wire.ReadBody(x.r.Body, p.opts.BodyLimit)
	x.body = body
	if e, ok := errors.AsType[*aws.Error](err); ok && e.Status == http.StatusRequestEntityTooLarge {
		x.w.Header().Set("Connection", "close")
		// Whether the rest comes makes no difference to the answer.
		_ = http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(discardTime))
		_, _ = io.CopyN(io.Discard, x.r.Body, discardLimit)
	}
	return err
}

// admit takes room for a request. Its body has arrived: what a slow client still sends holds up nobody.
func (p *Pipeline) admit(_ context.Context, x *exchange) error {
	if !x.enter(p.room) {
		return aws.Unavailable("The gateway has too many requests under way; try again.")
	}
	return nil
}

// authenticate finds out who signed the request.
func (p *Pipeline) authenticate(ctx context.Context, x *exchange) error {
	sum := sha256.Sum256(x.body)
	identity, scope, err := p.opts.Verifier.Verify(ctx, x.r, hex.EncodeToString(sum[:]))
	if err != nil {
		p.noteFailure(ctx, x, err)
		return err
	}
	p.lockout.succeeded(x.source, scope.AccessKeyID, x.received)
	if x.service == nil { // ScopeOf and Verify see the same request; whoever changes one meets this
		return foreignService(scope.Service)
	}
	x.scope = scope
	x.call = &aws.Call{
		Account: identity.Account, Principal: identity.Principal, UserID: identity.UserID,
		Region: p.opts.Region, RequestID: x.id, SourceIP: x.source.String(),
		Deadline: time.Now().Add(p.opts.CallTimeout),
	}
	return nil
}

// noteFailure counts a failure against the address. What is not the client's fault is not counted.
func (p *Pipeline) noteFailure(ctx context.Context, x *exchange, err error) {
	failed, ok := errors.AsType[*aws.Error](err)
	if !ok || failed.Code == "ServiceUnavailable" {
		return
	}
	if mismatch, ok := errors.AsType[*sigv4.Mismatch](err); ok {
		p.opts.Log.Debug("a signature does not match", "request_id", x.id, "canonical_request", mismatch.Canonical)
	}
	if lasts := p.lockout.failed(x.source, x.scope.AccessKeyID, failed.Code, x.received); lasts > 0 {
		p.metrics.lockedOut(ctx)
		p.opts.Log.Warn("an address is locked out because too many requests failed to authenticate",
			"source_ip", x.source.String(), "duration", lasts)
	}
}

// find finds the operation.
func (p *Pipeline) find(_ context.Context, x *exchange) error {
	matched, err := x.service.wire.Match(x.r, x.body)
	if err != nil {
		return err
	}
	x.matched = matched
	op, ok := x.service.ops[matched.Operation.Name]
	if !ok {
		return x.service.notServed(matched.Operation.Name)
	}
	x.op = &op
	return nil
}

// decode reads the input. A fault of it is kept until the caller is authorised.
func (p *Pipeline) decode(_ context.Context, x *exchange) error {
	x.in = x.op.NewInput()
	x.inputFault = x.service.wire.Decode(x.matched, x.in)
	return nil
}

// authorise asks whether the caller may do this. Where the resources are not known, because the input
// is broken or names none that can be, the caller must be allowed on any.
func (p *Pipeline) authorise(_ context.Context, x *exchange) error {
	var resources []string
	if x.inputFault == nil && x.op.Resources != nil {
		resources = x.op.Resources(x.call, x.in)
	}
	if len(resources) == 0 {
		resources = []string{"*"}
	}
	if err := p.opts.Authorize(x.call, *x.op, resources); err != nil {
		return err
	}
	return x.inputFault
}

// dispatch has a daemon carry the operation out.
func (p *Pipeline) dispatch(ctx context.Context, x *exchange) error {
	ctx, cancel := context.WithDeadline(ctx, x.call.Deadline)
	defer cancel()
	out, err := p.opts.Dispatcher.Call(ctx, x.call, *x.op, x.in)
	x.out = out
	return err
}

// encode writes the answer.
func (p *Pipeline) encode(_ context.Context, x *exchange) error {
	err := x.service.wire.Encode(x.w, x.op.Name, x.out, x.id)
	if x.w.status != 0 { // begun: a fault now is the connection's
		x.cause = err
		return nil
	}
	return err
}
