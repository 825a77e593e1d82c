package route53

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

func TestHostedZoneLife(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	before := time.Now().Add(-time.Second)
	created, err := s.CreateHostedZone(t.Context(), call(alice), &api.CreateHostedZoneRequest{
		Name: new("Example.Test"), CallerReference: new("ref 1/ä"),
		HostedZoneConfig: &api.HostedZoneConfig{Comment: new("c1"), PrivateZone: new(false)},
	})
	require.NoError(t, err)
	id := *created.HostedZone.Id
	require.Regexp(t, `^/hostedzone/Z[A-Z2-7]{19}$`, id)
	assert.LessOrEqual(t, len(id), 32)
	assert.Equal(t, &api.HostedZone{
		Id: &id, Name: new("example.test."), CallerReference: new("ref 1/ä"), ResourceRecordSetCount: new(int64(2)),
		Config: &api.HostedZoneConfig{Comment: new("c1"), PrivateZone: new(false)},
	}, created.HostedZone)
	assert.Equal(t, []string{"ns1.cloud.test", "ns2.cloud.test"}, created.DelegationSet.NameServers)
	assert.Equal(t, "https://route53.amazonaws.com/2013-04-01"+id, *created.Location)
	assert.Regexp(t, `^/change/C[A-Z2-7]{19}$`, *created.ChangeInfo.Id)
	assert.Equal(t, "PENDING", *created.ChangeInfo.Status)
	assert.True(t, created.ChangeInfo.SubmittedAt.After(before))

	for _, given := range []string{id, strings.TrimPrefix(id, "/hostedzone/")} {
		got, err := s.GetHostedZone(t.Context(), call(alice), &api.GetHostedZoneRequest{Id: &given})
		require.NoError(t, err)
		assert.Equal(t, created.HostedZone, got.HostedZone)
		assert.Equal(t, created.DelegationSet, got.DelegationSet)
		assert.Nil(t, got.VPCs)
	}
	_, err = s.GetHostedZone(t.Context(), call(bob), &api.GetHostedZoneRequest{Id: &id})
	requireCode(t, api.CodeNoSuchHostedZone, err)

	sets := listRecords(t, s, alice, id)
	require.Len(t, sets, 2)
	assert.Equal(t, "NS", *sets[0].Type)
	assert.Equal(t, int64(172800), *sets[0].TTL)
	assert.Equal(t, []api.ResourceRecord{{Value: new("ns1.cloud.test.")}, {Value: new("ns2.cloud.test.")}}, sets[0].ResourceRecords)
	assert.Equal(t, "SOA", *sets[1].Type)
	assert.Equal(t, int64(900), *sets[1].TTL)
	assert.Equal(t, []api.ResourceRecord{{Value: new("ns1.cloud.test. hostmaster.cloud.test. 1 7200 900 1209600 86400")}}, sets[1].ResourceRecords)

	updated, err := s.UpdateHostedZoneComment(t.Context(), call(alice), &api.UpdateHostedZoneCommentRequest{Id: &id, Comment: new("c2")})
	require.NoError(t, err)
	assert.Equal(t, "c2", *updated.HostedZone.Config.Comment)
	updated, err = s.UpdateHostedZoneComment(t.Context(), call(alice), &api.UpdateHostedZoneCommentRequest{Id: &id})
	require.NoError(t, err)
	assert.Nil(t, updated.HostedZone.Config.Comment)

	dnssec, err := s.GetDNSSEC(t.Context(), call(alice), &api.GetDNSSECRequest{HostedZoneId: &id})
	require.NoError(t, err)
	assert.Equal(t, "NOT_SIGNING", *dnssec.Status.ServeSignature)
	assert.Equal(t, []api.KeySigningKey{}, dnssec.KeySigningKeys)

	changeRecords(t, s, alice, id, create(rrset("www.example.test", "A", "192.0.2.1")))
	_, err = s.DeleteHostedZone(t.Context(), call(alice), &api.DeleteHostedZoneRequest{Id: &id})
	requireCode(t, api.CodeHostedZoneNotEmpty, err)
	changeRecords(t, s, alice, id, remove(rrset("www.example.test", "A", "192.0.2.1")))
	deleted, err := s.DeleteHostedZone(t.Context(), call(alice), &api.DeleteHostedZoneRequest{Id: &id})
	require.NoError(t, err)
	assert.Equal(t, "INSYNC", changeStatus(t, s, alice, *deleted.ChangeInfo.Id), "nothing is left to be done for a zone that is gone")
	_, err = s.DeleteHostedZone(t.Context(), call(alice), &api.DeleteHostedZoneRequest{Id: &id})
	requireCode(t, api.CodeNoSuchHostedZone, err)
	for _, kind := range []string{kindZone, kindCaller} {
		for e, err := range c.bucket.List(t.Context(), prefix(alice, kind)) {
			require.NoError(t, err)
			t.Errorf("left behind: %s", e.Key)
		}
	}
	createZone(t, s, alice, "example.test", "ref 1/ä")
}

