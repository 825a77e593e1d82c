package sigv4_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go/aws/credentials"
	v4 "github.com/aws/aws-sdk-go/aws/signer/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/sigv4"
)

const (
	keyID  = "AKIAIOSFODNN7EXAMPLE"
	secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	token  = "FwoGZXIvYXdzEXAMPLE/token+with=signs"
)

var errStoreAway = errors.New("store is away")

func admin() sigv4.Identity {
	return sigv4.Identity{Account: "000000000001", Principal: "arn:aws:iam::000000000001:root", UserID: "000000000001"}
}

func lookup(_ context.Context, id, _ string) (*sigv4.Credentials, error) {
	switch id {
	case keyID:
		return &sigv4.Credentials{AccessKeyID: keyID, Secret: secret, Identity: admin()}, nil
	case "ASIASESSION":
		return &sigv4.Credentials{AccessKeyID: id, Secret: secret, SessionToken: token, Identity: admin()}, nil
	case "ASIAOLD":
		return nil, sigv4.ErrExpiredToken
	case "AKIAAWAY":
		return nil, errStoreAway
	}
	return nil, fmt.Errorf("key %s: %w", id, sigv4.ErrUnknownKey)
}

// server verifies what reaches it over a real connection.
type server struct {
	*httptest.Server
	id    *sigv4.Identity
	scope sigv4.Scope
	err   error
}

var signedAt = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func newVerifier(t *testing.T, now time.Time, region string) *sigv4.Verifier {
	t.Helper()
	v, err := sigv4.New(sigv4.Options{Lookup: lookup, Now: func() time.Time { return now }, Region: region})
	require.NoError(t, err)
	return v
}

func newServer(t *testing.T, v *sigv4.Verifier) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			s.err = err
			return
		}
		s.id, s.scope, s.err = v.Verify(r.Context(), r, hashOf(string(body)))
	}))
	t.Cleanup(s.Close)
	return s
}

func hashOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

func (s *server) send(t *testing.T, r *http.Request) {
	t.Helper()
	s.id, s.err = nil, nil
	resp, err := s.Client().Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}

func newRequest(t *testing.T, method, target, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	require.NoError(t, err)
	return r
}

func signer(id, session string, opts ...func(*v4.Signer)) *v4.Signer {
	return v4.NewSigner(credentials.NewStaticCredentials(id, secret, session), opts...)
}

func requireCode(t *testing.T, err error, code string) *aws.Error {
	t.Helper()
	e, ok := errors.AsType[*aws.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, code, e.Code, e.Message)
	return e
}

// requests are what clients send that is hard to sign alike.
func requests() map[string]struct{ method, path, body string } {
	return map[string]struct{ method, path, body string }{
		"plain get":               {"GET", "/2013-04-01/hostedzone", ""},
		"root":                    {"GET", "/", ""},
		"no path":                 {"GET", "", ""},
		"form":                    {"POST", "/", "Action=GetCallerIdentity&Version=2011-06-15"},
		"slash at the end":        {"POST", "/2013-04-01/hostedzone/Z1/rrset/", "<x/>"},
		"escaped slash":           {"GET", "/tags/arn%3Aaws%3Aeks%3Aus-east-1%3A1%3Acluster%2Fk", ""},
		"space and unicode":       {"GET", "/a%20b/%C3%A9%E2%82%AC", ""},
		"double slash":            {"GET", "//a///b//", ""},
		"dots":                    {"GET", "/a/./b/../c", ""},
		"reserved in path":        {"GET", "/a+b=c@d:e,f;g!h$i&j'k(l)*m~n", ""},
		"query order":             {"GET", "/?b=2&a=1&c=3&B=4", ""},
		"same parameter":          {"GET", "/?a=2&a=1&a=3&a=", ""},
		"no value":                {"GET", "/?acl&x=", ""},
		"encoded query":           {"GET", "/?name=a%20b%2Bc%2Fd&type=%C3%A9&q=%7Etilde*", ""},
		"plus in query":           {"GET", "/?name=a+b", ""},
		"percent in query":        {"GET", "/?marker=%2525", ""},
		"utf8 body":               {"POST", "/", "Comment=\u00e9\u20ac"},
		"equals in value":         {"GET", "/?token=abc==&x=1=2", ""},
		"prefix named parameters": {"GET", "/?a=1&a-b=2&ab=3&a.b=4", ""},
	}
}

