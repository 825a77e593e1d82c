package wire_test

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/wire"
)

// checkDecode runs one request to its end: no panic, an error is a client's error, and that can be
// written as an answer.
func checkDecode(t *testing.T, s *wire.Service, r *http.Request, body string) {
	t.Helper()
	into := map[string]any{}
	req, err := s.Match(r, []byte(body))
	op := ""
	if err == nil {
		op = req.Operation.Name
		err = s.Decode(req, &into)
	}
	if err == nil {
		return
	}
	e, ok := errors.AsType[*aws.Error](err)
	require.True(t, ok, "%v", err)
	require.NotEmpty(t, e.Code)
	require.GreaterOrEqual(t, e.Status, 400)
	require.Less(t, e.Status, 500)
	for _, word := range []string{"xml: ", "strconv.", "invalid character", "reflect", "runtime error", "invalid syntax"} {
		if !strings.Contains(body+r.URL.Path+r.URL.RawQuery, word) { // else the client said it
			require.NotContains(t, e.Message, word)
		}
	}
	w := httptest.NewRecorder()
	require.NoError(t, s.EncodeError(w, op, e, "id"))
	require.Equal(t, e.Status, w.Code)
}

// FuzzDecodeRESTXML sends a body and query to one of the operations; path overrides the operation's
// own where it is given.
func FuzzDecodeRESTXML(f *testing.F) {
	s, err := wire.Load("route53", wire.Limits{Depth: 16, Members: 500})
	if err != nil {
		f.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(s.Model().Operations))
	at := func(op string) uint8 { return uint8(slices.Index(names, op)) }
	f.Add(at("ChangeResourceRecordSets"), "", "", changeBatch)
	f.Add(at("ListResourceRecordSets"), "", "name=a&type=A&maxitems=1", "")
	f.Add(at("GetHostedZone"), "/2013-04-01/hostedzone/%2Fx%FF/", "a=%zz", "")
	f.Add(at("ChangeTagsForResource"), "", "", "<ChangeTagsForResourceRequest><AddTags><Tag><Key>k</Key><Value>v</Value></Tag></AddTags></ChangeTagsForResourceRequest>")
	f.Add(at("CreateHealthCheck"), "", "", `<?xml version="1.0"?><CreateHealthCheckRequest xmlns="u"><CallerReference>1</CallerReference><HealthCheckConfig><Type>HTTP</Type><Port>x</Port><Regions><Region>a</Region></Regions></HealthCheckConfig></CreateHealthCheckRequest>`)
	labels := regexp.MustCompile(`\{[^}]*\}`)
	f.Fuzz(func(t *testing.T, n uint8, path, query, body string) {
		op := s.Model().Operations[names[int(n)%len(names)]]
		r := &http.Request{Method: op.HTTP.Method, Header: http.Header{}, URL: &url.URL{Path: labels.ReplaceAllString(op.HTTP.RequestURI, "Z1"), RawQuery: query}}
		if u, err := url.ParseRequestURI(path); err == nil {
			r.URL.Path, r.URL.RawPath = u.Path, u.RawPath
		}
		checkDecode(t, s, r, body)
	})
}

func FuzzDecodeQuery(f *testing.F) {
	f.Add("", "Action=GetCallerIdentity&Version=2011-06-15", "")
	f.Add("Action=AssumeRole&Version=2011-06-15", "RoleArn=a&RoleSessionName=b&Tags.member.1.Key=k&Tags.member.1.Value=v&PolicyArns.member.2.arn=x&DurationSeconds=1", "application/x-www-form-urlencoded; charset=utf-8")
	f.Add("", "Action=AssumeRole&Version=2011-06-15&Tags.member.x=1&&=&%", "text/plain")
	s, err := wire.Load("sts", wire.Limits{Depth: 16, Members: 500})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, query, body, contentType string) {
		r := &http.Request{Method: "POST", Header: http.Header{"Content-Type": {contentType}}, URL: &url.URL{Path: "/", RawQuery: query}}
		checkDecode(t, s, r, strings.Clone(body))
	})
}
