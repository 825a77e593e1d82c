package twonode

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/awserr"
	"github.com/aws/aws-sdk-go/service/route53"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/cloud"
	"github.com/mulgadc/spinifex/internal/testkit"
)

const zoneName = "two.test."

// zone is a hosted zone and the record changes made in it through one gateway.
type zone struct {
	client *route53.Route53
	id     string
	// acknowledged counts the changes whose call was answered with success, or that turned out to
	// have landed when a call without an answer was repeated.
	acknowledged atomic.Int64
	lastChange   atomic.Pointer[string]
}

func createZone(t *testing.T, through *cloud.Node) *zone {
	t.Helper()
	z := &zone{client: route53.New(through.Session())}
	created, err := z.client.CreateHostedZoneWithContext(t.Context(), &route53.CreateHostedZoneInput{
		Name: aws.String(zoneName), CallerReference: aws.String("two"),
	})
	require.NoError(t, err)
	z.id = aws.StringValue(created.HostedZone.Id)
	z.lastChange.Store(created.ChangeInfo.Id)
	return z
}

func recordName(i int) string { return fmt.Sprintf("r%d.%s", i, zoneName) }

// create creates record i. A call that gets no answer is repeated, as a careful client does: the
// repetition either lands, or is told that the record exists.
func (z *zone) create(t *testing.T, i int) {
	t.Helper()
	input := &route53.ChangeResourceRecordSetsInput{
		HostedZoneId: aws.String(z.id),
		ChangeBatch: &route53.ChangeBatch{Changes: []*route53.Change{{
			Action: aws.String(route53.ChangeActionCreate),
			ResourceRecordSet: &route53.ResourceRecordSet{
				Name: aws.String(recordName(i)), Type: aws.String(route53.RRTypeTxt), TTL: aws.Int64(60),
				ResourceRecords: []*route53.ResourceRecord{{Value: aws.String(fmt.Sprintf("%q", fmt.Sprint(i)))}},
			},
		}}},
	}
	repeated := false
	testkit.Eventually(t, 90*time.Second, func() (bool, string) {
		out, err := z.client.ChangeResourceRecordSetsWithContext(t.Context(), input)
		if err == nil {
			z.lastChange.Store(out.ChangeInfo.Id)
			return true, ""
		}
		failure, _ := err.(awserr.Error)
		exists := failure != nil && failure.Code() == route53.ErrCodeInvalidChangeBatch && strings.Contains(err.Error(), "exists")
		if exists && repeated {
			return true, ""
		}
		require.Falsef(t, exists, "record %d exists before it was asked for: %s", i, err)
		repeated = true
		return false, err.Error()
	})
	z.acknowledged.Add(1)
}

// waitInSync waits until every live DNS server answers with the last change.
func (z *zone) waitInSync(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, 40*time.Second, func() (bool, string) {
		out, err := z.client.GetChangeWithContext(t.Context(), &route53.GetChangeInput{Id: z.lastChange.Load()})
		if err != nil {
			return false, err.Error()
		}
		status := aws.StringValue(out.ChangeInfo.Status)
		return status == route53.ChangeStatusInsync, status
	})
}

// assertRecords wants exactly the records 0 to n-1, in the API and in the DNS of a node.
func (z *zone) assertRecords(t *testing.T, node *cloud.Node, n int) {
	t.Helper()
	var got, want []string
	err := z.client.ListResourceRecordSetsPagesWithContext(t.Context(), &route53.ListResourceRecordSetsInput{HostedZoneId: aws.String(z.id)},
		func(page *route53.ListResourceRecordSetsOutput, _ bool) bool {
			for _, set := range page.ResourceRecordSets {
				if aws.StringValue(set.Type) == route53.RRTypeTxt {
					got = append(got, aws.StringValue(set.Name)+" "+aws.StringValue(set.ResourceRecords[0].Value))
				}
			}
			return true
		})
	require.NoError(t, err)
	for i := range n {
		want = append(want, fmt.Sprintf("%s %q", recordName(i), fmt.Sprint(i)))
	}
	slices.Sort(got)
	slices.Sort(want)
	assert.Equal(t, want, got, "what the API lists")

	client := &dns.Client{Timeout: 5 * time.Second}
	for i := range n {
		query := new(dns.Msg).SetQuestion(recordName(i), dns.TypeTXT)
		answer, _, err := client.ExchangeContext(t.Context(), query, node.DNS)
		require.NoError(t, err)
		require.Len(t, answer.Answer, 1, "%s", answer)
		assert.Equal(t, []string{fmt.Sprint(i)}, answer.Answer[0].(*dns.TXT).Txt)
	}
}
