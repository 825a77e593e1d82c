package dns

import (
	"context"
	"net/netip"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
)

// Endpoints is the source of the names of the cloud's services: "<service>.<region>.<base>" for each.
type Endpoints struct {
	// Base is the base domain.
	Base string
	// Region is the cloud's.
	Region string
	// Services are the names as AWS has them in its endpoints, such as "route53".
	Services []string
	// Addrs are where the gateways answer. Without any there are no names.
	Addrs []netip.Addr
}

// Class implements dnsapi.Source.
func (Endpoints) Class() string { return "endpoints" }

// RRSets implements dnsapi.Source. The set is always complete: it is configuration.
func (e Endpoints) RRSets(context.Context) ([]dnsapi.RRSet, bool, error) {
	var sets []dnsapi.RRSet
	for _, service := range e.Services {
		sets = append(sets, addressSets(service+"."+e.Region+"."+e.Base, e.Addrs)...)
	}
	return sets, true, nil
}

// addressSets returns the A and AAAA set of a name.
func addressSets(name string, addrs []netip.Addr) []dnsapi.RRSet {
	v4 := dnsapi.RRSet{Name: name, Type: "A"}
	v6 := dnsapi.RRSet{Name: name, Type: "AAAA"}
	for _, a := range addrs {
		if a = a.Unmap().WithZone(""); a.Is4() {
			v4.Values = append(v4.Values, a.String())
		} else if a.Is6() {
			v6.Values = append(v6.Values, a.String())
		}
	}
	var sets []dnsapi.RRSet
	for _, s := range []dnsapi.RRSet{v4, v6} {
		if len(s.Values) > 0 {
			sets = append(sets, s)
		}
	}
	return sets
}
