package wire

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// matchREST finds the operation of a REST protocol.
func matchREST(s *Service, r *http.Request, body []byte) (*Request, error) {
	query, err := parseQuery(r.URL.RawQuery, s.limits.Members)
	if err != nil {
		return nil, err
	}
	op, labels, err := s.routes.match(r.Method, r.URL.EscapedPath(), query)
	if err != nil {
		return nil, err
	}
	return &Request{Operation: op, http: r, body: body, labels: labels}, nil
}

// parseQuery reads a query string or form of at most most parameters, strictly.
func parseQuery(raw string, most int) (url.Values, error) {
	if strings.Count(raw, "&") >= most {
		return nil, malformedf("The request has more than %d parameters.", most)
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, malformedf("The query string contains a syntax error.")
	}
	for k, vs := range values {
		for _, v := range append([]string{k}, vs...) {
			if !utf8.ValidString(v) {
				return nil, malformedf("The query string is not valid UTF-8.")
			}
		}
	}
	return values, nil
}

// decodeREST reads the members that are not in the body into out.
func decodeREST(s *Service, req *Request, sh *models.Shape, out map[string]any) error {
	query, err := parseQuery(req.http.URL.RawQuery, s.limits.Members)
	if err != nil {
		return err
	}
	for _, name := range sh.MemberNames {
		m := sh.Members[name]
		switch m.Location {
		case "uri":
			if v, ok := req.labels[wireName(name, m)]; ok {
				out[name] = parseScalar(m.Shape, formatOr(m, "iso8601"), v)
			}
		case "querystring":
			v, err := queryMember(sh, name, m, query)
			if err != nil {
				return err
			}
			if v != nil {
				out[name] = v
			}
		case "header":
			if vs := req.http.Header.Values(wireName(name, m)); len(vs) > 0 {
				text := strings.Join(vs, ",")
				if !utf8.ValidString(text) {
					return malformedf("The header %s is not valid UTF-8.", wireName(name, m))
				}
				out[name] = parseScalar(m.Shape, formatOr(m, "rfc822"), strings.TrimSpace(text))
			}
		case "headers":
			if v := headerMap(m, req.http.Header); len(v) > 0 {
				out[name] = v
			}
		}
	}
	return nil
}

// wireName returns the name of a member that is not in the body.
func wireName(name string, m *models.Ref) string {
	if m.LocationName != "" {
		return m.LocationName
	}
	return name
}

// formatOr returns the timestamp format of a member, or that of its place.
func formatOr(m *models.Ref, place string) string {
	if m.TimestampFormat != "" {
		return m.TimestampFormat
	}
	return place
}

// queryMember reads one member from the query string: a scalar, a list by repetition, or a map of
// all parameters that no other member claims.
func queryMember(sh *models.Shape, name string, m *models.Ref, query url.Values) (any, error) {
	switch m.Shape.Type {
	case "map":
		out := map[string]any{}
		for k, vs := range query {
			if !claimed(sh, k) {
				if m.Shape.Value.Shape.Type == "list" {
					out[k] = queryList(m.Shape.Value.Shape, vs)
				} else {
					out[k] = parseScalar(m.Shape.Value.Shape, formatOr(m.Shape.Value, "iso8601"), vs[0])
				}
			}
		}
		if len(out) == 0 {
			return nil, nil
		}
		return out, nil
	case "list":
		if vs := query[wireName(name, m)]; len(vs) > 0 {
			return queryList(m.Shape, vs), nil
		}
		return nil, nil
	}
	vs := query[wireName(name, m)]
	switch len(vs) {
	case 0:
		return nil, nil
	case 1:
		return parseScalar(m.Shape, formatOr(m, "iso8601"), vs[0]), nil
	}
	return nil, malformedf("The parameter %s is given more than once.", wireName(name, m))
}

func queryList(sh *models.Shape, vs []string) []any {
	list := make([]any, len(vs))
	for i, v := range vs {
		list[i] = parseScalar(sh.Member.Shape, formatOr(sh.Member, "iso8601"), v)
	}
	return list
}

// claimed reports whether a query parameter belongs to a member of its own.
func claimed(sh *models.Shape, param string) bool {
	for name, m := range sh.Members {
		if m.Location == "querystring" && m.Shape.Type != "map" && wireName(name, m) == param {
			return true
		}
	}
	return false
}

// headerMap collects the headers with a prefix. Header names have no case; the keys are lower case.
func headerMap(m *models.Ref, h http.Header) map[string]any {
	out := map[string]any{}
	for k, vs := range h {
		k = strings.ToLower(k)
		if rest, ok := strings.CutPrefix(k, strings.ToLower(m.LocationName)); ok && utf8.ValidString(vs[0]) {
			out[rest] = strings.TrimSpace(vs[0])
		}
	}
	return out
}

// encodeREST writes the members that are not in the body: headers, and the status where the output
// has one. It returns the status of the answer.
func encodeREST(op *models.Operation, out map[string]any, h http.Header) (int, error) {
	status := op.HTTP.ResponseCode
	if status == 0 {
		status = http.StatusOK
	}
	if op.Output == nil {
		return status, nil
	}
	for name, m := range op.Output.Shape.Members {
		v, ok := out[name]
		if !ok {
			continue
		}
		switch m.Location {
		case "header":
			text, err := formatScalar(m.Shape, formatOr(m, "rfc822"), v)
			if err != nil {
				return 0, err
			}
			h.Set(wireName(name, m), text)
		case "headers":
			entries, ok := v.(map[string]any)
			if !ok {
				return 0, fmt.Errorf("%s cannot be a %T", name, v)
			}
			for k, e := range entries {
				text, err := formatScalar(m.Shape.Value.Shape, "", e)
				if err != nil {
					return 0, err
				}
				h.Set(m.LocationName+k, text)
			}
		case "statusCode":
			n, ok := v.(int64)
			if !ok || n < 100 || n > 599 {
				return 0, fmt.Errorf("%s cannot be the status %v", name, v)
			}
			status = int(n)
		}
	}
	return status, nil
}
