package route53

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
)

const (
	testZoneID   = "ZTEST"
	testZoneName = "example.test."
)

var testZone = zoneIdent{id: testZoneID, name: testZoneName}

// apexSets are the two record sets that every zone has.
func apexSets() []recordSet {
	return []recordSet{
		{Name: testZoneName, Type: typeNS, TTL: new(int64(172800)), Values: []string{"ns1.cloud.test."}},
		{Name: testZoneName, Type: typeSOA, TTL: new(int64(900)), Values: []string{"ns1.cloud.test. hostmaster.cloud.test. 1 7200 900 1209600 86400"}},
	}
}

// rrset makes a record set of the API; option functions change it.
func rrset(name, typ string, values ...string) *api.ResourceRecordSet {
	rr := &api.ResourceRecordSet{Name: &name, Type: &typ}
	if len(values) > 0 {
		rr.TTL = new(int64(60))
	}
	for _, v := range values {
		rr.ResourceRecords = append(rr.ResourceRecords, api.ResourceRecord{Value: new(v)})
	}
	return rr
}

func weighted(rr *api.ResourceRecordSet, id string, w int64) *api.ResourceRecordSet {
	rr.SetIdentifier, rr.Weight = &id, &w
	return rr
}

func multi(rr *api.ResourceRecordSet, id string) *api.ResourceRecordSet {
	rr.SetIdentifier, rr.MultiValueAnswer = &id, new(true)
	return rr
}

func aliasTo(name, typ, target string) *api.ResourceRecordSet {
	rr := rrset(name, typ)
	rr.AliasTarget = &api.AliasTarget{HostedZoneId: new(testZoneID), DNSName: &target, EvaluateTargetHealth: new(false)}
	return rr
}

func with(rr *api.ResourceRecordSet, f func(*api.ResourceRecordSet)) *api.ResourceRecordSet {
	f(rr)
	return rr
}

func create(rr *api.ResourceRecordSet) api.Change { return act(actionCreate, rr) }
func upsert(rr *api.ResourceRecordSet) api.Change { return act(actionUpsert, rr) }
func remove(rr *api.ResourceRecordSet) api.Change { return act(actionDelete, rr) }
func act(action string, rr *api.ResourceRecordSet) api.Change {
	return api.Change{Action: &action, ResourceRecordSet: rr}
}

// run decodes and evaluates a batch, as the handler does.
func run(sets []recordSet, changes []api.Change) (out []recordSet, memberFaults, changeFaults []string) {
	out, f := evaluate(testZone, sets, decodeBatch(changes))
	if f == nil {
		return out, nil, nil
	}
	return out, f.members.texts, f.changes.texts
}

// seeded applies a batch that must be good to a new zone.
func seeded(t testing.TB, batch ...api.Change) []recordSet {
	t.Helper()
	out, members, changes := run(apexSets(), batch)
	require.Empty(t, members)
	require.Empty(t, changes)
	return out
}

