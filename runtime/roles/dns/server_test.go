package dnsserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// startServer runs a server until the test ends and returns its address once it has the zones.
func startServer(t *testing.T, opts Options) (*Server, netip.AddrPort) {
	t.Helper()
	if opts.Listen == "" {
		opts.Listen = "127.0.0.1:0"
	}
	opts.Node = "n1"
	if opts.Servers == nil {
		opts.Servers = newMemStatus()
	}
	listening := make(chan netip.AddrPort, 1)
	opts.Listening = func(a netip.AddrPort) { listening <- a }
	s, err := New(opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
	})
	select {
	case addr := <-listening:
		testkit.Eventually(t, 5*time.Second, func() (bool, string) { return s.view.Load() != nil, "no zones" })
		return s, addr
	case err := <-done:
		done <- err
		require.NoError(t, err)
		return nil, netip.AddrPort{}
	}
}

func lookup(t *testing.T, network string, addr netip.AddrPort, name string, rtype uint16) *dns.Msg {
	t.Helper()
	c := dns.Client{Net: network, Timeout: 5 * time.Second}
	resp, _, err := c.ExchangeContext(t.Context(), newQuery(name, rtype), addr.String())
	require.NoError(t, err)
	return resp
}

func TestServerAnswersOnBothTransports(t *testing.T) {
	_, addr := startServer(t, Options{Zones: newMemZones(testZones()...)})
	for _, network := range []string{"udp", "tcp"} {
		resp := lookup(t, network, addr, "www.example.test.", dns.TypeA)
		assert.Equal(t, "NOERROR aa an=2 ns=0 ar=0", header(resp), network)
	}
}

func TestServerAnswersFromTheAskedAddress(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		_, addr := startServer(t, Options{Listen: listen, Zones: newMemZones(testZones()...)})
		// 127.0.0.9 is not what the system would choose by itself to answer from.
		to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), addr.Port())
		for _, network := range []string{"udp", "tcp"} {
			assert.Len(t, lookup(t, network, to, "www.example.test.", dns.TypeA).Answer, 2, listen)
		}
	}
	_, addr := startServer(t, Options{Listen: "[::]:0", Zones: newMemZones(testZones()...)})
	to := netip.AddrPortFrom(netip.IPv6Loopback(), addr.Port())
	assert.Len(t, lookup(t, "udp", to, "www.example.test.", dns.TypeA).Answer, 2)
}

func TestServerAndDig(t *testing.T) {
	zones := testZones()
	for i := range 100 {
		addValue(zones[0], "many.example.test.", "A", fmt.Sprintf("192.0.2.%d", i))
	}
	_, addr := startServer(t, Options{Zones: newMemZones(zones...)})
	for _, tc := range []struct{ args, want string }{
		{"www.example.test A +short", "192.0.2.10\n192.0.2.11"},
		{"x.y.wild.example.test MX +short", "5 mail.example.test."},
		{"c1.example.test A +short +tcp", "c2.example.test.\nwww.example.test.\n192.0.2.10\n192.0.2.11"},
		{"nothing.example.test A +noall +comments", "status: NXDOMAIN"},
		{"x.deleg.example.test A +noall +comments +norec", "flags: qr; QUERY: 1, ANSWER: 0, AUTHORITY: 2, ADDITIONAL: 2"},
		{"www.example.test ANY +noall +comments", "status: REFUSED"},
		{"example.test AXFR", "Transfer failed"},
		{"www.example.test A +edns=1 +noednsneg +noall +comments", "status: BADVERS"},
		{"www.example.test A +opcode=notify +noall +comments", "status: NOTIMP"},
		{"version.bind CH TXT +noall +comments", "status: REFUSED"},
		{"www.example.test A +dnssec +noall +comments", "flags: do"},
		{"many.example.test A +noall +comments", "ANSWER: 100"}, // dig asks again over TCP
		{"many.example.test A +ignore +noall +comments", "flags: qr aa tc rd"},
		{"mv.example.test A +noall +comments", "ANSWER: 8"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			args := append([]string{"@" + addr.Addr().String(), "-p", fmt.Sprint(addr.Port()), "+time=5", "+tries=1"},
				strings.Fields(tc.args)...)
			out, err := exec.CommandContext(t.Context(), "dig", args...).CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Contains(t, string(out), tc.want)
		})
	}
}

