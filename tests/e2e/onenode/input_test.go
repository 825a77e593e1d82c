package onenode

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBadCredentials(t *testing.T) {
	node := start(t)
	value, err := node.Session().Config.Credentials.Get()
	require.NoError(t, err)

	r := node.AWSWith([]string{"AWS_ACCESS_KEY_ID=" + value.AccessKeyID, "AWS_SECRET_ACCESS_KEY=wrong"}, "sts", "get-caller-identity")
	assert.NotZero(t, r.Status)
	assert.Contains(t, r.Stderr, "SignatureDoesNotMatch")

	r = node.AWSWith([]string{"AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY=wrong"}, "route53", "list-hosted-zones")
	assert.NotZero(t, r.Status)
	assert.Contains(t, r.Stderr, "InvalidClientTokenId")

	assert.NotContains(t, node.Output(), value.SecretAccessKey, "the log holds no secret")
}

const form = "application/x-www-form-urlencoded; charset=utf-8"

func TestBadRequests(t *testing.T) {
	node := start(t)
	const zones = "/2013-04-01/hostedzone"
	for _, c := range []struct {
		name, service, method, path, contentType, body string
		status                                         int
		code                                           string
	}{
		{"an unknown query action", "sts", "POST", "/", form, "Action=NoSuchAction&Version=2011-06-15", 400, "InvalidAction"},
		{"an operation that is not served", "route53", "POST", "/2013-04-01/nonsense", "", "", 404, "UnknownOperationException"},
		{"broken XML", "route53", "POST", zones, "text/xml", "<CreateHostedZoneRequest><Name>x", 400, "MalformedInput"},
		{"a body that is no XML", "route53", "POST", zones, "text/xml", "{\"Name\": \"x\"}", 400, "MalformedInput"},
		{"a body over the limit", "route53", "POST", zones, "text/xml", "<CreateHostedZoneRequest>" + strings.Repeat("x", 64<<20), 413, "RequestEntityTooLarge"},
		{"a required member missing", "route53", "POST", zones, "text/xml",
			`<CreateHostedZoneRequest xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Name>x.test</Name></CreateHostedZoneRequest>`, 400, "InvalidInput"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := node.Send(c.service, c.method, c.path, c.contentType, c.body)
			assert.Equal(t, c.status, got.Status, got.Body)
			assert.Contains(t, got.Body, "<Code>"+c.code+"</Code>")
			assert.NotEmpty(t, got.Header.Get("x-amzn-RequestId"))
			assert.NotContains(t, got.Body, "goroutine", "no stack")
		})
	}
	// After all of that it still serves.
	node.Decode(nil, "sts", "get-caller-identity")
}

// TestInvalidChangeBatchNamesEveryFault sends one good and three bad changes.
func TestInvalidChangeBatchNamesEveryFault(t *testing.T) {
	node := start(t)
	zone := makeZone(t, node)
	list := func() string {
		r := node.AWS("route53", "list-resource-record-sets", "--hosted-zone-id", zone)
		require.Equal(t, 0, r.Status, r.Stderr)
		return r.Stdout
	}
	before := list()
	r := node.AWS("route53", "change-resource-record-sets", "--hosted-zone-id", zone, "--change-batch", `{"Changes": [
 {"Action": "CREATE", "ResourceRecordSet": {"Name": "good.example.test", "Type": "A", "TTL": 60, "ResourceRecords": [{"Value": "192.0.2.9"}]}},
 {"Action": "CREATE", "ResourceRecordSet": {"Name": "www.example.test", "Type": "A", "TTL": 60, "ResourceRecords": [{"Value": "192.0.2.9"}]}},
 {"Action": "DELETE", "ResourceRecordSet": {"Name": "absent.example.test", "Type": "A", "TTL": 60, "ResourceRecords": [{"Value": "192.0.2.9"}]}},
 {"Action": "CREATE", "ResourceRecordSet": {"Name": "bad.example.test", "Type": "A", "TTL": 60, "ResourceRecords": [{"Value": "not-an-address"}]}}]}`)
	assert.NotZero(t, r.Status)
	assert.Contains(t, r.Stderr, "InvalidChangeBatch")
	for _, name := range []string{"www.example.test", "absent.example.test", "not-an-address"} {
		assert.Contains(t, r.Stderr, name)
	}
	assert.Equal(t, before, list(), "all or none")
	assert.Empty(t, node.Dig("good.example.test", "A"))
}
