package dnsserver

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
)

func testServer(t testing.TB, zones ...*dnsapi.Zone) *Server {
	t.Helper()
	s, err := New(Options{Listen: "127.0.0.1:0", Node: "n1", Zones: newMemZones(), Servers: newMemStatus(), Sockets: 1})
	require.NoError(t, err)
	s.view.Store(viewOf(t, zones...))
	return s
}

func newTestWorker(t testing.TB, zones ...*dnsapi.Zone) *worker {
	t.Helper()
	s := testServer(t, zones...)
	return s.newWorker(s.counts[0])
}

// exchange packs a request, handles it twice, so that the second answer can come from the cache, and
// returns the unpacked answer after comparing both.
func exchange(t *testing.T, w *worker, req *dns.Msg, tr transport) *dns.Msg {
	t.Helper()
	wire, err := req.Pack()
	require.NoError(t, err)
	first := append([]byte{}, w.handle(wire, make([]byte, 0, dns.MaxMsgSize), tr)...)
	second := w.handle(wire, make([]byte, 0, dns.MaxMsgSize), tr)
	require.Equal(t, first, second)
	var resp dns.Msg
	require.NoError(t, resp.Unpack(first))
	assert.Equal(t, req.Id, resp.Id)
	assert.True(t, resp.Response)
	assert.False(t, resp.RecursionAvailable)
	assert.Equal(t, req.RecursionDesired, resp.RecursionDesired)
	assert.Equal(t, req.Opcode, resp.Opcode)
	return &resp
}

func newQuery(name string, rtype uint16) *dns.Msg { return new(dns.Msg).SetQuestion(name, rtype) }

func TestHandleSpellingOfTheName(t *testing.T) {
	w := newTestWorker(t, testZones()...)
	for _, name := range []string{"www.example.test.", "WwW.eXaMpLe.TesT.", "WWW.EXAMPLE.TEST."} {
		resp := exchange(t, w, newQuery(name, dns.TypeA), overUDP)
		require.Len(t, resp.Answer, 2)
		assert.Equal(t, name, resp.Question[0].Name)
		assert.Equal(t, name, resp.Answer[0].Header().Name)
		resp = exchange(t, w, newQuery("X.wIld.example.TEST.", dns.TypeA), overUDP)
		assert.Equal(t, "X.wIld.example.TEST.", resp.Answer[0].Header().Name)
	}
}

func TestHandleCompresses(t *testing.T) {
	w := newTestWorker(t, testZones()...)
	wire, err := newQuery("c1.example.test.", dns.TypeA).Pack()
	require.NoError(t, err)
	reply := w.handle(wire, nil, overUDP)
	// 2 CNAMEs and 2 addresses: every owner is a pointer, every target a label and a pointer.
	assert.Len(t, reply, len(wire)+12+5+12+6+2*16)
}

