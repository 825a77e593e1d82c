package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mulgadc/spinifex/domains/all"
	"github.com/mulgadc/spinifex/domains/dns"
	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/domains/iam"
	"github.com/mulgadc/spinifex/domains/route53"
	"github.com/mulgadc/spinifex/domains/sts"
	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/config"
	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/foundation/seal"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/runtime/node"
	"github.com/mulgadc/spinifex/runtime/roles/awsgw"
	dnsserver "github.com/mulgadc/spinifex/runtime/roles/dns"
)

// gatewayDrain is how long the requests under way have when the gateway stops.
const gatewayDrain = 10 * time.Second

// loop is a named function for the supervisor.
type loop struct {
	name string
	run  func(context.Context) error
}

// domains is what the domains and roles of a process come to: what is to be served and run.
type domains struct {
	// Shared by several of them.
	nodes      *kvstore.Bucket // messaging.NodesBucket
	dnsServers *kvstore.Bucket // dnsapi.ServersBucket
	zones      *dns.ZoneStore
	dns        *dns.Service // of the daemon

	operations []aws.Operation // that the daemon carries out
	loops      []loop
	dnsServer  *dnsserver.Server
	dnsListens chan struct{} // closed once the DNS server listens
	dnsAddr    atomic.Value  // of string: where it listens; not set by a process without one
	gateway    *awsgw.Gateway
}

// constructDomains builds what the roles need. Opening a bucket is for its first use.
func (p *process) constructDomains(ctx context.Context) error {
	zones := p.bucket(dnsapi.ZonesBucket)
	p.domains = &domains{
		nodes: p.bucket(messaging.NodesBucket), dnsServers: p.bucket(dnsapi.ServersBucket), zones: dns.NewZoneStore(zones),
	}
	var wiring []func(context.Context) error
	if p.runs(node.RoleDaemon) {
		wiring = append(wiring, p.wireDNS, p.wireRoute53, p.wireSTS)
	}
	if p.runs(node.RoleDNS) {
		wiring = append(wiring, p.wireDNSServer)
	}
	if p.runs(node.RoleAWSGW) {
		wiring = append(wiring, p.wireGateway)
	}
	for _, wire := range wiring {
		if err := wire(ctx); err != nil {
			return err
		}
	}
	return nil
}

// bucket is the one handle that this process has of a bucket for records.
func (p *process) bucket(name string) *kvstore.Bucket {
	return kvstore.Open(p.conn.JetStream(), name, kvstore.WithSize(p.size), kvstore.WithLogger(p.log))
}

// wireDNS wires the writer of the platform's zones.
func (p *process) wireDNS(context.Context) error {
	var err error
	p.domains.dns, err = dns.New(dns.Deps{
		Zones:       p.domains.zones,
		Lease:       p.locks.dns,
		BaseDomain:  p.cfg.DNS.BaseDomain,
		Region:      p.cfg.AWS.Region,
		NameServers: []dns.NameServer{{Name: nameServer(p.cfg), Addrs: listenAddrs(p.cfg.DNS.Listen)}},
		Sources: []dnsapi.Source{dns.Endpoints{
			Base: p.cfg.DNS.BaseDomain, Region: p.cfg.AWS.Region, Services: serviceNames(), Addrs: listenAddrs(p.cfg.AWSGW.Listen),
		}},
		Log:     p.log,
		Observe: p.loopRec.Pass,
	})
	p.domains.loops = append(p.domains.loops, loop{dns.ReconcileLeaseKey, p.domains.dns.Run})
	return err
}

