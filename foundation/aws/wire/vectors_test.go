package wire

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// AWS's protocol test vectors are made for clients: they say what an input becomes on the wire and
// what an answer on the wire is parsed to. A server must do the reverse, so the input vectors are
// decoded here and the output vectors encoded.

type vectorSuite struct {
	Description string
	Metadata    models.Metadata
	Shapes      map[string]*models.Shape
	Cases       []vectorCase
}

type vectorCase struct {
	Given      models.Operation
	Params     map[string]any
	Serialized struct {
		Method, URI, Body string
		Headers           map[string]string
	}
	Result   map[string]any
	Response struct {
		StatusCode int `json:"status_code"`
		Headers    map[string]string
		Body       string
	}
}

func loadVectors(t *testing.T, file string) []vectorSuite {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "protocol", file))
	require.NoError(t, err)
	var suites []vectorSuite
	require.NoError(t, json.Unmarshal(b, &suites))
	require.NotEmpty(t, suites)
	return suites
}

func (v *vectorSuite) service(t *testing.T, c *vectorCase) *Service {
	t.Helper()
	if c.Given.HTTP.Method == "" {
		c.Given.HTTP.Method = "POST"
	}
	if c.Given.HTTP.RequestURI == "" {
		c.Given.HTTP.RequestURI = "/"
	}
	m := &models.Service{Metadata: v.Metadata, Shapes: v.Shapes, Operations: map[string]*models.Operation{c.Given.Name: &c.Given}}
	require.NoError(t, m.Resolve())
	s, err := New(m, Limits{})
	require.NoError(t, err)
	return s
}

// otherwise are the input vectors whose params a server cannot get back, with what it gets instead
// and why.
func otherwise(file, suite string, n int) (want map[string]any, why string) {
	switch fmt.Sprintf("%s %s %d", strings.TrimSuffix(filepath.Base(file), ".json"), suite, n) {
	case "query Idempotency token auto fill 1", "rest-xml Idempotency token auto fill 1":
		return map[string]any{"Token": "00000000-0000-4000-8000-000000000000"}, "the client fills the token in"
	case "rest-xml Header whitespace 0":
		return map[string]any{"Header1": "headerValue", "HeaderMap": map[string]any{
			"leading-space": "value", "with-space": "value", "leading-tab": "value", "key-leading-space": "value", "key-with-space": "value",
		}}, "HTTP takes space off header values, and the client takes it off the names"
	case "rest-xml Structure payload 3", "rest-xml Omits null query params, but serializes empty strings 0":
		return map[string]any{}, "null is not sent"
	case "rest-xml Nested structures 1":
		return map[string]any{"SubStructure": map[string]any{"Foo": "a"}, "Description": "baz"}, "null is not sent"
	}
	return nil, ""
}

func TestProtocolInputVectors(t *testing.T) {
	for _, file := range []string{"input/query.json", "input/rest-xml.json"} {
		for _, suite := range loadVectors(t, file) {
			for n, c := range suite.Cases {
				t.Run(fmt.Sprintf("%s/%s/%d", file, suite.Description, n), func(t *testing.T) {
					s := suite.service(t, &c)
					method := c.Serialized.Method
					if method == "" {
						method = c.Given.HTTP.Method
					}
					r := httptest.NewRequest(method, c.Serialized.URI, strings.NewReader(c.Serialized.Body))
					for k, v := range c.Serialized.Headers {
						r.Header.Set(k, v)
					}
					req, err := s.Match(r, []byte(c.Serialized.Body))
					require.NoError(t, err)
					assert.Equal(t, c.Given.Name, req.Operation.Name)
					// Not Decode, whose validation refuses the vectors' illegal enum values.
					got, err := s.codec.decode(s, req)
					require.NoError(t, err)
					want, why := otherwise(file, suite.Description, n)
					if why == "" {
						want = c.Params
					}
					var shape *models.Shape
					if c.Given.Input != nil {
						shape = c.Given.Input.Shape
					}
					assertSameTree(t, canonical(t, shape, want), got)
				})
			}
		}
	}
}

