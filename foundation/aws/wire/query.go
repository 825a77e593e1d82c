package wire

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// queryCodec is the protocol of IAM, STS, RDS and ELB: parameters in, XML out.
type queryCodec struct{}

func (queryCodec) faults(string) faults {
	return faults{malformed: "MalformedQueryString", malformedStatus: http.StatusNotFound, validation: "ValidationError"}
}

// params are the parameters of a query request sorted by name, so that what belongs to a structure
// or list lies together and memory is proportional to the request.
type params []param

type param struct{ name, value string }

func (queryCodec) match(s *Service, r *http.Request, body []byte) (*Request, error) {
	p, err := queryParams(s, r, body)
	if err != nil {
		return nil, err
	}
	action, ok := p.get("Action")
	if !ok || action == "" {
		return nil, &aws.Error{Code: "MissingAction", Message: "The request must contain the parameter Action.", Status: http.StatusBadRequest}
	}
	version, ok := p.get("Version")
	if !ok || version == "" {
		version = "NO_VERSION_SPECIFIED"
	}
	op := s.model.Operations[action]
	if op == nil || version != s.model.Metadata.APIVersion {
		return nil, &aws.Error{
			Code:    "InvalidAction",
			Message: clip(fmt.Sprintf("Could not find operation %s for version %s", action, version)),
			Status:  http.StatusBadRequest,
		}
	}
	return &Request{Operation: op, http: r, body: body, params: p}, nil
}

