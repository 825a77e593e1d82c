package awsingress

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/sigv4"
)

// trusting takes every request for a good one, so that a fuzzed request comes through to the codecs.
type trusting struct{}

func (trusting) Verify(_ context.Context, r *http.Request, _ string) (*sigv4.Identity, sigv4.Scope, error) {
	scope, _ := sigv4.ScopeOf(r)
	return &sigv4.Identity{Account: "000000000001", Principal: "arn:aws:iam::000000000001:user/admin", UserID: "AIDAEXAMPLE"}, scope, nil
}

// nothing is a daemon that has nothing.
type nothing struct{}

func (nothing) Call(context.Context, *aws.Call, aws.Operation, any) (any, error) {
	return nil, aws.Errorf("NoSuchHostedZone", "There is none.")
}

// FuzzServeHTTP: whatever comes in, the answer is the client's fault and has a request id; there is
// no panic and no InternalFailure.
func FuzzServeHTTP(f *testing.F) {
	trustful, err := New(Options{
		Operations: operations(), Verifier: trusting{}, Dispatcher: nothing{}, Region: "eu-west-1", BodyLimit: 4096,
		Authorize: func(*aws.Call, aws.Operation, []string) error { return nil },
	})
	require.NoError(f, err)
	strict, err := sigv4.New(sigv4.Options{Region: "eu-west-1", Lookup: func(context.Context, string, string) (*sigv4.Credentials, error) {
		return &sigv4.Credentials{Secret: "unguessed"}, nil
	}})
	require.NoError(f, err)
	wary, err := New(Options{
		Operations: operations(), Verifier: strict, Dispatcher: nothing{}, Region: "eu-west-1", BodyLimit: 4096,
		Authorize: func(*aws.Call, aws.Operation, []string) error { return nil },
	})
	require.NoError(f, err)

	const auth = "AWS4-HMAC-SHA256 Credential=AKIAGOODGOODGOODGOOD/20261201/eu-west-1/SERVICE/aws4_request, SignedHeaders=host;x-amz-date, Signature=00"
	for service, request := range map[string][3]string{
		"sts":     {"POST", "/", "Action=GetCallerIdentity&Version=2011-06-15"},
		"route53": {"POST", "/2013-04-01/hostedzone", "<CreateHostedZoneRequest><Name>a</Name></CreateHostedZoneRequest>"},
		"ec2":     {"POST", "/", "Action=DescribeVpcs"},
		"s3":      {"PUT", "/bucket/key%2F..%2e", "x"},
	} {
		f.Add(request[0], request[1], strings.Replace(auth, "SERVICE", service, 1), form, request[2])
	}
	f.Add("GET", "/?X-Amz-Credential=AKIA/20261201/eu-west-1/sts/aws4_request&X-Amz-Signature=1&Action=%", "", "", "")
	f.Add("GET", "/2013-04-01/hostedzone/none", strings.Replace(auth, "SERVICE", "route53", 1), "text/xml", "")

	f.Fuzz(func(t *testing.T, method, path, authorization, contentType, body string) {
		target, err := url.ParseRequestURI(path)
		if err != nil {
			return // net/http refuses it
		}
		for _, pipeline := range []*Pipeline{trustful, wary} {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			r.Method, r.URL = method, target
			r.Header.Set("Content-Type", contentType)
			if authorization != "" {
				r.Header.Set("Authorization", authorization)
			}
			w := httptest.NewRecorder()
			pipeline.ServeHTTP(w, r)
			if isHealth(r) {
				continue
			}
			if w.Code < 400 || w.Code >= 500 {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
			if w.Header().Get("X-Amzn-Requestid") == "" || w.Body.Len() == 0 {
				t.Errorf("no request id or no body: %v %q", w.Header(), w.Body)
			}
		}
	})
}
