package route53

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
)

// The record types, as the API lists them.
const (
	typeA     = "A"
	typeAAAA  = "AAAA"
	typeCAA   = "CAA"
	typeCNAME = "CNAME"
	typeDS    = "DS"
	typeHTTPS = "HTTPS"
	typeMX    = "MX"
	typeNAPTR = "NAPTR"
	typeNS    = "NS"
	typePTR   = "PTR"
	typeSOA   = "SOA"
	typeSPF   = "SPF"
	typeSRV   = "SRV"
	typeSSHFP = "SSHFP"
	typeSVCB  = "SVCB"
	typeTLSA  = "TLSA"
	typeTXT   = "TXT"
)

const (
	maxValue      = 4000 // characters of one value, as the model says
	maxCharString = 255  // octets of one character string
)

// parser reads the fields of a value into the presentation format of a zone file.
type parser func(value string, fields []field) (string, *problem)

// parserOf returns the parser of a record type, nil for a type that is not served.
func parserOf(typ string) parser {
	switch typ {
	case typeA:
		return parseA
	case typeAAAA:
		return parseAAAA
	case typeCNAME, typeNS, typePTR:
		return parseTarget
	case typeMX:
		return numbersThen(typeMX, []int{16}, 1, nameField)
	case typeSRV:
		return numbersThen(typeSRV, []int{16, 16, 16}, 1, nameField)
	case typeTXT, typeSPF:
		return parseText
	case typeSOA:
		return parseSOA
	case typeCAA:
		return parseCAA
	case typeNAPTR:
		return parseNAPTR
	case typeDS:
		return numbersThen(typeDS, []int{16, 8, 8}, -1, hexField)
	case typeTLSA:
		return numbersThen(typeTLSA, []int{8, 8, 8}, -1, hexField)
	case typeSSHFP:
		return numbersThen(typeSSHFP, []int{8, 8}, -1, hexField)
	case typeSVCB, typeHTTPS:
		return parseService
	}
	return nil
}

// knownType reports whether record sets of the type can be made.
func knownType(typ string) bool { return parserOf(typ) != nil }

// rdata checks one value of a record set and returns it as the DNS server loads it: presentation
// format in the DNS library's own spelling. typ must be known.
func rdata(typ, value string) (string, *problem) {
	if runes(value) > maxValue {
		return "", &problem{"CharacterStringTooLong", "Value is too long", value}
	}
	fields, p := splitValue(value)
	if p != nil {
		return "", p
	}
	if len(fields) == 0 {
		return "", &problem{"MissingValue", "Value is empty", value}
	}
	text, p := parserOf(typ)(value, fields)
	if p != nil {
		return "", p
	}
	// The DNS servers have the last word: what they cannot read cannot be served.
	rr, err := dnsapi.ParseValue(typ, text)
	if err != nil {
		return "", malformed(typ, value)
	}
	return strings.TrimPrefix(rr.String(), rr.Header().String()), nil
}

func malformed(typ, value string) *problem {
	return &problem{typ + "RRDATAInvalid", "Value is not a valid " + typ + " record", value}
}

func wrongFields(typ string, want int, value string) *problem {
	words := []string{"Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven"}
	noun := "fields"
	if want == 1 {
		noun = "field"
	}
	return &problem{
		typ + "RRDATANot" + words[want] + strings.ToUpper(noun[:1]) + noun[1:],
		fmt.Sprintf("%s record doesn't have %d %s", typ, want, noun), value,
	}
}

func parseA(value string, _ []field) (string, *problem) {
	addr, err := netip.ParseAddr(value)
	if err != nil || !addr.Is4() {
		return "", &problem{"ARRDATAIllegalIPv4Address", "Value is not a valid IPv4 address", value}
	}
	return addr.String(), nil
}

func parseAAAA(value string, _ []field) (string, *problem) {
	addr, err := netip.ParseAddr(value)
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return "", &problem{"AAAARRDATAIllegalIPv6Address", "Value is not a valid IPv6 address", value}
	}
	return addr.String(), nil
}

// nameField reads a field that is a domain name.
func nameField(_ string, f field) (string, *problem) {
	if f.quoted {
		return "", &problem{"UnsupportedCharacter", "Value contains unsupported characters", f.text}
	}
	n, p := parseName(f.text)
	if p != nil {
		return "", p
	}
	return n.presentation(), nil
}

func hexField(_ string, f field) (string, *problem) {
	if _, err := hex.DecodeString(f.text); err != nil || f.quoted || f.text == "" {
		return "", &problem{"InvalidHexString", "Value is not a string of hexadecimal digits", f.text}
	}
	return strings.ToLower(f.text), nil
}

// number reads an unsigned decimal of the given size without sign.
func number(typ string, f field, bits int) (string, *problem) {
	n, err := strconv.ParseUint(f.text, 10, bits)
	if err != nil || f.quoted {
		return "", &problem{
			typ + "RRDATAIllegalNumber",
			fmt.Sprintf("Value is not a number between 0 and %d", uint64(1)<<bits-1), f.text,
		}
	}
	return strconv.FormatUint(n, 10), nil
}

