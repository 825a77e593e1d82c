package modelcheck

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// Kind is what is wrong with an answer.
type Kind string

// Kinds of findings.
const (
	// Body: the body is not what the protocol has, such as broken XML or a missing result wrapper.
	Body Kind = "body"
	// Unknown: an element that the model does not have at its place; clients drop it silently.
	Unknown Kind = "unknown"
	// Required: a member that the model requires is absent.
	Required Kind = "required"
	// Enum: a text outside the values that the model lists.
	Enum Kind = "enum"
	// Type: a text that is not of the member's type.
	Type Kind = "type"
	// Status: a good answer with another status than the model's.
	Status Kind = "status"
	// Error: an error code that neither the model has for the operation nor AWS has for all of them,
	// or one with another status than the model's.
	Error Kind = "error"
)

// Finding is one fault of an answer.
type Finding struct {
	Operation string
	Kind      Kind
	// Text is the place, such as ".HostedZones[].Name", and what stands there.
	Text string
}

// String formats a finding for people.
func (f Finding) String() string { return f.Operation + " " + string(f.Kind) + " " + f.Text }

// Checker judges the answers of one service. It is safe for concurrent use.
type Checker struct{ model *models.Service }

// New makes a Checker of a service whose protocol is query or rest-xml.
func New(m *models.Service) (*Checker, error) {
	if p := m.Metadata.Protocol; p != "query" && p != "rest-xml" {
		return nil, fmt.Errorf("modelcheck: %s: protocol %q cannot be checked", m.Metadata.ServiceID, p)
	}
	return &Checker{model: m}, nil
}

// check is the judging of one answer.
type check struct {
	model    *models.Service
	op       *models.Operation
	header   http.Header
	findings []Finding
}

// Check judges the answer to a call of an operation. It returns nil for a faultless one.
func (c *Checker) Check(operation string, status int, header http.Header, body []byte) []Finding {
	ck := &check{model: c.model, op: c.model.Operations[operation], header: header}
	if ck.op == nil {
		return []Finding{{operation, Unknown, "operation: the model does not have it"}}
	}
	if header.Get("x-amzn-RequestId") == "" {
		ck.add(Required, "header x-amzn-RequestId")
	}
	if status >= 300 {
		ck.failure(status, body)
	} else {
		ck.success(status, body)
	}
	return ck.findings
}

func (c *check) add(kind Kind, format string, args ...any) {
	c.findings = append(c.findings, Finding{c.op.Name, kind, fmt.Sprintf(format, args...)})
}

func (c *check) success(status int, body []byte) {
	want := c.op.HTTP.ResponseCode
	if want == 0 {
		want = http.StatusOK
	}
	if status != want {
		c.add(Status, "%d, the model says %d", status, want)
	}
	query := c.model.Metadata.Protocol == "query"
	out := c.op.Output
	if out != nil {
		c.headers(out.Shape)
	}
	if out == nil && !query || out != nil && opaque(out) {
		return
	}
	root := c.parse(body)
	if root == nil {
		return
	}
	if query {
		c.queryBody(root)
		return
	}
	ref := &models.Ref{ShapeName: out.ShapeName, Shape: out.Shape}
	if out.Payload != "" {
		ref = out.Shape.Members[out.Payload]
	} else if root.name != out.Shape.Name {
		c.add(Body, "root <%s>, the model says <%s>", root.name, out.Shape.Name)
	}
	c.value(ref, root, "")
}

// opaque reports whether the whole body is one text or blob.
func opaque(out *models.Ref) bool {
	return out.Payload != "" && out.Shape.Members[out.Payload].Shape.Type != "structure"
}

func (c *check) parse(body []byte) *element {
	root, err := parseXML(body)
	if err != nil {
		c.add(Body, "not XML: %v", err)
		return nil
	}
	if ct := c.header.Get("Content-Type"); !strings.HasPrefix(ct, "text/xml") && !strings.HasPrefix(ct, "application/xml") {
		c.add(Body, "content type %q", ct)
	}
	if want := c.namespace(); root.namespace != want {
		c.add(Body, "namespace %q, the model says %q", root.namespace, want)
	}
	return root
}

// namespace is the service's; Route 53's model has it at the inputs only.
func (c *check) namespace() string {
	if ns := c.model.Metadata.XMLNamespace; ns != "" {
		return ns
	}
	for _, op := range c.model.Operations {
		if op.Input != nil && op.Input.XMLNamespace != nil {
			return op.Input.XMLNamespace.URI
		}
	}
	return ""
}

func (c *check) queryBody(root *element) {
	if want := c.op.Name + "Response"; root.name != want {
		c.add(Body, "root <%s>, the protocol says <%s>", root.name, want)
	}
	if meta := root.child("ResponseMetadata"); meta == nil || meta.child("RequestId") == nil {
		c.add(Required, "<ResponseMetadata><RequestId>")
	}
	if c.op.Output == nil {
		return
	}
	el := root
	if w := c.op.Output.ResultWrapper; w != "" {
		if el = root.child(w); el == nil {
			c.add(Required, "result wrapper <%s>", w)
			return
		}
		for _, e := range root.children {
			if e.name != w && e.name != "ResponseMetadata" {
				c.add(Unknown, "<%s> beside <%s>", e.name, w)
			}
		}
	}
	c.value(&models.Ref{Shape: c.op.Output.Shape}, el, "")
}

