package route53

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
)

func TestRecordsEcho(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	id := createZone(t, s, alice, "example.test", "1")
	sets := []*api.ResourceRecordSet{
		rrset("www.example.test.", "A", "192.0.2.2", "192.0.2.1"),
		rrset(`\052.example.test.`, "TXT", `"say \"hi\""`, `"a" "b"`),
		weighted(rrset("w.example.test.", "CNAME", "a.example.com"), "one", 10),
		weighted(rrset("w.example.test.", "CNAME", "b.example.com."), "two", 0),
		multi(rrset("m.example.test.", "AAAA", "2001:DB8::1"), "x"),
		with(aliasTo("alias.example.test.", "A", "www.example.test."), func(rr *api.ResourceRecordSet) { rr.AliasTarget.HostedZoneId = &id }),
	}
	var changes []api.Change
	for _, rr := range sets {
		changes = append(changes, create(rr))
	}
	info := changeRecords(t, s, alice, id, changes...)
	assert.Equal(t, "PENDING", *info.Status)

	got := listRecords(t, s, alice, id)
	require.Len(t, got, 2+len(sets))
	for _, want := range sets {
		assert.Contains(t, got, *want)
	}
	var deletes []api.Change
	for i := range got {
		if *got[i].Name != "example.test." {
			deletes = append(deletes, remove(&got[i]))
		}
	}
	changeRecords(t, s, alice, id, deletes...)
	assert.Len(t, listRecords(t, s, alice, id), 2, "what is listed can be deleted as it is")
}

func TestRefusedBatchChangesNothing(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	id := createZone(t, s, alice, "example.test", "1")
	before, rev, err := s.zones.Get(t.Context(), zoneKey(alice, id))
	require.NoError(t, err)
	_, err = s.ChangeResourceRecordSets(t.Context(), call(alice), &api.ChangeResourceRecordSetsRequest{
		HostedZoneId: &id, ChangeBatch: &api.ChangeBatch{Changes: []api.Change{
			create(rrset("good.example.test", "A", "192.0.2.1")),
			create(rrset("www.other.test", "A", "192.0.2.1")),
			create(rrset("bad.example.test", "A", "x")),
			create(with(rrset("ttl.example.test", "A", "192.0.2.1"), func(rr *api.ResourceRecordSet) { rr.TTL = nil })),
		}},
	})
	code, message := awsCode(t, err)
	assert.Equal(t, api.CodeInvalidChangeBatch, code)
	assert.True(t, strings.HasPrefix(message, "[") && strings.HasSuffix(message, "]"))
	for _, part := range []string{
		"RRSet with DNS name www.other.test. is not permitted in zone example.test.",
		"Invalid Resource Record: 'FATAL problem: ARRDATAIllegalIPv4Address (Value is not a valid IPv4 address) encountered with 'x''",
		"Expected exactly one of [AliasTarget, all of [TTL, and ResourceRecords], or TrafficPolicyInstanceId], but found none in Change with [Action=CREATE, Name=ttl.example.test., Type=A, SetIdentifier=null]",
	} {
		assert.Contains(t, message, part)
	}
	after, afterRev, err := s.zones.Get(t.Context(), zoneKey(alice, id))
	require.NoError(t, err)
	assert.Equal(t, before, after)
	assert.Equal(t, rev, afterRev)

	for _, bad := range []*api.ChangeBatch{nil, {}, {Comment: new(strings.Repeat("x", 257)), Changes: []api.Change{create(rrset("a.example.test", "A", "192.0.2.1"))}}} {
		_, err := s.ChangeResourceRecordSets(t.Context(), call(alice), &api.ChangeResourceRecordSetsRequest{HostedZoneId: &id, ChangeBatch: bad})
		requireCode(t, api.CodeInvalidInput, err)
	}
}

func TestZoneSizeLimit(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1", func(d *Deps) { d.MaxZoneBytes = 2500 })
	id := createZone(t, s, alice, "example.test", "1")
	var changes []api.Change
	for i := range 40 {
		changes = append(changes, create(rrset(fmt.Sprintf("host%d.example.test", i), "A", "192.0.2.1")))
	}
	_, err := s.ChangeResourceRecordSets(t.Context(), call(alice), &api.ChangeResourceRecordSetsRequest{
		HostedZoneId: &id, ChangeBatch: &api.ChangeBatch{Changes: changes},
	})
	code, message := awsCode(t, err)
	assert.Equal(t, api.CodeInvalidChangeBatch, code)
	assert.Contains(t, message, "larger than the limit of 2500 bytes")
	assert.Len(t, listRecords(t, s, alice, id), 2)
	changeRecords(t, s, alice, id, changes[:5]...)
}

