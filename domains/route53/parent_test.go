package route53

import (
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// publicDNS is the DNS outside of the cloud, on one port of loopback: to queries with recursion
// desired a resolver that knows who serves the zone "test.", to others the server of "test.".
type publicDNS struct {
	port int

	mu sync.Mutex
	// Everything below is protected by mu.
	delegations map[string][]string
	rcode       int  // of the parent's answers when it is not 0
	drop        bool // the parent does not answer
	truncate    bool // over UDP
	queries     int  // that the parent was asked
}

func startPublicDNS(t testing.TB) *publicDNS {
	t.Helper()
	p := &publicDNS{delegations: map[string][]string{}}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	p.port = pc.LocalAddr().(*net.UDPAddr).Port
	l, err := net.Listen("tcp", pc.LocalAddr().String())
	require.NoError(t, err)
	for _, srv := range []*dns.Server{{PacketConn: pc, Handler: p}, {Listener: l, Handler: p}} {
		var wg sync.WaitGroup
		started := make(chan struct{})
		srv.NotifyStartedFunc = func() { close(started) }
		wg.Go(func() { _ = srv.ActivateAndServe() })
		<-started
		t.Cleanup(func() { _ = srv.Shutdown(); wg.Wait() })
	}
	return p
}

func (p *publicDNS) set(change func(*publicDNS)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *publicDNS) parents(t testing.TB) Parents {
	t.Helper()
	parents, err := NewParents(ParentOptions{
		Resolvers: []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port))}, Port: p.port, Timeout: 300 * time.Millisecond,
	})
	require.NoError(t, err)
	return parents
}

func (p *publicDNS) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reply := new(dns.Msg).SetReply(r)
	q := r.Question[0]
	if r.RecursionDesired {
		switch {
		case q.Name == "test." && q.Qtype == dns.TypeNS:
			reply.Answer = append(reply.Answer, record("test. 60 IN NS ns.parent.example."))
		case q.Name == "ns.parent.example." && q.Qtype == dns.TypeA:
			reply.Answer = append(reply.Answer, record("ns.parent.example. 60 IN A 127.0.0.1"))
		}
		_ = w.WriteMsg(reply)
		return
	}
	p.queries++
	if p.drop {
		return
	}
	reply.Rcode = p.rcode
	if _, udp := w.RemoteAddr().(*net.UDPAddr); udp && p.truncate {
		reply.Truncated = true
		_ = w.WriteMsg(reply)
		return
	}
	for _, ns := range p.delegations[q.Name] {
		reply.Ns = append(reply.Ns, record(q.Name+" 60 IN NS "+ns))
	}
	if len(reply.Ns) == 0 && p.rcode == 0 {
		reply.Authoritative, reply.Rcode = true, dns.RcodeNameError
		reply.Ns = append(reply.Ns, record("test. 60 IN SOA ns.parent.example. h.parent.example. 1 1 1 1 1"))
	}
	_ = w.WriteMsg(reply)
}

func record(s string) dns.RR {
	rr, err := dns.NewRR(s)
	if err != nil {
		panic(err)
	}
	return rr
}

func TestParents(t *testing.T) {
	p := startPublicDNS(t)
	parents := p.parents(t)
	ask := func() ([]string, error) { return parents.NameServers(t.Context(), "a.example.test.") }

	servers, err := ask()
	require.NoError(t, err, "an authoritative denial is an answer")
	assert.Empty(t, servers)

	p.set(func(p *publicDNS) { p.delegations["a.example.test."] = []string{"NS1.cloud.test.", "ns2.cloud.test."} })
	servers, err = ask()
	require.NoError(t, err)
	assert.Equal(t, []string{"ns1.cloud.test.", "ns2.cloud.test."}, servers)

	p.set(func(p *publicDNS) { p.truncate = true })
	servers, err = ask()
	require.NoError(t, err, "what does not fit comes by TCP")
	assert.Len(t, servers, 2)
	p.set(func(p *publicDNS) { p.truncate = false })

	for _, rcode := range []int{dns.RcodeServerFailure, dns.RcodeRefused} {
		p.set(func(p *publicDNS) { p.rcode = rcode })
		_, err = ask()
		assert.Error(t, err, "a server that cannot say proves nothing")
	}
	p.set(func(p *publicDNS) { p.rcode, p.drop = 0, true })
	_, err = ask()
	assert.Error(t, err)
	_, err = parents.NameServers(t.Context(), "a.example.")
	assert.Error(t, err, "no server of the parent is known")

	_, err = NewParents(ParentOptions{})
	assert.Error(t, err)
	_, err = NewParents(ParentOptions{Resolvers: []string{"no port"}})
	assert.Error(t, err)
}

func TestDelegationAnswer(t *testing.T) {
	const zone = "a.example.test."
	tests := map[string]struct {
		reply   dns.Msg
		servers []string
		ok      bool
	}{
		"referral":                   {dns.Msg{Ns: []dns.RR{record(zone + " 60 IN NS ns1.cloud.test.")}}, []string{"ns1.cloud.test."}, true},
		"answer of a server of both": {dns.Msg{MsgHdr: dns.MsgHdr{Authoritative: true}, Answer: []dns.RR{record(zone + " 60 IN NS ns1.cloud.test.")}}, []string{"ns1.cloud.test."}, true},
		"denial":                     {dns.Msg{MsgHdr: dns.MsgHdr{Authoritative: true, Rcode: dns.RcodeNameError}}, nil, true},
		"no data":                    {dns.Msg{MsgHdr: dns.MsgHdr{Authoritative: true}}, nil, true},
		"denial without authority":   {dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeNameError}}, nil, false},
		"empty without authority":    {dns.Msg{}, nil, false},
		"referral upwards":           {dns.Msg{Ns: []dns.RR{record(". 60 IN NS a.root-servers.net.")}}, nil, false},
		"referral elsewhere":         {dns.Msg{MsgHdr: dns.MsgHdr{Authoritative: true}, Ns: []dns.RR{record("example.test. 60 IN NS ns.other.test.")}}, nil, false},
		"failure":                    {dns.Msg{MsgHdr: dns.MsgHdr{Authoritative: true, Rcode: dns.RcodeServerFailure}}, nil, false},
	}
	for name, tt := range tests {
		servers, ok := delegation(&tt.reply, zone)
		assert.Equal(t, tt.servers, servers, name)
		assert.Equal(t, tt.ok, ok, name)
	}
}
