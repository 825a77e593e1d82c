package messaging

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mulgadc/spinifex/foundation/aws"
)

// Headers of a call. Their values are covered by the signature, as are the subject and the body.
const (
	headerAccount   = "Spinifex-Account"
	headerPrincipal = "Spinifex-Principal"
	headerUserID    = "Spinifex-User-Id"
	headerRegion    = "Spinifex-Region"
	headerRequestID = "Spinifex-Request-Id"
	headerSourceIP  = "Spinifex-Source-Ip"
	headerDeadline  = "Spinifex-Deadline" // Unix milliseconds
	headerAttempt   = "Spinifex-Attempt"  // from 1; each is let through once
	headerGateway   = "Spinifex-Gateway"
	headerKeyID     = "Spinifex-Key-Id"
	headerTrace     = "traceparent"
	headerTraceMore = "tracestate"

	// headerSignature is the base64 of the Ed25519 signature.
	headerSignature = "Spinifex-Signature"
)

// signedHeaders is the fixed order in which the signature covers the headers. A change of the list
// is a change of signaturePurpose.
func signedHeaders() []string {
	return []string{
		headerAccount, headerPrincipal, headerUserID, headerRegion, headerRequestID, headerSourceIP,
		headerDeadline, headerAttempt, headerGateway, headerKeyID, headerTrace, headerTraceMore,
	}
}

// signaturePurpose separates this use of a gateway's key from any other one.
const signaturePurpose = "spinifex aws call 1"

const (
	// MaxLifetime is how far ahead a deadline may lie. It bounds how long a seen call is remembered.
	MaxLifetime = 3 * time.Minute

	// maxHeaderValue bounds one header; an ARN has at most 2048 characters.
	maxHeaderValue = 2048

	// maxSeen bounds the calls that a Verifier remembers: at the default deadline of 30 s more than
	// 17,000 calls a second, in about 60 MB.
	maxSeen = 1 << 19
)

// Reasons why an identity is refused.
var (
	// ErrUnsigned: a header that must be there is missing, repeated or too long.
	ErrUnsigned = errors.New("messaging: the call carries no complete signed identity")
	// ErrUnknownGateway: no record names the gateway, or its record has another key.
	ErrUnknownGateway = errors.New("messaging: the call is signed by an unknown gateway")
	// ErrBadSignature: the subject, body or a header is not what was signed.
	ErrBadSignature = errors.New("messaging: the signature of the call does not match")
	// ErrStale: the deadline has passed, or lies further ahead than MaxLifetime.
	ErrStale = errors.New("messaging: the call is stale")
	// ErrReplayed: this process has seen the call before.
	ErrReplayed = errors.New("messaging: the call has been seen before")
	// ErrReplayMemoryFull: too many calls are remembered, so a new one cannot be told from a replay.
	ErrReplayMemoryFull = errors.New("messaging: too many calls to tell a new one from a replay")
)

// Signer signs calls for one gateway.
type Signer struct {
	gateway string
	keyID   string
	key     ed25519.PrivateKey
}

// NewSigner makes the Signer of the gateway on the node of that name.
func NewSigner(gateway string, key ed25519.PrivateKey) (*Signer, error) {
	if !gatewayName(gateway) {
		return nil, fmt.Errorf("messaging: gateway name %q: want 1 to 128 letters, digits, '-', '_' or '.'", gateway)
	}
	if len(key) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("messaging: the key of gateway %s has %d bytes, want %d", gateway, len(key), ed25519.PrivateKeySize)
	}
	return &Signer{gateway: gateway, keyID: KeyID(key.Public().(ed25519.PublicKey)), key: key}, nil
}

// sign returns the headers of a call whose subject and body are these.
func (s *Signer) sign(subject string, body []byte, call *aws.Call, attempt int, trace map[string]string) nats.Header {
	h := nats.Header{}
	set := func(name, value string) {
		if value != "" {
			h[name] = []string{value}
		}
	}
	set(headerAccount, call.Account)
	set(headerPrincipal, call.Principal)
	set(headerUserID, call.UserID)
	set(headerRegion, call.Region)
	set(headerRequestID, call.RequestID)
	set(headerSourceIP, call.SourceIP)
	set(headerDeadline, strconv.FormatInt(call.Deadline.UnixMilli(), 10))
	set(headerAttempt, strconv.Itoa(attempt))
	set(headerGateway, s.gateway)
	set(headerKeyID, s.keyID)
	set(headerTrace, trace[headerTrace])
	set(headerTraceMore, trace[headerTraceMore])
	signature := ed25519.Sign(s.key, signedBytes(subject, body, h))
	set(headerSignature, base64.StdEncoding.EncodeToString(signature))
	return h
}

