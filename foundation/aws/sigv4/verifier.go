package sigv4

import (
	"context"
	"crypto/hmac"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/mulgadc/spinifex/foundation/aws"
)

// Errors that a Lookup returns for keys that cannot be used. Any other error of it is answered as
// ServiceUnavailable.
var (
	ErrUnknownKey   = errors.New("sigv4: no such access key, or it is not active")
	ErrExpiredToken = errors.New("sigv4: the session of the access key has ended")
)

// Identity is whose access key signed a request.
type Identity struct {
	Account   string // 12 digits
	Principal string // ARN
	UserID    string // unique id, as GetCallerIdentity answers it
}

// Credentials are what a signature is checked against.
type Credentials struct {
	AccessKeyID string
	Secret      string
	// SessionToken is set for keys of a session; the request must then carry it.
	SessionToken string
	Identity     Identity
}

// Options make a Verifier.
type Options struct {
	// Lookup finds the credentials of an access key. sessionToken is the request's, "" if it has
	// none; a Lookup may need it to find or open the session and need not check it otherwise.
	Lookup func(ctx context.Context, accessKeyID, sessionToken string) (*Credentials, error)
	// Region is the region of this cloud; a scope of another region is refused, save us-east-1 for
	// the global services iam, route53 and sts. "" accepts every region.
	Region string
	// Skew is how far a request's time may be from Now. Default 5 minutes.
	Skew time.Duration
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Keys is how many derived signing keys are kept. Default 1024.
	Keys int
}

// Verifier verifies requests. It is safe for concurrent use.
type Verifier struct {
	opts Options
	keys *keyCache
}

// New makes a Verifier.
func New(o Options) (*Verifier, error) {
	if o.Lookup == nil {
		return nil, errors.New("sigv4: Lookup is required")
	}
	if o.Skew < 0 || o.Keys < 0 {
		return nil, errors.New("sigv4: Skew and Keys cannot be negative")
	}
	if o.Skew == 0 {
		o.Skew = 5 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Keys == 0 {
		o.Keys = 1024
	}
	return &Verifier{opts: o, keys: newKeyCache(o.Keys)}, nil
}

// Mismatch is the cause of a SignatureDoesNotMatch. It is for debug logs: it has the request's
// headers and query, without session tokens.
type Mismatch struct {
	// Canonical is the canonical request that the signature was calculated over here.
	Canonical string
}

// Error does not show the canonical request.
func (*Mismatch) Error() string { return "the calculated signature is another one" }

// Verify checks a request whose body has the given SHA-256, in lower-case hex, and returns who
// signed it and the scope that it is signed for. Its errors are *aws.Error: MissingAuthenticationToken,
// IncompleteSignature, InvalidClientTokenId, ExpiredToken, SignatureDoesNotMatch, RequestExpired,
// or ServiceUnavailable when Lookup fails.
func (v *Verifier) Verify(ctx context.Context, r *http.Request, bodySHA256 string) (*Identity, Scope, error) {
	sig, err := parse(r)
	if err != nil {
		return nil, Scope{}, err
	}
	if err := v.checkScope(sig); err != nil {
		return nil, sig.scope, err
	}
	if err := v.checkTime(sig); err != nil {
		return nil, sig.scope, err
	}
	if err := checkSignedHeaders(r, sig); err != nil {
		return nil, sig.scope, err
	}
	hash, err := payloadHash(r, sig, bodySHA256)
	if err != nil {
		return nil, sig.scope, err
	}
	creds, err := v.credentials(ctx, sig)
	if err != nil {
		return nil, sig.scope, err
	}
	key := v.keys.derive(creds.Secret, sig.scope)
	given, err := hex.DecodeString(sig.signature)
	ok := err == nil && len(given) == 32
	var canonical string
	for _, path := range canonicalPaths(r, sig.scope.Service) {
		canonical = canonicalRequest(r, sig, path, hash)
		if ok && hmac.Equal(given, hmacSHA256(key, stringToSign(sig, canonical))) {
			id := creds.Identity
			return &id, sig.scope, nil
		}
	}
	return nil, sig.scope, denied("SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided. "+
		"Check your AWS Secret Access Key and signing method. Consult the service documentation for details.").
		WithCause(&Mismatch{Canonical: redact(canonical, sig.token)})
}

func denied(code, format string, args ...any) *aws.Error {
	e := aws.Errorf(code, format, args...)
	e.Status = http.StatusForbidden
	return e
}

// credentials looks the key up and checks the session token.
func (v *Verifier) credentials(ctx context.Context, sig *signature) (*Credentials, error) {
	invalid := denied("InvalidClientTokenId", "The security token included in the request is invalid.")
	creds, err := v.opts.Lookup(ctx, sig.scope.AccessKeyID, sig.token)
	switch {
	case errors.Is(err, ErrUnknownKey), err == nil && creds == nil:
		return nil, invalid
	case errors.Is(err, ErrExpiredToken):
		return nil, denied("ExpiredToken", "The security token included in the request is expired")
	case err != nil:
		e := aws.Errorf("ServiceUnavailable", "The access keys cannot be read at present; try again.")
		e.Status = http.StatusServiceUnavailable
		return nil, e.WithCause(fmt.Errorf("sigv4: look up access key %s: %w", sig.scope.AccessKeyID, err))
	}
	if subtle.ConstantTimeCompare([]byte(creds.SessionToken), []byte(sig.token)) != 1 {
		return nil, invalid
	}
	return creds, nil
}

// globalServices have one endpoint for all regions, whose requests are signed for us-east-1.
func globalServices() []string { return []string{"iam", "route53", "sts"} }

func (v *Verifier) checkScope(sig *signature) error {
	s := sig.scope
	if s.Date != sig.at.Format("20060102") {
		return denied("SignatureDoesNotMatch", "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '%s' != '%s', from '%s'.",
			s.Date, sig.at.Format("20060102"), sig.at.Format(timeFormat))
	}
	if v.opts.Region == "" || s.Region == v.opts.Region || s.Region == "us-east-1" && slices.Contains(globalServices(), s.Service) {
		return nil
	}
	return denied("SignatureDoesNotMatch", "Credential should be scoped to a valid region, not '%s'. The region of this cloud is '%s'.", s.Region, v.opts.Region)
}

// checkTime refuses what is too old, too far ahead or past its expiry.
func (v *Verifier) checkTime(sig *signature) error {
	now := v.opts.Now().UTC()
	minutes := func() string { return fmt.Sprintf("%g min.", v.opts.Skew.Minutes()) }
	at := sig.at.Format(timeFormat)
	if limit := now.Add(v.opts.Skew); sig.at.After(limit) {
		return denied("SignatureDoesNotMatch", "Signature not yet current: %s is still later than %s (%s + %s)",
			at, limit.Format(timeFormat), now.Format(timeFormat), minutes())
	}
	if sig.expires > 0 {
		if end := sig.at.Add(sig.expires); now.After(end) {
			return &aws.Error{Code: "RequestExpired", Message: "Request has expired: it was valid until " + end.Format(timeFormat) + ".", Status: http.StatusBadRequest}
		}
		return nil
	}
	if limit := now.Add(-v.opts.Skew); sig.at.Before(limit) {
		return denied("SignatureDoesNotMatch", "Signature expired: %s is now earlier than %s (%s - %s)",
			at, limit.Format(timeFormat), now.Format(timeFormat), minutes())
	}
	return nil
}
