package sigv4_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/sigv4"
)

// Every change to a signed request is noticed.
func TestTampering(t *testing.T) {
	v := newVerifier(t, signedAt, "")
	const body = "Action=GetCallerIdentity&Version=2011-06-15"
	signed := func(presign bool) *http.Request {
		r := httptest.NewRequest("POST", "http://sts.example.test/path?a=1&b=2", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Amz-Target", "A.B")
		var err error
		if presign {
			_, err = signer("ASIASESSION", token).Presign(r, strings.NewReader(body), "sts", "us-east-1", time.Minute, signedAt)
			r.Header.Del("X-Amz-Target") // it is in the query string now
		} else {
			_, err = signer("ASIASESSION", token).Sign(r, strings.NewReader(body), "sts", "us-east-1", signedAt)
		}
		require.NoError(t, err)
		return r
	}
	setQuery := func(r *http.Request, k, v string) {
		q := r.URL.Query()
		q.Set(k, v)
		r.URL.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	}
	replace := func(r *http.Request, from, to string) {
		h := r.Header.Get("Authorization")
		if h == "" {
			r.URL.RawQuery = strings.Replace(r.URL.RawQuery, url.QueryEscape(from), url.QueryEscape(to), 1)
			return
		}
		r.Header.Set("Authorization", strings.Replace(h, from, to, 1))
	}
	for name, tamper := range map[string]func(r *http.Request) string{
		"method":      func(r *http.Request) string { r.Method = "PUT"; return body },
		"path":        func(r *http.Request) string { r.URL.Path = "/Path"; return body },
		"path escape": func(r *http.Request) string { r.URL.Path, r.URL.RawPath = "/path", "/%70ath"; return body },
		"path slash":  func(r *http.Request) string { r.URL.Path = "/path/"; return body },
		"host":        func(r *http.Request) string { r.Host = "iam.example.test"; return body },
		"query value": func(r *http.Request) string { setQuery(r, "a", "2"); return body },
		"query added": func(r *http.Request) string { setQuery(r, "c", "3"); return body },
		"query case": func(r *http.Request) string {
			r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "a=1", "A=1", 1)
			return body
		},
		"body":         func(r *http.Request) string { return body + "&x=1" },
		"empty body":   func(r *http.Request) string { return "" },
		"content type": func(r *http.Request) string { r.Header.Set("Content-Type", "text/plain"); return body },
		"type added":   func(r *http.Request) string { r.Header.Add("Content-Type", "text/plain"); return body },
		"x-amz header added": func(r *http.Request) string {
			r.Header.Set("X-Amz-Target", "C.D")
			r.Header.Set("X-Amz-Other", "1")
			return body
		},
		"service":        func(r *http.Request) string { replace(r, "/sts/", "/iam/"); return body },
		"region":         func(r *http.Request) string { replace(r, "/us-east-1/", "/us-east-2/"); return body },
		"date":           func(r *http.Request) string { replace(r, "/20260304/", "/20260305/"); return body },
		"key":            func(r *http.Request) string { replace(r, "ASIASESSION/", keyID+"/"); return body },
		"signed headers": func(r *http.Request) string { replace(r, "content-type;host", "host"); return body },
		"time": func(r *http.Request) string {
			r.Header.Set("X-Amz-Date", "20260304T050608Z")
			setIf(r, setQuery, "X-Amz-Date", "20260304T050608Z")
			return body
		},
		"token": func(r *http.Request) string {
			r.Header.Set("X-Amz-Security-Token", "x")
			setIf(r, setQuery, "X-Amz-Security-Token", "x")
			return body
		},
		"expires": func(r *http.Request) string { setQuery(r, "X-Amz-Expires", "61"); return body },
	} {
		for _, presign := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s presign %v", name, presign), func(t *testing.T) {
				r := signed(presign)
				_, _, err := v.Verify(t.Context(), r, hashOf(body))
				require.NoError(t, err)
				b := tamper(r)
				id, _, err := v.Verify(t.Context(), r, hashOf(b))
				require.Error(t, err)
				require.Nil(t, id)
				e, ok := errors.AsType[*aws.Error](err)
				require.True(t, ok)
				assert.Contains(t, []string{"SignatureDoesNotMatch", "InvalidClientTokenId", "IncompleteSignature"}, e.Code)
				assert.NotContains(t, e.Message, token)
			})
		}
	}
}

// setIf sets a query parameter of a presigned request only.
func setIf(r *http.Request, set func(*http.Request, string, string), k, v string) {
	if r.Header.Get("Authorization") == "" {
		set(r, k, v)
	}
}

