package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/mulgadc/spinifex/foundation/aws"
)

const unsignedPayload = "UNSIGNED-PAYLOAD"

// checkSignedHeaders demands what AWS does: the host is signed, and every X-Amz header that the
// request has, because those change what a request means.
func checkSignedHeaders(r *http.Request, sig *signature) error {
	if !slices.Contains(sig.headers, "host") {
		return denied("SignatureDoesNotMatch", "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
	}
	for name := range r.Header {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "x-amz-") && !slices.Contains(sig.headers, lower) {
			return denied("SignatureDoesNotMatch", "'%s' must be a 'SignedHeader' in the AWS Authorization.", clip(name))
		}
	}
	return nil
}

// payloadHash returns the hash that stands in the canonical request: the body's own, or the word
// for an unsigned payload where the client chose that. A client that states another hash than the
// body has cannot have signed this body.
func payloadHash(r *http.Request, sig *signature, bodySHA256 string) (string, error) {
	stated := r.Header.Get("X-Amz-Content-Sha256")
	if stated == "" && sig.presigned {
		for _, p := range sig.query {
			if p.key == "X-Amz-Content-Sha256" {
				stated = p.value
			}
		}
	}
	switch {
	case stated == "" && sig.presigned && sig.scope.Service == "s3":
		return unsignedPayload, nil
	case stated == "":
		return bodySHA256, nil
	case stated == unsignedPayload:
		return unsignedPayload, nil
	case strings.HasPrefix(stated, "STREAMING-"):
		return "", &aws.Error{Code: "InvalidRequest", Message: "Payloads signed in chunks are not supported here.", Status: http.StatusBadRequest}
	case stated != bodySHA256:
		return "", denied("SignatureDoesNotMatch", "The provided 'x-amz-content-sha256' header does not match what was computed.")
	}
	return bodySHA256, nil
}

// canonicalPaths returns the forms in which clients sign a path. S3's is the path as it was sent.
// Elsewhere each segment is escaped once more; some clients first remove dot segments and double
// slashes, as AWS documents, and some do not. The routing of the request works on the path as sent
// and knows neither, so that accepting both opens no second way to a resource.
func canonicalPaths(r *http.Request, service string) []string {
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	if service == "s3" {
		return []string{path}
	}
	paths := []string{escape(path, true)}
	if clean := cleanPath(path); clean != path {
		paths = append(paths, escape(clean, true))
	}
	return paths
}

// cleanPath removes dot segments and empty ones, and keeps a slash at the end.
func cleanPath(path string) string {
	var out []string
	for _, s := range strings.Split(path, "/") {
		switch s {
		case "", ".":
		case "..":
			if len(out) > 0 {
				out = out[:len(out)-1]
			}
		default:
			out = append(out, s)
		}
	}
	clean := "/" + strings.Join(out, "/")
	if strings.HasSuffix(path, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// escape percent-encodes everything but unreserved characters, and slashes unless told to.
func escape(s string, keepSlash bool) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == '~', c == '/' && keepSlash:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

// canonicalRequest is the text that the signature covers.
func canonicalRequest(r *http.Request, sig *signature, path, hash string) string {
	var b strings.Builder
	b.WriteString(r.Method)
	b.WriteByte('\n')
	b.WriteString(path)
	b.WriteByte('\n')
	b.WriteString(canonicalQuery(sig.query))
	b.WriteByte('\n')
	for _, name := range sig.headers {
		b.WriteString(name)
		b.WriteByte(':')
		b.WriteString(headerValue(r, name))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	b.WriteString(strings.Join(sig.headers, ";"))
	b.WriteByte('\n')
	b.WriteString(hash)
	return b.String()
}

// canonicalQuery sorts the escaped parameters, without the signature itself.
func canonicalQuery(query []pair) string {
	out := make([]pair, 0, len(query))
	for _, p := range query {
		if p.key != "X-Amz-Signature" {
			out = append(out, pair{escape(p.key, false), escape(p.value, false)})
		}
	}
	slices.SortFunc(out, func(a, b pair) int {
		if c := strings.Compare(a.key, b.key); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	texts := make([]string, len(out))
	for i, p := range out {
		texts[i] = p.key + "=" + p.value
	}
	return strings.Join(texts, "&")
}

// headerValue returns a header's values as they are signed: each without space at its ends and
// with one space for several, joined by commas. Go's server keeps the host and the length apart.
func headerValue(r *http.Request, name string) string {
	switch name {
	case "host":
		return strings.TrimSpace(r.Host)
	case "content-length":
		if r.Header.Get("Content-Length") == "" && r.ContentLength >= 0 {
			return strconv.FormatInt(r.ContentLength, 10)
		}
	}
	values := r.Header.Values(name)
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = strings.Join(strings.Fields(v), " ")
	}
	return strings.Join(out, ",")
}

func stringToSign(sig *signature, canonical string) string {
	sum := sha256.Sum256([]byte(canonical))
	return strings.Join([]string{
		algorithm,
		sig.at.Format(timeFormat),
		strings.Join([]string{sig.scope.Date, sig.scope.Region, sig.scope.Service, terminator}, "/"),
		hex.EncodeToString(sum[:]),
	}, "\n")
}

func hmacSHA256(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// redact takes a session token out of a canonical request.
func redact(canonical, token string) string {
	if token == "" {
		return canonical
	}
	canonical = strings.ReplaceAll(canonical, token, "REDACTED")
	return strings.ReplaceAll(canonical, escape(token, false), "REDACTED")
}
