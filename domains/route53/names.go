package route53

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

// Limits of a domain name on the wire (RFC 1035 section 2.3.4).
const (
	maxLabel = 63
	maxName  = 255 // octets, with the length octets and the root
)

// maxZoneNameText bounds the text of a zone's name, in which an octet may take four characters: it
// is the key of the zone object.
const maxZoneNameText = 300

// problem is what is wrong with a name or a value, in AWS's words.
type problem struct {
	code  string // such as DomainLabelEmpty
	text  string // such as "Domain label is empty"
	value string // what was given
}

// String is the problem as it stands in InvalidChangeBatch and InvalidDomainName messages.
func (p *problem) String() string {
	return fmt.Sprintf("FATAL problem: %s (%s) encountered with '%s'", p.code, p.text, clip(p.value))
}

// clip bounds what is quoted in an answer.
func clip(s string) string {
	const limit = 255
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// domainName is the labels of a name as raw bytes, leftmost first; the root has none.
type domainName []string

// parseName reads a name as Route 53 takes it: absolute with or without the trailing dot, \ooo
// (three octal digits) for any byte, all other bytes as they are. Neither IDNA nor the escapes of
// zone files are known: Punycode is what a client sends, other bytes are kept.
func parseName(s string) (domainName, *problem) {
	if s == "." {
		return domainName{}, nil
	}
	if s == "" {
		return nil, &problem{"DomainLabelEmpty", "Domain label is empty", s}
	}
	var name domainName
	var label strings.Builder
	wire := 1
	closeLabel := func() *problem {
		switch {
		case label.Len() == 0:
			return &problem{"DomainLabelEmpty", "Domain label is empty", s}
		case label.Len() > maxLabel:
			return &problem{"DomainLabelTooLong", "Domain label is too long", s}
		}
		wire += 1 + label.Len()
		name = append(name, label.String())
		label.Reset()
		return nil
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '.':
			if p := closeLabel(); p != nil {
				return nil, p
			}
		case c == '\\':
			b, ok := octal(s[i+1:])
			if !ok {
				return nil, &problem{"UnsupportedCharacter", "Value contains unsupported characters", s}
			}
			label.WriteByte(b)
			i += 3
		case c <= ' ' || c == 0x7f:
			return nil, &problem{"UnsupportedCharacter", "Value contains unsupported characters", s}
		default:
			label.WriteByte(c)
		}
	}
	if label.Len() > 0 {
		if p := closeLabel(); p != nil {
			return nil, p
		}
	}
	if wire > maxName {
		return nil, &problem{"DomainNameTooLong", "Domain name is too long", s}
	}
	return name, nil
}

// octal reads the three octal digits of one byte at the beginning of s.
func octal(s string) (byte, bool) {
	if len(s) < 3 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s[:3]) {
		if c < '0' || c > '7' {
			return 0, false
		}
		n = n*8 + int(c-'0')
	}
	return byte(n), n <= 0xff
}

// canonical is the name as Route 53 stores and answers it: lower case, absolute, every byte but
// a-z 0-9 - _ as \ooo. A dot inside a label is \056, so a plain dot always separates labels.
func (n domainName) canonical() string {
	if len(n) == 0 {
		return "."
	}
	var b strings.Builder
	for _, label := range n {
		for _, c := range []byte(label) {
			switch {
			case c >= 'A' && c <= 'Z':
				b.WriteByte(c + 'a' - 'A')
			case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
				b.WriteByte(c)
			default:
				fmt.Fprintf(&b, "\\%03o", c)
			}
		}
		b.WriteByte('.')
	}
	return b.String()
}

// presentation is the name in the format of zone files, exactly as the DNS library writes a name
// that it read from the wire, so that both compare as strings.
func (n domainName) presentation() string {
	wire := make([]byte, 0, maxName)
	for _, label := range n {
		wire = append(wire, byte(len(label)))
		wire = append(wire, label...)
	}
	s, _, err := dns.UnpackDomainName(append(wire, 0), 0)
	if err != nil {
		// parseName has checked every limit that the library checks.
		return "."
	}
	return s
}

// canonicalName parses s and returns its canonical form.
func canonicalName(s string) (string, *problem) {
	n, p := parseName(s)
	if p != nil {
		return "", p
	}
	return n.canonical(), nil
}

// presentationName converts a canonical name for the DNS server.
func presentationName(canonical string) string {
	n, p := parseName(canonical)
	if p != nil {
		return canonical
	}
	return n.presentation()
}

// zoneName checks the name of a hosted zone to be made and returns its canonical form. Top-level
// domains and names whose leftmost label is the wildcard are refused.
func zoneName(s string) (string, *problem) {
	n, p := parseName(s)
	switch {
	case p != nil:
		return "", p
	case len(n) < 2:
		return "", &problem{"DomainNameTooShort", "A hosted zone needs a name below a top-level domain", s}
	case n[0] == "*":
		return "", &problem{"UnsupportedCharacter", "Value contains unsupported characters", s}
	case len(n.presentation()) > maxZoneNameText:
		return "", &problem{"DomainNameTooLong", "Domain name is too long", s}
	}
	return n.canonical(), nil
}

// inZone reports whether a canonical name is the apex of a zone or lies below it.
func inZone(name, zone string) bool {
	return name == zone || strings.HasSuffix(name, "."+zone)
}

// isWildcard reports whether a canonical name begins with the label "*".
func isWildcard(canonical string) bool { return strings.HasPrefix(canonical, `\052.`) }

// nameOrder is the key by which Route 53 lists names: labels reversed, a dot after each, so that
// www.example.com. sorts as com.example.www. in ASCII.
func nameOrder(canonical string) string {
	labels := strings.Split(strings.TrimSuffix(canonical, "."), ".")
	var b strings.Builder
	b.Grow(len(canonical))
	for i := len(labels) - 1; i >= 0; i-- {
		b.WriteString(labels[i])
		b.WriteByte('.')
	}
	return b.String()
}
