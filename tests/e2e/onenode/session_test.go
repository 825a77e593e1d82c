package onenode

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/cloud"
	"github.com/mulgadc/spinifex/internal/process"
)

// batch has one of each kind of record that a first session tries.
const batch = `{"Comment": "first session", "Changes": [
 {"Action": "CREATE", "ResourceRecordSet": {"Name": "www.example.test", "Type": "A", "TTL": 60, "ResourceRecords": [{"Value": "192.0.2.1"}, {"Value": "192.0.2.2"}]}},
 {"Action": "CREATE", "ResourceRecordSet": {"Name": "alias.example.test", "Type": "CNAME", "TTL": 60, "ResourceRecords": [{"Value": "www.example.test"}]}},
 {"Action": "CREATE", "ResourceRecordSet": {"Name": "txt.example.test", "Type": "TXT", "TTL": 60, "ResourceRecords": [{"Value": "\"v=spf1 -all\" \"two\""}]}},
 {"Action": "CREATE", "ResourceRecordSet": {"Name": "example.test", "Type": "MX", "TTL": 60, "ResourceRecords": [{"Value": "10 mail.example.test"}, {"Value": "20 mx.example.net."}]}},
 {"Action": "CREATE", "ResourceRecordSet": {"Name": "*.wild.example.test", "Type": "A", "TTL": 60, "ResourceRecords": [{"Value": "192.0.2.3"}]}},
 {"Action": "CREATE", "ResourceRecordSet": {"Name": "w.example.test", "Type": "A", "TTL": 60, "SetIdentifier": "all", "Weight": 10, "ResourceRecords": [{"Value": "192.0.2.10"}]}},
 {"Action": "CREATE", "ResourceRecordSet": {"Name": "w.example.test", "Type": "A", "TTL": 60, "SetIdentifier": "none", "Weight": 0, "ResourceRecords": [{"Value": "192.0.2.11"}]}}]}`

// makeZone makes the zone example.test with the records of batch and waits until they are served.
func makeZone(t *testing.T, node *cloud.Node) (zoneID string) {
	t.Helper()
	var created struct {
		HostedZone    struct{ Id, Name string }
		DelegationSet struct{ NameServers []string }
	}
	node.Decode(&created, "route53", "create-hosted-zone", "--name", "example.test", "--caller-reference", "1")
	assert.Equal(t, "example.test.", created.HostedZone.Name)
	assert.NotEmpty(t, created.DelegationSet.NameServers)

	var changed struct{ ChangeInfo struct{ Id, Status string } }
	node.Decode(&changed, "route53", "change-resource-record-sets", "--hosted-zone-id", created.HostedZone.Id, "--change-batch", batch)
	node.Decode(nil, "route53", "wait", "resource-record-sets-changed", "--id", changed.ChangeInfo.Id)
	return created.HostedZone.Id
}

func assertServed(t *testing.T, node *cloud.Node) {
	t.Helper()
	sorted := func(lines []string) []string { slices.Sort(lines); return lines }
	assert.Equal(t, []string{"192.0.2.1", "192.0.2.2"}, sorted(node.Dig("www.example.test", "A")))
	assert.Equal(t, []string{"192.0.2.1", "192.0.2.2", "www.example.test."}, sorted(node.Dig("alias.example.test", "A")))
	assert.Equal(t, []string{`"v=spf1 -all" "two"`}, node.Dig("txt.example.test", "TXT"))
	assert.Equal(t, []string{"10 mail.example.test.", "20 mx.example.net."}, sorted(node.Dig("example.test", "MX")))
	assert.Equal(t, []string{"192.0.2.3"}, node.Dig("anything.at.all.wild.example.test", "A"))
	assert.Equal(t, []string{"192.0.2.10"}, node.Dig("+tcp", "w.example.test", "A"), "the set of weight 0 is never chosen")

	missing := node.DigFull("missing.example.test", "A").Stdout
	assert.Contains(t, missing, "status: NXDOMAIN")
	assert.Contains(t, missing, "SOA", "a negative answer carries the zone's SOA")
	assert.Contains(t, node.DigFull("www.elsewhere.test", "A").Stdout, "status: REFUSED")
}

