package route53

import (
	"fmt"
	"strings"
	"unicode/utf8"

	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
)

// Bounds of the API model, checked here too because a change batch has to name all its faults.
const (
	maxSetID  = 128
	maxWeight = 255
	maxTTL    = 2147483647
)

const zonePrefix = "/hostedzone/"

// decodeBatch reads a batch. It is good for evaluate to find the rest of the faults, whatever
// decoding found.
func decodeBatch(in []api.Change) *batch {
	b := &batch{changes: make([]change, len(in))}
	for i := range in {
		b.changes[i] = decodeChange(&in[i], &b.faults)
	}
	return b
}

func decodeChange(in *api.Change, f *batchFaults) change {
	c := change{action: value(in.Action)}
	rr := in.ResourceRecordSet
	if rr == nil {
		f.members.addf("Missing field 'ResourceRecordSet' in Change with [Action=%s]", clip(c.action))
		return c
	}
	c.set = decodeSet(rr)
	name, p := canonicalName(value(rr.Name))
	if p == nil && name == "." {
		p = &problem{"DomainLabelEmpty", "Domain label is empty", "."}
	}
	shown := name
	if p != nil {
		shown = clip(value(rr.Name))
	}
	where := fmt.Sprintf("in Change with [Action=%s, Name=%s, Type=%s, SetIdentifier=%s]",
		orNull(clip(c.action)), orNull(shown), orNull(clip(c.set.Type)), orNull(clip(c.set.SetID)))
	before := len(f.members.texts)
	checkMembers(rr, &f.members, where)
	switch {
	case rr.Name == nil:
		f.members.addf("Missing field 'Name' %s", where)
	case p != nil:
		f.changes.addf("%s", p)
	}
	knownAction := c.action == actionCreate || c.action == actionUpsert || c.action == actionDelete
	if !knownAction {
		f.members.addf("Action '%s' is not one of [CREATE, UPSERT, DELETE] %s", clip(c.action), where)
	}
	if !knownType(c.set.Type) {
		f.members.addf("Type '%s' is not a record type that is supported %s", clip(c.set.Type), where)
	}
	if rr.AliasTarget != nil {
		c.set.Alias = decodeAlias(rr.AliasTarget, f, where)
	}
	c.set.Name = name
	c.ok = p == nil && rr.Name != nil && knownAction && knownType(c.set.Type)
	c.broken = len(f.members.texts) > before
	return c
}

// decodeSet copies the members that need no check; the name and the alias are the caller's.
func decodeSet(rr *api.ResourceRecordSet) recordSet {
	s := recordSet{
		Type: value(rr.Type), SetID: value(rr.SetIdentifier), TTL: rr.TTL, Weight: rr.Weight,
		MultiValue: value(rr.MultiValueAnswer),
	}
	for _, r := range rr.ResourceRecords {
		s.Values = append(s.Values, value(r.Value))
	}
	return s
}

// checkMembers checks which members are there and what they may hold.
func checkMembers(rr *api.ResourceRecordSet, f *faults, where string) {
	for _, m := range unsupportedMembers(rr) {
		f.addf("%s is not supported by this release %s", m, where)
	}
	checkContent(rr, f, where)
	policies := 0
	for _, has := range []bool{rr.Weight != nil, value(rr.MultiValueAnswer)} {
		if has {
			policies++
		}
	}
	const oneOf = "Expected exactly one of [Weight, Region, Failover, GeoLocation, GeoProximityLocation, CidrRoutingConfig, or MultiValueAnswer]"
	switch id := value(rr.SetIdentifier); {
	case policies > 1:
		f.addf("%s, but found more than one %s", oneOf, where)
	case policies == 1 && id == "":
		f.addf("Missing field 'SetIdentifier' %s", where)
	case policies == 0 && id != "" && len(unsupportedMembers(rr)) == 0:
		f.addf("%s, but found none %s", oneOf, where)
	}
	if runes(value(rr.SetIdentifier)) > maxSetID {
		f.addf("SetIdentifier is longer than %d characters %s", maxSetID, where)
	}
	if w := rr.Weight; w != nil && (*w < 0 || *w > maxWeight) {
		f.addf("Weight %d is not between 0 and %d %s", *w, maxWeight, where)
	}
	if ttl := rr.TTL; ttl != nil && (*ttl < 0 || *ttl > maxTTL) {
		f.addf("TTL %d is not between 0 and %d %s", *ttl, maxTTL, where)
	}
}

