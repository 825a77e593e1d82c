package kvstore

import (
	"fmt"
	"strings"

	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
)

// emptyToken stands for the empty name: a key has no empty token.
const emptyToken = "="

// EscapeToken turns a free-form name into one token of a key: every byte outside [-_a-zA-Z0-9]
// becomes "=" and two upper-case hexadecimal digits. Different names give different tokens.
func EscapeToken(name string) string {
	if name == "" {
		return emptyToken
	}
	var b strings.Builder
	for i := range len(name) {
		if plain(name[i]) {
			b.WriteByte(name[i])
		} else {
			fmt.Fprintf(&b, "=%02X", name[i])
		}
	}
	return b.String()
}

// UnescapeToken is the inverse of EscapeToken. What EscapeToken does not yield is an error.
func UnescapeToken(token string) (string, error) {
	if token == emptyToken {
		return "", nil
	}
	var b strings.Builder
	for i := 0; i < len(token); i++ {
		c := token[i]
		if c == '=' && i+2 < len(token) {
			hi, lo := unhex(token[i+1]), unhex(token[i+2])
			if hi >= 0 && lo >= 0 && !plain(byte(hi<<4|lo)) {
				b.WriteByte(byte(hi<<4 | lo))
				i += 2
				continue
			}
		}
		if !plain(c) {
			return "", fmt.Errorf("%w: %q is not an escaped token", natskv.ErrKey, token)
		}
		b.WriteByte(c)
	}
	if b.Len() == 0 {
		return "", fmt.Errorf("%w: empty token", natskv.ErrKey)
	}
	return b.String(), nil
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// unhex returns the value of an upper-case hexadecimal digit, or -1.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
