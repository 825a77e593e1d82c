package route53

import (
	"fmt"
	"strings"
)

// field is one field of a value: a bare word or a quoted string.
type field struct {
	text   string // as given, without the quotes, escapes not resolved
	quoted bool
}

// splitValue takes a value apart at blanks outside quotation marks. It refuses what would mean
// something else in a zone file: control characters, comments, parentheses, an open quote.
func splitValue(value string) ([]field, *problem) {
	unsupported := &problem{"UnsupportedCharacter", "Value contains unsupported characters", value}
	var fields []field
	for i := 0; i < len(value); {
		switch c := value[i]; {
		case c == ' ' || c == '\t':
			i++
		case c == '"':
			end := closingQuote(value, i+1)
			if end < 0 {
				return nil, &problem{"InvalidCharacterString", "Value should be enclosed in quotation marks", value}
			}
			fields = append(fields, field{text: value[i+1 : end], quoted: true})
			i = end + 1
		default:
			start := i
			for ; i < len(value) && value[i] != ' ' && value[i] != '\t'; i++ {
				switch c := value[i]; {
				case c == ';' || c == '(' || c == ')':
					return nil, unsupported
				case c == '"': // key="value" of a service parameter
					end := closingQuote(value, i+1)
					if end < 0 {
						return nil, &problem{"InvalidCharacterString", "Value should be enclosed in quotation marks", value}
					}
					i = end
				}
			}
			fields = append(fields, field{text: value[start:i]})
		}
	}
	for _, c := range []byte(value) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, unsupported
		}
	}
	return fields, nil
}

// closingQuote returns the index of the quotation mark that ends the string which begins at i, or -1.
func closingQuote(s string, i int) int {
	for ; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// unescape resolves \ooo (octal) and a backslash before any other character.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if c, ok := octal(s[i+1:]); ok {
			b.WriteByte(c)
			i += 3
			continue
		}
		if i+1 >= len(s) || s[i+1] >= '0' && s[i+1] <= '9' {
			return "", false
		}
		i++
		b.WriteByte(s[i])
	}
	return b.String(), true
}

// quote writes bytes as a character string of a zone file, where escapes are decimal.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, "\\%03d", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// decimalEscapes rewrites a bare word from Route 53's octal escapes to the decimal ones of a zone
// file, keeping its quotation marks.
func decimalEscapes(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\':
			if o, ok := octal(s[i+1:]); ok {
				fmt.Fprintf(&b, "\\%03d", o)
				i += 3
				continue
			}
			if i+1 >= len(s) || s[i+1] >= '0' && s[i+1] <= '9' {
				return "", false
			}
			b.WriteString(s[i : i+2])
			i++
		case c > '~':
			fmt.Fprintf(&b, "\\%03d", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}
