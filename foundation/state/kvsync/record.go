package kvsync

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// maxRecord bounds a stored record in bytes.
const maxRecord = 512

// The reasons that a record is written with; brokenReason is followed by the operator's words.
const (
	transferredReason = "transferred"
	brokenReason      = "broken: "
)

// record is the stored value.
type record struct {
	Holder string `json:"holder"`
	// Generation is 0 in an acquiring write, which cannot know its own revision: the reader takes the
	// entry's.
	Generation  uint64 `json:"generation"`
	Incarnation string `json:"incarnation,omitempty"`
	Nonce       string `json:"nonce,omitempty"`
	TTLMillis   int64  `json:"ttl_ms,omitempty"`
	Reason      string `json:"reason,omitempty"`
	// Session is the key of the session that keeps a group's member.
	Session string `json:"session,omitempty"`
}

var errUndecodable = errors.New("record cannot be decoded")

func (r record) encode() ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	if len(b) > maxRecord {
		return nil, fmt.Errorf("record of %d bytes: at most %d are allowed, use a shorter holder or reason", len(b), maxRecord)
	}
	return b, nil
}

// decodeRecord reads a value. Members that it does not know are ignored.
func decodeRecord(value []byte) (record, error) {
	var r record
	if err := json.Unmarshal(value, &r); err != nil {
		return record{}, fmt.Errorf("%w: %v", errUndecodable, err) //nolint:errorlint // the JSON error is text only
	}
	if r.Holder == "" {
		return record{}, fmt.Errorf("%w: it names no holder", errUndecodable)
	}
	return r, nil
}

// token is who the record, found at rev, says the holder is.
func (r record) token(rev uint64) Token {
	if r.Generation == 0 {
		return Token{Holder: r.Holder, Generation: rev}
	}
	return Token{Holder: r.Holder, Generation: r.Generation}
}

func (r record) ttl() time.Duration {
	const longest = 1000 * time.Hour // a corrupt or hostile record must not block a key for ever
	if r.TTLMillis <= 0 {
		return 0
	}
	if r.TTLMillis > longest.Milliseconds() {
		return longest
	}
	return time.Duration(r.TTLMillis) * time.Millisecond
}

func (r record) transferred() bool { return r.Reason == transferredReason }
func (r record) broken() bool      { return strings.HasPrefix(r.Reason, brokenReason) }

// millisUp rounds up, so that a contender never waits less than the holder counts.
func millisUp(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func newNonce() string { return rand.Text()[:16] }
