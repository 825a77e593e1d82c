package wire

import (
	"net/http"
	"slices"
	"strings"

	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// restXMLCodec is the protocol of Route 53 and S3: REST in, XML both ways.
type restXMLCodec struct{}

func (restXMLCodec) faults(service string) faults {
	f := faults{malformed: "MalformedXML", malformedStatus: http.StatusBadRequest, validation: "ValidationException"}
	if service == "route53" {
		f.malformed, f.validation = "MalformedInput", "InvalidInput"
	}
	return f
}

func (restXMLCodec) match(s *Service, r *http.Request, body []byte) (*Request, error) {
	return matchREST(s, r, body)
}

func (restXMLCodec) decode(s *Service, req *Request) (map[string]any, error) {
	out := map[string]any{}
	in := req.Operation.Input
	if in == nil {
		return out, nil
	}
	if err := decodeREST(s, req, in.Shape, out); err != nil {
		return nil, err
	}
	if in.Payload != "" {
		return out, decodeXMLPayload(s, req, in, out)
	}
	if len(s.index[in.Shape]) == 0 || len(req.body) == 0 {
		return out, nil
	}
	root := in.LocationName
	if root == "" {
		root = in.Shape.Name
	}
	body, err := decodeXMLBody(s, req.body, &models.Ref{Shape: in.Shape}, root)
	if err != nil {
		return nil, err
	}
	for name, v := range body.(map[string]any) {
		out[name] = v
	}
	return out, nil
}

// decodeXMLPayload reads the one member that is the whole body.
func decodeXMLPayload(s *Service, req *Request, in *models.Ref, out map[string]any) error {
	if len(req.body) == 0 {
		return nil
	}
	m := in.Shape.Members[in.Payload]
	switch m.Shape.Type {
	case "blob":
		out[in.Payload] = slices.Clone(req.body)
		return nil
	case "string":
		out[in.Payload] = string(req.body)
		return nil
	}
	v, err := decodeXMLBody(s, req.body, m, wireName(m.ShapeName, m))
	out[in.Payload] = v
	return err
}

// decodeXMLBody reads a document whose root element must be called root.
func decodeXMLBody(s *Service, body []byte, m *models.Ref, root string) (any, error) {
	x := s.newXMLReader(body)
	start, err := x.root()
	if err != nil {
		return nil, err
	}
	if start.Name.Local != root {
		return nil, invalidf("Invalid XML ; the document is %q; %q is expected.", clip(start.Name.Local), root)
	}
	v, err := x.value(m, start, nil)
	if err != nil {
		return nil, err
	}
	return v, x.end()
}

func (restXMLCodec) encode(s *Service, op *models.Operation, out map[string]any, _ string) (*answer, error) {
	a := &answer{header: http.Header{}}
	var err error
	if a.status, err = encodeREST(op, out, a.header); err != nil {
		return nil, err
	}
	if op.Output == nil {
		return a, nil
	}
	if p := op.Output.Payload; p != "" {
		return a, encodeXMLPayload(s, op.Output.Shape.Members[p], out[p], a)
	}
	var b xmlBuffer
	b.declare()
	b.open(op.Output.Shape.Name, namespace(s.model))
	if err := b.members(op.Output.Shape, out); err != nil {
		return nil, err
	}
	b.close(op.Output.Shape.Name)
	a.header["Content-Type"] = []string{"text/xml"}
	a.body = b.Bytes()
	return a, nil
}

// encodeXMLPayload writes the one member that is the whole body; v is nil where it is absent.
func encodeXMLPayload(s *Service, m *models.Ref, v any, a *answer) error {
	switch v := v.(type) {
	case nil:
		return nil
	case []byte:
		a.header["Content-Type"] = []string{"application/octet-stream"}
		a.body = v
		return nil
	case string:
		a.header["Content-Type"] = []string{"text/plain; charset=utf-8"}
		a.body = []byte(v)
		return nil
	}
	root := *m
	if root.XMLNamespace == nil {
		root.XMLNamespace = &models.Namespace{URI: namespace(s.model)}
	}
	var b xmlBuffer
	b.declare()
	if err := b.value(&root, wireName(m.ShapeName, m), v); err != nil {
		return err
	}
	a.header["Content-Type"] = []string{"text/xml"}
	a.body = b.Bytes()
	return nil
}

// namespace returns the namespace of a service's answers: the model's, or for Route 53, whose model
// has it at the inputs only, that of any input.
func namespace(m *models.Service) string {
	if m.Metadata.XMLNamespace != "" {
		return m.Metadata.XMLNamespace
	}
	for _, op := range m.Operations {
		if op.Input != nil && op.Input.XMLNamespace != nil {
			return op.Input.XMLNamespace.URI
		}
	}
	return ""
}

func (restXMLCodec) encodeError(s *Service, f *failure, requestID string) *answer {
	if f.shape != nil {
		if m := f.shape.Members["messages"]; m != nil && m.Shape.Type == "list" {
			return batchError(s, f, requestID)
		}
	}
	return xmlError(namespace(s.model), f, requestID)
}

// batchError writes Route 53's InvalidChangeBatch, whose root element is the code and which lists
// its messages. Clients read it in three ways: aws-sdk-go takes the list, botocore and newer SDKs
// take code and message from an Error element or a message beside the list. All find theirs.
func batchError(s *Service, f *failure, requestID string) *answer {
	var messages []string
	if list, ok := f.detail["messages"].([]any); ok {
		for _, e := range list {
			if text, ok := e.(string); ok {
				messages = append(messages, text)
			}
		}
	}
	message := f.message
	switch {
	case len(messages) == 0:
		messages = []string{message}
	case message == "":
		message = "[" + strings.Join(messages, ", ") + "]"
	}
	var b xmlBuffer
	b.declare()
	b.open(f.code, namespace(s.model))
	b.errorElement(&failure{code: f.code, message: message, status: f.status})
	b.text("Message", message)
	b.open("Messages", "")
	for _, text := range messages {
		b.text("Message", text)
	}
	b.close("Messages")
	b.text("RequestId", requestID)
	b.close(f.code)
	return &answer{status: f.status, header: xmlHeader(), body: b.Bytes()}
}
