package dnsserver

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
)

// fixed draws always the same number, or the highest that is allowed.
type fixed int

func (f fixed) IntN(n int) int { return min(int(f), n-1) }

// ask formats the response to "name TYPE": code, flags, and each section's records with owner, TTL,
// type and value.
func ask(t *testing.T, v *view, q string, rng source) string {
	t.Helper()
	name, rtype, ok := strings.Cut(q, " ")
	require.True(t, ok, q)
	wire, err := wireName(name)
	require.NoError(t, err)
	r := answer(v, question{name: wire, rtype: dns.StringToType[rtype]}, rng)
	var b strings.Builder
	b.WriteString(dns.RcodeToString[r.rcode])
	if r.authoritative {
		b.WriteString(" aa")
	}
	for _, sec := range []struct {
		name string
		rrs  []dns.RR
	}{{"an", r.answer}, {"ns", r.authority}, {"ar", r.additional}} {
		for _, rr := range sec.rrs {
			h := rr.Header()
			value := strings.TrimPrefix(rr.String(), h.String())
			if _, ok := rr.(*dns.SOA); ok {
				value = "." // its fields are compared where they matter
			}
			fmt.Fprintf(&b, "\n%s %s %d %s %s", sec.name, h.Name, h.Ttl, dns.TypeToString[h.Rrtype], value)
		}
	}
	return b.String()
}