// The greatest zone that the default limit lets in is within what the store takes.
func TestGreatestZoneFitsTheStore(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	id := createZone(t, s, alice, "example.test", "1")
	fill := func(sets int) error {
		_, err := s.editZone(t.Context(), alice, id, func(z *zoneRecord) error {
			z.RecordSets = apexSets()
			for i := range sets {
				z.RecordSets = append(z.RecordSets, recordSet{
					Name: fmt.Sprintf("t%d.example.test.", i), Type: typeTXT, TTL: new(int64(60)),
					Values: []string{`"` + strings.Repeat("x", 250) + `"`},
				})
			}
			sortSets(z.RecordSets)
			return nil
		})
		return err
	}
	requireCode(t, api.CodeInvalidChangeBatch, fill(2900))
	require.NoError(t, fill(2800))
	changeRecords(t, s, alice, id, create(rrset("last.example.test", "A", "192.0.2.1")))
}

// Every acknowledged change of many at once is there, each with a serial of its own.
func TestParallelChangesAreNeverLost(t *testing.T) {
	c := newCloud(t)
	nodes := []*Service{c.node("n1"), c.node("n2")}
	id := createZone(t, nodes[0], alice, "example.test", "1")
	const writers = 50
	infos := make([]*api.ChangeInfo, writers)
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			out, err := nodes[i%2].ChangeResourceRecordSets(t.Context(), call(alice), &api.ChangeResourceRecordSetsRequest{
				HostedZoneId: &id,
				ChangeBatch:  &api.ChangeBatch{Changes: []api.Change{create(rrset(fmt.Sprintf("h%d.example.test", i), "A", "192.0.2.1"))}},
			})
			if errs[i] = err; err == nil {
				infos[i] = out.ChangeInfo
			}
		})
	}
	wg.Wait()
	names := map[string]bool{}
	for _, s := range listRecords(t, nodes[0], alice, id) {
		names[*s.Name] = true
	}
	serials := map[uint32]bool{}
	for i := range writers {
		require.NoError(t, errs[i])
		assert.True(t, names[fmt.Sprintf("h%d.example.test.", i)], "change %d was acknowledged and is missing", i)
		changeID, _ := bareID(*infos[i].Id, changePrefix)
		rec, _, err := nodes[0].changes.Get(t.Context(), changeKey(alice, changeID))
		require.NoError(t, err)
		assert.False(t, serials[rec.Serial], "two changes have serial %d", rec.Serial)
		serials[rec.Serial] = true
	}
	z, _, err := nodes[0].zones.Get(t.Context(), zoneKey(alice, id))
	require.NoError(t, err)
	for serial := range serials {
		assert.LessOrEqual(t, serial, z.Serial)
	}
}

// A write that landed although its answer was lost is not made twice: the retry, also one after other
// writers, finds that its change is there.
func TestRepeatedEditFindsItsOwnTrace(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	id := createZone(t, s, alice, "example.test", "1")
	change := &pendingChange{id: newChangeID()}
	edit := s.batchEdit(t.Context(), alice, decodeBatch([]api.Change{create(rrset("a.example.test", "A", "192.0.2.1"))}), change)
	first, err := s.editZone(t.Context(), alice, id, edit)
	require.NoError(t, err)
	changeRecords(t, s, alice, id, create(rrset("b.example.test", "A", "192.0.2.1")))
	again, err := s.editZone(t.Context(), alice, id, edit)
	require.NoError(t, err)
	assert.Equal(t, change.Serial, first.Serial)
	assert.Greater(t, again.Serial, first.Serial)
	assert.Len(t, again.RecordSets, 4)

	for i := range 2 * recentChanges {
		again.addRecentChange(fmt.Sprint(i))
	}
	assert.Len(t, again.RecentChanges, recentChanges)
	assert.True(t, again.hasChange(fmt.Sprint(2*recentChanges-1)))
	assert.False(t, again.hasChange("0"))
}

