package wire

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// routes finds operations of REST protocols by method and path.
type routes struct {
	byMethod map[string][]*route
}

// route is a parsed path template. Segments are literals, or labels when they begin with '{'.
type route struct {
	op       *models.Operation
	segments []string
	// greedy is true when the last label takes the rest of the path.
	greedy bool
	// query is what the template's query part demands.
	query url.Values
}

func newRoutes(m *models.Service) (*routes, error) {
	rs := &routes{byMethod: map[string][]*route{}}
	if !strings.HasPrefix(m.Metadata.Protocol, "rest-") {
		return rs, nil
	}
	for _, name := range slices.Sorted(maps.Keys(m.Operations)) {
		op := m.Operations[name]
		path, rawQuery, _ := strings.Cut(op.HTTP.RequestURI, "?")
		query, err := url.ParseQuery(rawQuery)
		if err != nil || !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("operation %s has the request URI %q", name, op.HTTP.RequestURI)
		}
		r := &route{op: op, segments: segments(path), query: query}
		if n := len(r.segments); n > 0 {
			last := r.segments[n-1]
			if r.greedy = strings.HasSuffix(last, "+}"); r.greedy {
				r.segments[n-1] = strings.TrimSuffix(last, "+}") + "}"
			}
		}
		rs.byMethod[op.HTTP.Method] = append(rs.byMethod[op.HTTP.Method], r)
	}
	for _, list := range rs.byMethod {
		slices.SortStableFunc(list, func(a, b *route) int { return b.weight() - a.weight() })
	}
	return rs, nil
}

// weight orders routes that could match the same path: literals before labels, labels before the
// greedy one, and a template that demands query parameters before one that does not.
func (r *route) weight() int {
	w := len(r.query) * 8
	for _, s := range r.segments {
		if !isLabel(s) {
			w += 2
		}
	}
	if !r.greedy {
		w++
	}
	return w
}

func isLabel(segment string) bool { return strings.HasPrefix(segment, "{") }

// segments splits an escaped path. One slash at the end makes no difference.
func segments(path string) []string {
	path = strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// match finds the operation of a method and an escaped path, with its labels unescaped.
func (rs *routes) match(method, escapedPath string, query url.Values) (*models.Operation, map[string]string, error) {
	path := segments(escapedPath)
	for _, r := range rs.byMethod[method] {
		if labels, ok := r.match(path, escapedPath, query); ok {
			return r.op, labels, nil
		}
	}
	return nil, nil, &aws.Error{
		Code:    "UnknownOperationException",
		Message: clip(fmt.Sprintf("There is no operation %s %s.", method, escapedPath)),
		Status:  http.StatusNotFound,
	}
}

func (r *route) match(path []string, whole string, query url.Values) (map[string]string, bool) {
	if len(path) < len(r.segments) || len(path) > len(r.segments) && !r.greedy {
		return nil, false
	}
	for k, want := range r.query {
		got, ok := query[k]
		if !ok || want[0] != "" && !slices.Contains(got, want[0]) {
			return nil, false
		}
	}
	labels := map[string]string{}
	for i, seg := range r.segments {
		if !isLabel(seg) {
			if seg != path[i] {
				return nil, false
			}
			continue
		}
		text := path[i]
		if r.greedy && i == len(r.segments)-1 {
			text = strings.Join(path[i:], "/")
			if strings.HasSuffix(whole, "/") {
				text += "/" // part of a key
			}
		}
		value, err := url.PathUnescape(text)
		if err != nil || value == "" || !utf8.ValidString(value) {
			return nil, false
		}
		labels[strings.Trim(seg, "{}")] = value
	}
	return labels, true
}