func testZones() []*dnsapi.Zone {
	weight := func(n int64) *int64 { return &n }
	example := zoneOf("example.test.",
		"ns1 A 192.0.2.1", "ns1 AAAA 2001:db8::1",
		"www A 192.0.2.10", "www A 192.0.2.11", "www TXT \"hello\" \"world\"",
		"@ MX 10 mail.example.test.", "@ TXT \"v=spf1 -all\"", `@ CAA 0 issue "ca.example.net"`,
		"deep.ent.a A 192.0.2.12",
		"*.wild A 192.0.2.20", "*.wild MX 5 mail.example.test.", "exists.wild TXT \"here\"",
		"under.ent2.wild A 192.0.2.21",
		"*.cw CNAME www.example.test.",
		"*.mid A 192.0.2.22", "x.*.lit A 192.0.2.23",
		"c1 CNAME c2.example.test.", "c2 CNAME www.example.test.",
		"cgone CNAME nothing.example.test.", "cnodata CNAME ent.a.example.test.",
		"cout CNAME www.elsewhere.invalid.", "cother CNAME www.other.test.",
		"loop1 CNAME loop2.example.test.", "loop2 CNAME loop1.example.test.", "self CNAME self.example.test.",
		"cdeleg CNAME host.deleg.example.test.",
		"deleg NS ns.deleg.example.test.", "deleg NS ns.other.test.", "deleg DS 1 8 2 "+strings.Repeat("ab", 32),
		"ns.deleg A 192.0.2.30", "hidden.deleg A 192.0.2.31",
		"_sip._tcp SRV 1 2 5060 www.example.test.", "UPPER A 192.0.2.40",
		`esc\046aped A 192.0.2.41`, "svc HTTPS 1 . alpn=h2",
	)
	example.RRSets = append(example.RRSets,
		dnsapi.RRSet{Name: "ttl.example.test.", Type: "A", TTL: new(uint32(5)), Values: []string{"192.0.2.50"}},
		dnsapi.RRSet{Name: "w.example.test.", Type: "A", SetID: "a", Weight: weight(0), Values: []string{"192.0.2.60"}},
		dnsapi.RRSet{Name: "w.example.test.", Type: "A", SetID: "b", Weight: weight(10), Values: []string{"192.0.2.61"}},
		dnsapi.RRSet{Name: "w.example.test.", Type: "A", SetID: "c", Weight: weight(20), Values: []string{"192.0.2.62", "192.0.2.63"}},
		dnsapi.RRSet{Name: "w0.example.test.", Type: "A", SetID: "a", Weight: weight(0), Values: []string{"192.0.2.64"}},
		dnsapi.RRSet{Name: "w0.example.test.", Type: "A", SetID: "b", Weight: weight(0), Values: []string{"192.0.2.65"}},
		aliasSet("al.example.test.", "A", "ZEXAMPLE.TEST", "www.example.test."),
		aliasSet("al.example.test.", "AAAA", "ZEXAMPLE.TEST", "www.example.test."),
		aliasSet("example.test.", "A", "ZOTHER.TEST", "www.other.test."),
		aliasSet("alc.example.test.", "A", "ZEXAMPLE.TEST", "c1.example.test."),
		aliasSet("al1.example.test.", "A", "ZEXAMPLE.TEST", "al2.example.test."),
		aliasSet("al2.example.test.", "A", "ZEXAMPLE.TEST", "al1.example.test."),
		aliasSet("alal.example.test.", "A", "ZEXAMPLE.TEST", "al.example.test."),
		aliasSet("alnone.example.test.", "A", "ZNONE", "www.example.test."),
		aliasSet("algone.example.test.", "A", "ZEXAMPLE.TEST", "nothing.example.test."),
		aliasSet("aloutside.example.test.", "A", "ZOTHER.TEST", "www.example.test."),
		aliasSet("alwild.example.test.", "A", "ZEXAMPLE.TEST", "any.wild.example.test."),
		aliasSet("aldeleg.example.test.", "A", "ZEXAMPLE.TEST", "ns.deleg.example.test."),
		aliasSet("*.alw.example.test.", "A", "ZEXAMPLE.TEST", "www.example.test."),
		aliasSet("alcname.example.test.", "CNAME", "ZEXAMPLE.TEST", "c2.example.test."),
	)
	mixed := aliasSet("wal.example.test.", "A", "ZEXAMPLE.TEST", "ttl.example.test.")
	mixed.SetID, mixed.Weight = "alias", weight(1)
	example.RRSets = append(example.RRSets, mixed, dnsapi.RRSet{
		Name: "wal.example.test.", Type: "A", SetID: "plain", Weight: weight(1), Values: []string{"192.0.2.66"},
	})
	for i := range 20 {
		example.RRSets = append(example.RRSets, dnsapi.RRSet{
			Name: "mv.example.test.", Type: "A", SetID: fmt.Sprint(i), MultiValue: true, TTL: new(uint32(20 + i)),
			Values: []string{fmt.Sprintf("192.0.2.%d", 100+i)},
		})
	}
	for i := range 3 {
		example.RRSets = append(example.RRSets, dnsapi.RRSet{
			Name: "mvfew.example.test.", Type: "A", SetID: fmt.Sprint(i), MultiValue: true,
			Values: []string{fmt.Sprintf("192.0.2.%d", 130+i)},
		})
	}
	other := zoneOf("other.test.", "www A 198.51.100.1", "ns A 198.51.100.2")
	sub := zoneOf("sub.example.test.", "www A 198.51.100.3")
	platform := zoneOf("both.test.", "www A 203.0.113.1")
	platform.Class, platform.ID = dnsapi.Platform, "both.test."
	hosted := zoneOf("both.test.", "www A 203.0.113.2", "only A 203.0.113.3")
	other.RRSets = append(other.RRSets, aliasSet("shadowed.other.test.", "A", "ZBOTH.TEST", "www.both.test."))
	return []*dnsapi.Zone{example, other, sub, platform, hosted}
}

func aliasSet(name, rtype, zone, target string) dnsapi.RRSet {
	return dnsapi.RRSet{Name: name, Type: rtype, Alias: &dnsapi.Alias{Zone: zone, Name: target}}
}

const (
	soaLine    = "\nns example.test. 60 SOA ."
	otherSOA   = "\nns other.test. 60 SOA ."
	referLines = "\nns deleg.example.test. 300 NS ns.deleg.example.test.\nns deleg.example.test. 300 NS ns.other.test." +
		"\nar ns.deleg.example.test. 300 A 192.0.2.30"
	wwwLines = "\nan www.example.test. 300 A 192.0.2.10\nan www.example.test. 300 A 192.0.2.11"
)