// signedBytes is the SHA-256 over purpose, subject, body hash and headers, each with its length in
// front so that no two calls have the same bytes.
func signedBytes(subject string, body []byte, h nats.Header) []byte {
	sum := sha256.New()
	writeField(sum, signaturePurpose)
	writeField(sum, subject)
	bodySum := sha256.Sum256(body)
	sum.Write(bodySum[:])
	for _, name := range signedHeaders() {
		writeField(sum, first(h, name))
	}
	return sum.Sum(nil)
}

func writeField(sum hash.Hash, value string) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(value)))
	sum.Write(length[:])
	sum.Write([]byte(value))
}

func first(h nats.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// KeyID names a public key: the first eight bytes of its SHA-256 in hex.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// KeySource finds the public key of a gateway. An unknown gateway, or one that has another key than
// keyID, is an error that is ErrUnknownGateway; any other error means that nobody knows.
type KeySource interface {
	PublicKey(ctx context.Context, gateway, keyID string) (ed25519.PublicKey, error)
}

// Verifier checks the identity of calls. One process has one, so that a call is refused the second
// time whichever endpoint it is sent to.
type Verifier struct {
	keys KeySource
	seen *replayMemory
}

// NewVerifier makes a Verifier that takes gateways' keys from keys.
func NewVerifier(keys KeySource) *Verifier {
	return &Verifier{keys: keys, seen: newReplayMemory(maxSeen)}
}

// Verify returns who makes a call. Its errors are those of this file, or of the KeySource.
func (v *Verifier) Verify(ctx context.Context, subject string, header nats.Header, body []byte) (*aws.Call, error) {
	signature, err := checkShape(header)
	if err != nil {
		return nil, err
	}
	millis, err := strconv.ParseInt(first(header, headerDeadline), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is no number", ErrUnsigned, headerDeadline)
	}
	deadline, now := time.UnixMilli(millis), time.Now()
	if !deadline.After(now) {
		return nil, fmt.Errorf("%w: its deadline passed %s ago", ErrStale, now.Sub(deadline))
	}
	if deadline.Sub(now) > MaxLifetime {
		return nil, fmt.Errorf("%w: its deadline is %s ahead, at most %s is allowed", ErrStale, deadline.Sub(now), MaxLifetime)
	}
	gateway := first(header, headerGateway)
	key, err := v.keys.PublicKey(ctx, gateway, first(header, headerKeyID))
	if err != nil {
		return nil, err
	}
	if !ed25519.Verify(key, signedBytes(subject, body, header), signature) {
		return nil, fmt.Errorf("%w: gateway %s", ErrBadSignature, gateway)
	}
	// Only a call whose signature is right takes room in the memory.
	requestID := first(header, headerRequestID)
	if err := v.seen.add(now, deadline, gateway, requestID, first(header, headerAttempt)); err != nil {
		return nil, fmt.Errorf("%w: request id %s of gateway %s", err, requestID, gateway)
	}
	return &aws.Call{
		Account:   first(header, headerAccount),
		Principal: first(header, headerPrincipal),
		UserID:    first(header, headerUserID),
		Region:    first(header, headerRegion),
		RequestID: requestID,
		SourceIP:  first(header, headerSourceIP),
		Deadline:  deadline,
	}, nil
}

// checkShape refuses headers that cannot be a signed identity and returns the signature.
func checkShape(header nats.Header) ([]byte, error) {
	for _, name := range append(signedHeaders(), headerSignature) {
		values := header[name]
		if len(values) > 1 {
			return nil, fmt.Errorf("%w: %s stands there %d times", ErrUnsigned, name, len(values))
		}
		if len(values) == 1 && len(values[0]) > maxHeaderValue {
			return nil, fmt.Errorf("%w: %s has %d bytes", ErrUnsigned, name, len(values[0]))
		}
	}
	for _, name := range []string{
		headerAccount, headerPrincipal, headerRequestID, headerDeadline, headerAttempt, headerGateway, headerKeyID, headerSignature,
	} {
		if first(header, name) == "" {
			return nil, fmt.Errorf("%w: %s is missing", ErrUnsigned, name)
		}
	}
	if !gatewayName(first(header, headerGateway)) {
		return nil, fmt.Errorf("%w: %s is no name of a gateway", ErrUnsigned, headerGateway)
	}
	signature, err := base64.StdEncoding.DecodeString(first(header, headerSignature))
	if err != nil || len(signature) != ed25519.SignatureSize {
		return nil, fmt.Errorf("%w: %s is no Ed25519 signature", ErrUnsigned, headerSignature)
	}
	return signature, nil
}

// gatewayName says whether name can be a node's name.
func gatewayName(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return name != "" && len(name) <= 128
}