func TestChangeFaults(t *testing.T) {
	const (
		soa = "ns1.cloud.test. hostmaster.cloud.test. 1 7200 900 1209600 86400"
		www = "www.example.test"
	)
	existing := []api.Change{
		create(rrset(www, "A", "192.0.2.1", "192.0.2.2")),
		create(rrset("c.example.test", "CNAME", "a.example.com")),
		create(weighted(rrset("w.example.test", "A", "192.0.2.3"), "one", 10)),
		create(multi(rrset("m.example.test", "A", "192.0.2.4"), "one")),
		create(aliasTo("alias.example.test", "A", www)),
	}
	tests := map[string]struct {
		batch []api.Change
		want  []string // all faults, in order; none: the batch is good
	}{
		"create exists": {
			[]api.Change{create(rrset(www, "A", "192.0.2.9"))},
			[]string{"Tried to create resource record set [name='www.example.test.', type='A'] but it already exists"},
		},
		"create weighted exists": {
			[]api.Change{create(weighted(rrset("w.example.test", "A", "192.0.2.9"), "one", 1))},
			[]string{"Tried to create resource record set [name='w.example.test.', type='A', set identifier='one'] but it already exists"},
		},
		"delete not found": {
			[]api.Change{remove(rrset("gone.example.test", "A", "192.0.2.9"))},
			[]string{"Tried to delete resource record set [name='gone.example.test.', type='A'] but it was not found"},
		},
		"delete other identifier": {
			[]api.Change{remove(weighted(rrset("w.example.test", "A", "192.0.2.3"), "two", 10))},
			[]string{"Tried to delete resource record set [name='w.example.test.', type='A', set identifier='two'] but it was not found"},
		},
		"delete other values": {
			[]api.Change{remove(rrset(www, "A", "192.0.2.1"))},
			[]string{"Tried to delete resource record set [name='www.example.test.', type='A'] but the values provided do not match the current values"},
		},
		"delete other ttl": {
			[]api.Change{remove(with(rrset(www, "A", "192.0.2.1", "192.0.2.2"), func(rr *api.ResourceRecordSet) { rr.TTL = new(int64(61)) }))},
			[]string{"Tried to delete resource record set [name='www.example.test.', type='A'] but the values provided do not match the current values"},
		},
		"delete other weight": {
			[]api.Change{remove(weighted(rrset("w.example.test", "A", "192.0.2.3"), "one", 11))},
			[]string{"Tried to delete resource record set [name='w.example.test.', type='A', set identifier='one'] but the values provided do not match the current values"},
		},
		"delete alias with other target": {
			[]api.Change{remove(aliasTo("alias.example.test", "A", "w.example.test"))},
			[]string{"Tried to delete resource record set [name='alias.example.test.', type='A'] but the values provided do not match the current values"},
		},
		"delete in other order":  {[]api.Change{remove(rrset(www, "A", "192.0.2.2", "192.0.2.1"))}, nil},
		"delete in other case":   {[]api.Change{remove(rrset("WWW.EXAMPLE.test.", "A", "192.0.2.1", "192.0.2.2"))}, nil},
		"delete then create":     {[]api.Change{remove(rrset(www, "A", "192.0.2.1", "192.0.2.2")), create(rrset(www, "A", "192.0.2.9"))}, nil},
		"upsert existing":        {[]api.Change{upsert(rrset(www, "A", "192.0.2.9"))}, nil},
		"upsert new":             {[]api.Change{upsert(rrset("new.example.test", "A", "192.0.2.9"))}, nil},
		"another weighted":       {[]api.Change{create(weighted(rrset("w.example.test", "A", "192.0.2.9"), "two", 0))}, nil},
		"another multivalue":     {[]api.Change{create(multi(rrset("m.example.test", "A", "192.0.2.9"), "two"))}, nil},
		"weighted other type":    {[]api.Change{create(rrset("w.example.test", "AAAA", "2001:db8::1"))}, nil},
		"CNAME for A in a batch": {[]api.Change{create(rrset(www, "CNAME", "x.example.com")), remove(rrset(www, "A", "192.0.2.1", "192.0.2.2"))}, nil},
		"weighted CNAMEs": {[]api.Change{
			create(weighted(rrset("wc.example.test", "CNAME", "a.example.com"), "a", 1)),
			create(weighted(rrset("wc.example.test", "CNAME", "b.example.com"), "b", 1)),
		}, nil},
		"delegation":           {[]api.Change{create(rrset("sub.example.test", "NS", "ns.other.test"))}, nil},
		"apex NS replaced":     {[]api.Change{upsert(rrset("example.test", "NS", "ns9.cloud.test."))}, nil},
		"apex SOA replaced":    {[]api.Change{upsert(rrset("example.test", "SOA", soa))}, nil},
		"alias to weighted":    {[]api.Change{create(aliasTo("example.test", "A", "w.example.test."))}, nil},
		"alias to new record":  {[]api.Change{create(aliasTo("x.example.test", "AAAA", "y.example.test")), create(rrset("y.example.test", "AAAA", "2001:db8::1"))}, nil},
		"alias to alias":       {[]api.Change{create(aliasTo("x.example.test", "A", "alias.example.test"))}, nil},
		"wildcard":             {[]api.Change{create(rrset("*.example.test", "A", "192.0.2.9"))}, nil},
		"literal asterisk":     {[]api.Change{create(rrset("prod.*.example.test", "A", "192.0.2.9"))}, nil},
		"outside the zone":     {[]api.Change{create(rrset("www.other.test", "A", "192.0.2.9"))}, []string{"RRSet with DNS name www.other.test. is not permitted in zone example.test."}},
		"only looks inside":    {[]api.Change{create(rrset("badexample.test", "A", "192.0.2.9"))}, []string{"RRSet with DNS name badexample.test. is not permitted in zone example.test."}},
		"delete outside":       {[]api.Change{remove(rrset("www.other.test", "A", "192.0.2.9"))}, []string{"RRSet with DNS name www.other.test. is not permitted in zone example.test."}},
		"CNAME at apex":        {[]api.Change{create(rrset("example.test", "CNAME", "a.example.com"))}, []string{"RRSet of type CNAME with DNS name example.test. is not permitted at apex in zone example.test."}},
		"DS at apex":           {[]api.Change{create(rrset("example.test", "DS", "1 13 2 abcd"))}, []string{"RRSet of type DS with DNS name example.test. is not permitted at apex in zone example.test."}},
		"SOA below apex":       {[]api.Change{create(rrset(www, "SOA", soa))}, []string{"RRSet of type SOA with DNS name www.example.test. is not permitted below the apex in zone example.test."}},
		"NS at wildcard":       {[]api.Change{create(rrset("*.example.test", "NS", "ns.other.test"))}, []string{`RRSet of type NS with DNS name \052.example.test. is not permitted at a wildcard name in zone example.test.`}},
		"NS weighted":          {[]api.Change{create(weighted(rrset("s.example.test", "NS", "ns.other.test"), "a", 1))}, []string{"RRSet of type NS with DNS name s.example.test. is not permitted with a routing policy in zone example.test."}},
		"NS alias":             {[]api.Change{create(aliasTo("s.example.test", "NS", "example.test"))}, []string{"RRSet of type NS with DNS name s.example.test. is not permitted as an alias in zone example.test."}},
		"multivalue CNAME":     {[]api.Change{create(multi(rrset("s.example.test", "CNAME", "a.example.com"), "a"))}, []string{"RRSet of type CNAME with DNS name s.example.test. is not permitted as a multivalue answer in zone example.test."}},
		"two CNAME values":     {[]api.Change{create(rrset("s.example.test", "CNAME", "a.example.com", "b.example.com"))}, []string{"RRSet of type CNAME with DNS name s.example.test. is not permitted with more than one value in zone example.test."}},
		"two SOA values":       {[]api.Change{upsert(rrset("example.test", "SOA", soa, strings.Replace(soa, " 1 ", " 2 ", 1)))}, []string{"RRSet of type SOA with DNS name example.test. is not permitted with more than one value in zone example.test."}},
		"CNAME where A is":     {[]api.Change{create(rrset(www, "CNAME", "a.example.com"))}, []string{"RRSet of type CNAME with DNS name www.example.test. is not permitted as it conflicts with other records with the same DNS name in zone example.test."}},
		"A where CNAME is":     {[]api.Change{create(rrset("c.example.test", "A", "192.0.2.9"))}, []string{"RRSet of type A with DNS name c.example.test. is not permitted because a conflicting RRSet of type  CNAME with the same DNS name already exists in zone example.test."}},
		"upsert A where CNAME": {[]api.Change{upsert(rrset("c.example.test", "A", "192.0.2.9"))}, []string{"RRSet of type A with DNS name c.example.test. is not permitted because a conflicting RRSet of type  CNAME with the same DNS name already exists in zone example.test."}},
		"duplicate value":      {[]api.Change{create(rrset("d.example.test", "A", "192.0.2.9", "192.0.2.9"))}, []string{"Duplicate Resource Record: '192.0.2.9'"}},
		"duplicate in case":    {[]api.Change{create(rrset("d.example.test", "MX", "10 A.example.test", "10 a.example.test."))}, []string{"Duplicate Resource Record: '10 a.example.test.'"}},
		"TXT differs in case":  {[]api.Change{create(rrset("d.example.test", "TXT", `"a"`, `"A"`))}, nil},
		"bad values, each": {
			[]api.Change{create(rrset("d.example.test", "A", "x", "y"))},
			[]string{
				"Invalid Resource Record: 'FATAL problem: ARRDATAIllegalIPv4Address (Value is not a valid IPv4 address) encountered with 'x''",
				"Invalid Resource Record: 'FATAL problem: ARRDATAIllegalIPv4Address (Value is not a valid IPv4 address) encountered with 'y''",
			},
		},
		"bad name":          {[]api.Change{create(rrset("a..example.test", "A", "192.0.2.9"))}, []string{"FATAL problem: DomainLabelEmpty (Domain label is empty) encountered with 'a..example.test'"}},
		"root name":         {[]api.Change{create(rrset(".", "A", "192.0.2.9"))}, []string{"FATAL problem: DomainLabelEmpty (Domain label is empty) encountered with '.'"}},
		"created twice":     {[]api.Change{create(rrset("d.example.test", "A", "192.0.2.8")), create(rrset("d.example.test", "A", "192.0.2.9"))}, []string{"The request contains an invalid set of changes for a resource record set 'A d.example.test.'"}},
		"upserted twice":    {[]api.Change{upsert(rrset(www, "A", "192.0.2.8")), upsert(rrset(www, "A", "192.0.2.9"))}, []string{"The request contains an invalid set of changes for a resource record set 'A www.example.test.'"}},
		"deleted twice":     {[]api.Change{remove(rrset(www, "A", "192.0.2.1", "192.0.2.2")), remove(rrset(www, "A", "192.0.2.1", "192.0.2.2"))}, []string{"The request contains an invalid set of changes for a resource record set 'A www.example.test.'"}},
		"create and delete": {[]api.Change{create(rrset("d.example.test", "A", "192.0.2.8")), remove(rrset("d.example.test", "A", "192.0.2.8"))}, []string{"The request contains an invalid set of changes for a resource record set 'A d.example.test.'"}},
		"apex SOA deleted":  {[]api.Change{remove(with(rrset("example.test", "SOA", soa), func(rr *api.ResourceRecordSet) { rr.TTL = new(int64(900)) }))}, []string{"A HostedZone must contain exactly one SOA record."}},
		"apex NS deleted": {
			[]api.Change{remove(with(rrset("example.test", "NS", "ns1.cloud.test."), func(rr *api.ResourceRecordSet) { rr.TTL = new(int64(172800)) }))},
			[]string{"A HostedZone must contain at least one NS record for the zone itself."},
		},
		"second apex SOA": {[]api.Change{create(weighted(rrset("example.test", "SOA", soa), "b", 1))}, []string{
			"RRSet of type SOA with DNS name example.test. is not permitted with a routing policy in zone example.test.",
			"RRSet with DNS name example.test., type SOA, SetIdentifier b, and weight 1 cannot be created as other RRSets exist with the same name and type.",
			"A HostedZone must contain exactly one SOA record.",
		}},
		"simple beside weighted":     {[]api.Change{create(rrset("w.example.test", "A", "192.0.2.9"))}, []string{"RRSet with DNS name w.example.test., type A, SetIdentifier null, cannot be created as other RRSets exist with the same name and type."}},
		"weighted beside simple":     {[]api.Change{create(weighted(rrset(www, "A", "192.0.2.9"), "two", 5))}, []string{"RRSet with DNS name www.example.test., type A, SetIdentifier two, and weight 5 cannot be created as other RRSets exist with the same name and type."}},
		"multivalue beside weighted": {[]api.Change{create(multi(rrset("w.example.test", "A", "192.0.2.9"), "two"))}, []string{"RRSet with DNS name w.example.test., type A, SetIdentifier two, and multivalue answer cannot be created as other RRSets exist with the same name and type."}},
		"weighted replaces simple":   {[]api.Change{create(weighted(rrset(www, "A", "192.0.2.9"), "two", 5)), remove(rrset(www, "A", "192.0.2.1", "192.0.2.2"))}, nil},
		"alias target missing":       {[]api.Change{create(aliasTo("x.example.test", "A", "nowhere.example.test"))}, []string{"Tried to create an alias that targets nowhere.example.test., type A in zone ZTEST, but that target was not found"}},
		"alias target other type":    {[]api.Change{create(aliasTo("x.example.test", "AAAA", www))}, []string{"Tried to create an alias that targets www.example.test., type AAAA in zone ZTEST, but that target was not found"}},
		"alias target outside":       {[]api.Change{create(aliasTo("x.example.test", "A", "www.other.test"))}, []string{"Tried to create an alias that targets www.other.test., type A in zone ZTEST, but the alias target name does not lie within the target zone"}},
		"alias target deleted":       {[]api.Change{create(aliasTo("x.example.test", "A", www)), remove(rrset(www, "A", "192.0.2.1", "192.0.2.2"))}, []string{"Tried to create an alias that targets www.example.test., type A in zone ZTEST, but that target was not found"}},
		"alias to itself":            {[]api.Change{create(aliasTo("x.example.test", "A", "x.example.test"))}, []string{"Tried to create an alias that targets x.example.test., type A in zone ZTEST, but that target leads back to the alias"}},
		"alias circle":               {[]api.Change{upsert(aliasTo(www, "A", "alias.example.test"))}, []string{"Tried to create an alias that targets alias.example.test., type A in zone ZTEST, but that target leads back to the alias"}},
		"alias in another zone": {
			[]api.Change{create(with(aliasTo("x.example.test", "A", www), func(rr *api.ResourceRecordSet) { rr.AliasTarget.HostedZoneId = new("Z35SXDOTRQ7X7K") }))},
			[]string{"Tried to create an alias that targets www.example.test., type A in zone Z35SXDOTRQ7X7K, but only targets in the alias's own hosted zone ZTEST are supported by this release"},
		},
		"alias with zone prefix": {[]api.Change{create(with(aliasTo("x.example.test", "A", www), func(rr *api.ResourceRecordSet) { rr.AliasTarget.HostedZoneId = new("/hostedzone/ZTEST") }))}, nil},
		"multivalue alias": {
			[]api.Change{create(multi(aliasTo("x.example.test", "A", www), "a"))},
			[]string{"RRSet of type A with DNS name x.example.test. is not permitted as a multivalue answer and an alias in zone example.test."},
		},
		"every fault of a batch": {
			[]api.Change{
				create(rrset(www, "A", "192.0.2.9")),
				remove(rrset("gone.example.test", "A", "192.0.2.9")),
				create(rrset("www.other.test", "A", "192.0.2.9")),
				create(rrset("t.example.test", "TXT", "bare")),
				create(rrset("good.example.test", "A", "192.0.2.9")),
			},
			[]string{
				"RRSet with DNS name www.other.test. is not permitted in zone example.test.",
				"Invalid Resource Record: 'FATAL problem: InvalidCharacterString (Value should be enclosed in quotation marks) encountered with 'bare''",
				"Tried to create resource record set [name='www.example.test.', type='A'] but it already exists",
				"Tried to delete resource record set [name='gone.example.test.', type='A'] but it was not found",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sets := seeded(t, existing...)
			before := fmt.Sprintf("%+v", sets)
			out, members, changes := run(sets, tt.batch)
			require.Empty(t, members)
			assert.Equal(t, before, fmt.Sprintf("%+v", sets), "the zone's sets are not touched")
			if tt.want == nil {
				assert.Empty(t, changes)
				assert.NotNil(t, out)
				return
			}
			assert.Equal(t, tt.want, changes)
			assert.Nil(t, out)
		})
	}
}

