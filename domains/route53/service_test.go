package route53

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	return string(text)
}

func TestReadmeNamesWhatIsServed(t *testing.T) {
	var served, table []string
	for _, m := range regexp.MustCompile(`(?m)^\| (\w+) \| served \|`).FindAllStringSubmatch(readme(t), -1) {
		served = append(served, m[1])
	}
	for _, op := range Operations(nil) {
		table = append(table, op.Name)
		assert.Equal(t, "route53", op.Service)
		read := strings.HasPrefix(op.Name, "Get") || strings.HasPrefix(op.Name, "List") || op.Name == "TestDNSAnswer"
		assert.Equal(t, !read, op.Mutating, op.Name)
	}
	assert.ElementsMatch(t, table, served)
	assert.ElementsMatch(t, api.Operations(), table)
}

func TestReadmeExamples(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	id := createZone(t, s, alice, "example.test", "1")
	examples := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(readme(t), -1)
	require.NotEmpty(t, examples)
	for _, m := range examples {
		var batch api.ChangeBatch
		require.NoError(t, json.Unmarshal([]byte(m[1]), &batch), m[1])
		_, err := s.ChangeResourceRecordSets(t.Context(), call(alice), &api.ChangeResourceRecordSetsRequest{HostedZoneId: &id, ChangeBatch: &batch})
		require.NoError(t, err, m[1])
	}
	assert.Len(t, listRecords(t, s, alice, id), 8)
}

func TestReadmeStates(t *testing.T) {
	for _, s := range []zoneState{stateActive, statePendingNameServers, statePendingDuplicate, stateReserved} {
		assert.Contains(t, readme(t), "| `"+string(s)+"` |")
	}
	for _, d := range []Delegation{DelegationTrust, DelegationBase, DelegationPublic} {
		assert.Contains(t, readme(t), "| `"+string(d)+"`")
	}
}

func TestResources(t *testing.T) {
	got := map[string][]string{}
	for _, op := range Operations(nil) {
		if op.Resources == nil {
			continue
		}
		in := op.NewInput()
		require.NoError(t, json.Unmarshal([]byte(`{"Id":"/hostedzone/Z1","HostedZoneId":"Z1","ResourceType":"hostedzone","ResourceId":"Z1","ResourceIds":["Z1","Z2"]}`), in))
		got[op.Name] = op.Resources(call(alice), in)
	}
	zone := []string{"arn:aws:route53:::hostedzone/Z1"}
	assert.Equal(t, map[string][]string{
		"GetHostedZone": zone, "UpdateHostedZoneComment": zone, "DeleteHostedZone": zone,
		"ChangeResourceRecordSets": zone, "ListResourceRecordSets": zone, "TestDNSAnswer": zone, "GetDNSSEC": zone,
		"ChangeTagsForResource": zone, "ListTagsForResource": zone,
		"ListTagsForResources": {zone[0], "arn:aws:route53:::hostedzone/Z2"},
		"GetChange":            nil, // "/hostedzone/Z1" is no change
	}, got)
	for _, op := range Operations(nil) {
		if op.Name == api.OpGetChange {
			assert.Equal(t, []string{"arn:aws:route53:::change/C1"}, op.Resources(call(alice), &api.GetChangeRequest{Id: new("/change/C1")}))
		}
	}
}

func TestNewChecksItsDeps(t *testing.T) {
	b := kvstore.Open(nil, Bucket)
	good := func() Deps {
		return Deps{Bucket: b, Servers: b, NameServers: []string{"NS1.Cloud.Test"}}
	}
	s := New(good())
	assert.Equal(t, []string{"ns1.cloud.test."}, s.deps.NameServers)
	assert.Equal(t, "hostmaster.cloud.test.", s.deps.Hostmaster)
	assert.Equal(t, DelegationTrust, s.deps.Delegation)
	for name, change := range map[string]func(*Deps){
		"bucket":       func(d *Deps) { d.Bucket = nil },
		"servers":      func(d *Deps) { d.Servers = nil },
		"name servers": func(d *Deps) { d.NameServers = nil },
		"a bad name":   func(d *Deps) { d.NameServers = []string{"a..b"} },
		"a bad zone":   func(d *Deps) { d.Reserved = []string{"a..b"} },
		"hostmaster":   func(d *Deps) { d.Hostmaster = "a..b" },
		"delegation":   func(d *Deps) { d.Delegation = "maybe" },
		"limit":        func(d *Deps) { d.MaxZones = -1 },
	} {
		d := good()
		change(&d)
		assert.Panics(t, func() { New(d) }, name)
	}
}

func TestTestDNSAnswer(t *testing.T) {
	c := newCloud(t)
	var asked []string
	var fail error
	s := c.node("n1", func(d *Deps) {
		d.Answer = func(_ context.Context, zone, name, typ string) (string, []string, string, error) {
			asked = append(asked, zone+" "+name+" "+typ)
			return "NOERROR", []string{"192.0.2.1"}, "ns1.cloud.test", fail
		}
	})
	l := c.loops(s)
	id := createZone(t, s, alice, "example.test", "1")
	ask := func(change func(*api.TestDNSAnswerRequest)) (*api.TestDNSAnswerResponse, error) {
		in := &api.TestDNSAnswerRequest{HostedZoneId: &id, RecordName: new("*.example.test"), RecordType: new("A")}
		if change != nil {
			change(in)
		}
		return s.TestDNSAnswer(t.Context(), call(alice), in)
	}
	out, err := ask(nil)
	require.NoError(t, err)
	assert.Equal(t, "REFUSED", *out.ResponseCode)
	assert.Equal(t, []string{}, out.RecordData)
	assert.Empty(t, asked, "a zone that is not published is not asked for")
	l.realize()
	out, err = ask(func(in *api.TestDNSAnswerRequest) {
		in.ResolverIP, in.EDNS0ClientSubnetIP, in.EDNS0ClientSubnetMask = new("192.0.2.9"), new("2001:db8::"), new("32")
	})
	require.NoError(t, err)
	assert.Equal(t, &api.TestDNSAnswerResponse{
		Nameserver: new("ns1.cloud.test"), Protocol: new("UDP"), RecordName: new(`\052.example.test.`), RecordType: new("A"),
		RecordData: []string{"192.0.2.1"}, ResponseCode: new("NOERROR"),
	}, out)
	assert.Equal(t, []string{"example.test. *.example.test. A"}, asked)

	for name, change := range map[string]func(*api.TestDNSAnswerRequest){
		"type":    func(in *api.TestDNSAnswerRequest) { in.RecordType = new("ANY") },
		"name":    func(in *api.TestDNSAnswerRequest) { in.RecordName = new("a..example.test") },
		"outside": func(in *api.TestDNSAnswerRequest) { in.RecordName = new("www.other.test") },
		"address": func(in *api.TestDNSAnswerRequest) { in.ResolverIP = new("here") },
		"mask":    func(in *api.TestDNSAnswerRequest) { in.EDNS0ClientSubnetMask = new("24") },
	} {
		_, err := ask(change)
		code, _ := awsCode(t, err)
		assert.Equal(t, api.CodeInvalidInput, code, name)
	}
	fail = errors.New("the server does not answer")
	_, err = ask(nil)
	assert.ErrorIs(t, err, fail)
	_, err = c.node("n2").TestDNSAnswer(t.Context(), call(alice), &api.TestDNSAnswerRequest{HostedZoneId: &id, RecordName: new("example.test"), RecordType: new("A")})
	requireCode(t, api.CodeInvalidInput, err)
}
