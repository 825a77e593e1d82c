package natskv

import (
	"errors"
	"fmt"
	"strings"
)

// MaxKeyLen bounds a key: the server's line limit is 4 KiB and an audit line should stay readable.
const MaxKeyLen = 1024

// ErrKey is a key, prefix or bucket name that JetStream KV refuses.
var ErrKey = errors.New("natskv: bad key")

// CheckKey reports what is wrong with a key: it must be of [-/_=.a-zA-Z0-9] without a leading,
// trailing or doubled dot.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: empty", ErrKey)
	case len(key) > MaxKeyLen:
		return fmt.Errorf("%w: longer than %d bytes", ErrKey, MaxKeyLen)
	case key[0] == '.' || key[len(key)-1] == '.' || strings.Contains(key, ".."):
		return fmt.Errorf("%w: %q has an empty token", ErrKey, key)
	}
	for i := range len(key) {
		if !keyByte(key[i]) {
			return fmt.Errorf("%w: %q has a character outside [-/_=.a-zA-Z0-9]", ErrKey, key)
		}
	}
	return nil
}

func keyByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("-/_=.", c) >= 0
}

// CheckBucket reports what is wrong with the name of a bucket.
func CheckBucket(bucket string) error {
	if bucket == "" || len(bucket) > 128 || strings.ContainsAny(bucket, "./=") || CheckKey(bucket) != nil {
		return fmt.Errorf("%w: bucket %q: must be of [-_a-zA-Z0-9]", ErrKey, bucket)
	}
	return nil
}

// filter returns the subject that selects a key, the keys below a prefix that ends in a dot, or
// all keys for "".
func (s *Store) filter(keyOrPrefix string) (string, error) {
	if keyOrPrefix == "" {
		return s.subjects + ">", nil
	}
	prefix, isPrefix := strings.CutSuffix(keyOrPrefix, ".")
	if err := CheckKey(prefix); err != nil {
		return "", err
	}
	if isPrefix {
		return s.subjects + keyOrPrefix + ">", nil
	}
	return s.subjects + keyOrPrefix, nil
}

// Reserved reports whether a key is bookkeeping of the store (the schema version, fences), which
// lists and watches leave out.
func Reserved(key string) bool { return strings.HasPrefix(key, "_") }