func TestHandleHeader(t *testing.T) {
	w := newTestWorker(t, testZones()...)
	for _, tc := range []struct {
		why    string
		change func(*dns.Msg)
		want   string
	}{
		{"an answer", func(*dns.Msg) {}, "NOERROR aa an=2 ns=0 ar=0"},
		{"recursion wanted", func(m *dns.Msg) { m.RecursionDesired = true }, "NOERROR aa an=2 ns=0 ar=0"},
		{"a referral", func(m *dns.Msg) { m.Question[0].Name = "x.deleg.example.test." }, "NOERROR an=0 ns=2 ar=1"},
		{"nothing", func(m *dns.Msg) { m.Question[0].Name = "nothing.example.test." }, "NXDOMAIN aa an=0 ns=1 ar=0"},
		{"not ours", func(m *dns.Msg) { m.Question[0].Name = "nothing.invalid." }, "REFUSED an=0 ns=0 ar=0"},
		{"class CHAOS", func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }, "REFUSED an=0 ns=0 ar=0"},
		{"class ANY", func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassANY }, "REFUSED an=0 ns=0 ar=0"},
		{"ANY", func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeANY }, "REFUSED an=0 ns=0 ar=0"},
		{"AXFR", func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAXFR }, "REFUSED an=0 ns=0 ar=0"},
		{"IXFR with the SOA it has", func(m *dns.Msg) { m.SetIxfr("example.test.", 1, "ns.", "m.") }, "REFUSED an=0 ns=0 ar=0"},
		{"NOTIFY", func(m *dns.Msg) { m.SetNotify("example.test.") }, "NOTIMP an=0 ns=0 ar=0"},
		{"UPDATE", func(m *dns.Msg) { m.SetUpdate("example.test.") }, "NOTIMP an=0 ns=0 ar=0"},
		{"STATUS", func(m *dns.Msg) { m.Opcode = dns.OpcodeStatus }, "NOTIMP an=0 ns=0 ar=0"},
		{"two questions", func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, "FORMERR an=0 ns=0 ar=0"},
		{"no question", func(m *dns.Msg) { m.Question = nil }, "FORMERR an=0 ns=0 ar=0"},
		{"EDNS", func(m *dns.Msg) { m.SetEdns0(4096, false) }, "NOERROR aa an=2 ns=0 ar=1 edns=1232"},
		{"DNSSEC wanted", func(m *dns.Msg) { m.SetEdns0(4096, true) }, "NOERROR aa an=2 ns=0 ar=1 edns=1232 do"},
		{"EDNS of the future", func(m *dns.Msg) { m.SetEdns0(4096, true).IsEdns0().SetVersion(1) }, "BADVERS an=0 ns=0 ar=1 edns=1232 do"},
		{"EDNS with options", func(m *dns.Msg) {
			m.SetEdns0(4096, false)
			m.IsEdns0().Option = []dns.EDNS0{
				&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0123456789abcdef"}, &dns.EDNS0_NSID{Code: dns.EDNS0NSID},
			}
		}, "NOERROR aa an=2 ns=0 ar=1 edns=1232"},
		{"EDNS where refused", func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeANY; m.SetEdns0(512, false) }, "REFUSED an=0 ns=0 ar=1 edns=1232"},
		{"EDNS twice", func(m *dns.Msg) { m.SetEdns0(512, false).SetEdns0(512, false) }, "FORMERR an=0 ns=0 ar=1 edns=1232"},
		{"checking disabled", func(m *dns.Msg) { m.CheckingDisabled = true }, "NOERROR aa an=2 ns=0 ar=0 cd"},
		{"a signed request", func(m *dns.Msg) { m.SetTsig("key.", dns.HmacSHA256, 300, 0) }, "NOERROR aa an=2 ns=0 ar=0"},
	} {
		t.Run(tc.why, func(t *testing.T) {
			req := newQuery("www.example.test.", dns.TypeA)
			req.RecursionDesired = false
			tc.change(req)
			resp := exchange(t, w, req, overUDP)
			assert.Equal(t, tc.want, header(resp))
			if resp.Rcode != dns.RcodeFormatError && resp.Rcode != dns.RcodeNotImplemented {
				assert.Equal(t, req.Question, resp.Question)
			}
		})
	}
}

func header(m *dns.Msg) string {
	out := dns.RcodeToString[m.Rcode]
	if m.Rcode == dns.RcodeBadVers {
		out = "BADVERS"
	}
	for _, f := range []struct {
		set  bool
		text string
	}{{m.Authoritative, " aa"}, {m.Truncated, " tc"}} {
		if f.set {
			out += f.text
		}
	}
	out += fmt.Sprintf(" an=%d ns=%d ar=%d", len(m.Answer), len(m.Ns), len(m.Extra))
	if opt := m.IsEdns0(); opt != nil {
		out += fmt.Sprintf(" edns=%d", opt.UDPSize())
		if opt.Do() {
			out += " do"
		}
	}
	if m.CheckingDisabled {
		out += " cd"
	}
	return out
}

func TestHandleTruncates(t *testing.T) {
	lines := []string{}
	for i := range 200 {
		lines = append(lines, fmt.Sprintf("big%d TXT \"%s\"", i/20, strings.Repeat("x", 40)+fmt.Sprint(i)))
	}
	for i := range 1500 {
		lines = append(lines, fmt.Sprintf("huge A 192.0.%d.%d", i/250, i%250))
	}
	w := newTestWorker(t, zoneOf("example.test.", lines...))
	for _, tc := range []struct {
		why  string
		name string
		size uint16
		over transport
		want string
	}{
		{"512 octets without EDNS", "big0", 0, overUDP, "NOERROR aa tc an=0 ns=0 ar=0"},
		{"512 octets when less is offered", "big0", 100, overUDP, "NOERROR aa tc an=0 ns=0 ar=1 edns=1232"},
		{"what fits into the offer", "big0", 1232, overUDP, "NOERROR aa an=20 ns=0 ar=1 edns=1232"},
		{"never more than the server's size", "huge", 65535, overUDP, "NOERROR aa tc an=0 ns=0 ar=1 edns=1232"},
		{"all of it over TCP", "huge", 0, overTCP, "NOERROR aa an=1500 ns=0 ar=0"},
		{"over TCP the offer does not count", "huge", 512, overTCP, "NOERROR aa an=1500 ns=0 ar=1 edns=1232"},
	} {
		t.Run(tc.why, func(t *testing.T) {
			req := newQuery(tc.name+".example.test.", dns.TypeTXT)
			if tc.name == "huge" {
				req.Question[0].Qtype = dns.TypeA
			}
			if tc.size > 0 {
				req.SetEdns0(tc.size, false)
			}
			resp := exchange(t, w, req, tc.over)
			assert.Equal(t, tc.want, header(resp))
			assert.Equal(t, req.Question, resp.Question)
		})
	}
}

