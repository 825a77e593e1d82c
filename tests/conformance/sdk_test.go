package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/awserr"
	"github.com/aws/aws-sdk-go/service/route53"
	"github.com/aws/aws-sdk-go/service/sts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/domains/all"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// TestEveryOperationThroughTheSDK goes through everything that is served, failures included, and has
// the model checker look at every answer.
func TestEveryOperationThroughTheSDK(t *testing.T) {
	session, checked := checkedSession(t, start(t))

	who, err := sts.New(session).GetCallerIdentityWithContext(t.Context(), &sts.GetCallerIdentityInput{})
	require.NoError(t, err)
	assert.Equal(t, "000000000001", aws.StringValue(who.Account))

	r := tour{t: t, client: route53.New(session)}
	first := r.createZones()
	r.readZones(first)
	r.tags(first)
	r.records(first)
	r.refusals(first)
	r.deleteZones(first)

	for _, op := range all.Operations() {
		assert.True(t, checked.saw(op.Service, op.Name), "the tour does not visit %s %s", op.Service, op.Name)
	}
	checked.assertClean(t)
}

// tour goes through the operations of Route 53.
type tour struct {
	t      *testing.T
	client *route53.Route53
}

func (r tour) createZones() (first string) {
	t, ctx := r.t, r.t.Context()
	for i, name := range []string{"sdk.test", "b.sdk.test", "_odd!name.sdk.test"} {
		created, err := r.client.CreateHostedZoneWithContext(ctx, &route53.CreateHostedZoneInput{
			Name: aws.String(name), CallerReference: aws.String(fmt.Sprint("ref-", i)),
			HostedZoneConfig: &route53.HostedZoneConfig{Comment: aws.String("comment <&> " + name)},
		})
		require.NoError(t, err, name)
		assert.Contains(t, aws.StringValue(created.Location), strings.TrimPrefix(aws.StringValue(created.HostedZone.Id), "/hostedzone/"))
		assert.Equal(t, "comment <&> "+name, aws.StringValue(created.HostedZone.Config.Comment))
		assert.Equal(t, int64(2), aws.Int64Value(created.HostedZone.ResourceRecordSetCount), "SOA and NS")
		if first == "" {
			first = aws.StringValue(created.HostedZone.Id)
		}
	}
	return first
}

func (r tour) readZones(first string) {
	t, ctx := r.t, r.t.Context()
	got, err := r.client.GetHostedZoneWithContext(ctx, &route53.GetHostedZoneInput{Id: aws.String(first)})
	require.NoError(t, err)
	assert.Equal(t, "sdk.test.", aws.StringValue(got.HostedZone.Name))
	assert.NotEmpty(t, got.DelegationSet.NameServers)

	var paged []string
	err = r.client.ListHostedZonesPagesWithContext(ctx, &route53.ListHostedZonesInput{MaxItems: aws.String("1")},
		func(page *route53.ListHostedZonesOutput, _ bool) bool {
			require.LessOrEqual(t, len(page.HostedZones), 1)
			for _, z := range page.HostedZones {
				paged = append(paged, aws.StringValue(z.Name))
			}
			return true
		})
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"sdk.test.", "b.sdk.test.", `_odd\041name.sdk.test.`}, paged)

	byName, err := r.client.ListHostedZonesByNameWithContext(ctx, &route53.ListHostedZonesByNameInput{DNSName: aws.String("sdk.test")})
	require.NoError(t, err)
	require.NotEmpty(t, byName.HostedZones)
	assert.Equal(t, "sdk.test.", aws.StringValue(byName.HostedZones[0].Name))

	count, err := r.client.GetHostedZoneCountWithContext(ctx, &route53.GetHostedZoneCountInput{})
	require.NoError(t, err)
	assert.Equal(t, int64(3), aws.Int64Value(count.HostedZoneCount))

	updated, err := r.client.UpdateHostedZoneCommentWithContext(ctx, &route53.UpdateHostedZoneCommentInput{Id: aws.String(first), Comment: aws.String("new")})
	require.NoError(t, err)
	assert.Equal(t, "new", aws.StringValue(updated.HostedZone.Config.Comment))

	signing, err := r.client.GetDNSSECWithContext(ctx, &route53.GetDNSSECInput{HostedZoneId: aws.String(first)})
	require.NoError(t, err)
	assert.Equal(t, "NOT_SIGNING", aws.StringValue(signing.Status.ServeSignature))
}

