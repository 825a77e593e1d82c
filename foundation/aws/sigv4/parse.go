package sigv4

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mulgadc/spinifex/foundation/aws"
)

const (
	algorithm  = "AWS4-HMAC-SHA256"
	terminator = "aws4_request"
	timeFormat = "20060102T150405Z"
	// mostHeaders bounds the list of signed headers.
	mostHeaders = 100
	// maxExpires is how long AWS lets a presigned request live: 7 days.
	maxExpires = 7 * 24 * time.Hour
)

// Scope is a credential scope: what a signing key is good for.
type Scope struct {
	AccessKeyID string
	Date        string // YYYYMMDD
	Region      string
	Service     string
}

// signature is what a request says of its own signature.
type signature struct {
	scope     Scope
	headers   []string // lower case, in the order given
	signature string   // hex
	at        time.Time
	token     string
	// presigned is true of a signature in the query string.
	presigned bool
	// expires is 0 where the request does not say it.
	expires time.Duration
	query   []pair
}

// pair is a parameter of the query string, decoded.
type pair struct{ key, value string }

func incomplete(format string, args ...any) *aws.Error {
	e := aws.Errorf("IncompleteSignature", format, args...)
	e.Status = http.StatusBadRequest
	return e
}

// ScopeOf returns the credential scope that a request claims, without verifying anything; it says
// which service a request is for, and so in which form an error has to be. ok is false where the
// request has no readable scope.
func ScopeOf(r *http.Request) (scope Scope, ok bool) {
	credential := r.URL.Query().Get("X-Amz-Credential")
	if h := r.Header.Get("Authorization"); h != "" {
		rest, found := strings.CutPrefix(h, algorithm)
		if !found {
			return Scope{}, false
		}
		fields, err := authorizationFields(rest)
		if err != nil {
			return Scope{}, false
		}
		credential = fields["Credential"]
	}
	scope, err := parseCredential(credential)
	return scope, err == nil
}

// parse reads the signature of a request from the one place it is in.
func parse(r *http.Request) (*signature, error) {
	query, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	inHeader := len(r.Header.Values("Authorization")) > 0
	inQuery := slices.ContainsFunc(query, func(p pair) bool { return p.key == "X-Amz-Signature" || p.key == "X-Amz-Algorithm" })
	switch {
	case inHeader && inQuery:
		return nil, incomplete("The request has a signature in the Authorization header and in the query string; only one is allowed.")
	case inHeader:
		return parseHeader(r, query)
	case inQuery:
		return parsePresigned(query)
	}
	return nil, denied("MissingAuthenticationToken", "Missing Authentication Token")
}

func parseHeader(r *http.Request, query []pair) (*signature, error) {
	if n := len(r.Header.Values("Authorization")); n != 1 {
		return nil, incomplete("The request has %d Authorization headers; one is allowed.", n)
	}
	name, rest, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if name != algorithm {
		return nil, incomplete("Unsupported AWS 'algorithm': '%s'; '%s' is expected.", clip(name), algorithm)
	}
	fields, err := authorizationFields(rest)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, f := range []string{"Credential", "SignedHeaders", "Signature"} {
		if fields[f] == "" {
			missing = append(missing, fmt.Sprintf("Authorization header requires '%s' parameter.", f))
		}
	}
	if len(missing) > 0 {
		return nil, incomplete("%s", strings.Join(missing, " "))
	}
	sig := &signature{signature: fields["Signature"], query: query}
	if sig.scope, err = parseCredential(fields["Credential"]); err != nil {
		return nil, err
	}
	if sig.headers, err = parseSignedHeaders(fields["SignedHeaders"]); err != nil {
		return nil, err
	}
	for _, h := range []string{"X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256"} {
		if len(r.Header.Values(h)) > 1 {
			return nil, incomplete("The request has more than one %s header.", h)
		}
	}
	sig.token = r.Header.Get("X-Amz-Security-Token")
	sig.at, err = headerTime(r)
	return sig, err
}

// headerTime reads X-Amz-Date, or Date where that is absent.
func headerTime(r *http.Request) (time.Time, error) {
	text := r.Header.Get("X-Amz-Date")
	if text == "" {
		if date := r.Header.Get("Date"); date != "" {
			for _, layout := range []string{http.TimeFormat, time.RFC1123Z} { // botocore ends it with -0000
				if t, err := time.Parse(layout, date); err == nil {
					return t.UTC(), nil
				}
			}
			text = date
		}
	}
	if text == "" {
		return time.Time{}, incomplete("Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.")
	}
	return parseTime(text)
}

func parseTime(text string) (time.Time, error) {
	t, err := time.Parse(timeFormat, text)
	if err != nil {
		return time.Time{}, incomplete("Date must be in ISO-8601 'basic format'. Got '%s'. See http://en.wikipedia.org/wiki/ISO_8601", clip(text))
	}
	return t, nil
}