// canonical turns the vectors' JSON into the package's trees: numbers into times and integers,
// strings into blobs.
func canonical(t *testing.T, sh *models.Shape, v any) any {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if sh.Type == "map" {
				out[k] = canonical(t, sh.Value.Shape, e)
				continue
			}
			require.Contains(t, sh.Members, k)
			out[k] = canonical(t, sh.Members[k].Shape, e)
		}
		return out
	case []any:
		out := []any{}
		for _, e := range v {
			out = append(out, canonical(t, sh.Member.Shape, e))
		}
		return out
	case float64:
		switch sh.Type {
		case "timestamp":
			return time.Unix(int64(v), 0).UTC()
		case "integer", "long":
			return int64(v)
		}
	case string:
		if sh.Type == "blob" {
			return []byte(v)
		}
	}
	return v
}

func assertSameTree(t *testing.T, want, got any) {
	t.Helper()
	if w, ok := want.(map[string]any); ok && len(w) == 0 {
		assert.Empty(t, got)
		return
	}
	assert.Equal(t, want, got)
}

func TestProtocolOutputVectors(t *testing.T) {
	for _, file := range []string{"output/query.json", "output/rest-xml.json"} {
		for _, suite := range loadVectors(t, file) {
			for n, c := range suite.Cases {
				t.Run(fmt.Sprintf("%s/%s/%d", file, suite.Description, n), func(t *testing.T) {
					s := suite.service(t, &c)
					var out any = c.Result
					if c.Given.Output != nil {
						out = canonical(t, c.Given.Output.Shape, c.Result)
					}
					w := httptest.NewRecorder()
					require.NoError(t, s.Encode(w, c.Given.Name, out, "request-id"))
					assert.Equal(t, c.Response.StatusCode, w.Code)
					for k, v := range c.Response.Headers {
						assert.Equal(t, v, w.Header().Get(k), k)
					}
					if c.Given.Output != nil && c.Given.Output.Payload == "Stream" {
						assert.Equal(t, c.Response.Body, w.Body.String())
						return
					}
					assert.Equal(t, parseXML(t, c.Response.Body), parseXML(t, w.Body.String()))
				})
			}
		}
	}
}

// node is an element with what a client looks at: children in the order of their names (the order
// of different members means nothing), attributes, text.
type node struct {
	Name     string
	Attrs    map[string]string
	Text     string
	Children []node
}

// parseXML reads the body of an answer without its root, whose name clients ignore, and without the
// request id, which stands in different places in the vectors.
func parseXML(t *testing.T, body string) []node {
	t.Helper()
	if body == "" {
		return nil
	}
	d := xml.NewDecoder(strings.NewReader(body))
	var stack []node
	stack = append(stack, node{})
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch tok := tok.(type) {
		case xml.StartElement:
			n := node{Name: tok.Name.Local}
			for _, a := range tok.Attr {
				if a.Name.Local != "xmlns" && a.Name.Space != "xmlns" {
					if n.Attrs == nil {
						n.Attrs = map[string]string{}
					}
					n.Attrs[a.Name.Local] = a.Value
				}
			}
			stack = append(stack, n)
		case xml.CharData:
			stack[len(stack)-1].Text += strings.TrimSpace(string(tok))
		case xml.EndElement:
			n := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			slices.SortStableFunc(n.Children, func(a, b node) int { return strings.Compare(a.Name, b.Name) })
			if n.Name == "Map" || len(n.Children) > 0 && n.Children[0].Name == "entry" {
				slices.SortStableFunc(n.Children, func(a, b node) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
			if n.Name != "ResponseMetadata" && n.Name != "RequestId" {
				stack[len(stack)-1].Children = append(stack[len(stack)-1].Children, n)
			}
		}
	}
	require.Len(t, stack, 1)
	require.Len(t, stack[0].Children, 1, "one root")
	return sortMaps(stack[0].Children[0].Children)
}

// sortMaps orders flattened maps, whose entries have no order.
func sortMaps(ns []node) []node {
	for i := range ns {
		ns[i].Children = sortMaps(ns[i].Children)
	}
	slices.SortStableFunc(ns, func(a, b node) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 || a.Name != "Map" {
			return c
		}
		return strings.Compare(fmt.Sprint(a.Children), fmt.Sprint(b.Children))
	})
	return ns
}

func TestVectorFilesAreComplete(t *testing.T) {
	count := map[string]int{}
	for _, file := range []string{"input/query.json", "input/rest-xml.json", "output/query.json", "output/rest-xml.json"} {
		for _, s := range loadVectors(t, file) {
			count[file] += len(s.Cases)
		}
	}
	assert.Equal(t, map[string]int{
		"input/query.json": 29, "input/rest-xml.json": 44, "output/query.json": 17, "output/rest-xml.json": 17,
	}, count)
}