func TestAnswer(t *testing.T) {
	v := viewOf(t, testZones()...)
	for _, tc := range []struct{ why, q, want string }{
		{"a set", "www.example.test. A", "NOERROR aa" + wwwLines},
		{"text", "www.example.test. TXT", "NOERROR aa\nan www.example.test. 300 TXT \"hello\" \"world\""},
		{"the set's own ttl", "ttl.example.test. A", "NOERROR aa\nan ttl.example.test. 5 A 192.0.2.50"},
		{"mail at the apex", "example.test. MX", "NOERROR aa\nan example.test. 300 MX 10 mail.example.test."},
		{"caa", "example.test. CAA", "NOERROR aa\nan example.test. 300 CAA 0 issue \"ca.example.net\""},
		{"service", "_sip._tcp.example.test. SRV", "NOERROR aa\nan _sip._tcp.example.test. 300 SRV 1 2 5060 www.example.test."},
		{"https", "svc.example.test. HTTPS", "NOERROR aa\nan svc.example.test. 300 HTTPS 1 . alpn=\"h2\""},
		{"soa", "example.test. SOA", "NOERROR aa\nan example.test. 300 SOA ."},
		{"apex ns with the zone's addresses", "example.test. NS", "NOERROR aa\nan example.test. 300 NS ns1.example.test." +
			"\nar ns1.example.test. 300 A 192.0.2.1\nar ns1.example.test. 300 AAAA 2001:db8::1"},
		{"an owner written in upper case", "upper.example.test. A", "NOERROR aa\nan upper.example.test. 300 A 192.0.2.40"},
		{"an escaped dot is no separator", `esc\.aped.example.test. A`, "NOERROR aa\nan esc\\.aped.example.test. 300 A 192.0.2.41"},
		{"the unescaped name is another", "esc.aped.example.test. A", "NXDOMAIN aa" + soaLine},

		{"no such type", "www.example.test. MX", "NOERROR aa" + soaLine},
		{"no such name", "nothing.example.test. A", "NXDOMAIN aa" + soaLine},
		{"below a name without children", "a.www.example.test. A", "NXDOMAIN aa" + soaLine},
		{"an empty non-terminal", "ent.a.example.test. A", "NOERROR aa" + soaLine},
		{"an empty non-terminal above", "a.example.test. A", "NOERROR aa" + soaLine},
		{"beside an empty non-terminal", "b.ent.a.example.test. A", "NXDOMAIN aa" + soaLine},
		{"not our zone", "www.elsewhere.invalid. A", "REFUSED"},
		{"the parent of our zone", "test. A", "REFUSED"},
		{"the root", ". NS", "REFUSED"},
		{"a name that only ends alike", "notexample.test. A", "REFUSED"},

		{"a wildcard", "x.wild.example.test. A", "NOERROR aa\nan x.wild.example.test. 300 A 192.0.2.20"},
		{"a wildcard over two labels", "x.y.wild.example.test. A", "NOERROR aa\nan x.y.wild.example.test. 300 A 192.0.2.20"},
		{"a wildcard's other type", "x.wild.example.test. MX", "NOERROR aa\nan x.wild.example.test. 300 MX 5 mail.example.test."},
		{"a wildcard without the type", "x.wild.example.test. TXT", "NOERROR aa" + soaLine},
		{"a wildcard asked by its name", "*.wild.example.test. A", "NOERROR aa\nan *.wild.example.test. 300 A 192.0.2.20"},
		{"a name that exists hides the wildcard", "exists.wild.example.test. A", "NOERROR aa" + soaLine},
		{"below a name that exists there is no wildcard", "x.exists.wild.example.test. A", "NXDOMAIN aa" + soaLine},
		{"an empty non-terminal hides the wildcard", "ent2.wild.example.test. A", "NOERROR aa" + soaLine},
		{"beside a name below an empty non-terminal", "x.ent2.wild.example.test. A", "NXDOMAIN aa" + soaLine},
		{"a wildcard's parent is an empty non-terminal", "wild.example.test. A", "NOERROR aa" + soaLine},
		{"a wildcard without records of its own", "y.lit.example.test. A", "NOERROR aa" + soaLine},
		{"a star in the middle is a label", "x.*.lit.example.test. A", "NOERROR aa\nan x.*.lit.example.test. 300 A 192.0.2.23"},
		{"a wildcard cname", "x.cw.example.test. A", "NOERROR aa\nan x.cw.example.test. 300 CNAME www.example.test." + wwwLines},

		{"a chain", "c1.example.test. A", "NOERROR aa\nan c1.example.test. 300 CNAME c2.example.test." +
			"\nan c2.example.test. 300 CNAME www.example.test." + wwwLines},
		{"a cname itself", "c1.example.test. CNAME", "NOERROR aa\nan c1.example.test. 300 CNAME c2.example.test."},
		{"a chain to a missing name", "cgone.example.test. A", "NXDOMAIN aa\nan cgone.example.test. 300 CNAME nothing.example.test." + soaLine},
		{"a chain to a missing type", "cnodata.example.test. A", "NOERROR aa\nan cnodata.example.test. 300 CNAME ent.a.example.test." + soaLine},
		{"a chain that leaves", "cout.example.test. A", "NOERROR aa\nan cout.example.test. 300 CNAME www.elsewhere.invalid."},
		{"a chain into another zone", "cother.example.test. A", "NOERROR aa\nan cother.example.test. 300 CNAME www.other.test." +
			"\nan www.other.test. 300 A 198.51.100.1"},
		{"a chain into another zone without the type", "cother.example.test. MX", "NOERROR aa\nan cother.example.test. 300 CNAME www.other.test." + otherSOA},
		{"a loop of two", "loop1.example.test. A", "NOERROR aa\nan loop1.example.test. 300 CNAME loop2.example.test." +
			"\nan loop2.example.test. 300 CNAME loop1.example.test."},
		{"a loop of one", "self.example.test. A", "NOERROR aa\nan self.example.test. 300 CNAME self.example.test."},
		{"a chain into a delegation", "cdeleg.example.test. A", "NOERROR aa\nan cdeleg.example.test. 300 CNAME host.deleg.example.test." + referLines},

		{"a referral", "host.deleg.example.test. A", "NOERROR" + referLines},
		{"a referral at the cut", "deleg.example.test. A", "NOERROR" + referLines},
		{"a referral for the ns itself", "deleg.example.test. NS", "NOERROR" + referLines},
		{"glue is no answer", "ns.deleg.example.test. A", "NOERROR" + referLines},
		{"what the cut hides", "hidden.deleg.example.test. A", "NOERROR" + referLines},
		{"ds at the cut is the parent's", "deleg.example.test. DS", "NOERROR aa\nan deleg.example.test. 300 DS 1 8 2 " + strings.Repeat("AB", 32)},
		{"ds below the cut is not", "x.deleg.example.test. DS", "NOERROR" + referLines},

		{"the most specific zone", "www.sub.example.test. A", "NOERROR aa\nan www.sub.example.test. 300 A 198.51.100.3"},
		{"ds of a served child is its parent's", "sub.example.test. DS", "NXDOMAIN aa" + soaLine},
		{"ds of the top zone is its own", "example.test. DS", "NOERROR aa" + soaLine},
		{"the platform's zone wins", "www.both.test. A", "NOERROR aa\nan www.both.test. 300 A 203.0.113.1"},
		{"the hosted zone of that name is hidden", "only.both.test. A", "NXDOMAIN aa\nns both.test. 60 SOA ."},

		{"an alias", "al.example.test. A", "NOERROR aa\nan al.example.test. 300 A 192.0.2.10\nan al.example.test. 300 A 192.0.2.11"},
		{"an alias without the type at its target", "al.example.test. AAAA", "NOERROR aa" + soaLine},
		{"an alias at the apex into another zone", "example.test. A", "NOERROR aa\nan example.test. 300 A 198.51.100.1"},
		{"an alias through a chain", "alc.example.test. A", "NOERROR aa\nan alc.example.test. 300 A 192.0.2.10\nan alc.example.test. 300 A 192.0.2.11"},
		{"an alias of an alias", "alal.example.test. A", "NOERROR aa\nan alal.example.test. 300 A 192.0.2.10\nan alal.example.test. 300 A 192.0.2.11"},
		{"aliases in a loop", "al1.example.test. A", "NOERROR aa" + soaLine},
		{"an alias into no zone", "alnone.example.test. A", "NOERROR aa" + soaLine},
		{"an alias to no name", "algone.example.test. A", "NOERROR aa" + soaLine},
		{"an alias to a name outside of its zone", "aloutside.example.test. A", "NOERROR aa" + soaLine},
		{"an alias to a wildcard's name", "alwild.example.test. A", "NOERROR aa\nan alwild.example.test. 300 A 192.0.2.20"},
		{"an alias below a cut", "aldeleg.example.test. A", "NOERROR aa" + soaLine},
		{"a wildcard alias", "x.alw.example.test. A", "NOERROR aa\nan x.alw.example.test. 300 A 192.0.2.10\nan x.alw.example.test. 300 A 192.0.2.11"},
		{"an alias of a cname", "alcname.example.test. A", "NOERROR aa\nan alcname.example.test. 300 CNAME www.example.test." + wwwLines},
		{"an alias into a hidden zone, by id", "shadowed.other.test. A", "NOERROR aa\nan shadowed.other.test. 300 A 203.0.113.2"},

		{"few values of a multivalue answer", "mvfew.example.test. A", "NOERROR aa\nan mvfew.example.test. 300 A 192.0.2.130" +
			"\nan mvfew.example.test. 300 A 192.0.2.131\nan mvfew.example.test. 300 A 192.0.2.132"},

		{"any", "www.example.test. ANY", "REFUSED"},
		{"transfer", "example.test. AXFR", "REFUSED"},
		{"incremental transfer", "example.test. IXFR", "REFUSED"},
		{"mail agents", "example.test. MAILB", "REFUSED"},
		{"opt as a type", "example.test. OPT", "REFUSED"},
	} {
		t.Run(tc.why, func(t *testing.T) { assert.Equal(t, tc.want, ask(t, v, tc.q, fixed(0))) })
	}
}

