package route53

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Parents asks what a zone's public parent says.
type Parents interface {
	// NameServers returns the name servers that the parent delegates the zone to, as absolute names.
	// None means that the parent answered and does not delegate it; an error that it could not be
	// asked. zone is absolute, in the format of zone files.
	NameServers(ctx context.Context, zone string) ([]string, error)
}

// Defaults of ParentOptions.
const (
	DefaultParentPort    = 53
	DefaultParentTimeout = 3 * time.Second
)

// maxParentServers bounds how many servers of a parent are asked before it counts as unreachable.
const maxParentServers = 6

// ParentOptions configure NewParents.
type ParentOptions struct {
	// Resolvers are recursive resolvers as "host:port", tried in order: they find the parent zone and
	// its servers. Required.
	Resolvers []string
	// Port of the parents' servers; default DefaultParentPort.
	Port int
	// Timeout of one query; default DefaultParentTimeout.
	Timeout time.Duration
}

// NewParents makes the Parents that asks the DNS: the resolvers for the parent zone's servers, and
// these, without recursion, for the delegation, so that no cache stands between.
func NewParents(o ParentOptions) (Parents, error) {
	if len(o.Resolvers) == 0 {
		return nil, errors.New("route53: no resolvers to find parent zones with")
	}
	for _, r := range o.Resolvers {
		if _, _, err := net.SplitHostPort(r); err != nil {
			return nil, fmt.Errorf("route53: resolver %q: %w", r, err)
		}
	}
	if o.Port == 0 {
		o.Port = DefaultParentPort
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultParentTimeout
	}
	return &dnsParents{opts: o}, nil
}

type dnsParents struct{ opts ParentOptions }

// NameServers implements Parents.
func (p *dnsParents) NameServers(ctx context.Context, zone string) ([]string, error) {
	zone = dns.CanonicalName(zone)
	addrs, err := p.parentServers(ctx, zone)
	if err != nil {
		return nil, err
	}
	var last error
	for _, addr := range addrs[:min(len(addrs), maxParentServers)] {
		reply, err := p.exchange(ctx, addr, zone, dns.TypeNS, false)
		if err != nil {
			last = err
			continue
		}
		if servers, ok := delegation(reply, zone); ok {
			return servers, nil
		}
		last = fmt.Errorf("server %s answered %s without authority", addr, dns.RcodeToString[reply.Rcode])
	}
	return nil, fmt.Errorf("no server of the parent answered: %w", last)
}

// delegation reads a parent's answer about a zone. ok is false when the answer proves nothing.
func delegation(reply *dns.Msg, zone string) (servers []string, ok bool) {
	if reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError {
		return nil, false
	}
	referred := false
	for _, rr := range slices.Concat(reply.Answer, reply.Ns) {
		ns, isNS := rr.(*dns.NS)
		if !isNS {
			continue
		}
		referred = true
		if dns.CanonicalName(ns.Hdr.Name) == zone {
			servers = append(servers, dns.CanonicalName(ns.Ns))
		}
	}
	// A referral to another name (the parent's own parts, or upwards) says nothing of this zone.
	return servers, len(servers) > 0 || reply.Authoritative && !referred
}

// parentServers returns the addresses of the servers of the zone that is the parent: the closest
// ancestor that has NS records.
func (p *dnsParents) parentServers(ctx context.Context, zone string) ([]string, error) {
	for off, end := dns.NextLabel(zone, 0); !end; off, end = dns.NextLabel(zone, off) {
		names, err := p.nsOf(ctx, zone[off:])
		if err != nil {
			return nil, err
		}
		if len(names) > 0 {
			return p.addressesOf(ctx, names)
		}
	}
	names, err := p.nsOf(ctx, ".")
	if err != nil {
		return nil, err
	}
	return p.addressesOf(ctx, names)
}

// nsOf resolves the NS records at a name; none when it is no zone apex.
func (p *dnsParents) nsOf(ctx context.Context, name string) ([]string, error) {
	reply, err := p.resolve(ctx, name, dns.TypeNS)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, rr := range reply.Answer {
		if ns, ok := rr.(*dns.NS); ok && dns.CanonicalName(ns.Hdr.Name) == dns.CanonicalName(name) {
			out = append(out, ns.Ns)
		}
	}
	slices.Sort(out)
	return out, nil
}

// addressesOf resolves the names of servers, IPv4 first.
func (p *dnsParents) addressesOf(ctx context.Context, names []string) ([]string, error) {
	var v4, v6 []string
	var last error
	port := strconv.Itoa(p.opts.Port)
	for _, name := range names {
		for _, typ := range []uint16{dns.TypeA, dns.TypeAAAA} {
			reply, err := p.resolve(ctx, name, typ)
			if err != nil {
				last = err
				continue
			}
			for _, rr := range reply.Answer {
				switch rr := rr.(type) {
				case *dns.A:
					v4 = append(v4, net.JoinHostPort(rr.A.String(), port))
				case *dns.AAAA:
					v6 = append(v6, net.JoinHostPort(rr.AAAA.String(), port))
				}
			}
		}
		if len(v4) >= maxParentServers {
			break
		}
	}
	if len(v4)+len(v6) == 0 {
		return nil, errors.Join(fmt.Errorf("no address of the servers %s", strings.Join(names, " ")), last)
	}
	return append(v4, v6...), nil
}

// resolve asks the resolvers in order until one answers.
func (p *dnsParents) resolve(ctx context.Context, name string, typ uint16) (*dns.Msg, error) {
	var last error
	for _, resolver := range p.opts.Resolvers {
		reply, err := p.exchange(ctx, resolver, name, typ, true)
		switch {
		case err != nil:
			last = err
		case reply.Rcode == dns.RcodeSuccess || reply.Rcode == dns.RcodeNameError:
			return reply, nil
		default:
			last = fmt.Errorf("resolver %s: %s", resolver, dns.RcodeToString[reply.Rcode])
		}
	}
	return nil, fmt.Errorf("resolve %s %s: %w", name, dns.TypeToString[typ], last)
}

// exchange sends one query by UDP, and by TCP when the answer did not fit.
func (p *dnsParents) exchange(ctx context.Context, addr, name string, typ uint16, recurse bool) (*dns.Msg, error) {
	query := new(dns.Msg).SetQuestion(name, typ)
	query.RecursionDesired = recurse
	query.SetEdns0(dns.DefaultMsgSize, false)
	client := &dns.Client{Timeout: p.opts.Timeout}
	reply, _, err := client.ExchangeContext(ctx, query, addr)
	if err == nil && reply.Truncated {
		client.Net = "tcp"
		reply, _, err = client.ExchangeContext(ctx, query, addr)
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", addr, err)
	}
	return reply, nil
}