// Addresses that go with name servers are left out before a TCP answer would not fit, and every server
// keeps some.
func TestHandleBoundsGlue(t *testing.T) {
	lines := []string{}
	for i := range 20 {
		lines = append(lines, fmt.Sprintf("deleg NS n%d.deleg.example.test.", i), fmt.Sprintf("@ NS n%d.deleg.example.test.", i))
		for j := range 400 {
			lines = append(lines, fmt.Sprintf("n%d.deleg A 10.%d.%d.%d", i, i, j/250, j%250))
		}
		lines = append(lines, fmt.Sprintf("n%d.deleg AAAA 2001:db8::%d", i, i))
	}
	w := newTestWorker(t, zoneOf("example.test.", lines...))
	for _, tc := range []struct {
		name  string
		rtype uint16
	}{{"www.deleg.example.test.", dns.TypeA}, {"deleg.example.test.", dns.TypeNS}, {"example.test.", dns.TypeNS}} {
		resp := exchange(t, w, newQuery(tc.name, tc.rtype), overTCP)
		assert.Equal(t, dns.RcodeSuccess, resp.Rcode, tc.name)
		assert.False(t, resp.Truncated, tc.name)
		served := map[string]int{}
		for _, rr := range resp.Extra {
			served[rr.Header().Name+" "+dns.Type(rr.Header().Rrtype).String()]++
		}
		assert.Len(t, served, 40, tc.name)
		for key, n := range served {
			assert.Equal(t, strings.HasSuffix(key, " AAAA"), n == 1, key)
		}
	}
}

func TestHandleSizeLimitIsExact(t *testing.T) {
	lines := []string{}
	for i := range 40 {
		lines = append(lines, fmt.Sprintf("www A 192.0.2.%d", i))
	}
	w := newTestWorker(t, zoneOf("example.test.", lines...))
	wire := func(size int) []byte {
		msg, err := newQuery("www.example.test.", dns.TypeA).SetEdns0(uint16(size), false).Pack()
		require.NoError(t, err)
		return w.handle(msg, make([]byte, 0, maxUDPSize), overUDP)
	}
	full := len(wire(maxUDPSize))
	require.Greater(t, full, dns.MinMsgSize)
	assert.Len(t, wire(full), full)
	assert.Less(t, len(wire(full-1)), 100)
}

