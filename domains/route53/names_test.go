package route53

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCanonicalName(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	name254 := strings.Repeat(label63+".", 3) + strings.Repeat("b", 61) + "." // 255 octets on the wire
	tests := map[string]struct{ in, want, problem string }{
		"relative":          {in: "www.example.test", want: "www.example.test."},
		"absolute":          {in: "www.example.test.", want: "www.example.test."},
		"upper case":        {in: "WWW.Example.TEST.", want: "www.example.test."},
		"wildcard":          {in: "*.example.test", want: `\052.example.test.`},
		"escaped wildcard":  {in: `\052.example.test`, want: `\052.example.test.`},
		"escaped upper A":   {in: `\101.example.test`, want: "a.example.test."},
		"escaped dot":       {in: `a\056b.test`, want: `a\056b.test.`},
		"underscore":        {in: "_dmarc.example.test", want: "_dmarc.example.test."},
		"UTF-8 bytes":       {in: "exämple.test", want: `ex\303\244mple.test.`},
		"latin byte":        {in: `ex\344mple.test`, want: `ex\344mple.test.`},
		"punycode":          {in: "xn--exmple-cua.test", want: "xn--exmple-cua.test."},
		"other punctuation": {in: "a@b.test", want: `a\100b.test.`},
		"escaped space":     {in: `a\040b.test`, want: `a\040b.test.`},
		"root":              {in: ".", want: "."},
		"label of 63":       {in: label63 + ".test", want: label63 + ".test."},
		"255 octets":        {in: name254, want: name254},
		"label of 64":       {in: label63 + "a.test", problem: "DomainLabelTooLong (Domain label is too long)"},
		"256 octets":        {in: "b" + strings.TrimSuffix(name254, "b.") + "bb.", problem: "Domain"},
		"empty":             {in: "", problem: "DomainLabelEmpty (Domain label is empty) encountered with ''"},
		"empty label":       {in: "a..test", problem: "DomainLabelEmpty (Domain label is empty) encountered with 'a..test'"},
		"leading dot":       {in: ".test", problem: "DomainLabelEmpty"},
		"space":             {in: "a b.test", problem: "UnsupportedCharacter (Value contains unsupported characters)"},
		"newline":           {in: "a\nb.test", problem: "UnsupportedCharacter"},
		"decimal escape":    {in: `\042\999.test`, problem: "UnsupportedCharacter"},
		"escape beyond 377": {in: `\400.test`, problem: "UnsupportedCharacter"},
		"short escape":      {in: `\05`, problem: "UnsupportedCharacter"},
		"backslash":         {in: `a\b.test`, problem: "UnsupportedCharacter"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, p := canonicalName(tt.in)
			if tt.problem != "" {
				require.NotNil(t, p)
				assert.Contains(t, p.String(), tt.problem)
				return
			}
			require.Nil(t, p)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestNameTooLongInAll(t *testing.T) {
	name := strings.Repeat(strings.Repeat("a", 49)+".", 5) + "bbbbb." // 50*5 + 6 + 1 = 257
	_, p := canonicalName(name)
	require.NotNil(t, p)
	assert.Equal(t, "DomainNameTooLong", p.code)
}

func TestPresentationName(t *testing.T) {
	for in, want := range map[string]string{
		"www.example.test.":    "www.example.test.",
		`\052.example.test.`:   "*.example.test.",
		`a\056b.test.`:         `a\.b.test.`,
		`ex\303\244mple.test.`: `ex\195\164mple.test.`,
		`a\100b.test.`:         `a\@b.test.`,
		`a\134b.test.`:         `a\\b.test.`,
	} {
		assert.Equal(t, want, presentationName(in), in)
	}
}

// Whatever bytes a name has, the canonical form reads back as itself, and the DNS library packs
// the presentation form into the same labels.
func TestNameRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		labels := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 20), 1, 5).Draw(rt, "labels")
		var name domainName
		for _, l := range labels {
			name = append(name, string(l))
		}
		canonical := name.canonical()
		again, p := canonicalName(canonical)
		require.Nil(rt, p)
		require.Equal(rt, canonical, again)

		lower, p := parseName(canonical)
		require.Nil(rt, p)
		buf := make([]byte, 300)
		n, err := dns.PackDomainName(presentationName(canonical), buf, 0, nil, false)
		require.NoError(rt, err)
		var want []byte
		for _, l := range lower {
			want = append(append(want, byte(len(l))), l...)
		}
		require.Equal(rt, append(want, 0), buf[:n])
	})
}

func TestZoneName(t *testing.T) {
	got, p := zoneName("Example.Test")
	require.Nil(t, p)
	assert.Equal(t, "example.test.", got)
	got, p = zoneName("a.*.test")
	require.Nil(t, p, "an asterisk that is not leftmost is an ordinary character")
	assert.Equal(t, `a.\052.test.`, got)
	for _, bad := range []string{"", ".", "test", "test.", "*.example.test", "a..b", strings.Repeat("ä", 31) + "." + strings.Repeat("ä", 31) + ".test"} {
		_, p := zoneName(bad)
		assert.NotNil(t, p, bad)
	}
}

func TestInZone(t *testing.T) {
	assert.True(t, inZone("example.test.", "example.test."))
	assert.True(t, inZone("a.b.example.test.", "example.test."))
	assert.False(t, inZone("badexample.test.", "example.test."))
	assert.False(t, inZone("test.", "example.test."))
	assert.False(t, inZone(`bad\056example.test.`, "example.test."), "an escaped dot separates nothing")
}

func TestNameOrder(t *testing.T) {
	assert.Equal(t, "com.example.www.", nameOrder("www.example.com."))
	// The trailing dot decides: '-' sorts before '.'.
	assert.Less(t, nameOrder("example-a.com."), nameOrder("a.example.com."))
	assert.Less(t, nameOrder("example.com."), nameOrder("a.example.com."))
	assert.Less(t, nameOrder(`\052.example.com.`), nameOrder("a.example.com."))
}