func TestAnswerDraws(t *testing.T) {
	v := viewOf(t, testZones()...)
	for _, tc := range []struct {
		why, q string
		draw   fixed
		want   string
	}{
		{"weight 0 beside others is never drawn", "w.example.test. A", 0, "NOERROR aa\nan w.example.test. 300 A 192.0.2.61"},
		{"the last of its weight", "w.example.test. A", 9, "NOERROR aa\nan w.example.test. 300 A 192.0.2.61"},
		{"the next weight", "w.example.test. A", 10, "NOERROR aa\nan w.example.test. 300 A 192.0.2.62\nan w.example.test. 300 A 192.0.2.63"},
		{"the last weight", "w.example.test. A", 29, "NOERROR aa\nan w.example.test. 300 A 192.0.2.62\nan w.example.test. 300 A 192.0.2.63"},
		{"all weights 0 are equal", "w0.example.test. A", 0, "NOERROR aa\nan w0.example.test. 300 A 192.0.2.64"},
		{"all weights 0 are equal, the other", "w0.example.test. A", 1, "NOERROR aa\nan w0.example.test. 300 A 192.0.2.65"},
		{"a drawn alias", "wal.example.test. A", 0, "NOERROR aa\nan wal.example.test. 5 A 192.0.2.50"},
		{"beside an alias", "wal.example.test. A", 1, "NOERROR aa\nan wal.example.test. 300 A 192.0.2.66"},
	} {
		t.Run(tc.why, func(t *testing.T) { assert.Equal(t, tc.want, ask(t, v, tc.q, tc.draw)) })
	}
}