func TestCreateHostedZoneRefuses(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1", func(d *Deps) {
		d.Reserved, d.MaxZones = []string{"cloud.test"}, 2
	})
	type request = api.CreateHostedZoneRequest
	tests := map[string]struct {
		change  func(*request)
		code    string
		message string
	}{
		"top-level domain":  {func(r *request) { r.Name = new("test") }, api.CodeInvalidDomainName, "needs a name below a top-level domain"},
		"empty label":       {func(r *request) { r.Name = new("a..test") }, api.CodeInvalidDomainName, "FATAL problem: DomainLabelEmpty (Domain label is empty) encountered with 'a..test'"},
		"label too long":    {func(r *request) { r.Name = new(strings.Repeat("a", 64) + ".test") }, api.CodeInvalidDomainName, "DomainLabelTooLong"},
		"wildcard":          {func(r *request) { r.Name = new("*.example.test") }, api.CodeInvalidDomainName, "UnsupportedCharacter"},
		"platform zone":     {func(r *request) { r.Name = new("Cloud.Test.") }, api.CodeInvalidDomainName, "cloud.test. is reserved by the platform"},
		"below a platform":  {func(r *request) { r.Name = new("x.cloud.test") }, api.CodeInvalidDomainName, "x.cloud.test. is reserved by the platform"},
		"no name":           {func(r *request) { r.Name = nil }, api.CodeInvalidInput, "Name is required"},
		"no reference":      {func(r *request) { r.CallerReference = nil }, api.CodeInvalidInput, "CallerReference"},
		"long reference":    {func(r *request) { r.CallerReference = new(strings.Repeat("x", 129)) }, api.CodeInvalidInput, "CallerReference"},
		"long comment":      {func(r *request) { r.HostedZoneConfig = &api.HostedZoneConfig{Comment: new(strings.Repeat("x", 257))} }, api.CodeInvalidInput, "Comment"},
		"VPC":               {func(r *request) { r.VPC = &api.VPC{VPCId: new("vpc-1")} }, api.CodeInvalidInput, "VPC: private hosted zones are not supported by this release"},
		"private":           {func(r *request) { r.HostedZoneConfig = &api.HostedZoneConfig{PrivateZone: new(true)} }, api.CodeInvalidInput, "PrivateZone: private hosted zones are not supported by this release"},
		"delegation set":    {func(r *request) { r.DelegationSetId = new("N1") }, api.CodeInvalidInput, "DelegationSetId: reusable delegation sets are not supported by this release"},
		"caller ref in use": {func(r *request) { r.CallerReference = new("used") }, api.CodeHostedZoneAlreadyExists, "caller reference"},
	}
	createZone(t, s, alice, "used.test.test", "used")
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := &request{Name: new("new.example.test"), CallerReference: new(name)}
			tt.change(in)
			_, err := s.CreateHostedZone(t.Context(), call(alice), in)
			code, message := awsCode(t, err)
			assert.Equal(t, tt.code, code)
			assert.Contains(t, message, tt.message)
		})
	}
	createZone(t, s, bob, "used.test.test", "used")
	createZone(t, s, alice, "second.test.test", strings.Repeat("ä", 128))
	_, err := s.CreateHostedZone(t.Context(), call(alice), &request{Name: new("third.test.test"), CallerReference: new("3")})
	requireCode(t, api.CodeTooManyHostedZones, err)
	_, err = s.CreateHostedZone(t.Context(), call(alice), &request{Name: new("third.test.test"), CallerReference: new("3")})
	requireCode(t, api.CodeTooManyHostedZones, err)

	based := c.node("n2", func(d *Deps) { d.Reserved, d.Delegation = []string{"cloud.test"}, DelegationBase })
	createZone(t, based, bob, "x.cloud.test", "below the base: it waits for the delegation")
}

