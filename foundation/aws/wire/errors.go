package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// faults are the codes that a protocol (or a service with a habit of its own) has for requests that
// never become a call.
type faults struct {
	// malformed is the code for input that cannot be parsed, with its status.
	malformed       string
	malformedStatus int
	// validation is the code for input that parses but does not fit the model; HTTP 400.
	validation string
}

// problem is what a codec found wrong; clientError gives it the service's code.
type problem struct {
	kind    problemKind
	message string
}

type problemKind int

const (
	malformed problemKind = iota
	invalid
)

func (p *problem) Error() string { return p.message }

func malformedf(format string, args ...any) error {
	return &problem{kind: malformed, message: fmt.Sprintf(format, args...)}
}

func invalidf(format string, args ...any) error {
	return &problem{kind: invalid, message: fmt.Sprintf(format, args...)}
}

// clientError turns a codec's error into the client's. An error of another kind than *problem and
// *aws.Error is a bug here; the client learns nothing of it.
func (s *Service) clientError(err error) error {
	if p, ok := errors.AsType[*problem](err); ok {
		e := &aws.Error{Code: s.faults.validation, Message: clip(p.message), Status: http.StatusBadRequest}
		if p.kind == malformed {
			e.Code, e.Status = s.faults.malformed, s.faults.malformedStatus
		}
		return e
	}
	if e, ok := errors.AsType[*aws.Error](err); ok {
		return e
	}
	return aws.Errorf("InternalFailure", "The request could not be processed.").WithCause(err)
}

// failure is an error with what the wire needs to know of it.
type failure struct {
	code, message string
	status        int
	// shape and detail are set for a modelled exception; detail may be empty.
	shape  *models.Shape
	detail map[string]any
}

// sender says whose fault it is, in the words of the query protocol.
func (f *failure) sender() string {
	if f.status >= 500 {
		return "Receiver"
	}
	return "Sender"
}

// failure finds an error's shape: the operation's exceptions first, then any of the service.
func (s *Service) failure(op string, e *aws.Error) *failure {
	f := &failure{code: e.Code, message: e.Message, status: e.Status}
	f.shape = s.exception(op, e.Code)
	if f.status == 0 {
		f.status = customaryStatus(e.Code)
	}
	if f.status == 0 && f.shape != nil {
		f.status = f.shape.ErrorStatus()
	}
	if f.status == 0 {
		f.status = http.StatusBadRequest
	}
	if f.shape != nil && e.Detail != nil {
		detail := e.Detail
		if raw, ok := detail.(json.RawMessage); ok {
			var m map[string]any
			if json.Unmarshal(raw, &m) != nil {
				return f
			}
			detail = m
		}
		// A detail that does not fit the model is left out: the code and message still say it.
		if tree, err := s.structure(f.shape, detail); err == nil {
			f.detail = tree
		}
	}
	if f.message == "" {
		f.message, _ = f.detail["message"].(string)
	}
	return f
}

func (s *Service) exception(op, code string) *models.Shape {
	if o := s.model.Operations[op]; o != nil {
		for _, r := range o.Errors {
			if r.Shape.ErrorCode() == code {
				return r.Shape
			}
		}
	}
	if sh := s.model.Shapes[code]; sh != nil && sh.Exception && sh.ErrorCode() == code {
		return sh
	}
	for _, sh := range s.model.Shapes {
		if sh.Exception && sh.ErrorCode() == code {
			return sh
		}
	}
	return nil
}

// customaryStatus returns the HTTP status of codes that no model has, and 0 for others.
func customaryStatus(code string) int {
	switch code {
	case "AccessDenied", "InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken", "MissingAuthenticationToken", "OptInRequired":
		return http.StatusForbidden
	case "InternalFailure", "InternalError", "InternalServiceError":
		return http.StatusInternalServerError
	case "ServiceUnavailable":
		return http.StatusServiceUnavailable
	case "RequestEntityTooLarge":
		return http.StatusRequestEntityTooLarge
	case "UnknownOperationException", "MalformedQueryString":
		return http.StatusNotFound
	case "RequestTimeout":
		return http.StatusRequestTimeout
	}
	return 0
}

// clip bounds a message that quotes the client.
func clip(s string) string {
	const most = 2048
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + "..."
}