func TestWeightsAreFollowed(t *testing.T) {
	v := viewOf(t, testZones()...)
	rng := rand.New(rand.NewPCG(1, 2))
	wire, err := wireName("w.example.test.")
	require.NoError(t, err)
	light := 0
	for range 9000 {
		r := answer(v, question{name: wire, rtype: dns.TypeA}, rng)
		require.True(t, r.drawn)
		if len(r.answer) == 1 {
			light++
		}
	}
	assert.InDelta(t, 3000, light, 250)
}

func TestMultiValueDrawsEightOfAll(t *testing.T) {
	v := viewOf(t, testZones()...)
	rng := rand.New(rand.NewPCG(1, 2))
	wire, err := wireName("mv.example.test.")
	require.NoError(t, err)
	seen := map[string]int{}
	for range 2000 {
		r := answer(v, question{name: wire, rtype: dns.TypeA}, rng)
		require.Len(t, r.answer, 8)
		require.True(t, r.drawn)
		distinct := map[string]bool{}
		for _, rr := range r.answer {
			assert.EqualValues(t, 20, rr.Header().Ttl, "one TTL for the set")
			distinct[rr.(*dns.A).A.String()] = true
		}
		require.Len(t, distinct, 8)
		for ip := range distinct {
			seen[ip]++
		}
	}
	require.Len(t, seen, 20)
	for ip, n := range seen {
		assert.InDelta(t, 800, n, 120, ip)
	}
}