func TestListRecordsRefuses(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	id := createZone(t, s, alice, "example.test", "1")
	for name, in := range map[string]*api.ListResourceRecordSetsRequest{
		"type without name":       {StartRecordType: new("A")},
		"identifier without name": {StartRecordIdentifier: new("x")},
		"identifier without type": {StartRecordName: new("a.test"), StartRecordIdentifier: new("x")},
		"bad name":                {StartRecordName: new("a..test")},
		"bad type":                {StartRecordName: new("a.test"), StartRecordType: new("ANY")},
		"bad page size":           {MaxItems: new("many")},
	} {
		in.HostedZoneId = &id
		_, err := s.ListResourceRecordSets(t.Context(), call(alice), in)
		code, _ := awsCode(t, err)
		assert.Equal(t, api.CodeInvalidInput, code, name)
	}
	out, err := s.ListResourceRecordSets(t.Context(), call(alice), &api.ListResourceRecordSetsRequest{HostedZoneId: &id, StartRecordName: new("zzz"), MaxItems: new("1000")})
	require.NoError(t, err)
	assert.Equal(t, []api.ResourceRecordSet{}, out.ResourceRecordSets)
	assert.Equal(t, "300", *out.MaxItems)
	assert.False(t, *out.IsTruncated)
}

// A page of large sets ends early, so that its answer fits into a message of NATS's default size.
func TestListPagesFitIntoAMessage(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	id := createZone(t, s, alice, "example.test", "1")
	values := make([]string, maxSetRecords)
	for i := range values {
		values[i] = fmt.Sprintf("::%x", i)
	}
	_, err := s.editZone(t.Context(), alice, id, func(z *zoneRecord) error {
		for i := range 170 {
			z.RecordSets = append(z.RecordSets, recordSet{Name: fmt.Sprintf("s%d.example.test.", i), Type: typeAAAA, TTL: new(int64(60)), Values: values})
		}
		sortSets(z.RecordSets)
		return nil
	})
	require.NoError(t, err)
	in := &api.ListResourceRecordSetsRequest{HostedZoneId: &id}
	var got []api.ResourceRecordSet
	for {
		out, err := s.ListResourceRecordSets(t.Context(), call(alice), in)
		require.NoError(t, err)
		answer, err := json.Marshal(out)
		require.NoError(t, err)
		assert.Less(t, len(answer), 1<<20-64<<10)
		got = append(got, out.ResourceRecordSets...)
		if !*out.IsTruncated {
			break
		}
		in.StartRecordName, in.StartRecordType, in.StartRecordIdentifier = out.NextRecordName, out.NextRecordType, out.NextRecordIdentifier
	}
	z, err := s.getZone(t.Context(), alice, id)
	require.NoError(t, err)
	all, err := encodeSets(z.RecordSets, 1<<30)
	require.NoError(t, err)
	assert.Equal(t, all, got)

	one, err := encodeSets(z.RecordSets, 0)
	require.NoError(t, err)
	assert.Len(t, one, 1, "a page has at least one set")
}

func TestInSync(t *testing.T) {
	now := time.Now()
	server := func(age time.Duration, serial uint32) liveServer {
		return liveServer{seen: now.Add(-age), status: dnsapi.ServerStatus{Zones: map[string]uint32{"Z1": serial, "Z2": 99}}}
	}
	for name, tt := range map[string]struct {
		servers []liveServer
		want    bool
	}{
		"no server":              {nil, false},
		"one with it":            {[]liveServer{server(0, 5)}, true},
		"one with a later one":   {[]liveServer{server(0, 6)}, true},
		"one behind":             {[]liveServer{server(0, 4)}, false},
		"one without the zone":   {[]liveServer{{seen: now}}, false},
		"all but one":            {[]liveServer{server(0, 5), server(9*time.Second, 4)}, false},
		"the one behind is gone": {[]liveServer{server(0, 5), server(11*time.Second, 4)}, true},
		"all are gone":           {[]liveServer{server(11*time.Second, 5)}, false},
		"a clock ahead of ours":  {[]liveServer{server(-time.Minute, 5)}, true},
	} {
		assert.Equal(t, tt.want, inSync(tt.servers, "Z1", 5, now), name)
	}
}