func TestHeaderSignatures(t *testing.T) {
	s := newServer(t, newVerifier(t, signedAt, ""))
	for name, c := range requests() {
		t.Run(name, func(t *testing.T) {
			r := newRequest(t, c.method, s.URL+c.path, c.body)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
			_, err := signer(keyID, "").Sign(r, strings.NewReader(c.body), "sts", "us-east-1", signedAt)
			require.NoError(t, err)
			s.send(t, r)
			require.NoError(t, s.err)
			assert.Equal(t, admin(), *s.id)
			assert.Equal(t, sigv4.Scope{AccessKeyID: keyID, Date: "20260304", Region: "us-east-1", Service: "sts"}, s.scope)
		})
	}
}

func TestPresignedSignatures(t *testing.T) {
	s := newServer(t, newVerifier(t, signedAt.Add(59*time.Second), ""))
	for name, c := range requests() {
		t.Run(name, func(t *testing.T) {
			r := newRequest(t, c.method, s.URL+c.path, c.body)
			r.Header.Set("X-K8s-Aws-Id", "my-cluster")
			_, err := signer("ASIASESSION", token).Presign(r, strings.NewReader(c.body), "sts", "us-east-1", time.Minute, signedAt)
			require.NoError(t, err)
			s.send(t, r)
			require.NoError(t, s.err)
			assert.Equal(t, admin(), *s.id)
		})
	}
}

func TestOddHeaders(t *testing.T) {
	s := newServer(t, newVerifier(t, signedAt, ""))
	r := newRequest(t, "POST", s.URL+"/", "x")
	r.Host = "Route53.Example.Test:8443"
	r.Header.Add("X-Amz-Target", "  Service.Action  ")
	r.Header.Add("X-Many", "two  spaces   inside")
	r.Header.Add("X-Many", "second")
	r.Header.Add("X-Many", "")
	r.Header.Set("Content-Length", "1")
	_, err := signer(keyID, "").Sign(r, strings.NewReader("x"), "route53", "us-east-1", signedAt)
	require.NoError(t, err)
	s.send(t, r)
	require.NoError(t, s.err)
}

func TestSessionTokens(t *testing.T) {
	s := newServer(t, newVerifier(t, signedAt, ""))
	for _, c := range []struct{ name, id, token, code string }{
		{"right token", "ASIASESSION", token, ""},
		{"wrong token", "ASIASESSION", token + "x", "InvalidClientTokenId"},
		{"no token", "ASIASESSION", "", "InvalidClientTokenId"},
		{"token of a key without session", keyID, token, "InvalidClientTokenId"},
		{"expired session", "ASIAOLD", token, "ExpiredToken"},
		{"unknown key", "AKIANOBODY", "", "InvalidClientTokenId"},
		{"store away", "AKIAAWAY", "", "ServiceUnavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRequest(t, "GET", s.URL+"/", "")
			_, err := signer(c.id, c.token).Sign(r, strings.NewReader(""), "sts", "us-east-1", signedAt)
			require.NoError(t, err)
			s.send(t, r)
			if c.code == "" {
				require.NoError(t, s.err)
				return
			}
			e := requireCode(t, s.err, c.code)
			if c.code == "ServiceUnavailable" {
				require.ErrorIs(t, e, errStoreAway)
				assert.NotContains(t, e.Message, "store is away")
				assert.Equal(t, 503, e.Status)
				return
			}
			assert.Equal(t, http.StatusForbidden, e.Status)
			assert.Nil(t, s.id)
		})
	}
}

func TestUnsignedPayload(t *testing.T) {
	s := newServer(t, newVerifier(t, signedAt, ""))
	unsigned := func(v *v4.Signer) { v.UnsignedPayload = true }
	for _, presign := range []bool{false, true} {
		r := newRequest(t, "POST", s.URL+"/", "what was signed")
		var err error
		if presign {
			_, err = signer(keyID, "", unsigned).Presign(r, strings.NewReader("what was signed"), "sts", "us-east-1", time.Minute, signedAt)
		} else {
			_, err = signer(keyID, "", unsigned).Sign(r, strings.NewReader("what was signed"), "sts", "us-east-1", signedAt)
		}
		require.NoError(t, err)
		r.Body = io.NopCloser(strings.NewReader("something else!"))
		s.send(t, r)
		require.NoError(t, s.err, "presign %v", presign)
	}
}