func TestMemberFaults(t *testing.T) {
	const (
		where = "in Change with [Action=CREATE, Name=www.example.test., Type=A, SetIdentifier=null]"
		one   = "in Change with [Action=CREATE, Name=www.example.test., Type=A, SetIdentifier=one]"
		body  = "Expected exactly one of [AliasTarget, all of [TTL, and ResourceRecords], or TrafficPolicyInstanceId], but found "
		rout  = "Expected exactly one of [Weight, Region, Failover, GeoLocation, GeoProximityLocation, CidrRoutingConfig, or MultiValueAnswer], but found "
	)
	type rr = api.ResourceRecordSet
	a := func() *rr { return rrset("www.example.test", "A", "192.0.2.1") }
	target := &api.AliasTarget{HostedZoneId: new(testZoneID), DNSName: new("example.test"), EvaluateTargetHealth: new(true)}
	tests := map[string]struct {
		change func(*rr)
		want   string
	}{
		"no ttl":              {func(s *rr) { s.TTL = nil }, body + "none " + where},
		"no values":           {func(s *rr) { s.ResourceRecords = nil }, body + "none " + where},
		"nothing":             {func(s *rr) { s.TTL, s.ResourceRecords = nil, nil }, body + "none " + where},
		"alias with ttl":      {func(s *rr) { s.AliasTarget, s.ResourceRecords = target, nil }, body + "more than one " + where},
		"alias with values":   {func(s *rr) { s.AliasTarget, s.TTL = target, nil }, body + "more than one " + where},
		"identifier alone":    {func(s *rr) { s.SetIdentifier = new("one") }, rout + "none " + one},
		"identifier no multi": {func(s *rr) { s.SetIdentifier, s.MultiValueAnswer = new("one"), new(false) }, rout + "none " + one},
		"two policies": {func(s *rr) {
			s.SetIdentifier, s.Weight, s.MultiValueAnswer = new("one"), new(int64(1)), new(true)
		}, rout + "more than one " + one},
		"weight alone":     {func(s *rr) { s.Weight = new(int64(1)) }, "Missing field 'SetIdentifier' " + where},
		"multivalue alone": {func(s *rr) { s.MultiValueAnswer = new(true) }, "Missing field 'SetIdentifier' " + where},
		"weight 256":       {func(s *rr) { s.SetIdentifier, s.Weight = new("one"), new(int64(256)) }, "Weight 256 is not between 0 and 255 " + one},
		"weight -1":        {func(s *rr) { s.SetIdentifier, s.Weight = new("one"), new(int64(-1)) }, "Weight -1 is not between 0 and 255 " + one},
		"ttl too big":      {func(s *rr) { s.TTL = new(int64(1 << 31)) }, "TTL 2147483648 is not between 0 and 2147483647 " + where},
		"ttl negative":     {func(s *rr) { s.TTL = new(int64(-1)) }, "TTL -1 is not between 0 and 2147483647 " + where},
		"no name":          {func(s *rr) { s.Name = nil }, "Missing field 'Name' in Change with [Action=CREATE, Name=null, Type=A, SetIdentifier=null]"},
		"type":             {func(s *rr) { s.Type = new("LOC") }, "Type 'LOC' is not a record type that is supported in Change with [Action=CREATE, Name=www.example.test., Type=LOC, SetIdentifier=null]"},
		"failover":         {func(s *rr) { s.SetIdentifier, s.Failover = new("one"), new("PRIMARY") }, "Failover is not supported by this release " + one},
		"geolocation":      {func(s *rr) { s.SetIdentifier, s.GeoLocation = new("one"), &api.GeoLocation{} }, "GeoLocation is not supported by this release " + one},
		"geoproximity":     {func(s *rr) { s.SetIdentifier, s.GeoProximityLocation = new("one"), &api.GeoProximityLocation{} }, "GeoProximityLocation is not supported by this release " + one},
		"latency":          {func(s *rr) { s.SetIdentifier, s.Region = new("one"), new("us-east-1") }, "Region is not supported by this release " + one},
		"cidr":             {func(s *rr) { s.SetIdentifier, s.CidrRoutingConfig = new("one"), &api.CidrRoutingConfig{} }, "CidrRoutingConfig is not supported by this release " + one},
		"health check":     {func(s *rr) { s.HealthCheckId = new("abc") }, "HealthCheckId is not supported by this release " + where},
		"traffic policy":   {func(s *rr) { s.TTL, s.ResourceRecords, s.TrafficPolicyInstanceId = nil, nil, new("x") }, "TrafficPolicyInstanceId is not supported by this release " + where},
		"alias incomplete": {func(s *rr) {
			s.TTL, s.ResourceRecords, s.AliasTarget = nil, nil, &api.AliasTarget{DNSName: new("example.test"), HostedZoneId: new(testZoneID)}
		}, "Missing field 'AliasTarget.EvaluateTargetHealth' " + where},
		"identifier too big": {func(s *rr) { s.SetIdentifier, s.Weight = new(strings.Repeat("x", 129)), new(int64(1)) }, "SetIdentifier is longer than 128 characters"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, members, _ := run(apexSets(), []api.Change{create(with(a(), tt.change))})
			require.Len(t, members, 1)
			assert.Contains(t, members[0], tt.want)
		})
	}
	t.Run("action", func(t *testing.T) {
		_, members, _ := run(apexSets(), []api.Change{act("MERGE", a())})
		require.Len(t, members, 1)
		assert.Contains(t, members[0], "Action 'MERGE' is not one of [CREATE, UPSERT, DELETE]")
	})
	t.Run("no record set", func(t *testing.T) {
		_, members, _ := run(apexSets(), []api.Change{act(actionCreate, nil)})
		require.Len(t, members, 1)
		assert.Contains(t, members[0], "Missing field 'ResourceRecordSet'")
	})
}