func (r tour) tags(zone string) {
	t, ctx := r.t, r.t.Context()
	id := aws.String(strings.TrimPrefix(zone, "/hostedzone/"))
	kind := aws.String(route53.TagResourceTypeHostedzone)
	_, err := r.client.ChangeTagsForResourceWithContext(ctx, &route53.ChangeTagsForResourceInput{
		ResourceId: id, ResourceType: kind,
		AddTags: []*route53.Tag{{Key: aws.String("k"), Value: aws.String("v")}, {Key: aws.String("gone"), Value: aws.String("")}},
	})
	require.NoError(t, err)
	_, err = r.client.ChangeTagsForResourceWithContext(ctx, &route53.ChangeTagsForResourceInput{
		ResourceId: id, ResourceType: kind, RemoveTagKeys: []*string{aws.String("gone")},
	})
	require.NoError(t, err)
	one, err := r.client.ListTagsForResourceWithContext(ctx, &route53.ListTagsForResourceInput{ResourceId: id, ResourceType: kind})
	require.NoError(t, err)
	require.Len(t, one.ResourceTagSet.Tags, 1)
	assert.Equal(t, "v", aws.StringValue(one.ResourceTagSet.Tags[0].Value))
	many, err := r.client.ListTagsForResourcesWithContext(ctx, &route53.ListTagsForResourcesInput{ResourceIds: []*string{id}, ResourceType: kind})
	require.NoError(t, err)
	require.Len(t, many.ResourceTagSets, 1)
	assert.Equal(t, one.ResourceTagSet, many.ResourceTagSets[0])
}

func set(name, kind string, values ...string) *route53.ResourceRecordSet {
	s := &route53.ResourceRecordSet{Name: aws.String(name), Type: aws.String(kind), TTL: aws.Int64(60)}
	for _, v := range values {
		s.ResourceRecords = append(s.ResourceRecords, &route53.ResourceRecord{Value: aws.String(v)})
	}
	return s
}

// sets are one record set of each kind that is served.
func sets(zone string) []*route53.ResourceRecordSet {
	weighted := set("w.sdk.test", "A", "192.0.2.10")
	weighted.SetIdentifier, weighted.Weight = aws.String("one"), aws.Int64(1)
	multi := set("m.sdk.test", "A", "192.0.2.11")
	multi.SetIdentifier, multi.MultiValueAnswer = aws.String("one"), aws.Bool(true)
	alias := &route53.ResourceRecordSet{Name: aws.String("alias.sdk.test"), Type: aws.String("A"), AliasTarget: &route53.AliasTarget{
		DNSName: aws.String("a.sdk.test"), EvaluateTargetHealth: aws.Bool(false), HostedZoneId: aws.String(strings.TrimPrefix(zone, "/hostedzone/")),
	}}
	return []*route53.ResourceRecordSet{
		set("a.sdk.test", "A", "192.0.2.1", "192.0.2.2"),
		set("aaaa.sdk.test", "AAAA", "2001:db8::1"),
		set("cname.sdk.test", "CNAME", "a.sdk.test"),
		set("sdk.test", "MX", "10 mail.sdk.test"),
		set("txt.sdk.test", "TXT", `"<&> \"quoted\""`),
		set("*.wild.sdk.test", "A", "192.0.2.3"),
		set("sdk.test", "CAA", `0 issue "ca.example.net"`),
		set("_s._tcp.sdk.test", "SRV", "1 2 443 a.sdk.test"),
		weighted, multi, alias,
	}
}

func (r tour) change(zone, action string, all ...*route53.ResourceRecordSet) (*route53.ChangeInfo, error) {
	batch := &route53.ChangeBatch{Comment: aws.String("tour")}
	for _, s := range all {
		batch.Changes = append(batch.Changes, &route53.Change{Action: aws.String(action), ResourceRecordSet: s})
	}
	out, err := r.client.ChangeResourceRecordSetsWithContext(r.t.Context(), &route53.ChangeResourceRecordSetsInput{
		HostedZoneId: aws.String(zone), ChangeBatch: batch,
	})
	if err != nil {
		return nil, err
	}
	return out.ChangeInfo, nil
}

func (r tour) records(zone string) {
	t, ctx := r.t, r.t.Context()
	info, err := r.change(zone, route53.ChangeActionCreate, sets(zone)...)
	require.NoError(t, err)
	assert.Equal(t, "tour", aws.StringValue(info.Comment))
	assert.WithinDuration(t, time.Now(), aws.TimeValue(info.SubmittedAt), time.Minute)
	testkit.Eventually(t, 30*time.Second, func() (bool, string) {
		got, err := r.client.GetChangeWithContext(ctx, &route53.GetChangeInput{Id: info.Id})
		require.NoError(t, err)
		return aws.StringValue(got.ChangeInfo.Status) == route53.ChangeStatusInsync, got.String()
	})

	var listed []*route53.ResourceRecordSet
	err = r.client.ListResourceRecordSetsPagesWithContext(ctx, &route53.ListResourceRecordSetsInput{HostedZoneId: aws.String(zone), MaxItems: aws.String("2")},
		func(page *route53.ListResourceRecordSetsOutput, _ bool) bool {
			require.LessOrEqual(t, len(page.ResourceRecordSets), 2)
			listed = append(listed, page.ResourceRecordSets...)
			return true
		})
	require.NoError(t, err)
	assert.Len(t, listed, len(sets(zone))+2)
	for _, want := range sets(zone) {
		want.Name = aws.String(strings.ReplaceAll(aws.StringValue(want.Name), "*", `\052`) + ".")
		if want.AliasTarget != nil {
			want.AliasTarget.DNSName = aws.String(aws.StringValue(want.AliasTarget.DNSName) + ".")
		}
		assert.Contains(t, listed, want, "as it was written")
	}

	answer, err := r.client.TestDNSAnswerWithContext(ctx, &route53.TestDNSAnswerInput{
		HostedZoneId: aws.String(zone), RecordName: aws.String("a.sdk.test"), RecordType: aws.String("A"),
	})
	require.NoError(t, err)
	assert.Equal(t, "NOERROR", aws.StringValue(answer.ResponseCode))
	assert.ElementsMatch(t, []string{"192.0.2.1", "192.0.2.2"}, aws.StringValueSlice(answer.RecordData))

	upserted := set("a.sdk.test", "A", "192.0.2.9")
	_, err = r.change(zone, route53.ChangeActionUpsert, upserted)
	require.NoError(t, err)
	one, err := r.client.ListResourceRecordSetsWithContext(ctx, &route53.ListResourceRecordSetsInput{
		HostedZoneId: aws.String(zone), StartRecordName: aws.String("a.sdk.test"), StartRecordType: aws.String("A"), MaxItems: aws.String("1"),
	})
	require.NoError(t, err)
	require.Len(t, one.ResourceRecordSets, 1)
	assert.Equal(t, upserted.ResourceRecords, one.ResourceRecordSets[0].ResourceRecords)
}