func TestS3PathsAreNotEscapedTwice(t *testing.T) {
	s := newServer(t, newVerifier(t, signedAt, ""))
	for _, presign := range []bool{false, true} {
		r := newRequest(t, "GET", s.URL+"/bucket/a%20b/%E2%82%AC//c", "")
		sg := signer(keyID, "", func(v *v4.Signer) { v.DisableURIPathEscaping = true })
		var err error
		if presign {
			_, err = sg.Presign(r, nil, "s3", "us-east-1", time.Minute, signedAt)
		} else {
			_, err = sg.Sign(r, strings.NewReader(""), "s3", "us-east-1", signedAt)
		}
		require.NoError(t, err)
		s.send(t, r)
		require.NoError(t, s.err, "presign %v", presign)
	}
}

func TestPayloadHashes(t *testing.T) {
	s := newServer(t, newVerifier(t, signedAt, ""))
	for stated, code := range map[string]string{
		hashOf("body"):                       "",
		hashOf("other"):                      "SignatureDoesNotMatch",
		"STREAMING-AWS4-HMAC-SHA256-PAYLOAD": "InvalidRequest",
		"nonsense":                           "SignatureDoesNotMatch",
	} {
		r := newRequest(t, "POST", s.URL+"/", "body")
		r.Header.Set("X-Amz-Content-Sha256", stated)
		_, err := signer(keyID, "").Sign(r, strings.NewReader("body"), "sts", "us-east-1", signedAt)
		require.NoError(t, err)
		s.send(t, r)
		if code == "" {
			require.NoError(t, s.err)
			continue
		}
		requireCode(t, s.err, code)
	}
}

func TestTimes(t *testing.T) {
	for _, c := range []struct {
		name    string
		after   time.Duration
		presign time.Duration
		code    string
		status  int
		message string
	}{
		{"at the old edge", 5 * time.Minute, 0, "", 0, ""},
		{"too old", 5*time.Minute + time.Second, 0, "SignatureDoesNotMatch", 403, "Signature expired: 20260304T050607Z is now earlier than 20260304T050608Z (20260304T051108Z - 5 min.)"},
		{"at the early edge", -5 * time.Minute, 0, "", 0, ""},
		{"too early", -5*time.Minute - time.Second, 0, "SignatureDoesNotMatch", 403, "Signature not yet current: 20260304T050607Z is still later than 20260304T050606Z (20260304T050106Z + 5 min.)"},
		{"presigned at its end", time.Hour, time.Hour, "", 0, ""},
		{"presigned past its end", time.Hour + time.Second, time.Hour, "RequestExpired", 400, "Request has expired: it was valid until 20260304T060607Z."},
		{"presigned too early", -6 * time.Minute, time.Hour, "SignatureDoesNotMatch", 403, ""},
		{"presigned for too long", 0, 8 * 24 * time.Hour, "IncompleteSignature", 400, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, newVerifier(t, signedAt.Add(c.after), ""))
			r := newRequest(t, "GET", s.URL+"/", "")
			var err error
			if c.presign > 0 {
				_, err = signer(keyID, "").Presign(r, nil, "sts", "us-east-1", c.presign, signedAt)
			} else {
				_, err = signer(keyID, "").Sign(r, nil, "sts", "us-east-1", signedAt)
			}
			require.NoError(t, err)
			s.send(t, r)
			if c.code == "" {
				require.NoError(t, s.err)
				return
			}
			e := requireCode(t, s.err, c.code)
			assert.Equal(t, c.status, e.Status)
			if c.message != "" {
				assert.Equal(t, c.message, e.Message)
			}
		})
	}
}

