package messaging

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws"
)

// testKey is the private key of the gateway "gw" in tests.
func testKey(fill byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(slices.Repeat([]byte{fill}, ed25519.SeedSize))
}

// fixedKeys is a KeySource that knows the gateways of a map.
type fixedKeys map[string]ed25519.PublicKey

func (k fixedKeys) PublicKey(_ context.Context, gateway, keyID string) (ed25519.PublicKey, error) {
	key, ok := k[gateway]
	if !ok || KeyID(key) != keyID {
		return nil, fmt.Errorf("%w: %s", ErrUnknownGateway, gateway)
	}
	return key, nil
}

func testIdentity(t *testing.T) (*Signer, *Verifier) {
	t.Helper()
	key := testKey(1)
	signer, err := NewSigner("gw", key)
	require.NoError(t, err)
	return signer, NewVerifier(fixedKeys{"gw": key.Public().(ed25519.PublicKey)})
}

// testCall is a call whose every member is set; its deadline is 30 s ahead.
func testCall(requestID string) *aws.Call {
	return &aws.Call{
		Account: "000000000001", Principal: "arn:aws:iam::000000000001:user/admin", UserID: "AIDAEXAMPLE",
		Region: "eu-west-1", RequestID: requestID, SourceIP: "192.0.2.7",
		Deadline: time.Now().Add(30 * time.Second).Truncate(time.Millisecond),
	}
}

func testTrace() map[string]string {
	return map[string]string{
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b",
	}
}

func cloneHeader(h nats.Header) nats.Header {
	c := nats.Header{}
	for name, values := range h {
		c[name] = slices.Clone(values)
	}
	return c
}

func TestVerifyReturnsWhoWasSigned(t *testing.T) {
	signer, verifier := testIdentity(t)
	call := testCall("r1")
	header := signer.sign("aws.sts.GetCallerIdentity", []byte("{}"), call, 1, testTrace())
	got, err := verifier.Verify(t.Context(), "aws.sts.GetCallerIdentity", header, []byte("{}"))
	require.NoError(t, err)
	assert.Equal(t, call, got)
}

func TestVerifyRefusesEveryAlteration(t *testing.T) {
	signer, verifier := testIdentity(t)
	subject, body := "aws.sts.GetCallerIdentity", []byte(`{"A":"b"}`)
	header := signer.sign(subject, body, testCall("r1"), 1, testTrace())
	require.Len(t, header, len(signedHeaders())+1, "the call sets every header")

	for name := range maps.Keys(header) {
		t.Run(name, func(t *testing.T) {
			altered := cloneHeader(header)
			altered[name] = []string{flip(altered[name][0])}
			_, err := verifier.Verify(t.Context(), subject, altered, body)
			assert.Error(t, err, "altered")

			removed := cloneHeader(header)
			delete(removed, name)
			_, err = verifier.Verify(t.Context(), subject, removed, body)
			assert.Error(t, err, "removed")

			doubled := cloneHeader(header)
			doubled[name] = append(doubled[name], doubled[name][0])
			_, err = verifier.Verify(t.Context(), subject, doubled, body)
			assert.ErrorIs(t, err, ErrUnsigned, "doubled")

			huge := cloneHeader(header)
			huge[name] = []string{strings.Repeat("1", maxHeaderValue+1)}
			_, err = verifier.Verify(t.Context(), subject, huge, body)
			assert.ErrorIs(t, err, ErrUnsigned, "huge")
		})
	}
	// What one header loses another one gets: the lengths are signed too.
	moved := cloneHeader(header)
	moved[headerRegion], moved[headerRequestID] = []string{"eu-west-1r"}, []string{"1"}
	_, err := verifier.Verify(t.Context(), subject, moved, body)
	require.ErrorIs(t, err, ErrBadSignature)
	_, err = verifier.Verify(t.Context(), "aws.iam.CreateUser", header, body)
	require.ErrorIs(t, err, ErrBadSignature, "another subject")
	_, err = verifier.Verify(t.Context(), subject, header, []byte(`{"A":"c"}`))
	require.ErrorIs(t, err, ErrBadSignature, "another body")
	_, err = verifier.Verify(t.Context(), subject, nil, body)
	require.ErrorIs(t, err, ErrUnsigned, "no headers")

	// None of the refused ones has used up the request id.
	_, err = verifier.Verify(t.Context(), subject, header, body)
	require.NoError(t, err)
}

// flip changes one character into another one of the same kind, so that shape checks let it pass.
func flip(value string) string {
	last := value[len(value)-1]
	if last == '=' {
		return string(value[0]^1) + value[1:]
	}
	return value[:len(value)-1] + string(last^1)
}