func TestBatchLimits(t *testing.T) {
	addresses := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf("10.%d.%d.1", i/256, i%256)
		}
		return out
	}
	t.Run("records", func(t *testing.T) {
		batch := []api.Change{
			create(rrset("a.example.test", "A", addresses(400)...)),
			create(rrset("b.example.test", "A", addresses(400)...)),
			create(rrset("c.example.test", "A", addresses(200)...)),
		}
		_, members, changes := run(apexSets(), batch)
		assert.Empty(t, members)
		assert.Empty(t, changes, "1,000 are allowed")
		_, _, changes = run(apexSets(), append(batch, create(rrset("d.example.test", "A", "192.0.2.1"))))
		assert.Equal(t, []string{"Number of records limit of 1000 exceeded."}, changes)
		batch[0].Action = new(actionUpsert)
		_, _, changes = run(apexSets(), batch)
		assert.Equal(t, []string{"Number of records limit of 1000 exceeded."}, changes, "an UPSERT counts twice")
	})
	t.Run("values of a set", func(t *testing.T) {
		_, _, changes := run(apexSets(), []api.Change{create(rrset("a.example.test", "A", addresses(401)...))})
		assert.Equal(t, []string{"RRSet of type A with DNS name a.example.test. has more than 400 resource records"}, changes)
	})
	t.Run("characters", func(t *testing.T) {
		text := `"` + strings.Repeat("x", 250) + `"`
		var batch []api.Change
		for i := range 126 {
			batch = append(batch, create(rrset(fmt.Sprintf("t%d.example.test", i), "TXT", text)))
		}
		_, _, changes := run(apexSets(), batch)
		assert.Empty(t, changes)
		_, _, changes = run(apexSets(), append(batch, create(rrset("last.example.test", "TXT", text))))
		assert.Equal(t, []string{"Number of characters limit of 32000 exceeded."}, changes)
	})
	t.Run("changes", func(t *testing.T) {
		var batch []api.Change
		for i := range 1001 {
			batch = append(batch, create(rrset(fmt.Sprintf("t%d.example.test", i), "A", "192.0.2.1")))
		}
		_, _, changes := run(apexSets(), batch)
		assert.Contains(t, changes, "Number of changes limit of 1000 exceeded.")
		_, _, changes = run(apexSets(), batch[:1000])
		assert.Empty(t, changes)
	})
	t.Run("group", func(t *testing.T) {
		var batch []api.Change
		for i := range 101 {
			batch = append(batch, create(weighted(rrset("w.example.test", "A", "192.0.2.1"), fmt.Sprint(i), 1)))
		}
		_, _, changes := run(apexSets(), batch[:100])
		assert.Empty(t, changes)
		_, _, changes = run(apexSets(), batch)
		assert.Equal(t, []string{"Number of resource record sets limit of 100 for DNS name w.example.test., type A exceeded."}, changes)
	})
}

func TestChangeBatchError(t *testing.T) {
	f := func(members, changes []string) *batchFaults {
		return &batchFaults{faults{texts: members}, faults{texts: changes}}
	}
	err := f([]string{"m1", "m2"}, nil).err()
	assert.Equal(t, "InvalidInput", err.Code)
	assert.Equal(t, "Invalid request: m1, m2", err.Message)

	err = f([]string{"m"}, []string{"c1", "c2"}).err()
	assert.Equal(t, "InvalidChangeBatch", err.Code)
	assert.Equal(t, "[Invalid request: m, c1, c2]", err.Message)
	assert.Equal(t, []string{"Invalid request: m", "c1", "c2"}, err.Detail.(*api.InvalidChangeBatch).Messages)

	long := make([]string, 1000)
	for i := range long {
		long[i] = strings.Repeat("x", 1000)
	}
	err = f(nil, long).err()
	assert.Less(t, len(err.Message), maxFaultText+2000)
	assert.Contains(t, err.Message, "and 935 more]")
}