// TestFirstSession is the README's first session, with a power cut in the middle.
func TestFirstSession(t *testing.T) {
	node := start(t)

	var who struct{ Account, Arn, UserId string }
	node.Decode(&who, "sts", "get-caller-identity")
	assert.Equal(t, "000000000001", who.Account)
	assert.True(t, strings.HasPrefix(who.Arn, "arn:aws:iam::000000000001:"), who.Arn)

	zone := makeZone(t, node)
	assertServed(t, node)
	before := node.AWS("route53", "list-resource-record-sets", "--hosted-zone-id", zone)
	require.Equal(t, 0, before.Status, before.Stderr)
	credentials := credentialsFile(t, node)

	node.Kill()
	node.Start()
	node.WaitReady()
	assertServed(t, node)
	after := node.AWS("route53", "list-resource-record-sets", "--hosted-zone-id", zone)
	assert.Equal(t, before.Stdout, after.Stdout, "nothing acknowledged is lost, nothing is doubled")
	assert.Equal(t, credentials, credentialsFile(t, node), "the administrator's keys are made once")

	node.Stop()
}

func credentialsFile(t *testing.T, node *cloud.Node) string {
	t.Helper()
	path := filepath.Join(node.Dir, "aws", "credentials")
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

func TestLocksAreListed(t *testing.T) {
	node := start(t)
	leases := node.Leases()
	assert.ElementsMatch(t, []string{"dns.reconcile", "route53.realize", "route53.verify"}, slices.Collect(keys(leases)))
	for _, lease := range leases {
		assert.Truef(t, strings.HasPrefix(lease.Holder, node.Name()+"/"), "%+v", lease)
		assert.Positivef(t, lease.Generation, "%+v", lease)
	}
	table := node.Spinifex("locks", "ls")
	assert.Equal(t, 0, table.Status, table.Stderr)
	assert.Contains(t, table.Stdout, "route53.realize")
}

func keys(leases []cloud.Lease) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, l := range leases {
			if !yield(l.Key) {
				return
			}
		}
	}
}

func TestVersionNeedsNoNode(t *testing.T) {
	node := cloud.New(t, cloud.Options{Binary: binary})
	text := node.Run("version")
	require.Equal(t, 0, text.Status, text.Stderr)
	assert.NotEmpty(t, text.Stdout)
	asJSON := node.Run("version", "--output", "json")
	require.Equal(t, 0, asJSON.Status, asJSON.Stderr)
	assert.True(t, json.Valid([]byte(asJSON.Stdout)), asJSON.Stdout)
}

// TestReadmesFirstSession runs the commands that the README shows, as they stand there.
func TestReadmesFirstSession(t *testing.T) {
	root, err := process.Root()
	require.NoError(t, err)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(readme), "\n## A first session\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := strings.Split(section, "\n```\n")
	require.Len(t, blocks, 5, "two blocks of commands: the settings, the session")
	script := blocks[3]
	require.Contains(t, script, "-p 1053 ", "the default port")

	node := start(t)
	_, port, err := net.SplitHostPort(node.DNS)
	require.NoError(t, err)
	r := node.Shell("set -eu\n" + strings.ReplaceAll(script, "-p 1053 ", "-p "+port+" "))
	require.Equal(t, 0, r.Status, "%s%s", r.Stdout, r.Stderr)
	assert.Regexp(t, `(?m)^www\.example\.test\.\s+60\s+IN\s+A\s+192\.0\.2\.1$`, r.Stdout)
	assert.Regexp(t, `(?m)^any\.dev\.example\.test\.\s+60\s+IN\s+CNAME\s+www\.example\.test\.$`, r.Stdout)
}