func TestTags(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	id := createZone(t, s, alice, "example.test", "1")
	hosted := new("hostedzone")
	change := func(add []api.Tag, remove ...string) error {
		_, err := s.ChangeTagsForResource(t.Context(), call(alice), &api.ChangeTagsForResourceRequest{
			ResourceType: hosted, ResourceId: &id, AddTags: add, RemoveTagKeys: remove,
		})
		return err
	}
	tags := func() map[string]string {
		out, err := s.ListTagsForResource(t.Context(), call(alice), &api.ListTagsForResourceRequest{ResourceType: hosted, ResourceId: &id})
		require.NoError(t, err)
		assert.Equal(t, id, *out.ResourceTagSet.ResourceId)
		assert.NotNil(t, out.ResourceTagSet.Tags)
		got := map[string]string{}
		for _, t := range out.ResourceTagSet.Tags {
			got[*t.Key] = *t.Value
		}
		return got
	}
	assert.Empty(t, tags())
	require.NoError(t, change([]api.Tag{{Key: new("k"), Value: new("v")}, {Key: new("empty")}}))
	require.NoError(t, change([]api.Tag{{Key: new("k"), Value: new("v2")}, {Key: new("x"), Value: new("y")}}, "empty", "unknown"))
	assert.Equal(t, map[string]string{"k": "v2", "x": "y"}, tags())
	z, _, err := s.zones.Get(t.Context(), zoneKey(alice, id))
	require.NoError(t, err)
	serial := z.Serial
	require.NoError(t, change(nil, "x"))
	z, _, err = s.zones.Get(t.Context(), zoneKey(alice, id))
	require.NoError(t, err)
	assert.Equal(t, serial, z.Serial, "tags are nothing to publish")

	other := createZone(t, s, alice, "other.test.test", "2")
	all, err := s.ListTagsForResources(t.Context(), call(alice), &api.ListTagsForResourcesRequest{ResourceType: hosted, ResourceIds: []string{other, id}})
	require.NoError(t, err)
	require.Len(t, all.ResourceTagSets, 2)
	assert.Equal(t, other, *all.ResourceTagSets[0].ResourceId)
	assert.Equal(t, []api.Tag{{Key: new("k"), Value: new("v2")}}, all.ResourceTagSets[1].Tags)

	eleven := make([]api.Tag, 11)
	for i := range eleven {
		eleven[i] = api.Tag{Key: new(fmt.Sprint(i))}
	}
	for name, err := range map[string]error{
		"nothing":           change(nil),
		"empty key":         change([]api.Tag{{Value: new("v")}}),
		"long key":          change([]api.Tag{{Key: new(strings.Repeat("k", 129))}}),
		"long value":        change([]api.Tag{{Key: new("k"), Value: new(strings.Repeat("v", 257))}}),
		"reserved":          change([]api.Tag{{Key: new("AWS:x")}}),
		"twice":             change([]api.Tag{{Key: new("a")}, {Key: new("a")}}),
		"added and removed": change([]api.Tag{{Key: new("a")}}, "a"),
		"too many at once":  change(eleven),
		"too many in all":   change(eleven[:10]),
	} {
		code, _ := awsCode(t, err)
		assert.Equal(t, api.CodeInvalidInput, code, name)
	}
	for _, kind := range []string{"healthcheck", "bucket"} {
		want := map[string]string{"healthcheck": api.CodeNoSuchHealthCheck, "bucket": api.CodeInvalidInput}[kind]
		_, err = s.ListTagsForResource(t.Context(), call(alice), &api.ListTagsForResourceRequest{ResourceType: &kind, ResourceId: new("abc")})
		requireCode(t, want, err)
		_, err = s.ListTagsForResources(t.Context(), call(alice), &api.ListTagsForResourcesRequest{ResourceType: &kind, ResourceIds: []string{"abc"}})
		requireCode(t, want, err)
		_, err = s.ChangeTagsForResource(t.Context(), call(alice), &api.ChangeTagsForResourceRequest{ResourceType: &kind, ResourceId: new("abc"), AddTags: []api.Tag{{Key: new("a")}}})
		requireCode(t, want, err)
	}
	_, err = s.ListTagsForResource(t.Context(), call(bob), &api.ListTagsForResourceRequest{ResourceType: hosted, ResourceId: &id})
	requireCode(t, api.CodeNoSuchHostedZone, err)
}

func TestChangeOfAnotherAccountIsUnknown(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	id := createZone(t, s, alice, "example.test", "1")
	out, err := s.ChangeResourceRecordSets(t.Context(), call(alice), &api.ChangeResourceRecordSetsRequest{
		HostedZoneId: &id, ChangeBatch: &api.ChangeBatch{Comment: new("why"), Changes: []api.Change{create(rrset("a.example.test", "A", "192.0.2.1"))}},
	})
	require.NoError(t, err)
	assert.Equal(t, "why", *out.ChangeInfo.Comment)
	_, err = s.GetChange(t.Context(), call(bob), &api.GetChangeRequest{Id: out.ChangeInfo.Id})
	requireCode(t, api.CodeNoSuchChange, err)
	for _, given := range []string{*out.ChangeInfo.Id, strings.TrimPrefix(*out.ChangeInfo.Id, "/change/")} {
		got, err := s.GetChange(t.Context(), call(alice), &api.GetChangeRequest{Id: &given})
		require.NoError(t, err)
		assert.Equal(t, out.ChangeInfo, got.ChangeInfo, "pending as long as no realizer has seen the zone")
	}
}
