package dnsserver

import (
	"errors"
	"fmt"

	"github.com/miekg/dns"
)

// Names are kept in wire form with ASCII letters in lower case, as strings: equal names are equal
// keys whatever the escapes they were written with, and a parent's name is a suffix.

const (
	maxName   = 255 // octets of a name in wire form
	maxLabels = 128 // labels of such a name, the root included
)

var errName = errors.New("bad domain name")

// wireName packs a presentation name and lowers its case.
func wireName(name string) (string, error) {
	var buf [maxName + 1]byte
	n, err := dns.PackDomainName(dns.Fqdn(name), buf[:], 0, nil, false)
	if err != nil {
		return "", fmt.Errorf("%w %q: %w", errName, name, err)
	}
	if n > maxName {
		return "", fmt.Errorf("%w %q: longer than %d octets", errName, name, maxName)
	}
	lower(buf[:n])
	return string(buf[:n]), nil
}

// textName returns the presentation form of a wire name.
func textName(wire string) string {
	text, _, err := dns.UnpackDomainName([]byte(wire), 0)
	if err != nil {
		return "." // not reached: wire names are made by wireName and parseName
	}
	return text
}

// lower turns ASCII upper case into lower case in place. Length octets are below 64 and so no letters.
func lower(name []byte) {
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			name[i] = c + 'a' - 'A'
		}
	}
}

// labelOffsets writes where the labels of a wire name start, the root last, and returns their number.
func labelOffsets(name string, offs *[maxLabels]uint8) int {
	n := 0
	for off := 0; ; off += int(name[off]) + 1 {
		offs[n] = uint8(off)
		n++
		if name[off] == 0 {
			return n
		}
	}
}

// parent returns the wire name without its first label; the root has none.
func parent(name string) (string, bool) {
	if name[0] == 0 {
		return "", false
	}
	return name[int(name[0])+1:], true
}

// within reports whether name is apex or below it. Both are wire names.
func within(name, apex string) bool {
	for {
		if len(name) <= len(apex) {
			return name == apex
		}
		name, _ = parent(name)
	}
}
