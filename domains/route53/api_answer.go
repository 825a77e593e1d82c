package route53

import (
	"context"
	"errors"
	"net/netip"
	"strconv"

	"github.com/mulgadc/spinifex/foundation/aws"
	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

// TestDNSAnswer answers what a DNS server of this cluster says to a query, through Deps.Answer. No
// routing of this release looks at the client, so the resolver's address and subnet are checked and
// change nothing.
func (s *Service) TestDNSAnswer(ctx context.Context, call *aws.Call, in *api.TestDNSAnswerRequest) (*api.TestDNSAnswerResponse, error) {
	if err := checkClient(in); err != nil {
		return nil, err
	}
	typ := value(in.RecordType)
	if !knownType(typ) {
		return nil, invalidInput("RecordType '%s' is not a record type", clip(typ))
	}
	name, p := canonicalName(value(in.RecordName))
	if p != nil {
		return nil, invalidInput("RecordName: %s", p)
	}
	z, err := s.getZone(ctx, call.Account, value(in.HostedZoneId))
	if err != nil {
		return nil, err
	}
	if !inZone(name, z.Name) {
		return nil, invalidInput("RecordName %s does not lie in the hosted zone %s", name, z.Name)
	}
	if s.deps.Answer == nil {
		return nil, invalidInput("TestDNSAnswer needs a DNS server on this node, and none runs")
	}
	out := &api.TestDNSAnswerResponse{
		RecordName: &name, RecordType: &typ, RecordData: []string{}, Protocol: new("UDP"),
		Nameserver: new(value(delegationSet(z)).NameServers[0]), ResponseCode: new("REFUSED"),
	}
	status, _, err := s.statuses.Get(ctx, statusKey(call.Account, z.ID))
	switch {
	case errors.Is(err, kvstore.ErrNotFound), err == nil && status.State != stateActive:
		return out, nil // the zone is not published; the server may have another one of its name
	case err != nil:
		return nil, storeError("read status", statusKey(call.Account, z.ID), err)
	}
	rcode, data, nameserver, err := s.deps.Answer(ctx, presentationName(z.Name), presentationName(name), typ)
	if err != nil {
		return nil, storeError("ask the DNS server about", name, err)
	}
	out.ResponseCode, out.RecordData = &rcode, append(out.RecordData, data...)
	if nameserver != "" {
		out.Nameserver = &nameserver
	}
	return out, nil
}

// checkClient checks the members that describe the client of the simulated query.
func checkClient(in *api.TestDNSAnswerRequest) error {
	for _, m := range []struct {
		name string
		ip   *string
	}{{"ResolverIP", in.ResolverIP}, {"EDNS0ClientSubnetIP", in.EDNS0ClientSubnetIP}} {
		if m.ip == nil {
			continue
		}
		if _, err := netip.ParseAddr(*m.ip); err != nil {
			return invalidInput("%s '%s' is not an IP address", m.name, clip(*m.ip))
		}
	}
	if in.EDNS0ClientSubnetMask == nil {
		return nil
	}
	bits, err := strconv.Atoi(*in.EDNS0ClientSubnetMask)
	if err != nil || bits < 0 || bits > 128 || in.EDNS0ClientSubnetIP == nil {
		return invalidInput("EDNS0ClientSubnetMask '%s' must be a number of bits, and needs EDNS0ClientSubnetIP", clip(*in.EDNS0ClientSubnetMask))
	}
	return nil
}

// GetDNSSEC answers that the zone is not signed: this release signs none.
func (s *Service) GetDNSSEC(ctx context.Context, call *aws.Call, in *api.GetDNSSECRequest) (*api.GetDNSSECResponse, error) {
	if _, err := s.getZone(ctx, call.Account, value(in.HostedZoneId)); err != nil {
		return nil, err
	}
	return &api.GetDNSSECResponse{
		Status: &api.DNSSECStatus{ServeSignature: new("NOT_SIGNING")}, KeySigningKeys: []api.KeySigningKey{},
	}, nil
}
