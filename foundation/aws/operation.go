package aws

import (
	"context"
	"fmt"
	"time"
)

// Operation is one AWS API operation: a table line. The daemon serves the Handler, the gateway
// reads the rest.
type Operation struct {
	// Service is the SigV4 signing name, such as "route53".
	Service string
	// Name is AWS's name of the operation, such as "CreateHostedZone".
	Name string
	// Mutating is true when the operation can change state.
	Mutating bool
	// Resources returns the ARNs that the call is about, for authorisation; nil means "*".
	Resources func(call *Call, in any) []string
	// NewInput returns a pointer to a zero value of the operation's input type.
	NewInput func() any
	// NewOutput returns a pointer to a zero value of the operation's output type.
	NewOutput func() any
	// Handler does the work. It is not to be called in a table built with a nil Service.
	Handler Handler
}

// Handler carries out one call. in is what NewInput returned, filled; out is a pointer to the
// output type. Errors that the caller may see are *Error; any other error is logged and answered
// as InternalFailure.
type Handler func(ctx context.Context, call *Call, in any) (out any, err error)

// Call is who asks, and how.
type Call struct {
	Account   string // 12 digits
	Principal string // ARN
	UserID    string // unique id, as GetCallerIdentity answers it
	Region    string
	RequestID string
	SourceIP  string
	Deadline  time.Time
}

// NewOperation makes a typed table line.
func NewOperation[In, Out any](service, name string, mutating bool, resources func(*Call, *In) []string,
	h func(ctx context.Context, call *Call, in *In) (*Out, error),
) Operation {
	op := Operation{
		Service: service, Name: name, Mutating: mutating,
		NewInput:  func() any { return new(In) },
		NewOutput: func() any { return new(Out) },
		Handler: func(ctx context.Context, call *Call, in any) (any, error) {
			return h(ctx, call, in.(*In))
		},
	}
	if resources != nil {
		op.Resources = func(call *Call, in any) []string { return resources(call, in.(*In)) }
	}
	return op
}

// Error is an error that a client may see: exactly Code and Message, nothing of the cause.
type Error struct {
	// Code is the wire code of the API model, such as "NoSuchHostedZone".
	Code string
	// Message says what is wrong and what is allowed.
	Message string
	// Status is the HTTP status; 0 means the model's, or 400.
	Status int
	// Detail is a pointer to the modelled exception's struct where it has members besides message.
	Detail any
	cause  error
}

// Errorf makes an Error whose message is formatted.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// InternalFailure is the answer to a fault of the cloud itself. What it is goes into the cause.
func InternalFailure() *Error {
	return &Error{Code: "InternalFailure", Status: 500, Message: "The request processing has failed because of an unknown error."}
}

// Unavailable is an answer after which clients try again.
func Unavailable(message string) *Error {
	return &Error{Code: "ServiceUnavailable", Status: 503, Message: message}
}

// WithCause keeps the internal error for the log; it never reaches the client.
func (e *Error) WithCause(err error) *Error { c := *e; c.cause = err; return &c }

// Error formats code, message and cause for logs.
func (e *Error) Error() string {
	if e.cause != nil {
		return e.Code + ": " + e.Message + ": " + e.cause.Error()
	}
	return e.Code + ": " + e.Message
}

// Unwrap returns the internal cause.
func (e *Error) Unwrap() error { return e.cause }