func parseTarget(value string, fields []field) (string, *problem) {
	if len(fields) != 1 {
		return "", &problem{"UnsupportedCharacter", "Value contains unsupported characters", value}
	}
	return nameField(value, fields[0])
}

// numbersThen makes the parser of a record that begins with numbers of the given sizes in bits and
// ends with one field, or with one that may be written in pieces when last is -1.
func numbersThen(typ string, bits []int, last int, lastField func(value string, f field) (string, *problem)) parser {
	want := len(bits) + 1
	return func(value string, fields []field) (string, *problem) {
		if last < 0 && len(fields) > want {
			var b strings.Builder
			for _, f := range fields[len(bits):] {
				b.WriteString(f.text)
			}
			fields = append(fields[:len(bits):len(bits)], field{text: b.String()})
		}
		if len(fields) != want {
			return "", wrongFields(typ, want, value)
		}
		out := make([]string, 0, want)
		for i, size := range bits {
			s, p := number(typ, fields[i], size)
			if p != nil {
				return "", p
			}
			out = append(out, s)
		}
		s, p := lastField(value, fields[len(bits)])
		if p != nil {
			return "", p
		}
		return strings.Join(append(out, s), " "), nil
	}
}

// charString reads a field that must be a quoted string of at most 255 octets.
func charString(f field) (string, *problem) {
	if !f.quoted {
		return "", &problem{"InvalidCharacterString", "Value should be enclosed in quotation marks", f.text}
	}
	s, ok := unescape(f.text)
	switch {
	case !ok:
		return "", &problem{"InvalidCharacterString", "Value contains an invalid escape code", f.text}
	case len(s) > maxCharString:
		return "", &problem{"CharacterStringTooLong", "Value is too long", f.text}
	}
	return quote(s), nil
}

func parseText(_ string, fields []field) (string, *problem) {
	out := make([]string, len(fields))
	for i, f := range fields {
		s, p := charString(f)
		if p != nil {
			return "", p
		}
		out[i] = s
	}
	return strings.Join(out, " "), nil
}

func parseSOA(value string, fields []field) (string, *problem) {
	const want = 7
	if len(fields) != want {
		return "", wrongFields(typeSOA, want, value)
	}
	out := make([]string, want)
	var p *problem
	for i, f := range fields {
		if i < 2 {
			out[i], p = nameField(value, f)
		} else {
			out[i], p = number(typeSOA, f, 32)
		}
		if p != nil {
			return "", p
		}
	}
	return strings.Join(out, " "), nil
}

func parseCAA(value string, fields []field) (string, *problem) {
	const want = 3
	if len(fields) != want {
		return "", wrongFields(typeCAA, want, value)
	}
	flags, p := number(typeCAA, fields[0], 8)
	if p != nil {
		return "", p
	}
	tag := fields[1].text
	alnum := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if tag == "" || fields[1].quoted || strings.ContainsFunc(tag, func(r rune) bool { return !alnum(r) }) {
		return "", &problem{"CAARRDATAIllegalTag", "Tag is not made of letters and digits", tag}
	}
	text, p := charString(fields[2])
	if p != nil {
		return "", p
	}
	return flags + " " + tag + " " + text, nil
}

func parseNAPTR(value string, fields []field) (string, *problem) {
	const want = 6
	if len(fields) != want {
		return "", wrongFields(typeNAPTR, want, value)
	}
	out := make([]string, want)
	var p *problem
	for i, f := range fields {
		switch {
		case i < 2:
			out[i], p = number(typeNAPTR, f, 16)
		case i < 5:
			out[i], p = charString(f)
		default:
			out[i], p = nameField(value, f)
		}
		if p != nil {
			return "", p
		}
	}
	return strings.Join(out, " "), nil
}

// parseService reads SVCB and HTTPS: priority, target, then parameters, which the library checks.
func parseService(value string, fields []field) (string, *problem) {
	if len(fields) < 2 {
		return "", &problem{"SVCBRRDATATooFewFields", "Value doesn't have a priority and a target", value}
	}
	priority, p := number("SVCB", fields[0], 16)
	if p != nil {
		return "", p
	}
	target, p := nameField(value, fields[1])
	if p != nil {
		return "", p
	}
	out := []string{priority, target}
	for _, f := range fields[2:] {
		s, ok := decimalEscapes(f.text)
		if !ok || f.quoted {
			return "", malformed("SVCB", value)
		}
		out = append(out, s)
	}
	return strings.Join(out, " "), nil
}

// foldsCase reports whether values of the type are domain names and numbers only, so that two that
// differ in letter case are one record.
func foldsCase(typ string) bool {
	switch typ {
	case typeCNAME, typeNS, typePTR, typeMX, typeSRV, typeSOA:
		return true
	}
	return false
}
