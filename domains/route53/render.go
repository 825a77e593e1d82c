package route53

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
)

// zoneTTL is for answers whose record set has no TTL of its own.
const zoneTTL = 300

// render makes the zone object that the DNS servers load. The record sets have been validated, so a
// value that cannot be rendered is a fault of the record.
func render(z *zoneRecord) (*dnsapi.Zone, error) {
	out := &dnsapi.Zone{
		Name: presentationName(z.Name), ID: z.ID,
		Serial: z.Serial, TTL: zoneTTL, NegativeTTL: zoneTTL, RRSets: make([]dnsapi.RRSet, 0, len(z.RecordSets)),
	}
	for i := range z.RecordSets {
		s := &z.RecordSets[i]
		rr, err := renderSet(s)
		if err != nil {
			return nil, fmt.Errorf("hosted zone %s: %w", z.ID, err)
		}
		out.RRSets = append(out.RRSets, rr)
		if s.Type == typeSOA && len(rr.Values) == 1 {
			out.NegativeTTL = negativeTTL(rr.Values[0], value(s.TTL))
		}
	}
	return out, nil
}

func renderSet(s *recordSet) (dnsapi.RRSet, error) {
	rr := dnsapi.RRSet{
		Name: presentationName(s.Name), Type: s.Type, SetID: s.SetID, Weight: s.Weight, MultiValue: s.MultiValue,
	}
	if s.TTL != nil {
		rr.TTL = new(uint32(*s.TTL)) // at most 2^31-1
	}
	if s.Alias != nil {
		rr.Alias = &dnsapi.Alias{Zone: s.Alias.Zone, Name: presentationName(s.Alias.Name)}
	}
	for _, v := range s.Values {
		if !knownType(s.Type) {
			return rr, fmt.Errorf("record set %s %s: unknown type", s.Name, s.Type)
		}
		data, p := rdata(s.Type, v)
		if p != nil {
			return rr, fmt.Errorf("record set %s %s: %s", s.Name, s.Type, p)
		}
		rr.Values = append(rr.Values, data)
	}
	return rr, nil
}

// negativeTTL is that of RFC 2308: the lower of the SOA's own TTL and its minimum field, the last.
func negativeTTL(soa string, ttl int64) uint32 {
	fields := strings.Fields(soa)
	minimum, err := strconv.ParseUint(fields[len(fields)-1], 10, 32)
	if err != nil {
		return zoneTTL
	}
	return uint32(min(uint64(ttl), minimum))
}