// A process that died between the caller reference and the zone, or between the zone's deletion and
// the reference's, leaves something that the next call puts right.
func TestCallerReferenceAfterCrash(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	key := callerKey(alice, "ref")
	_, err := s.callers.Create(t.Context(), key, &callerRecord{Zone: "ZHALFMADE"})
	require.NoError(t, err)
	assert.Equal(t, "ZHALFMADE", createZone(t, s, alice, "example.test", "ref"), "the retry finishes the creation")
	_, err = s.CreateHostedZone(t.Context(), call(alice), &api.CreateHostedZoneRequest{Name: new("example.test"), CallerReference: new("ref")})
	requireCode(t, api.CodeHostedZoneAlreadyExists, err)

	_, _, err = s.callers.Update(t.Context(), key, func(r *callerRecord) error { r.Deleting = true; return nil })
	require.NoError(t, err)
	_, err = s.CreateHostedZone(t.Context(), call(alice), &api.CreateHostedZoneRequest{Name: new("example.test"), CallerReference: new("ref")})
	requireCode(t, api.CodeHostedZoneAlreadyExists, err)
	require.NoError(t, s.zones.Delete(t.Context(), zoneKey(alice, "ZHALFMADE")))
	assert.NotEqual(t, "ZHALFMADE", createZone(t, s, alice, "example.test", "ref"), "a deleted zone does not come back")
}

// A creation that stalls while a second one finishes its zone, and the zone is deleted, does not
// bring the zone back.
func TestStalledCreationDoesNotResurrect(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	id, err := s.claimReference(t.Context(), alice, "ref")
	require.NoError(t, err)
	assert.Equal(t, id, createZone(t, s, alice, "example.test", "ref"))
	_, err = s.DeleteHostedZone(t.Context(), call(alice), &api.DeleteHostedZoneRequest{Id: &id})
	require.NoError(t, err)

	z := &zoneRecord{ID: id, Account: alice, Name: "example.test.", CallerReference: "ref", Serial: 1}
	_, err = s.storeNewZone(t.Context(), z)
	requireCode(t, api.CodeHostedZoneAlreadyExists, err)
	_, _, err = s.zones.Get(t.Context(), zoneKey(alice, id))
	assert.ErrorIs(t, err, kvstore.ErrNotFound)
}

func TestConcurrentCreationsMakeOneZone(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	results := make(chan error)
	const tries = 8
	for range tries {
		go func() {
			_, err := s.CreateHostedZone(t.Context(), call(alice), &api.CreateHostedZoneRequest{Name: new("example.test"), CallerReference: new("ref")})
			results <- err
		}()
	}
	made := 0
	for range tries {
		if err := <-results; err == nil {
			made++
		} else {
			requireCode(t, api.CodeHostedZoneAlreadyExists, err)
		}
	}
	assert.Equal(t, 1, made)
	count, err := s.GetHostedZoneCount(t.Context(), call(alice), &api.GetHostedZoneCountRequest{})
	require.NoError(t, err)
	assert.Equal(t, int64(1), *count.HostedZoneCount)
}

