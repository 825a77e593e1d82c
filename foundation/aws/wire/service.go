package wire

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"sync"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// Limits bounds what a request may cost. A field that is 0 means its default.
type Limits struct {
	// Depth is how deep elements or parameter names may nest. Default 32.
	Depth int
	// Members is how many elements, attributes or parameters a request may have. Default 50,000.
	Members int
}

// DefaultBodyLimit is the greatest request body in bytes that ReadBody's callers should take: 4 MiB,
// four times the greatest Route 53 change batch.
const DefaultBodyLimit = 4 << 20

func (l Limits) withDefaults() (Limits, error) {
	if l.Depth < 0 || l.Members < 0 {
		return l, errors.New("wire: a limit cannot be negative")
	}
	if l.Depth == 0 {
		l.Depth = 32
	}
	if l.Members == 0 {
		l.Members = 50_000
	}
	return l, nil
}

// Service speaks for one service. It is safe for concurrent use.
type Service struct {
	model  *models.Service
	codec  codec
	limits Limits
	faults faults
	// index finds a structure's members by their names in the body.
	index map[*models.Shape]map[string]string
	// patterns are the compiled patterns; skipped lists those that Go's regular expressions lack.
	patterns map[*models.Shape]*regexp.Regexp
	skipped  []string
	routes   *routes
	fields   sync.Map // reflect.Type to fieldIndex
}

// codec is one protocol.
type codec interface {
	// match finds the operation.
	match(s *Service, r *http.Request, body []byte) (*Request, error)
	// decode reads the operation's input; it does not validate.
	decode(s *Service, req *Request) (map[string]any, error)
	// encode writes an output; out is nil where the operation has none.
	encode(s *Service, op *models.Operation, out map[string]any, requestID string) (*answer, error)
	// encodeError writes an error.
	encodeError(s *Service, e *failure, requestID string) *answer
	// faults returns the codes of the protocol's own errors.
	faults(service string) faults
}

// answer is an HTTP response before it is sent.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// Load makes the Service of a model in package models, by its name there.
func Load(model string, limits Limits) (*Service, error) {
	m, err := models.Load(model)
	if err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	return New(m, limits)
}

// New makes the Service of a resolved model. It fails for a protocol that has no codec.
func New(m *models.Service, limits Limits) (*Service, error) {
	c := codecOf(m.Metadata.Protocol)
	if c == nil {
		return nil, fmt.Errorf("wire: %s: no codec for protocol %q", m.Metadata.ServiceID, m.Metadata.Protocol)
	}
	limits, err := limits.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Service{
		model: m, codec: c, limits: limits, faults: c.faults(m.Metadata.Signing()),
		index: indexMembers(m),
	}
	s.patterns, s.skipped = compilePatterns(m)
	if s.routes, err = newRoutes(m); err != nil {
		return nil, fmt.Errorf("wire: %s: %w", m.Metadata.ServiceID, err)
	}
	return s, nil
}

func codecOf(protocol string) codec {
	switch protocol {
	case "query":
		return queryCodec{}
	case "rest-xml":
		return restXMLCodec{}
	}
	return nil
}

// Model returns the service's model.
func (s *Service) Model() *models.Service { return s.model }

// SkippedPatterns returns the shapes whose patterns are not enforced because Go's regular
// expressions cannot say them; a caller logs them once at start.
func (s *Service) SkippedPatterns() []string { return s.skipped }

// Request is an HTTP request whose operation is known.
type Request struct {
	// Operation is the model's.
	Operation *models.Operation

	http   *http.Request
	body   []byte
	labels map[string]string
	params params
}

// Match finds the operation that a request asks for. body is the whole request body. It looks at
// the method, the path and (in query protocols) the parameters, not at any member of the input.
// Its errors are *aws.Error.
func (s *Service) Match(r *http.Request, body []byte) (*Request, error) {
	req, err := s.codec.match(s, r, body)
	if err != nil {
		return nil, s.clientError(err)
	}
	return req, nil
}

// Decode reads the input of a matched request into a pointer to the operation's input type (or to
// a map[string]any), after validating it against the model. Its errors are *aws.Error, save a
// wrong type of into.
func (s *Service) Decode(req *Request, into any) error {
	in, err := s.codec.decode(s, req)
	if err != nil {
		return s.clientError(err)
	}
	if req.Operation.Input != nil {
		if err := s.validate(req.Operation.Input.Shape, in); err != nil {
			return err
		}
	}
	return s.bind(in, into)
}

// Encode writes the output of an operation with its status, headers and body. out is a pointer to
// the output type, a map[string]any, or nil for an output without members. Nothing is written when
// it returns an error: out does not fit the model, or op is not in it.
func (s *Service) Encode(w http.ResponseWriter, op string, out any, requestID string) error {
	o := s.model.Operations[op]
	if o == nil {
		return fmt.Errorf("wire: encode: the model has no operation %q", op)
	}
	var tree map[string]any
	if o.Output != nil {
		var err error
		if tree, err = s.structure(o.Output.Shape, out); err != nil {
			return fmt.Errorf("wire: encode %s: %w", op, err)
		}
	}
	a, err := s.codec.encode(s, o, tree, requestID)
	if err != nil {
		return fmt.Errorf("wire: encode %s: %w", op, err)
	}
	return a.send(w, requestID)
}

// EncodeError writes an error answer. op may be "" where the operation is not known. The status is
// the error's, else the model's for its code, else the customary one of the code, else 400.
func (s *Service) EncodeError(w http.ResponseWriter, op string, e *aws.Error, requestID string) error {
	f := s.failure(op, e)
	return s.codec.encodeError(s, f, requestID).send(w, requestID)
}

// send writes the answer. An error is the connection's.
func (a *answer) send(w http.ResponseWriter, requestID string) error {
	h := w.Header()
	for k, v := range a.header {
		h[k] = v
	}
	h.Set("X-Amzn-Requestid", requestID)
	if a.status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	if len(a.body) == 0 || a.status == http.StatusNoContent {
		return nil
	}
	if _, err := w.Write(a.body); err != nil {
		return fmt.Errorf("wire: write answer: %w", err)
	}
	return nil
}

// ReadBody reads a request body of at most limit bytes. A longer one is the *aws.Error
// RequestEntityTooLarge, HTTP 413; at most limit+1 bytes of it are read. Another error is the
// connection's, with IncompleteBody as its *aws.Error.
func ReadBody(body io.Reader, limit int64) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	b, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); !ok {
			return nil, aws.Errorf("IncompleteBody", "The request body ended before it was complete.").WithCause(err)
		}
		b = nil
	}
	if err != nil || int64(len(b)) > limit {
		e := aws.Errorf("RequestEntityTooLarge", "The request body is larger than %d bytes, the most that is accepted.", limit)
		e.Status = http.StatusRequestEntityTooLarge
		return nil, e
	}
	return b, nil
}