// checkContent wants either an alias target, or both a TTL and values.
func checkContent(rr *api.ResourceRecordSet, f *faults, where string) {
	const oneOf = "Expected exactly one of [AliasTarget, all of [TTL, and ResourceRecords], or TrafficPolicyInstanceId]"
	records := len(rr.ResourceRecords) > 0
	switch {
	case rr.TrafficPolicyInstanceId != nil: // already refused
	case rr.AliasTarget != nil && (rr.TTL != nil || records):
		f.addf("%s, but found more than one %s", oneOf, where)
	case rr.AliasTarget == nil && (rr.TTL == nil || !records):
		f.addf("%s, but found none %s", oneOf, where)
	}
}

// unsupportedMembers names the members given that this release gives no effect to. They are refused
// rather than stored.
func unsupportedMembers(rr *api.ResourceRecordSet) []string {
	var out []string
	for _, m := range []struct {
		name  string
		given bool
	}{
		{"Failover", rr.Failover != nil},
		{"GeoLocation", rr.GeoLocation != nil},
		{"GeoProximityLocation", rr.GeoProximityLocation != nil},
		{"Region", rr.Region != nil},
		{"CidrRoutingConfig", rr.CidrRoutingConfig != nil},
		{"HealthCheckId", rr.HealthCheckId != nil},
		{"TrafficPolicyInstanceId", rr.TrafficPolicyInstanceId != nil},
	} {
		if m.given {
			out = append(out, m.name)
		}
	}
	return out
}

func decodeAlias(a *api.AliasTarget, f *batchFaults, where string) *aliasTarget {
	for _, m := range []struct {
		name  string
		given bool
	}{
		{"HostedZoneId", a.HostedZoneId != nil},
		{"DNSName", a.DNSName != nil},
		{"EvaluateTargetHealth", a.EvaluateTargetHealth != nil},
	} {
		if !m.given {
			f.members.addf("Missing field 'AliasTarget.%s' %s", m.name, where)
		}
	}
	out := &aliasTarget{
		Zone:           clip(strings.TrimPrefix(value(a.HostedZoneId), zonePrefix)),
		EvaluateHealth: value(a.EvaluateTargetHealth),
	}
	if a.DNSName == nil {
		return out
	}
	name, p := canonicalName(*a.DNSName)
	if p != nil {
		f.changes.addf("%s", p)
	}
	out.Name = name
	return out
}

// value is what p points to, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// runes is the length of a string as the API model counts it.
func runes(s string) int { return utf8.RuneCountInString(s) }

// encodeSet is the record set as the API answers it.
func encodeSet(s *recordSet) api.ResourceRecordSet {
	out := api.ResourceRecordSet{
		Name: new(s.Name), Type: new(s.Type), TTL: s.TTL, Weight: s.Weight,
	}
	if s.SetID != "" {
		out.SetIdentifier = new(s.SetID)
	}
	if s.MultiValue {
		out.MultiValueAnswer = new(true)
	}
	for _, v := range s.Values {
		out.ResourceRecords = append(out.ResourceRecords, api.ResourceRecord{Value: new(v)})
	}
	if a := s.Alias; a != nil {
		out.AliasTarget = &api.AliasTarget{
			HostedZoneId: new(a.Zone), DNSName: new(a.Name), EvaluateTargetHealth: new(a.EvaluateHealth),
		}
	}
	return out
}