func TestScopes(t *testing.T) {
	s := newServer(t, newVerifier(t, signedAt, "local-1"))
	for _, c := range []struct {
		service, region string
		ok              bool
	}{
		{"route53", "us-east-1", true}, {"sts", "us-east-1", true}, {"iam", "us-east-1", true}, {"sts", "local-1", true},
		{"ec2", "local-1", true}, {"ec2", "us-east-1", false}, {"sts", "eu-west-1", false},
	} {
		r := newRequest(t, "GET", s.URL+"/", "")
		_, err := signer(keyID, "").Sign(r, nil, c.service, c.region, signedAt)
		require.NoError(t, err)
		s.send(t, r)
		assert.Equal(t, c.service, s.scope.Service)
		if c.ok {
			require.NoError(t, s.err, "%s in %s", c.service, c.region)
			continue
		}
		assert.Contains(t, requireCode(t, s.err, "SignatureDoesNotMatch").Message, "local-1")
	}
}

func TestScopeOf(t *testing.T) {
	want := sigv4.Scope{AccessKeyID: keyID, Date: "20260304", Region: "eu-west-1", Service: "route53"}
	r := httptest.NewRequest("GET", "/", nil)
	_, err := signer(keyID, "").Sign(r, nil, "route53", "eu-west-1", signedAt)
	require.NoError(t, err)
	got, ok := sigv4.ScopeOf(r)
	assert.True(t, ok)
	assert.Equal(t, want, got)

	r = httptest.NewRequest("GET", "/", nil)
	_, err = signer(keyID, "").Presign(r, nil, "route53", "eu-west-1", time.Minute, signedAt)
	require.NoError(t, err)
	got, ok = sigv4.ScopeOf(r)
	assert.True(t, ok)
	assert.Equal(t, want, got)

	for _, auth := range []string{"", "Bearer x", "AWS4-HMAC-SHA256 x", "AWS4-HMAC-SHA256 Credential=a/b"} {
		r = httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", auth)
		_, ok = sigv4.ScopeOf(r)
		assert.False(t, ok, auth)
	}
}

func TestChangedSecretTakesEffectAtOnce(t *testing.T) {
	current := secret
	v, err := sigv4.New(sigv4.Options{
		Now: func() time.Time { return signedAt },
		Lookup: func(context.Context, string, string) (*sigv4.Credentials, error) {
			return &sigv4.Credentials{AccessKeyID: keyID, Secret: current, Identity: admin()}, nil
		},
		Keys: 2,
	})
	require.NoError(t, err)
	for _, service := range []string{"sts", "iam", "ec2", "sts"} { // more than the cache holds
		r := httptest.NewRequest("GET", "/", nil)
		_, err = signer(keyID, "").Sign(r, nil, service, "us-east-1", signedAt)
		require.NoError(t, err)
		_, _, err = v.Verify(t.Context(), r, hashOf(""))
		require.NoError(t, err)
		current = "another"
		_, _, err = v.Verify(t.Context(), r, hashOf(""))
		requireCode(t, err, "SignatureDoesNotMatch")
		current = secret
	}
}

func TestOptions(t *testing.T) {
	_, err := sigv4.New(sigv4.Options{})
	require.ErrorContains(t, err, "Lookup")
	_, err = sigv4.New(sigv4.Options{Lookup: lookup, Skew: -1})
	require.ErrorContains(t, err, "negative")
}

// The requests in testdata/botocore.json were signed by botocore 1.43.11, whose canonical paths are
// other than those of the SDK for Go.
func TestBotocoreSignatures(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "botocore.json"))
	require.NoError(t, err)
	var requests []struct {
		Name, Method, URL, Body string
		Headers                 map[string]string
	}
	require.NoError(t, json.Unmarshal(b, &requests))
	require.Len(t, requests, 12)
	v := newVerifier(t, signedAt, "us-east-1")
	for _, c := range requests {
		t.Run(c.Name, func(t *testing.T) {
			r := httptest.NewRequest(c.Method, c.URL, strings.NewReader(c.Body))
			for k, v := range c.Headers {
				r.Header.Set(k, v)
			}
			_, _, err := v.Verify(t.Context(), r, hashOf(c.Body))
			require.NoError(t, err)
			r.URL.Path, r.URL.RawPath = r.URL.Path+"x", ""
			_, _, err = v.Verify(t.Context(), r, hashOf(c.Body))
			requireCode(t, err, "SignatureDoesNotMatch")
		})
	}
}