// headers judges the members of an output that are in headers.
func (c *check) headers(sh *models.Shape) {
	for _, name := range sh.MemberNames {
		m := sh.Members[name]
		if m.Location != "header" {
			continue
		}
		key := m.LocationName
		if key == "" {
			key = name
		}
		switch v := c.header.Get(key); {
		case v != "":
			c.scalar(m.Shape, v, "."+name)
		case slices.Contains(sh.Required, name):
			c.add(Required, "header %s", key)
		}
	}
}

func (c *check) value(m *models.Ref, el *element, path string) {
	switch m.Shape.Type {
	case "structure":
		c.structure(m.Shape, el, path)
	case "list":
		if m.Flattened {
			c.value(m.Shape.Member, el, path+"[]")
			return
		}
		want := m.Shape.Member.LocationName
		if want == "" {
			want = "member"
		}
		for _, e := range el.children {
			if e.name != want {
				c.add(Unknown, "%s.<%s>, the model says <%s>", path, e.name, want)
				continue
			}
			c.value(m.Shape.Member, e, path+"[]")
		}
		c.noText(el, path)
	case "map":
		if m.Flattened {
			c.entry(m.Shape, el, path+"{}")
			return
		}
		for _, e := range el.children {
			if e.name != "entry" {
				c.add(Unknown, "%s.<%s>, the protocol says <entry>", path, e.name)
				continue
			}
			c.entry(m.Shape, e, path+"{}")
		}
	default:
		if len(el.children) > 0 {
			c.add(Type, "%s: <%s> inside a %s", path, el.children[0].name, m.Shape.Type)
			return
		}
		c.scalar(m.Shape, el.text, path)
	}
}

func (c *check) noText(el *element, path string) {
	if strings.TrimSpace(el.text) != "" {
		c.add(Type, "%s: text where elements belong", path)
	}
}

func (c *check) structure(sh *models.Shape, el *element, path string) {
	names := map[string]string{}
	for n, m := range sh.Members {
		if m.Location != "" || m.XMLAttribute {
			continue
		}
		wire := n
		if m.LocationName != "" {
			wire = m.LocationName
		} else if m.Shape.Type == "list" && m.Flattened && m.Shape.Member.LocationName != "" {
			wire = m.Shape.Member.LocationName
		}
		names[wire] = n
	}
	seen := map[string]bool{}
	for _, e := range el.children {
		n, ok := names[e.name]
		switch {
		case !ok && path == "" && (e.name == "ResponseMetadata" || e.name == "RequestId"):
		case !ok:
			c.add(Unknown, "%s.%s", path, e.name)
		case seen[n] && !sh.Members[n].Flattened:
			c.add(Unknown, "%s.%s, a second time", path, n)
		default:
			seen[n] = true
			c.value(sh.Members[n], e, path+"."+n)
		}
	}
	for _, r := range sh.Required {
		if m := sh.Members[r]; !seen[r] && m.Location == "" && !m.XMLAttribute {
			c.add(Required, "%s.%s", path, r)
		}
	}
	c.noText(el, path)
}

func (c *check) entry(sh *models.Shape, el *element, path string) {
	key, value := "key", "value"
	if sh.Key.LocationName != "" {
		key = sh.Key.LocationName
	}
	if sh.Value.LocationName != "" {
		value = sh.Value.LocationName
	}
	for _, e := range el.children {
		switch e.name {
		case key:
			c.value(sh.Key, e, path+".key")
		case value:
			c.value(sh.Value, e, path)
		default:
			c.add(Unknown, "%s.<%s>, the model says <%s> and <%s>", path, e.name, key, value)
		}
	}
	for _, want := range []string{key, value} {
		if el.child(want) == nil {
			c.add(Required, "%s.<%s>", path, want)
		}
	}
}

func (c *check) scalar(sh *models.Shape, text, path string) {
	ok := true
	switch sh.Type {
	case "string":
		if len(sh.Enum) > 0 && !slices.Contains(sh.Enum, text) {
			c.add(Enum, "%s=%s", path, text)
		}
	case "integer":
		_, err := strconv.ParseInt(text, 10, 32)
		ok = err == nil
	case "long":
		_, err := strconv.ParseInt(text, 10, 64)
		ok = err == nil
	case "float", "double":
		_, err := strconv.ParseFloat(text, 64)
		ok = err == nil
	case "boolean":
		ok = text == "true" || text == "false"
	case "timestamp":
		ok = isTime(sh.TimestampFormat, text)
	}
	if !ok {
		c.add(Type, "%s=%q is no %s", path, text, sh.Type)
	}
}

func isTime(format, text string) bool {
	switch format {
	case "unixTimestamp":
		_, err := strconv.ParseFloat(text, 64)
		return err == nil
	case "rfc822":
		_, err := http.ParseTime(text)
		return err == nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05Z", "2006-01-02T15:04:05.000Z"} {
		if _, err := time.Parse(layout, text); err == nil {
			return true
		}
	}
	return false
}