func TestHandleMalformed(t *testing.T) {
	w := newTestWorker(t, testZones()...)
	good, err := newQuery("www.example.test.", dns.TypeA).Pack()
	require.NoError(t, err)
	change := func(f func(m []byte) []byte) []byte { return f(append([]byte{}, good...)) }
	for _, tc := range []struct {
		why string
		msg []byte
		// rcode is rcodeDrop for no answer.
		rcode int
	}{
		{"nothing", nil, rcodeDrop},
		{"half a header", good[:11], rcodeDrop},
		{"a response", change(func(m []byte) []byte { m[2] |= 0x80; return m }), rcodeDrop},
		{"a header alone", good[:12], dns.RcodeFormatError},
		{"half a name", good[:20], dns.RcodeFormatError},
		{"no class", good[:len(good)-2], dns.RcodeFormatError},
		{"rubbish behind", append(append([]byte{}, good...), 1), dns.RcodeFormatError},
		{"a compressed question", change(func(m []byte) []byte { m[12] = 0xC0; return m }), dns.RcodeFormatError},
		{"a label of an unknown kind", change(func(m []byte) []byte { m[12] = 0x41; return m }), dns.RcodeFormatError},
		{"more records than there are", change(func(m []byte) []byte { m[11] = 1; return m }), dns.RcodeFormatError},
		{"65,535 records that are not there", change(func(m []byte) []byte { m[10], m[11] = 255, 255; return m }), dns.RcodeFormatError},
		{"a record beyond the end", change(func(m []byte) []byte {
			m[11] = 1
			return append(m, 0, 0, 41, 4, 0, 0, 0, 0, 0, 0, 9)
		}), dns.RcodeFormatError},
		{"an OPT with half an option", change(func(m []byte) []byte {
			m[11] = 1
			return append(m, 0, 0, 41, 4, 0, 0, 0, 0, 0, 0, 3, 0, 10, 0)
		}), dns.RcodeFormatError},
		{"an OPT that is not of the root", change(func(m []byte) []byte {
			m[11] = 1
			return append(m, 1, 'a', 0, 0, 41, 4, 0, 0, 0, 0, 0, 0, 0)
		}), dns.RcodeFormatError},
		{"an OPT as an answer", change(func(m []byte) []byte {
			m[7] = 1
			return append(m, 0, 0, 41, 4, 0, 0, 0, 0, 0, 0, 0)
		}), dns.RcodeFormatError},
		{"a name of 256 octets", longName(4, 62), dns.RcodeFormatError},
	} {
		t.Run(tc.why, func(t *testing.T) {
			reply := w.handle(tc.msg, make([]byte, 0, maxUDPSize), overUDP)
			if tc.rcode == rcodeDrop {
				require.Nil(t, reply)
				return
			}
			var resp dns.Msg
			require.NoError(t, resp.Unpack(reply))
			assert.Equal(t, tc.rcode, resp.Rcode)
			assert.Equal(t, binary.BigEndian.Uint16(tc.msg), resp.Id)
			assert.Empty(t, resp.Answer)
		})
	}
}

// longName is a query for a name of equal labels below example.test.
func longName(labels, size int) []byte {
	msg := make([]byte, headerLen)
	msg[5] = 1
	for range labels {
		msg = append(msg, byte(size))
		msg = append(msg, strings.Repeat("a", size)...)
	}
	return append(msg, "\x07example\x04test\x00\x00\x01\x00\x01"...)
}

func TestHandleLongestNames(t *testing.T) {
	w := newTestWorker(t, testZones()...)
	for _, msg := range [][]byte{longName(3, 63), longName(120, 1)} {
		var resp dns.Msg
		require.NoError(t, resp.Unpack(w.handle(msg, nil, overUDP)))
		assert.Equal(t, dns.RcodeNameError, resp.Rcode)
	}
}

func TestHandleBeforeTheFirstZones(t *testing.T) {
	s := testServer(t)
	s.view.Store(nil)
	resp := exchange(t, s.newWorker(s.counts[0]), newQuery("www.example.test.", dns.TypeA), overUDP)
	assert.Equal(t, dns.RcodeServerFailure, resp.Rcode)
}

func TestHandleSurvivesAPanic(t *testing.T) {
	s := testServer(t, zoneOf("example.test."))
	// A slot without a zone is a fault of the program: this stands for any.
	s.view.Load().byName["\x07example\x04test\x00"] = &slot{}
	w := s.newWorker(s.counts[0])
	wire, err := newQuery("www.example.test.", dns.TypeA).Pack()
	require.NoError(t, err)
	var resp dns.Msg
	require.NoError(t, resp.Unpack(w.handle(wire, nil, overUDP)))
	assert.Equal(t, dns.RcodeServerFailure, resp.Rcode)
	assert.EqualValues(t, 1, s.counts[0].failures.Load())
}

func TestCacheFollowsTheZones(t *testing.T) {
	other := zoneOf("other.test.", "www A 192.0.2.1")
	first := zoneOf("example.test.", "www CNAME www.other.test.")
	s := testServer(t, first, other)
	w := s.newWorker(s.counts[0])
	get := func() string {
		resp := exchange(t, w, newQuery("www.example.test.", dns.TypeA), overUDP)
		if len(resp.Answer) < 2 {
			return header(resp)
		}
		return resp.Answer[1].(*dns.A).A.String()
	}
	load := func(seq uint64, src *dnsapi.Zone) {
		z, err := compile(src)
		require.NoError(t, err)
		z.seq = seq
		s.view.Store(s.view.Load().with(map[zoneKey]*zone{z.key: z}, nil))
	}
	assert.Equal(t, "192.0.2.1", get())
	hits := s.counts[0].hits.Load()
	assert.Equal(t, "192.0.2.1", get())
	assert.Equal(t, hits+2, s.counts[0].hits.Load())
	load(10, zoneOf("other.test.", "www A 192.0.2.2"))
	assert.Equal(t, "192.0.2.2", get(), "the chain's second zone changed")
	load(11, zoneOf("www.other.test.", "@ A 192.0.2.3"))
	assert.Equal(t, "192.0.2.3", get(), "a more specific zone came")
	gone := map[zoneKey]bool{{class: dnsapi.Hosted, name: "\x05other\x04test\x00"}: true, {class: dnsapi.Hosted, name: "\x03www\x05other\x04test\x00"}: true}
	s.view.Store(s.view.Load().with(nil, gone))
	assert.Equal(t, "NOERROR aa an=1 ns=0 ar=0", get(), "both went")
}