// wireRoute53 wires the hosted zones: their operations, their publisher, the checks of delegations.
func (p *process) wireRoute53(context.Context) error {
	parents, err := publicParents(p.cfg)
	if err != nil {
		return err
	}
	service := route53.New(route53.Deps{
		Bucket:      p.bucket(route53.Bucket),
		Servers:     p.domains.dnsServers,
		NameServers: []string{nameServer(p.cfg)},
		Reserved:    []string{p.cfg.DNS.BaseDomain + "."},
		Delegation:  route53.Delegation(p.cfg.Route53.Delegation),
		Answer: func(ctx context.Context, _, name, typ string) (string, []string, string, error) {
			rcode, data, err := askDNS(ctx, p.domains.dnsListen(p.cfg), name, typ)
			return rcode, data, nameServer(p.cfg), err
		},
		Zones: p.domains.zones,
		ZoneWriter: func(ctx context.Context, tok kvsync.Token) (dnsapi.ZoneWriter, error) {
			return p.domains.zones.Writer(ctx, dnsapi.Hosted, route53.RealizeLeaseKey, tok)
		},
		RealizeLease:       p.locks.route53Realize,
		VerifyLease:        p.locks.route53Verify,
		PlatformDelegation: p.domains.dns.PlatformDelegation,
		Parents:            parents,
		Log:                p.log,
		Observe:            p.loopRec.Pass,
	})
	p.domains.operations = append(p.domains.operations, route53.Operations(service)...)
	p.domains.loops = append(p.domains.loops,
		loop{route53.RealizeLeaseKey, service.RunRealizer}, loop{route53.VerifyLeaseKey, service.RunVerifier})
	return nil
}

// wireSTS wires who one is.
func (p *process) wireSTS(context.Context) error {
	p.domains.operations = append(p.domains.operations, sts.Operations(sts.New())...)
	return nil
}

// wireDNSServer wires the server that answers from the zone store.
func (p *process) wireDNSServer(context.Context) error {
	p.domains.dnsListens = make(chan struct{})
	first := sync.OnceFunc(func() { close(p.domains.dnsListens) }) // it listens again after a restart
	var err error
	p.domains.dnsServer, err = dnsserver.New(dnsserver.Options{
		Listen: p.cfg.DNS.Listen, Node: p.cfg.Node.Name, Zones: p.domains.zones, Servers: p.domains.dnsServers,
		Log: p.log, Meter: p.tel.Meter("runtime/roles/dns"),
		Listening: func(addr netip.AddrPort) {
			p.domains.dnsAddr.Store(addr.String())
			first()
		},
	})
	return err
}

// dnsListen is where this node's DNS server listens, in this process or another.
func (d *domains) dnsListen(cfg *config.Config) string {
	if addr, ok := d.dnsAddr.Load().(string); ok {
		return addr
	}
	return cfg.DNS.Listen
}

// wireGateway wires the gateway, and makes the administrator whose keys it tells the clients of this
// node. Another cloud's sealing key is found out here.
func (p *process) wireGateway(ctx context.Context) error {
	sealer, err := seal.LoadOrCreate(p.cfg.Node.SealingKey)
	if err != nil {
		return fmt.Errorf("node.sealing_key = %q: %w", p.cfg.Node.SealingKey, err)
	}
	service := iam.New(iam.Deps{Records: p.bucket(iam.Bucket), Sealer: sealer})
	err = p.retry(ctx, "the administrator cannot be read yet", func(ctx context.Context) (err error) {
		p.administrator, err = service.EnsureAdministrator(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if p.administrator.Created {
		p.log.Info("administrator made", "account", p.administrator.Account, "access_key_id", p.administrator.AccessKeyID)
	}
	p.domains.gateway, err = awsgw.New(awsgw.Options{
		Node: p.cfg.Node.Name, Listen: p.cfg.AWSGW.Listen, DataDir: p.cfg.Node.DataDir, Region: p.cfg.AWS.Region,
		Conn: p.conn, Nodes: p.domains.nodes, Lookup: service.SigningKey, Operations: all.Operations(),
		DrainTimeout: gatewayDrain, Meter: p.tel.Meter("ingress/aws"), Log: p.log,
	})
	return err
}

// serviceNames are the AWS services that are served, each once.
func serviceNames() []string {
	var names []string
	for _, op := range all.Operations() {
		names = append(names, op.Service)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