func TestServerPipelinesOverTCP(t *testing.T) {
	_, addr := startServer(t, Options{Zones: newMemZones(testZones()...)})
	conn, err := net.Dial("tcp", addr.String())
	require.NoError(t, err)
	defer conn.Close()
	var all []byte
	for id := range uint16(20) {
		m := newQuery("www.example.test.", dns.TypeA)
		m.Id = id
		wire, err := m.Pack()
		require.NoError(t, err)
		all = binary.BigEndian.AppendUint16(all, uint16(len(wire)))
		all = append(all, wire...)
	}
	_, err = conn.Write(all[:30])
	require.NoError(t, err)
	_, err = conn.Write(all[30:])
	require.NoError(t, err)
	stream := dns.Conn{Conn: conn}
	for id := range uint16(20) {
		m, err := stream.ReadMsg()
		require.NoError(t, err)
		assert.Equal(t, id, m.Id)
		assert.Len(t, m.Answer, 2)
	}
}

func TestServerCutsOffBadStreams(t *testing.T) {
	_, addr := startServer(t, Options{Zones: newMemZones(testZones()...)})
	for why, bytes := range map[string][]byte{
		"a request that is too long": {0xFF, 0xFF, 1, 2, 3},
		"a response":                 {0, 12, 1, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		conn, err := net.Dial("tcp", addr.String())
		require.NoError(t, err)
		_, err = conn.Write(bytes)
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		assert.Error(t, err, why)
		require.NoError(t, conn.Close())
	}
	assert.Len(t, lookup(t, "tcp", addr, "www.example.test.", dns.TypeA).Answer, 2)
}

// A connection too many takes the place of the one whose client has been quiet for longest, so that
// clients that only hold connections keep nobody out.
func TestServerBoundsConnections(t *testing.T) {
	s, addr := startServer(t, Options{Zones: newMemZones(testZones()...), MaxTCP: 3})
	dial := func() *dns.Conn {
		conn, err := net.Dial("tcp", addr.String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return &dns.Conn{Conn: conn}
	}
	ask := func(c *dns.Conn) {
		t.Helper()
		require.NoError(t, c.WriteMsg(newQuery("www.example.test.", dns.TypeA)))
		_, err := c.ReadMsg()
		require.NoError(t, err)
	}
	asks, quiet, half := dial(), dial(), dial()
	ask(asks)
	ask(quiet)
	ask(half)
	_, err := half.Conn.Write([]byte{0}) // and never the rest
	require.NoError(t, err)
	ask(asks)
	for i, gone := range []*dns.Conn{quiet, half} {
		ask(dial())
		_, err := gone.Conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		assert.EqualValues(t, i+1, s.tcpEvicted.Load())
	}
	ask(asks)
}

func TestServerSaysThatThePortIsInUse(t *testing.T) {
	_, addr := startServer(t, Options{Zones: newMemZones()})
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer udp.Close()
	for why, listen := range map[string]string{"another server": addr.String(), "a UDP socket alone": udp.LocalAddr().String()} {
		s, err := New(Options{Listen: listen, Node: "n1", Zones: newMemZones(), Servers: newMemStatus()})
		require.NoError(t, err)
		err = s.Run(t.Context())
		require.ErrorContains(t, err, "dns.listen = \""+listen+"\"", why)
		require.ErrorContains(t, err, "in use", why)
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	good := Options{Listen: "127.0.0.1:0", Node: "n1", Zones: newMemZones(), Servers: newMemStatus()}
	_, err := New(good)
	require.NoError(t, err)
	for why, change := range map[string]func(*Options){
		"dns.listen = \"here\"":          func(o *Options) { o.Listen = "here" },
		"dns.listen = \"h:99999\"":       func(o *Options) { o.Listen = "h:99999" },
		"dns.listen = \"h:domain\"":      func(o *Options) { o.Listen = "h:domain" },
		"no node name":                   func(o *Options) { o.Node = "" },
		"no zone store":                  func(o *Options) { o.Zones = nil },
		"Sockets and MaxTCP":             func(o *Options) { o.MaxTCP = -1 },
		"Poll must be positive":          func(o *Options) { o.Poll = -1 },
		"must be positive, Report withi": func(o *Options) { o.Report = time.Minute },
	} {
		o := good
		change(&o)
		_, err := New(o)
		assert.ErrorContains(t, err, why)
	}
}

func TestServerSwapsZonesUnderLoad(t *testing.T) {
	// Each version of the zone has one address for both names: an answer of two versions would differ.
	version := func(i int) *dnsapi.Zone {
		z := zoneOf("example.test.", fmt.Sprintf("www A 192.0.2.%d", i), "c CNAME www.example.test.")
		z.Serial = uint32(i)
		return z
	}
	store := newMemZones(version(1), zoneOf("other.test.", "c CNAME www.example.test."))
	s, addr := startServer(t, Options{Zones: store, Sockets: 2})
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var answered atomic.Int64
	for _, name := range []string{"www.example.test.", "c.example.test.", "c.other.test.", "www.sub.example.test."} {
		clients.Go(func() {
			c := dns.Client{Timeout: 5 * time.Second}
			last := 0
			for ctx.Err() == nil {
				resp, _, err := c.ExchangeContext(context.WithoutCancel(ctx), newQuery(name, dns.TypeA), addr.String())
				if !assert.NoError(t, err) || !assert.NotEqual(t, dns.RcodeServerFailure, resp.Rcode) {
					return
				}
				answered.Add(1)
				if name == "www.sub.example.test." {
					continue // comes and goes
				}
				if !assert.NotEmpty(t, resp.Answer, name) {
					return
				}
				a, ok := resp.Answer[len(resp.Answer)-1].(*dns.A)
				if !assert.True(t, ok, name) {
					return
				}
				now := int(a.A.To4()[3])
				assert.GreaterOrEqual(t, now, last, "an older version after a newer one")
				last = now
			}
		})
	}
	for i := 2; i <= 100; i++ {
		store.put(version(i))
		if i%2 == 0 {
			store.put(zoneOf("sub.example.test.", "www A 192.0.2.1"))
		} else {
			store.delete(dnsapi.Hosted, "sub.example.test.")
		}
		before := answered.Load()
		testkit.Eventually(t, 5*time.Second, func() (bool, string) { return answered.Load() > before, "no answers" })
	}
	testkit.Eventually(t, 5*time.Second, func() (bool, string) {
		got := s.view.Load().serials()["ZEXAMPLE.TEST"]
		return got == 100, fmt.Sprint(got)
	})
	stop()
	clients.Wait()
	assert.Equal(t, "192.0.2.100", lookup(t, "udp", addr, "www.example.test.", dns.TypeA).Answer[0].(*dns.A).A.String())
}

func TestServerRunsAgainWithItsZones(t *testing.T) {
	store := newMemZones(testZones()...)
	listening := make(chan netip.AddrPort, 1)
	s, err := New(Options{
		Listen: "127.0.0.1:0", Node: "n1", Zones: store, Servers: newMemStatus(),
		Listening: func(a netip.AddrPort) { listening <- a },
	})
	require.NoError(t, err)
	for run := range 2 {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		addr := <-listening
		testkit.Eventually(t, 5*time.Second, func() (bool, string) {
			resp := lookup(t, "udp", addr, "www.example.test.", dns.TypeA)
			return len(resp.Answer) == 2, header(resp)
		})
		reason := errors.New("stopped by the test")
		cancel(reason)
		require.ErrorIs(t, <-done, reason, "run %d", run)
		store.leave(true) // the second run has only what it had
	}
}

func TestServerMetrics(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	store := newMemZones(testZones()...)
	store.put(zoneOf("bad.test.", "www A nonsense"))
	_, addr := startServer(t, Options{Zones: store, Meter: provider.Meter("test")})
	lookup(t, "udp", addr, "www.example.test.", dns.TypeA)
	lookup(t, "udp", addr, "www.example.test.", dns.TypeA)
	lookup(t, "tcp", addr, "nothing.example.test.", dns.TypeMX)
	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &got))
	assert.EqualValues(t, 2, sum(t, got, "spinifex.dns.queries", map[string]string{"transport": "udp", "rcode": "NOERROR", "type": "A"}))
	assert.EqualValues(t, 1, sum(t, got, "spinifex.dns.queries", map[string]string{"transport": "tcp", "rcode": "NXDOMAIN", "type": "MX"}))
	assert.EqualValues(t, 1, sum(t, got, "spinifex.dns.cache.hits", nil))
	assert.EqualValues(t, 4, sum(t, got, "spinifex.dns.zones", map[string]string{"class": "hosted"}))
	assert.EqualValues(t, 1, sum(t, got, "spinifex.dns.zones", map[string]string{"class": "platform"}))
	assert.EqualValues(t, 1, sum(t, got, "spinifex.dns.zones.bad", nil))
}

func sum(t *testing.T, rm metricdata.ResourceMetrics, name string, attrs map[string]string) int64 {
	t.Helper()
	var points []metricdata.DataPoint[int64]
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			if m.Name != name {
				continue
			}
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				points = append(points, d.DataPoints...)
			case metricdata.Gauge[int64]:
				points = append(points, d.DataPoints...)
			}
		}
	}
	var total int64
	for _, p := range points {
		match := true
		for k, want := range attrs {
			v, ok := p.Attributes.Value(attribute.Key(k))
			match = match && ok && v.AsString() == want
		}
		if match {
			total += p.Value
		}
	}
	return total
}