func TestVerifyRefusesOtherKeys(t *testing.T) {
	_, verifier := testIdentity(t)
	for name, signer := range map[string]struct {
		gateway string
		key     byte
	}{"another key of the gateway": {"gw", 2}, "another gateway": {"gw2", 1}} {
		other, err := NewSigner(signer.gateway, testKey(signer.key))
		require.NoError(t, err)
		_, err = verifier.Verify(t.Context(), "s", other.sign("s", nil, testCall("r"), 1, nil), nil)
		assert.ErrorIs(t, err, ErrUnknownGateway, name)
	}
	// A forger who copies the key id of the gateway has not its key.
	forger := &Signer{gateway: "gw", keyID: KeyID(testKey(1).Public().(ed25519.PublicKey)), key: testKey(2)}
	_, err := verifier.Verify(t.Context(), "s", forger.sign("s", nil, testCall("r"), 1, nil), nil)
	assert.ErrorIs(t, err, ErrBadSignature)
}

func TestVerifyRefusesStaleCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signer, verifier := testIdentity(t)
		header := signer.sign("s", nil, testCall("r1"), 1, nil)
		time.Sleep(30 * time.Second) // of the bubble's clock
		_, err := verifier.Verify(t.Context(), "s", header, nil)
		require.ErrorIs(t, err, ErrStale)

		far := testCall("r2")
		far.Deadline = time.Now().Add(MaxLifetime + time.Millisecond)
		_, err = verifier.Verify(t.Context(), "s", signer.sign("s", nil, far, 1, nil), nil)
		require.ErrorIs(t, err, ErrStale)
		far.Deadline = time.Now().Add(MaxLifetime)
		_, err = verifier.Verify(t.Context(), "s", signer.sign("s", nil, far, 1, nil), nil)
		require.NoError(t, err)
	})
}

func TestVerifyRefusesASecondTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signer, verifier := testIdentity(t)
		call := testCall("r1")
		header := signer.sign("s", nil, call, 1, nil)
		_, err := verifier.Verify(t.Context(), "s", header, nil)
		require.NoError(t, err)
		_, err = verifier.Verify(t.Context(), "s", header, nil)
		require.ErrorIs(t, err, ErrReplayed)
		// The same request id with another body is the same request id.
		_, err = verifier.Verify(t.Context(), "s", signer.sign("s", []byte("x"), call, 1, nil), []byte("x"))
		require.ErrorIs(t, err, ErrReplayed)
		// The one retry is signed as such.
		_, err = verifier.Verify(t.Context(), "s", signer.sign("s", nil, call, 2, nil), nil)
		require.NoError(t, err)

		time.Sleep(30*time.Second - time.Millisecond)
		_, err = verifier.Verify(t.Context(), "s", header, nil)
		require.ErrorIs(t, err, ErrReplayed, "in its last millisecond")
		time.Sleep(time.Millisecond)
		_, err = verifier.Verify(t.Context(), "s", header, nil)
		require.ErrorIs(t, err, ErrStale)
	})
}

func TestReplayMemoryIsBounded(t *testing.T) {
	const limit = 100
	memory := newReplayMemory(limit)
	now := time.Unix(1_000_000, 0)
	for i := range limit {
		require.NoError(t, memory.add(now, now.Add(time.Duration(i%5+1)*time.Second), strconv.Itoa(i)))
	}
	require.ErrorIs(t, memory.add(now, now.Add(time.Second), "more"), ErrReplayMemoryFull)
	require.ErrorIs(t, memory.add(now, now.Add(time.Second), "7"), ErrReplayed)
	// Two seconds on, those with a deadline of one second are forgotten, a fifth.
	now = now.Add(2 * time.Second)
	for i := range limit / 5 {
		require.NoError(t, memory.add(now, now.Add(time.Second), "more", strconv.Itoa(i)))
	}
	require.ErrorIs(t, memory.add(now, now.Add(time.Second), "yet more"), ErrReplayMemoryFull)

	for _, jump := range []time.Duration{-time.Hour, 24 * 365 * time.Hour, time.Minute} {
		now = now.Add(jump)
		_ = memory.add(now, now.Add(time.Second), "jump", jump.String())
	}
	require.NoError(t, memory.add(now.Add(time.Hour), now.Add(time.Hour), "last"))
	assert.Len(t, memory.seen, 1, "nothing is remembered for ever")
	assert.Len(t, memory.expiring, 1)
}

func TestNewSignerRefusesBadNames(t *testing.T) {
	for _, name := range []string{"", "a b", "a*", "a>", "ä", strings.Repeat("a", 129)} {
		_, err := NewSigner(name, testKey(1))
		assert.Error(t, err, "%q", name)
	}
	_, err := NewSigner("gw", nil)
	assert.Error(t, err)
}

// brokenKeys is a KeySource that cannot tell.
type brokenKeys struct{}

func (brokenKeys) PublicKey(context.Context, string, string) (ed25519.PublicKey, error) {
	return nil, errors.New("away")
}

func TestVerifyWithoutKeysIsNotARefusalOfTheGateway(t *testing.T) {
	signer, _ := testIdentity(t)
	_, err := NewVerifier(brokenKeys{}).Verify(t.Context(), "s", signer.sign("s", nil, testCall("r"), 1, nil), nil)
	require.Error(t, err)
	assert.Equal(t, 503, refusal(err).Status)
	assert.Equal(t, 500, refusal(fmt.Errorf("x: %w", ErrReplayed)).Status)
}