func TestEverySignatureDigitCounts(t *testing.T) {
	v := newVerifier(t, signedAt, "")
	r := httptest.NewRequest("GET", "/", nil)
	_, err := signer(keyID, "").Sign(r, nil, "sts", "us-east-1", signedAt)
	require.NoError(t, err)
	good := r.Header.Get("Authorization")
	at := strings.Index(good, "Signature=") + len("Signature=")
	for i := at; i < len(good); i++ {
		c := byte('0')
		if good[i] == '0' {
			c = '1'
		}
		r.Header.Set("Authorization", good[:i]+string(c)+good[i+1:])
		_, _, err := v.Verify(t.Context(), r, hashOf(""))
		requireCode(t, err, "SignatureDoesNotMatch")
	}
	for _, sig := range []string{good[at : len(good)-1], good[at:] + "00", "zz", strings.Repeat("0", 64)} {
		r.Header.Set("Authorization", good[:at]+sig)
		_, _, err := v.Verify(t.Context(), r, hashOf(""))
		requireCode(t, err, "SignatureDoesNotMatch")
	}
}

func TestMismatchShowsNoToken(t *testing.T) {
	v := newVerifier(t, signedAt, "")
	for _, presign := range []bool{false, true} {
		r := httptest.NewRequest("GET", "/here", nil)
		var err error
		if presign {
			_, err = signer("ASIASESSION", token).Presign(r, nil, "sts", "us-east-1", time.Minute, signedAt)
		} else {
			_, err = signer("ASIASESSION", token).Sign(r, nil, "sts", "us-east-1", signedAt)
		}
		require.NoError(t, err)
		_, _, err = v.Verify(t.Context(), r, hashOf("another body"))
		requireCode(t, err, "SignatureDoesNotMatch")
		m, ok := errors.AsType[*sigv4.Mismatch](err)
		require.True(t, ok)
		assert.Contains(t, m.Canonical, "GET\n/here\n")
		assert.Contains(t, m.Canonical, "REDACTED")
		assert.NotContains(t, m.Canonical, "FwoG")
		assert.NotContains(t, err.Error(), "/here")
	}
}

