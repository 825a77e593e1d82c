package route53

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRdata(t *testing.T) {
	const sha256 = "123456789ABCDEF67890123456789ABCDEF67890123456789ABCDEF123456789"
	long := strings.Repeat("x", 256)
	tests := []struct{ typ, value, want, problem string }{
		{typ: "A", value: "192.0.2.1", want: "192.0.2.1"},
		{typ: "A", value: "192.0.2.256", problem: "ARRDATAIllegalIPv4Address (Value is not a valid IPv4 address) encountered with '192.0.2.256'"},
		{typ: "A", value: "192.0.2.01", problem: "ARRDATAIllegalIPv4Address"},
		{typ: "A", value: "2001:db8::1", problem: "ARRDATAIllegalIPv4Address"},
		{typ: "A", value: "192.0.2.1 192.0.2.2", problem: "ARRDATAIllegalIPv4Address"},
		{typ: "A", value: `"192.0.2.1"`, problem: "ARRDATAIllegalIPv4Address"},
		{typ: "A", value: "", problem: "MissingValue"},
		{typ: "A", value: "  ", problem: "MissingValue"},

		{typ: "AAAA", value: "2001:DB8:0:0:0:0:0:1", want: "2001:db8::1"},
		{typ: "AAAA", value: "::ffff:192.0.2.1", want: "::ffff:192.0.2.1"},
		{typ: "AAAA", value: "fe80::1%eth0", problem: "AAAARRDATAIllegalIPv6Address (Value is not a valid IPv6 address)"},
		{typ: "AAAA", value: "192.0.2.1", problem: "AAAARRDATAIllegalIPv6Address"},

		{typ: "CNAME", value: "a.example.com", want: "a.example.com."},
		{typ: "CNAME", value: "A.Example.com.", want: "A.Example.com."},
		{typ: "CNAME", value: `\052.example.com.`, want: "*.example.com."},
		{typ: "CNAME", value: "@", want: `\@.`},
		{typ: "CNAME", value: "a..b", problem: "DomainLabelEmpty (Domain label is empty) encountered with 'a..b'"},
		{typ: "CNAME", value: "a b", problem: "UnsupportedCharacter"},
		{typ: "CNAME", value: `"a.b"`, problem: "UnsupportedCharacter"},
		{typ: "CNAME", value: "a.b ;c", problem: "UnsupportedCharacter"},
		{typ: "CNAME", value: "a.b (", problem: "UnsupportedCharacter"},
		{typ: "CNAME", value: "a.b\n$INCLUDE /etc/passwd", problem: "UnsupportedCharacter"},
		{typ: "CNAME", value: strings.Repeat("a", 64) + ".test", problem: "DomainLabelTooLong"},
		{typ: "PTR", value: "host.example.com", want: "host.example.com."},
		{typ: "NS", value: "ns1.example.com", want: "ns1.example.com."},

		{typ: "MX", value: "10 mail.example.com", want: "10 mail.example.com."},
		{typ: "MX", value: "10   mail.example.com.", want: "10 mail.example.com."},
		{typ: "MX", value: "0 .", want: "0 ."},
		{typ: "MX", value: "mail.example.com", problem: "MXRRDATANotTwoFields (MX record doesn't have 2 fields)"},
		{typ: "MX", value: "65536 mail.example.com", problem: "MXRRDATAIllegalNumber (Value is not a number between 0 and 65535) encountered with '65536'"},
		{typ: "MX", value: "+1 mail.example.com", problem: "MXRRDATAIllegalNumber"},

		{typ: "SRV", value: "1 10 5269 xmpp.example.com.", want: "1 10 5269 xmpp.example.com."},
		{typ: "SRV", value: "1 10 xmpp.example.com.", problem: "SRVRRDATANotFourFields (SRV record doesn't have 4 fields)"},
		{typ: "SRV", value: "1 10 70000 xmpp.example.com.", problem: "SRVRRDATAIllegalNumber"},

		{typ: "TXT", value: `"hello world"`, want: `"hello world"`},
		{typ: "TXT", value: `""`, want: `""`},
		{typ: "TXT", value: `"a" "b"`, want: `"a" "b"`},
		{typ: "TXT", value: `"a""b"`, want: `"a" "b"`},
		{typ: "TXT", value: `"v=DKIM1; k=rsa; p=(MIG)"`, want: `"v=DKIM1; k=rsa; p=(MIG)"`},
		{typ: "TXT", value: `"say \"hi\" \\ there"`, want: `"say \"hi\" \\ there"`},
		{typ: "TXT", value: `"ex\303\244mple"`, want: `"ex\195\164mple"`},
		{typ: "TXT", value: `"exämple"`, want: `"ex\195\164mple"`},
		{typ: "TXT", value: `"` + long[:255] + `"`, want: `"` + long[:255] + `"`},
		{typ: "TXT", value: `hello`, problem: "InvalidCharacterString (Value should be enclosed in quotation marks) encountered with 'hello'"},
		{typ: "TXT", value: `"hello`, problem: "InvalidCharacterString (Value should be enclosed in quotation marks)"},
		{typ: "TXT", value: `"a" b`, problem: "InvalidCharacterString"},
		{typ: "TXT", value: `"\999"`, problem: "InvalidCharacterString (Value contains an invalid escape code)"},
		{typ: "TXT", value: `"\400"`, problem: "InvalidCharacterString (Value contains an invalid escape code)"},
		{typ: "TXT", value: `"` + long + `"`, problem: "CharacterStringTooLong (Value is too long)"},
		{typ: "TXT", value: strings.Repeat(`"x" `, 1001), problem: "CharacterStringTooLong"},
		{typ: "SPF", value: `"v=spf1 -all"`, want: `"v=spf1 -all"`},

		{typ: "SOA", value: "ns1.cloud.test. hostmaster.cloud.test. 1 7200 900 1209600 86400", want: "ns1.cloud.test. hostmaster.cloud.test. 1 7200 900 1209600 86400"},
		{typ: "SOA", value: "ns1.cloud.test. hostmaster.cloud.test. 1 7200 900 1209600", problem: "SOARRDATANotSevenFields"},
		{typ: "SOA", value: "ns1.cloud.test. hostmaster.cloud.test. 1 7200 900 1209600 1w", problem: "SOARRDATAIllegalNumber"},

		{typ: "CAA", value: `0 issue "letsencrypt.org"`, want: `0 issue "letsencrypt.org"`},
		{typ: "CAA", value: `128 issue ";"`, want: `128 issue ";"`},
		{typ: "CAA", value: `0 issue letsencrypt.org`, problem: "InvalidCharacterString"},
		{typ: "CAA", value: `0 "letsencrypt.org"`, problem: "CAARRDATANotThreeFields"},
		{typ: "CAA", value: `256 issue "x"`, problem: "CAARRDATAIllegalNumber"},
		{typ: "CAA", value: `0 is-sue "x"`, problem: "CAARRDATAIllegalTag"},

		{typ: "NAPTR", value: `100 50 "u" "E2U+sip" "!^.*$!sip:info@example.com!" .`, want: `100 50 "u" "E2U+sip" "!^.*$!sip:info@example.com!" .`},
		{typ: "NAPTR", value: `100 50 "u" "E2U+sip" "" a.example.com`, want: `100 50 "u" "E2U+sip" "" a.example.com.`},
		{typ: "NAPTR", value: `100 50 u "E2U+sip" "" .`, problem: "InvalidCharacterString"},
		{typ: "NAPTR", value: `100 50 "u" "" .`, problem: "NAPTRRRDATANotSixFields"},

		{typ: "DS", value: "12345 13 2 " + sha256, want: "12345 13 2 " + sha256},
		{typ: "DS", value: "12345 13 2 " + sha256[:32] + " " + sha256[32:], want: "12345 13 2 " + sha256},
		{typ: "DS", value: "12345 13 2 XYZ", problem: "InvalidHexString"},
		{typ: "DS", value: "12345 13 2", problem: "DSRRDATANotFourFields"},
		{typ: "TLSA", value: "3 1 1 " + sha256, want: "3 1 1 " + strings.ToLower(sha256)},
		{typ: "TLSA", value: "3 1 256 " + sha256, problem: "TLSARRDATAIllegalNumber"},
		{typ: "SSHFP", value: "4 2 " + sha256, want: "4 2 " + sha256},
		{typ: "SSHFP", value: "4 " + sha256, problem: "SSHFPRRDATANotThreeFields"},

		{typ: "SVCB", value: `1 svc.example.com. alpn="h2,h3" port=8443`, want: `1 svc.example.com. alpn="h2,h3" port="8443"`},
		{typ: "HTTPS", value: "0 pool.example.com", want: "0 pool.example.com."},
		{typ: "HTTPS", value: "1 . ipv4hint=192.0.2.1", want: `1 . ipv4hint="192.0.2.1"`},
		{typ: "HTTPS", value: "1", problem: "SVCBRRDATATooFewFields"},
		{typ: "HTTPS", value: "1 . port=x", problem: "HTTPSRRDATAInvalid"},
		{typ: "HTTPS", value: "1 . nonsense=x", problem: "HTTPSRRDATAInvalid"},
		{typ: "HTTPS", value: `1 . "alpn"`, problem: "SVCBRRDATAInvalid"},
	}
	for _, tt := range tests {
		t.Run(tt.typ+" "+clip(tt.value), func(t *testing.T) {
			got, p := rdata(tt.typ, tt.value)
			if tt.problem != "" {
				require.NotNil(t, p)
				assert.Contains(t, p.String(), tt.problem)
				assert.Less(t, len(p.String()), 500)
				return
			}
			require.Nil(t, p)
			if foldsHex(tt.typ) {
				got, tt.want = strings.ToUpper(got), strings.ToUpper(tt.want)
			}
			assert.Equal(t, tt.want, got)
			again, p := rdata(tt.typ, tt.value)
			require.Nil(t, p)
			_, err := dns.NewRR("x.test. 60 IN " + tt.typ + " " + again)
			assert.NoError(t, err)
		})
	}
}