func TestNegativeTTL(t *testing.T) {
	for _, tc := range []struct {
		why         string
		ttl, zone   uint32
		minimum     uint32
		want        uint32
		negativeTTL uint32
	}{
		{why: "the minimum", ttl: 900, minimum: 60, want: 60},
		{why: "the SOA's ttl", ttl: 30, minimum: 86400, want: 30},
		{why: "the zone's bound", ttl: 900, minimum: 86400, negativeTTL: 10, want: 10},
	} {
		t.Run(tc.why, func(t *testing.T) {
			z := zoneOf("example.test.")
			z.NegativeTTL = tc.negativeTTL
			z.RRSets[0].TTL = &tc.ttl
			z.RRSets[0].Values[0] = fmt.Sprintf("ns1.example.test. h.example.test. 1 2 3 4 %d", tc.minimum)
			v := viewOf(t, z)
			assert.Equal(t, fmt.Sprintf("NXDOMAIN aa\nns example.test. %d SOA .", tc.want), ask(t, v, "x.example.test. A", fixed(0)))
			wire, err := wireName("example.test.")
			require.NoError(t, err)
			soa := answer(v, question{name: wire, rtype: dns.TypeSOA}, fixed(0)).answer[0].(*dns.SOA)
			assert.EqualValues(t, 7, soa.Serial, "the zone's serial, not the one in the value")
			assert.Equal(t, tc.ttl, soa.Hdr.Ttl)
		})
	}
}

func TestLongChainIsBounded(t *testing.T) {
	lines := []string{}
	for i := range 40 {
		lines = append(lines, fmt.Sprintf("c%d CNAME c%d.example.test.", i, i+1))
	}
	r := ask(t, viewOf(t, zoneOf("example.test.", lines...)), "c0.example.test. A", fixed(0))
	assert.Equal(t, maxChain, strings.Count(r, "CNAME"))
}

func TestRootZone(t *testing.T) {
	v := viewOf(t, zoneOf(".", "www.test A 192.0.2.1"))
	assert.Equal(t, "NOERROR aa\nan www.test. 300 A 192.0.2.1", ask(t, v, "www.test. A", fixed(0)))
	assert.Equal(t, "NOERROR aa\nns . 60 SOA .", ask(t, v, ". DS", fixed(0)))
	assert.Equal(t, "NXDOMAIN aa\nns . 60 SOA .", ask(t, v, "other. A", fixed(0)))
}