func TestMalformedSignatures(t *testing.T) {
	v := newVerifier(t, signedAt, "")
	const cred = "AKIA/20260304/us-east-1/sts/aws4_request"
	head := func(auth string) *http.Request {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Amz-Date", "20260304T050607Z")
		if auth != "" {
			r.Header.Set("Authorization", auth)
		}
		return r
	}
	for name, c := range map[string]struct {
		r    *http.Request
		code string
	}{
		"nothing":          {head(""), "MissingAuthenticationToken"},
		"bearer":           {head("Bearer abc"), "IncompleteSignature"},
		"basic":            {head("Basic abc"), "IncompleteSignature"},
		"empty":            {func() *http.Request { r := head(""); r.Header["Authorization"] = []string{""}; return r }(), "IncompleteSignature"},
		"two":              {func() *http.Request { r := head("a"); r.Header.Add("Authorization", "b"); return r }(), "IncompleteSignature"},
		"other algorithm":  {head("AWS4-ECDSA-P256-SHA256 Credential=" + cred), "IncompleteSignature"},
		"nothing in it":    {head("AWS4-HMAC-SHA256 "), "IncompleteSignature"},
		"no signature":     {head("AWS4-HMAC-SHA256 Credential=" + cred + ", SignedHeaders=host"), "IncompleteSignature"},
		"no equals":        {head("AWS4-HMAC-SHA256 Credential, SignedHeaders=host, Signature=ab"), "IncompleteSignature"},
		"twice":            {head("AWS4-HMAC-SHA256 Credential=" + cred + ", Credential=" + cred + ", SignedHeaders=host, Signature=ab"), "IncompleteSignature"},
		"short credential": {head("AWS4-HMAC-SHA256 Credential=AKIA/sts, SignedHeaders=host, Signature=ab"), "IncompleteSignature"},
		"empty element":    {head("AWS4-HMAC-SHA256 Credential=/20260304/us-east-1/sts/aws4_request, SignedHeaders=host, Signature=ab"), "IncompleteSignature"},
		"wrong terminator": {head("AWS4-HMAC-SHA256 Credential=AKIA/20260304/us-east-1/sts/aws5, SignedHeaders=host, Signature=ab"), "SignatureDoesNotMatch"},
		"no host":          {head("AWS4-HMAC-SHA256 Credential=" + cred + ", SignedHeaders=x-amz-date, Signature=ab"), "SignatureDoesNotMatch"},
		"unsorted headers": {head("AWS4-HMAC-SHA256 Credential=" + cred + ", SignedHeaders=x-amz-date;host, Signature=ab"), "IncompleteSignature"},
		"header twice":     {head("AWS4-HMAC-SHA256 Credential=" + cred + ", SignedHeaders=host;host, Signature=ab"), "IncompleteSignature"},
		"capital header":   {head("AWS4-HMAC-SHA256 Credential=" + cred + ", SignedHeaders=Host, Signature=ab"), "IncompleteSignature"},
		"many headers":     {head("AWS4-HMAC-SHA256 Credential=" + cred + ", SignedHeaders=" + strings.Repeat("a;", 200) + "b, Signature=ab"), "IncompleteSignature"},
		"other day":        {head("AWS4-HMAC-SHA256 Credential=AKIA/20260303/us-east-1/sts/aws4_request, SignedHeaders=host;x-amz-date, Signature=ab"), "SignatureDoesNotMatch"},
		"bad date": {func() *http.Request {
			r := head("AWS4-HMAC-SHA256 Credential=" + cred + ", SignedHeaders=host, Signature=ab")
			r.Header.Set("X-Amz-Date", "yesterday")
			return r
		}(), "IncompleteSignature"},
		"no date": {func() *http.Request {
			r := head("AWS4-HMAC-SHA256 Credential=" + cred + ", SignedHeaders=host, Signature=ab")
			r.Header.Del("X-Amz-Date")
			return r
		}(), "IncompleteSignature"},
		"presign missing":   {httptest.NewRequest("GET", "/?X-Amz-Algorithm=AWS4-HMAC-SHA256", nil), "IncompleteSignature"},
		"presign algorithm": {httptest.NewRequest("GET", "/?X-Amz-Algorithm=x&X-Amz-Credential=a&X-Amz-Signature=b&X-Amz-SignedHeaders=host&X-Amz-Date=d", nil), "IncompleteSignature"},
		"presign twice":     {httptest.NewRequest("GET", "/?X-Amz-Signature=a&X-Amz-Signature=b", nil), "IncompleteSignature"},
		"presign and header": {func() *http.Request {
			r := httptest.NewRequest("GET", "/?X-Amz-Signature=a", nil)
			r.Header.Set("Authorization", "x")
			return r
		}(), "IncompleteSignature"},
		"broken query":        {func() *http.Request { r := head(""); r.URL.RawQuery = "a=%zz"; return r }(), "MalformedQueryString"},
		"presign bad expires": {httptest.NewRequest("GET", "/?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="+url.QueryEscape(cred)+"&X-Amz-Signature=b&X-Amz-SignedHeaders=host&X-Amz-Date=20260304T050607Z&X-Amz-Expires=-1", nil), "IncompleteSignature"},
	} {
		t.Run(name, func(t *testing.T) {
			id, _, err := v.Verify(t.Context(), c.r, hashOf(""))
			requireCode(t, err, c.code)
			assert.Nil(t, id)
		})
	}
}

// FuzzVerify: no request panics the verifier, and none that was not signed passes it.
func FuzzVerify(f *testing.F) {
	r := httptest.NewRequest("GET", "/a%20b?x=1&y", nil)
	if _, err := signer(keyID, "").Sign(r, nil, "sts", "us-east-1", signedAt); err != nil {
		f.Fatal(err)
	}
	good := r.Header.Get("Authorization")
	f.Add("GET", "/a%20b", "x=1&y", good, "20260304T050607Z", "")
	f.Add("POST", "/", "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a%2F20260304%2Fb%2Fc%2Faws4_request&X-Amz-Signature=00&X-Amz-SignedHeaders=host&X-Amz-Date=20260304T050607Z&X-Amz-Expires=5", "", "", "t")
	f.Add("", "", "&&=%", "AWS4-HMAC-SHA256 ,=,", "", "")
	v, err := sigv4.New(sigv4.Options{Lookup: lookup, Now: func() time.Time { return signedAt }})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, path, query, auth, date, token string) {
		r := &http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}, Host: "h", Header: http.Header{}}
		for k, v := range map[string]string{"Authorization": auth, "X-Amz-Date": date, "X-Amz-Security-Token": token} {
			if v != "" {
				r.Header.Set(k, v)
			}
		}
		id, _, err := v.Verify(t.Context(), r, hashOf(""))
		sigv4.ScopeOf(r)
		if err == nil {
			// Only the seed's own signature is known; it covers the host that httptest gives.
			t.Fatalf("verified an unsigned request for %v", id)
		}
		if _, ok := errors.AsType[*aws.Error](err); !ok {
			t.Fatalf("not a client's error: %v", err)
		}
	})
}