func (r tour) assertCode(want string, err error) {
	r.t.Helper()
	failure, ok := err.(awserr.RequestFailure)
	if assert.Truef(r.t, ok, "%v", err) {
		assert.Equal(r.t, want, failure.Code(), failure.Message())
		assert.NotEmpty(r.t, failure.RequestID())
	}
}

// refusals are errors that clients tell apart by their codes.
func (r tour) refusals(zone string) {
	t, ctx := r.t, r.t.Context()
	const absent = "Z0000000000000000000"
	_, err := r.client.GetHostedZoneWithContext(ctx, &route53.GetHostedZoneInput{Id: aws.String(absent)})
	r.assertCode(route53.ErrCodeNoSuchHostedZone, err)
	_, err = r.change(absent, route53.ChangeActionCreate, set("x.sdk.test", "A", "192.0.2.1"))
	r.assertCode(route53.ErrCodeNoSuchHostedZone, err)
	_, err = r.client.GetChangeWithContext(ctx, &route53.GetChangeInput{Id: aws.String("C0000000000000000000")})
	r.assertCode(route53.ErrCodeNoSuchChange, err)
	_, err = r.client.DeleteHostedZoneWithContext(ctx, &route53.DeleteHostedZoneInput{Id: aws.String(zone)})
	r.assertCode(route53.ErrCodeHostedZoneNotEmpty, err)
	_, err = r.client.CreateHostedZoneWithContext(ctx, &route53.CreateHostedZoneInput{Name: aws.String("other.test"), CallerReference: aws.String("ref-0")})
	r.assertCode(route53.ErrCodeHostedZoneAlreadyExists, err)
	_, err = r.change(zone, route53.ChangeActionCreate, set("cname.sdk.test", "A", "192.0.2.1"))
	r.assertCode(route53.ErrCodeInvalidChangeBatch, err)
	for _, missing := range []func() error{
		func() error {
			_, err := r.client.CreateHealthCheckWithContext(ctx, &route53.CreateHealthCheckInput{
				CallerReference: aws.String("h"), HealthCheckConfig: &route53.HealthCheckConfig{Type: aws.String("TCP"), IPAddress: aws.String("192.0.2.1"), Port: aws.Int64(1)},
			})
			return err
		},
		func() error {
			_, err := r.client.CreateReusableDelegationSetWithContext(ctx, &route53.CreateReusableDelegationSetInput{CallerReference: aws.String("d")})
			return err
		},
	} {
		failure, ok := missing().(awserr.RequestFailure)
		require.True(t, ok)
		assert.Less(t, failure.StatusCode(), 500, "what is missing is no fault of the server, and nobody retries it: %s", failure)
		assert.NotEmpty(t, failure.Code())
	}
}

func (r tour) deleteZones(first string) {
	t, ctx := r.t, r.t.Context()
	all := sets(first)
	all[0] = set("a.sdk.test", "A", "192.0.2.9")
	_, err := r.change(first, route53.ChangeActionDelete, all...)
	require.NoError(t, err)
	zones, err := r.client.ListHostedZonesWithContext(ctx, &route53.ListHostedZonesInput{})
	require.NoError(t, err)
	for _, z := range zones.HostedZones {
		deleted, err := r.client.DeleteHostedZoneWithContext(ctx, &route53.DeleteHostedZoneInput{Id: z.Id})
		require.NoError(t, err)
		assert.NotEmpty(t, aws.StringValue(deleted.ChangeInfo.Id))
	}
	left, err := r.client.ListHostedZonesWithContext(ctx, &route53.ListHostedZonesInput{})
	require.NoError(t, err)
	assert.Empty(t, left.HostedZones)
}
