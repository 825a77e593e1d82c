package awsingress

import (
	"errors"
	"net/http"
	"runtime/debug"

	"github.com/mulgadc/spinifex/foundation/aws"
)

// fail answers with an error. What is no *aws.Error stays here.
func (p *Pipeline) fail(x *exchange, err error) {
	told, ok := errors.AsType[*aws.Error](err)
	if !ok {
		told = aws.InternalFailure().WithCause(err)
	}
	x.code, x.cause = told.Code, told.Unwrap()
	var sendErr error
	if x.service != nil {
		sendErr = x.service.wire.EncodeError(x.w, x.action(), told, x.id)
	} else {
		sendErr = sendForeign(x.w, x.r, x.scope.Service, told, x.id)
	}
	if x.cause == nil {
		x.cause = sendErr
	}
}

// finish is deferred around an exchange: a panic becomes an InternalFailure, and the request is
// logged and measured.
func (p *Pipeline) finish(x *exchange) {
	if value := recover(); value != nil {
		if value == http.ErrAbortHandler { //nolint:errorlint // net/http compares it like this
			panic(value)
		}
		p.opts.Log.Error("a request made the gateway panic", "request_id", x.id, "panic", value, "stack", string(debug.Stack()))
		if x.w.status == 0 {
			p.fail(x, aws.InternalFailure())
		}
	}
	p.observe(x)
}