func TestCompileRefuses(t *testing.T) {
	set := func(s dnsapi.RRSet) *dnsapi.Zone { return withSets(zoneOf("example.test."), s) }
	weight := int64(256)
	long := dnsapi.RRSet{Name: "l.example.test.", Type: "TXT"}
	for i := range 300 {
		long.Values = append(long.Values, fmt.Sprintf("\"%d%s\"", i, strings.Repeat("x", 240)))
	}
	for _, tc := range []struct {
		why  string
		zone *dnsapi.Zone
		want string
	}{
		{"a value that is no address", zoneOf("example.test.", "www A nonsense"), "www.example.test. A: value \"nonsense\""},
		{"rubbish behind a value", zoneOf("example.test.", "www A 192.0.2.1 rubbish"), "rubbish"},
		{"a line break", zoneOf("example.test.", "www TXT \"a\"\n@ A 192.0.2.1"), "line break"},
		{"an include", zoneOf("example.test.", "www TXT \n$INCLUDE /etc/passwd"), "line break"},
		{"an empty value", zoneOf("example.test.", "www TXT  "), "empty"},
		{"no values", set(dnsapi.RRSet{Name: "www.example.test.", Type: "A"}), "no values"},
		{"a type that is not served", set(dnsapi.RRSet{Name: "www.example.test.", Type: "DNAME", Values: []string{"x."}}), "not served"},
		{"a name outside of the zone", set(dnsapi.RRSet{Name: "www.other.test.", Type: "A", Values: []string{"192.0.2.1"}}), "not within"},
		{"a name that is too long", set(dnsapi.RRSet{Name: strings.Repeat("a", 64) + ".example.test.", Type: "A", Values: []string{"192.0.2.1"}}), "bad domain name"},
		{"no SOA", &dnsapi.Zone{Name: "example.test."}, "one SOA"},
		{"no NS", &dnsapi.Zone{Name: "example.test.", RRSets: []dnsapi.RRSet{zoneOf("example.test.").RRSets[0]}}, "NS records"},
		{"a second SOA", zoneOf("example.test.", "@ SOA ns1. h. 1 2 3 4 5"), "one SOA"},
		{"a SOA below", zoneOf("example.test.", "www SOA ns1. h. 1 2 3 4 5"), "below the apex"},
		{"CNAME beside others", zoneOf("example.test.", "www CNAME a.test.", "www A 192.0.2.1"), "CNAME beside"},
		{"two CNAMEs", zoneOf("example.test.", "www CNAME a.test.", "www CNAME b.test."), "more than one CNAME"},
		{"sets without identifiers", withSets(zoneOf("example.test.", "www A 192.0.2.1"),
			dnsapi.RRSet{Name: "www.example.test.", Type: "A", SetID: "x", Values: []string{"192.0.2.2"}}), "without an identifier"},
		{"an identifier twice", withSets(zoneOf("example.test."),
			dnsapi.RRSet{Name: "www.example.test.", Type: "A", SetID: "x", Values: []string{"192.0.2.1"}},
			dnsapi.RRSet{Name: "www.example.test.", Type: "A", SetID: "x", Values: []string{"192.0.2.2"}}), "occurs twice"},
		{"mixed routing", withSets(zoneOf("example.test."),
			dnsapi.RRSet{Name: "www.example.test.", Type: "A", SetID: "x", Values: []string{"192.0.2.1"}},
			dnsapi.RRSet{Name: "www.example.test.", Type: "A", SetID: "y", MultiValue: true, Values: []string{"192.0.2.2"}}), "another routing"},
		{"a weight out of range", set(dnsapi.RRSet{Name: "www.example.test.", Type: "A", SetID: "x", Weight: &weight, Values: []string{"192.0.2.1"}}), "256"},
		{"an alias with values", set(dnsapi.RRSet{Name: "www.example.test.", Type: "A", Values: []string{"192.0.2.1"}, Alias: &dnsapi.Alias{}}), "alias with values"},
		{"a multivalue alias", set(dnsapi.RRSet{Name: "www.example.test.", Type: "A", SetID: "x", MultiValue: true, Alias: &dnsapi.Alias{Name: "a."}}), "multivalue"},
		{"an alias of NS", set(aliasSet("www.example.test.", "NS", "Z", "x.test.")), "cannot be one"},
		{"routed NS", set(dnsapi.RRSet{Name: "d.example.test.", Type: "NS", SetID: "a", MultiValue: true, Values: []string{"ns.test."}}), "routing policy"},
		{"a set larger than a message", set(long), "octets of records"},
		{"a bad apex", &dnsapi.Zone{Name: "a..b."}, "bad domain name"},
	} {
		t.Run(tc.why, func(t *testing.T) {
			_, err := compile(tc.zone)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestCompileNamesEveryFault(t *testing.T) {
	_, err := compile(zoneOf("example.test.", "a A x", "b A y", "c A 192.0.2.1"))
	require.ErrorContains(t, err, "a.example.test. A")
	require.ErrorContains(t, err, "b.example.test. A")
}