// queryParams collects the parameters of the query string and, if it is one, of the form body.
func queryParams(s *Service, r *http.Request, body []byte) (params, error) {
	sources := []string{r.URL.RawQuery}
	if isForm(r) {
		sources = append(sources, string(body))
	}
	var p params
	for _, raw := range sources {
		if raw == "" {
			continue
		}
		values, err := parseQuery(raw, s.limits.Members-len(p))
		if err != nil {
			return nil, err
		}
		for k, vs := range values {
			if strings.Count(k, ".") >= s.limits.Depth {
				return nil, malformedf("A parameter name has more than %d parts.", s.limits.Depth)
			}
			if len(vs) > 1 {
				return nil, malformedf("The parameter %s is given more than once.", clip(k))
			}
			p = append(p, param{k, vs[0]})
		}
	}
	slices.SortFunc(p, func(a, b param) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(p); i++ {
		if p[i].name == p[i-1].name {
			return nil, malformedf("The parameter %s is given more than once.", clip(p[i].name))
		}
	}
	return p, nil
}

// isForm reports whether the body holds parameters: it does unless it says that it is another type.
func isForm(r *http.Request) bool {
	ct := r.Header.Get("Content-Type")
	if ct == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(ct)
	return err == nil && media == "application/x-www-form-urlencoded"
}

func (p params) get(name string) (string, bool) {
	i := sort.Search(len(p), func(i int) bool { return p[i].name >= name })
	if i < len(p) && p[i].name == name {
		return p[i].value, true
	}
	return "", false
}

// under returns the parameters whose names begin with prefix.
func (p params) under(prefix string) params {
	from := sort.Search(len(p), func(i int) bool { return p[i].name >= prefix })
	n := sort.Search(len(p)-from, func(i int) bool { return !strings.HasPrefix(p[from+i].name, prefix) })
	return p[from : from+n]
}

func (queryCodec) decode(s *Service, req *Request) (map[string]any, error) {
	if req.Operation.Input == nil {
		return map[string]any{}, nil
	}
	return req.params.structure(req.Operation.Input.Shape, "")
}

// structure reads a structure whose members are called prefix + name. It only looks at members that
// the model has; a newer client's other members are let be, as AWS does.
func (p params) structure(sh *models.Shape, prefix string) (map[string]any, error) {
	out := map[string]any{}
	for _, name := range sh.MemberNames {
		m := sh.Members[name]
		v, err := p.value(m, prefix+bodyName(name, m))
		if err != nil {
			return nil, err
		}
		if v != nil {
			out[name] = v
		}
	}
	return out, nil
}

// value reads the member called name, or nil where no parameter belongs to it.
func (p params) value(m *models.Ref, name string) (any, error) {
	text, here := p.get(name)
	below := p.under(name + ".")
	switch m.Shape.Type {
	case "structure":
		if len(below) == 0 && !here {
			return nil, nil
		}
		return below.structure(m.Shape, name+".")
	case "list":
		prefix := name + "."
		if !m.Flattened {
			prefix += listMember(m.Shape, "member") + "."
		}
		return below.list(m.Shape, prefix, here && text == "")
	case "map":
		prefix := name + "."
		if !m.Flattened {
			prefix += "entry."
		}
		return below.mapping(m.Shape, prefix)
	}
	if !here {
		return nil, nil
	}
	return parseScalar(m.Shape, formatOr(m, "iso8601"), text), nil
}

// listMember returns the name of a list's elements where it is not flattened.
func listMember(sh *models.Shape, otherwise string) string {
	if sh.Member.LocationName != "" {
		return sh.Member.LocationName
	}
	return otherwise
}

// indices returns the numbers that follow prefix, ascending. Gaps are no fault: AWS closes them.
func (p params) indices(prefix string) ([]int, error) {
	var out []int
	for _, e := range p.under(prefix) {
		token, _, _ := strings.Cut(e.name[len(prefix):], ".")
		n, err := strconv.Atoi(token)
		if err != nil || n < 0 || len(token) > 9 || token != strconv.Itoa(n) {
			return nil, malformedf("The parameter %s has no number where a list needs one.", clip(e.name))
		}
		if len(out) == 0 || out[len(out)-1] != n {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func (p params) list(sh *models.Shape, prefix string, empty bool) (any, error) {
	numbers, err := p.indices(prefix)
	if err != nil {
		return nil, err
	}
	if len(numbers) == 0 && !empty {
		return nil, nil
	}
	out := make([]any, 0, len(numbers))
	for _, n := range numbers {
		v, err := p.value(sh.Member, prefix+strconv.Itoa(n))
		if err != nil {
			return nil, err
		}
		if v != nil {
			out = append(out, v)
		}
	}
	return out, nil
}

func (p params) mapping(sh *models.Shape, prefix string) (any, error) {
	numbers, err := p.indices(prefix)
	if err != nil || len(numbers) == 0 {
		return nil, err
	}
	key, value := mapNames(sh)
	out := map[string]any{}
	for _, n := range numbers {
		at := prefix + strconv.Itoa(n) + "."
		k, ok := p.get(at + key)
		if !ok {
			return nil, malformedf("The parameter %s is missing.", clip(at+key))
		}
		if _, twice := out[k]; twice {
			return nil, malformedf("The key %s is given more than once.", clip(k))
		}
		v, err := p.value(sh.Value, at+value)
		if err != nil {
			return nil, err
		}
		if v == nil {
			return nil, malformedf("The parameter %s is missing.", clip(at+value))
		}
		out[k] = v
	}
	return out, nil
}

// mapNames returns the names of a map's key and value.
func mapNames(sh *models.Shape) (key, value string) {
	key, value = "key", "value"
	if sh.Key.LocationName != "" {
		key = sh.Key.LocationName
	}
	if sh.Value.LocationName != "" {
		value = sh.Value.LocationName
	}
	return key, value
}

func (queryCodec) encode(s *Service, op *models.Operation, out map[string]any, requestID string) (*answer, error) {
	var b xmlBuffer
	b.declare()
	b.open(op.Name+"Response", s.model.Metadata.XMLNamespace)
	if op.Output != nil {
		wrapper := op.Output.ResultWrapper
		if wrapper != "" {
			b.open(wrapper, "")
		}
		if err := b.members(op.Output.Shape, out); err != nil {
			return nil, err
		}
		if wrapper != "" {
			b.close(wrapper)
		}
	}
	b.open("ResponseMetadata", "")
	b.text("RequestId", requestID)
	b.close("ResponseMetadata")
	b.close(op.Name + "Response")
	return &answer{status: http.StatusOK, header: xmlHeader(), body: b.Bytes()}, nil
}

func (queryCodec) encodeError(s *Service, f *failure, requestID string) *answer {
	return xmlError(s.model.Metadata.XMLNamespace, f, requestID)
}