// authorizationFields splits "Name=value, Name=value".
func authorizationFields(s string) (map[string]string, error) {
	fields := map[string]string{}
	for _, part := range strings.Split(s, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, incomplete("Invalid key=value pair (missing equal-sign) in Authorization header.")
		}
		if _, twice := fields[name]; twice {
			return nil, incomplete("Authorization header has the parameter '%s' more than once.", clip(name))
		}
		fields[name] = value
	}
	return fields, nil
}

func parsePresigned(query []pair) (*signature, error) {
	get := map[string]string{}
	for _, p := range query {
		if !strings.HasPrefix(p.key, "X-Amz-") {
			continue
		}
		if _, twice := get[p.key]; twice {
			return nil, incomplete("The parameter '%s' is given more than once.", clip(p.key))
		}
		get[p.key] = p.value
	}
	var missing []string
	for _, k := range []string{"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature", "X-Amz-SignedHeaders", "X-Amz-Date"} {
		if get[k] == "" {
			missing = append(missing, fmt.Sprintf("AWS query-string parameters must include '%s'.", k))
		}
	}
	if len(missing) > 0 {
		return nil, incomplete("%s Re-examine the query-string parameters.", strings.Join(missing, " "))
	}
	if get["X-Amz-Algorithm"] != algorithm {
		return nil, incomplete("Unsupported AWS 'algorithm': '%s'; '%s' is expected.", clip(get["X-Amz-Algorithm"]), algorithm)
	}
	sig := &signature{signature: get["X-Amz-Signature"], token: get["X-Amz-Security-Token"], presigned: true, query: query}
	var err error
	if sig.scope, err = parseCredential(get["X-Amz-Credential"]); err != nil {
		return nil, err
	}
	if sig.headers, err = parseSignedHeaders(get["X-Amz-SignedHeaders"]); err != nil {
		return nil, err
	}
	if sig.at, err = parseTime(get["X-Amz-Date"]); err != nil {
		return nil, err
	}
	if text, ok := get["X-Amz-Expires"]; ok {
		n, err := strconv.ParseUint(text, 10, 32)
		sig.expires = time.Duration(n) * time.Second
		if err != nil || n == 0 || sig.expires > maxExpires {
			return nil, incomplete("X-Amz-Expires must be a number of seconds from 1 to %d.", int64(maxExpires/time.Second))
		}
	}
	return sig, nil
}

// parseCredential reads KEY/DATE/REGION/SERVICE/aws4_request.
func parseCredential(s string) (Scope, error) {
	p := strings.Split(s, "/")
	if len(p) != 5 || slices.Contains(p[:4], "") {
		return Scope{}, incomplete("Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term.")
	}
	if p[4] != terminator {
		return Scope{}, denied("SignatureDoesNotMatch", "Credential should be scoped with a valid terminator: '%s', not '%s'.", terminator, clip(p[4]))
	}
	if len(p[0]) > 128 || len(p[1]) != 8 || len(p[2]) > 64 || len(p[3]) > 64 {
		return Scope{}, incomplete("Credential has an element of a wrong length.")
	}
	return Scope{AccessKeyID: p[0], Date: p[1], Region: p[2], Service: p[3]}, nil
}

// parseSignedHeaders reads the list of names, which has to be sorted, in lower case and without a
// name twice, as the canonical request has it.
func parseSignedHeaders(s string) ([]string, error) {
	names := strings.Split(s, ";")
	if len(names) > mostHeaders {
		return nil, incomplete("SignedHeaders has more than %d names.", mostHeaders)
	}
	for i, n := range names {
		if n == "" || n != strings.ToLower(n) || i > 0 && n <= names[i-1] {
			return nil, incomplete("SignedHeaders must be header names in lower case, sorted, each once, with ';' between.")
		}
	}
	return names, nil
}

// parseQuery splits a query string strictly, at '&' alone.
func parseQuery(raw string) ([]pair, error) {
	if raw == "" {
		return nil, nil
	}
	parts := strings.Split(raw, "&")
	out := make([]pair, 0, len(parts))
	for _, part := range parts {
		if part == "" {
			continue
		}
		k, v, _ := strings.Cut(part, "=")
		key, err1 := url.QueryUnescape(k)
		value, err2 := url.QueryUnescape(v)
		if err1 != nil || err2 != nil {
			return nil, &aws.Error{Code: "MalformedQueryString", Message: "The query string contains a syntax error.", Status: http.StatusNotFound}
		}
		out = append(out, pair{key, value})
	}
	return out, nil
}

// clip bounds what a message quotes of a request.
func clip(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}