func foldsHex(typ string) bool { return typ == typeDS || typ == typeTLSA || typ == typeSSHFP }

func TestProblemText(t *testing.T) {
	_, p := rdata("A", "x")
	require.NotNil(t, p)
	assert.Equal(t, "FATAL problem: ARRDATAIllegalIPv4Address (Value is not a valid IPv4 address) encountered with 'x'", p.String())
}

func TestKnownTypes(t *testing.T) {
	for _, typ := range []string{
		"SOA", "A", "TXT", "NS", "CNAME", "MX", "NAPTR", "PTR", "SRV", "SPF", "AAAA", "CAA", "DS", "TLSA",
		"SSHFP", "SVCB", "HTTPS",
	} {
		assert.True(t, knownType(typ), typ)
	}
	for _, typ := range []string{"", "a", "ANY", "DNSKEY", "LOC"} {
		assert.False(t, knownType(typ), typ)
	}
}

// Any value is either refused or served as exactly one record of its type, and never panics.
func TestRdataAnyValue(t *testing.T) {
	types := []string{
		"SOA", "A", "TXT", "NS", "CNAME", "MX", "NAPTR", "PTR", "SRV", "SPF", "AAAA", "CAA", "DS", "TLSA",
		"SSHFP", "SVCB", "HTTPS",
	}
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{
			"1", "0", "65535", " ", "\t", `"`, `\`, `\052`, `\.`, ";", "(", ")", "@", "$INCLUDE", "\n", ".", "a", "a.b.",
			"alpn=h2", "port=1", "192.0.2.1", "2001:db8::1", "abcd", `"x"`, "issue", "ä",
		}),
		rapid.StringN(0, 3, 6),
	)
	rapid.Check(t, func(rt *rapid.T) {
		typ := rapid.SampledFrom(types).Draw(rt, "type")
		value := strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(rt, "value"), "")
		got, p := rdata(typ, value)
		if p != nil {
			return
		}
		zp := dns.NewZoneParser(strings.NewReader("x.test. 60 IN "+typ+" "+got), ".", "")
		rr, ok := zp.Next()
		require.True(rt, ok, "%q", got)
		require.Equal(rt, typ, dns.TypeToString[rr.Header().Rrtype])
		_, ok = zp.Next()
		require.False(rt, ok)
		require.NoError(rt, zp.Err())
		buf := make([]byte, 65535)
		_, err := dns.PackRR(rr, buf, 0, nil, false)
		require.NoError(rt, err, "%s %q -> %q", typ, value, got)
	})
}