func TestListHostedZones(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	names := []string{"b.test", "a.b.test", "z.a-b.test", "a.test", "a.test", "example.org"}
	want := map[string]string{}
	for i, name := range names {
		want[createZone(t, s, alice, name, fmt.Sprint(i))] = name + "."
	}
	createZone(t, s, bob, "b.test", "0")

	t.Run("by id, in pages", func(t *testing.T) {
		got := map[string]string{}
		in := &api.ListHostedZonesRequest{MaxItems: new("2")}
		pages := 0
		for last := ""; ; pages++ {
			out, err := s.ListHostedZones(t.Context(), call(alice), in)
			require.NoError(t, err)
			assert.Equal(t, "2", *out.MaxItems)
			require.NotNil(t, out.Marker)
			for _, z := range out.HostedZones {
				id := strings.TrimPrefix(*z.Id, zonePrefix)
				assert.Less(t, last, id)
				last = id
				got[id] = *z.Name
			}
			if !*out.IsTruncated {
				assert.Nil(t, out.NextMarker)
				break
			}
			in.Marker = out.NextMarker
		}
		assert.Equal(t, want, got)
		assert.Equal(t, 2, pages)
	})
	t.Run("by name, in pages", func(t *testing.T) {
		var got []string
		in := &api.ListHostedZonesByNameRequest{MaxItems: new("1")}
		for {
			out, err := s.ListHostedZonesByName(t.Context(), call(alice), in)
			require.NoError(t, err)
			for _, z := range out.HostedZones {
				got = append(got, *z.Name)
			}
			if !*out.IsTruncated {
				break
			}
			in.DNSName, in.HostedZoneId = out.NextDNSName, out.NextHostedZoneId
		}
		assert.Equal(t, []string{"example.org.", "z.a-b.test.", "a.test.", "a.test.", "b.test.", "a.b.test."}, got)
	})
	t.Run("by name, from a name", func(t *testing.T) {
		out, err := s.ListHostedZonesByName(t.Context(), call(alice), &api.ListHostedZonesByNameRequest{DNSName: new("B.test")})
		require.NoError(t, err)
		require.Len(t, out.HostedZones, 2)
		assert.Equal(t, "b.test.", *out.HostedZones[0].Name)
		assert.Equal(t, "B.test", *out.DNSName)
		assert.Equal(t, "100", *out.MaxItems)
		assert.False(t, *out.IsTruncated)
	})
	t.Run("none", func(t *testing.T) {
		out, err := s.ListHostedZones(t.Context(), call("000000000009"), &api.ListHostedZonesRequest{})
		require.NoError(t, err)
		assert.Equal(t, []api.HostedZone{}, out.HostedZones)
		assert.Equal(t, "100", *out.MaxItems)
		out, err = s.ListHostedZones(t.Context(), call(alice), &api.ListHostedZonesRequest{HostedZoneType: new("PrivateHostedZone"), MaxItems: new("1000")})
		require.NoError(t, err)
		assert.Empty(t, out.HostedZones)
		assert.Equal(t, "100", *out.MaxItems, "more than a page is a page")
	})
}

func TestListHostedZonesRefuses(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	for _, in := range []*api.ListHostedZonesRequest{
		{MaxItems: new("0")}, {MaxItems: new("-1")}, {MaxItems: new("x")}, {Marker: new("not an id")}, {HostedZoneType: new("Public")},
	} {
		_, err := s.ListHostedZones(t.Context(), call(alice), in)
		requireCode(t, api.CodeInvalidInput, err)
	}
	_, err := s.ListHostedZones(t.Context(), call(alice), &api.ListHostedZonesRequest{DelegationSetId: new("N1")})
	requireCode(t, api.CodeNoSuchDelegationSet, err)
	_, err = s.ListHostedZonesByName(t.Context(), call(alice), &api.ListHostedZonesByNameRequest{HostedZoneId: new("Z1")})
	requireCode(t, api.CodeInvalidInput, err)
	_, err = s.ListHostedZonesByName(t.Context(), call(alice), &api.ListHostedZonesByNameRequest{DNSName: new("a..b")})
	requireCode(t, api.CodeInvalidDomainName, err)
}

func TestUnknownZones(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	for _, id := range []string{"", "Z1", "/hostedzone/Z1", "a.b", "/hostedzone/", strings.Repeat("Z", 33), "*", "Z>"} {
		_, err := s.GetHostedZone(t.Context(), call(alice), &api.GetHostedZoneRequest{Id: &id})
		requireCode(t, api.CodeNoSuchHostedZone, err)
		_, err = s.DeleteHostedZone(t.Context(), call(alice), &api.DeleteHostedZoneRequest{Id: &id})
		requireCode(t, api.CodeNoSuchHostedZone, err)
		_, err = s.UpdateHostedZoneComment(t.Context(), call(alice), &api.UpdateHostedZoneCommentRequest{Id: &id})
		requireCode(t, api.CodeNoSuchHostedZone, err)
		_, err = s.ListResourceRecordSets(t.Context(), call(alice), &api.ListResourceRecordSetsRequest{HostedZoneId: &id})
		requireCode(t, api.CodeNoSuchHostedZone, err)
		_, err = s.ChangeResourceRecordSets(t.Context(), call(alice), &api.ChangeResourceRecordSetsRequest{
			HostedZoneId: &id, ChangeBatch: &api.ChangeBatch{Changes: []api.Change{create(rrset("a.test", "A", "192.0.2.1"))}},
		})
		requireCode(t, api.CodeNoSuchHostedZone, err)
		_, err = s.GetChange(t.Context(), call(alice), &api.GetChangeRequest{Id: &id})
		requireCode(t, api.CodeNoSuchChange, err)
		_, err = s.GetDNSSEC(t.Context(), call(alice), &api.GetDNSSECRequest{HostedZoneId: &id})
		requireCode(t, api.CodeNoSuchHostedZone, err)
	}
}