func TestCacheKeepsNoDraws(t *testing.T) {
	s := testServer(t, testZones()...)
	w := s.newWorker(s.counts[0])
	wire, err := newQuery("w.example.test.", dns.TypeA).Pack()
	require.NoError(t, err)
	for range 50 {
		require.NotEmpty(t, w.handle(wire, nil, overUDP))
	}
	assert.Zero(t, s.counts[0].hits.Load())
}

func TestCacheIsBounded(t *testing.T) {
	s := testServer(t, testZones()...)
	w := s.newWorker(s.counts[0])
	out := make([]byte, 0, maxUDPSize)
	for i := range 2 * cacheSlots {
		wire, err := newQuery(fmt.Sprintf("n%d.wild.example.test.", i), dns.TypeA).Pack()
		require.NoError(t, err)
		require.NotEmpty(t, w.handle(wire, out, overUDP))
	}
	assert.Len(t, s.cache.slots, cacheSlots)
	s.cache.clear()
	for i := range s.cache.slots {
		require.Nil(t, s.cache.slots[i].Load())
	}
}

func TestHandleDoesNotAllocate(t *testing.T) {
	w := newTestWorker(t, testZones()...)
	wire, err := newQuery("www.example.test.", dns.TypeA).SetEdns0(1232, false).Pack()
	require.NoError(t, err)
	out := make([]byte, 0, maxUDPSize)
	require.NotEmpty(t, w.handle(wire, out, overUDP))
	assert.Zero(t, testing.AllocsPerRun(100, func() { w.handle(wire, out, overUDP) }))
}

func FuzzHandle(f *testing.F) {
	s, err := New(Options{Listen: "127.0.0.1:0", Node: "n1", Zones: newMemZones(), Servers: newMemStatus(), Sockets: 1})
	require.NoError(f, err)
	s.view.Store(viewOf(f, testZones()...))
	w := s.newWorker(s.counts[0])
	for _, z := range testZones() {
		for _, set := range z.RRSets {
			for _, rtype := range []uint16{dns.StringToType[set.Type], dns.TypeA, dns.TypeDS} {
				m := newQuery(set.Name, rtype)
				wire, err := m.Pack()
				require.NoError(f, err)
				f.Add(wire)
				wire, err = m.SetEdns0(4096, true).Pack()
				require.NoError(f, err)
				f.Add(wire)
			}
		}
	}
	f.Add(longName(120, 1))
	f.Fuzz(func(t *testing.T, msg []byte) {
		for _, tr := range []transport{overUDP, overTCP} {
			reply := w.handle(msg, make([]byte, 0, maxUDPSize), tr)
			require.Zero(t, s.counts[0].failures.Load(), "a query failed inside the server")
			if reply == nil {
				continue
			}
			if tr == overUDP {
				require.LessOrEqual(t, len(reply), maxUDPSize)
			}
			var resp dns.Msg
			require.NoError(t, resp.Unpack(reply))
			require.True(t, resp.Response)
			require.Equal(t, binary.BigEndian.Uint16(msg), resp.Id)
		}
	})
}

func BenchmarkHandle(b *testing.B) {
	for _, bc := range []struct{ name, qname string }{
		{"cached", "www.example.test."}, {"drawn", "w.example.test."}, {"refused", "www.invalid."},
	} {
		b.Run(bc.name, func(b *testing.B) {
			w := newTestWorker(b, testZones()...)
			wire, err := newQuery(bc.qname, dns.TypeA).SetEdns0(1232, false).Pack()
			require.NoError(b, err)
			out := make([]byte, 0, maxUDPSize)
			b.ReportAllocs()
			for b.Loop() {
				w.handle(wire, out, overUDP)
			}
		})
	}
}
