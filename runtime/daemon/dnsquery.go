package daemon

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/mulgadc/spinifex/domains/route53"
	"github.com/mulgadc/spinifex/foundation/config"
)

const (
	// queryTimeout bounds one query to the node's own DNS server.
	queryTimeout = 2 * time.Second
	// resolvConf names the resolvers of this machine.
	resolvConf = "/etc/resolv.conf"
)

// nameServer is the name of the cluster's DNS server, in the delegation set of every hosted zone.
func nameServer(cfg *config.Config) string { return "ns1." + cfg.DNS.BaseDomain + "." }

// listenAddrs are the addresses under which others reach what listens there: none when it listens on
// all, for then nobody has said which of them is meant.
func listenAddrs(listen string) []netip.Addr {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return nil
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.IsUnspecified() {
		return nil
	}
	return []netip.Addr{addr}
}

// askDNS asks the DNS server of this machine that listens at an address for a name, without recursion.
// An answer that does not fit into a datagram is asked for again over TCP.
func askDNS(ctx context.Context, listen, name, typ string) (rcode string, data []string, err error) {
	number, ok := dns.StringToType[typ]
	if !ok {
		return "", nil, fmt.Errorf("ask DNS for %s: unknown type %q", name, typ)
	}
	query := new(dns.Msg).SetQuestion(dns.Fqdn(name), number)
	query.RecursionDesired = false
	addr := config.DialAddr(listen)
	client := &dns.Client{Timeout: queryTimeout}
	answer, _, err := client.ExchangeContext(ctx, query, addr)
	if err == nil && answer.Truncated {
		client.Net = "tcp"
		answer, _, err = client.ExchangeContext(ctx, query, addr)
	}
	if err != nil {
		return "", nil, fmt.Errorf("ask DNS for %s %s: %w", name, typ, err)
	}
	for _, rr := range answer.Answer {
		if rr.Header().Rrtype == number {
			data = append(data, strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
	}
	return dns.RcodeToString[answer.Rcode], data, nil
}

// publicParents asks the resolvers of this machine for the parents of hosted zones, where that is how
// delegations are checked.
func publicParents(cfg *config.Config) (route53.Parents, error) {
	if cfg.Route53.Delegation != config.DelegationPublic {
		return nil, nil
	}
	resolv, err := dns.ClientConfigFromFile(resolvConf)
	if err != nil {
		return nil, fmt.Errorf("route53.delegation = %q needs the resolvers of %s: %w", cfg.Route53.Delegation, resolvConf, err)
	}
	var resolvers []string
	for _, server := range resolv.Servers {
		resolvers = append(resolvers, net.JoinHostPort(server, resolv.Port))
	}
	return route53.NewParents(route53.ParentOptions{Resolvers: resolvers})
}
