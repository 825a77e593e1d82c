package wire_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/aws/api/sts"
	"github.com/mulgadc/spinifex/foundation/aws/wire"
)

// decode is a whole request: matched and decoded.
func decode(s *wire.Service, method, target, contentType, body string, into any) (op string, err error) {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	req, err := s.Match(r, []byte(body))
	if err != nil {
		return "", err
	}
	return req.Operation.Name, s.Decode(req, into)
}

func requireError(t *testing.T, err error, code string, status int) *aws.Error {
	t.Helper()
	e, ok := errors.AsType[*aws.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, code, e.Code, e.Message)
	require.Equal(t, status, e.Status)
	for _, word := range []string{"xml:", "strconv", "json", "reflect", "url:", "unmarshal", "%!", "invalid URL"} {
		require.NotContains(t, e.Message, word)
	}
	return e
}

const changeBatch = `<?xml version="1.0" encoding="UTF-8"?>
<ChangeResourceRecordSetsRequest xmlns="https://route53.amazonaws.com/doc/2013-04-01/">
  <!-- a comment -->
  <ChangeBatch>
    <Comment>two changes</Comment>
    <Changes>
      <Change><Action>CREATE</Action><ResourceRecordSet><Name>*.a.test.</Name><Type>TXT</Type><TTL> 300 </TTL>
        <ResourceRecords><ResourceRecord><Value>"a &amp; b"</Value></ResourceRecord><ResourceRecord><Value><![CDATA["<c>"]]></Value></ResourceRecord></ResourceRecords>
      </ResourceRecordSet></Change>
      <Change><Action>DELETE</Action><ResourceRecordSet><Name>b.test.</Name><Type>A</Type><SetIdentifier>s</SetIdentifier><Weight>0</Weight>
        <AliasTarget><HostedZoneId>Z1</HostedZoneId><DNSName>c.test</DNSName><EvaluateTargetHealth>false</EvaluateTargetHealth></AliasTarget>
      </ResourceRecordSet></Change>
    </Changes>
  </ChangeBatch>
</ChangeResourceRecordSetsRequest>
`

func TestDecodeChangeBatch(t *testing.T) {
	s := load(t, "route53")
	want := route53.ChangeResourceRecordSetsRequest{
		HostedZoneId: new("Z1"),
		ChangeBatch: &route53.ChangeBatch{Comment: new("two changes"), Changes: []route53.Change{
			{Action: new(route53.ChangeActionCreate), ResourceRecordSet: &route53.ResourceRecordSet{
				Name: new("*.a.test."), Type: new(route53.RRTypeTXT), TTL: new(int64(300)),
				ResourceRecords: []route53.ResourceRecord{{Value: new(`"a & b"`)}, {Value: new(`"<c>"`)}},
			}},
			{Action: new(route53.ChangeActionDelete), ResourceRecordSet: &route53.ResourceRecordSet{
				Name: new("b.test."), Type: new(route53.RRTypeA), SetIdentifier: new("s"), Weight: new(int64(0)),
				AliasTarget: &route53.AliasTarget{HostedZoneId: new("Z1"), DNSName: new("c.test"), EvaluateTargetHealth: new(false)},
			}},
		}},
	}
	for _, path := range []string{"/2013-04-01/hostedzone/Z1/rrset/", "/2013-04-01/hostedzone/Z1/rrset", "/2013-04-01/hostedzone/%5A1/rrset/?unknown=1"} {
		for _, contentType := range []string{"", "text/xml", "application/xml"} {
			var got route53.ChangeResourceRecordSetsRequest
			op, err := decode(s, "POST", path, contentType, changeBatch, &got)
			require.NoError(t, err)
			assert.Equal(t, "ChangeResourceRecordSets", op)
			assert.Equal(t, want, got)
		}
	}
	var got route53.ChangeResourceRecordSetsRequest
	_, err := decode(s, "POST", "/2013-04-01/hostedzone/Z1/rrset/", "", "\ufeff"+changeBatch, &got)
	require.NoError(t, err, "a byte order mark")
	assert.Equal(t, want, got)
}

func TestDecodeFromThePathAndQuery(t *testing.T) {
	s := load(t, "route53")
	var list route53.ListResourceRecordSetsRequest
	op, err := decode(s, "GET", "/2013-04-01/hostedzone/%2Fhostedzone%2FZ1/rrset/?name=%5C052.a+b.test&type=A&maxitems=7", "", "", &list)
	require.NoError(t, err)
	assert.Equal(t, "ListResourceRecordSets", op)
	assert.Equal(t, route53.ListResourceRecordSetsRequest{
		HostedZoneId: new("/hostedzone/Z1"), StartRecordName: new(`\052.a b.test`), StartRecordType: new("A"), MaxItems: new("7"),
	}, list)

	var create route53.CreateHostedZoneRequest
	op, err = decode(s, "POST", "/2013-04-01/hostedzone", "", `<CreateHostedZoneRequest><Name>a.test</Name><CallerReference>1</CallerReference><HostedZoneConfig/></CreateHostedZoneRequest>`, &create)
	require.NoError(t, err, "a document without a namespace")
	assert.Equal(t, "CreateHostedZone", op)
	assert.Equal(t, route53.CreateHostedZoneRequest{Name: new("a.test"), CallerReference: new("1"), HostedZoneConfig: &route53.HostedZoneConfig{}}, create)

	var count route53.GetHostedZoneCountRequest
	op, err = decode(s, "GET", "/2013-04-01/hostedzonecount/", "", "ignored", &count)
	require.NoError(t, err)
	assert.Equal(t, "GetHostedZoneCount", op)
}

func TestUnknownOperations(t *testing.T) {
	s := load(t, "route53")
	for _, target := range []string{
		"GET /", "GET /2013-04-01", "PUT /2013-04-01/hostedzone", "GET /2012-12-12/hostedzone", "GET /2013-04-01/hostedzone//rrset",
		"GET /2013-04-01/hostedzone/Z1/rrset/x/y", "GET /2013-04-01/hostedzone/%FF", "GET //2013-04-01/hostedzone", "GET /2013-04-01/hostedzone/Z1//",
		"GET /" + strings.Repeat("x", 5000), "DELETE /2013-04-01/hostedzone/Z1/../Z2/..",
	} {
		method, path, _ := strings.Cut(target, " ")
		_, err := decode(s, method, path, "", "", &struct{}{})
		e := requireError(t, err, "UnknownOperationException", 404)
		assert.Less(t, len(e.Message), 2200)
	}
	s = load(t, "sts")
	for query, message := range map[string]string{
		"Action=Nope&Version=2011-06-15":              "Could not find operation Nope for version 2011-06-15",
		"Action=GetCallerIdentity&Version=2010-01-01": "Could not find operation GetCallerIdentity for version 2010-01-01",
		"Action=GetCallerIdentity":                    "Could not find operation GetCallerIdentity for version NO_VERSION_SPECIFIED",
	} {
		_, err := decode(s, "POST", "/", "application/x-www-form-urlencoded", query, &struct{}{})
		assert.Equal(t, message, requireError(t, err, "InvalidAction", 400).Message)
	}
	_, err := decode(s, "POST", "/", "", "", &struct{}{})
	requireError(t, err, "MissingAction", 400)
	_, err = decode(s, "POST", "/", "application/json", "Action=GetCallerIdentity&Version=2011-06-15", &struct{}{})
	requireError(t, err, "MissingAction", 400)
}

func TestDecodeQuery(t *testing.T) {
	s := load(t, "sts")
	const identity = "Action=GetCallerIdentity&Version=2011-06-15"
	for _, c := range []struct{ method, target, contentType, body string }{
		{"POST", "/", "application/x-www-form-urlencoded; charset=utf-8", identity},
		{"POST", "/", "application/x-www-form-urlencoded", identity + "&Unknown.member.1=x"},
		{"GET", "/?" + identity + "&X-Amz-Expires=60&X-Amz-Signature=a", "", ""},
		{"POST", "/?Action=GetCallerIdentity", "application/x-www-form-urlencoded", "Version=2011-06-15"},
	} {
		var in sts.GetCallerIdentityRequest
		op, err := decode(s, c.method, c.target, c.contentType, c.body, &in)
		require.NoError(t, err)
		assert.Equal(t, "GetCallerIdentity", op)
	}
	got := map[string]any{}
	op, err := decode(s, "POST", "/", "", "Action=AssumeRole&Version=2011-06-15&RoleArn=arn:aws:iam::123456789012:role/r&RoleSessionName=sess&DurationSeconds=900"+
		"&PolicyArns.member.1.arn=arn:aws:iam::aws:policy/A&PolicyArns.member.10.arn=arn:aws:iam::aws:policy/C&PolicyArns.member.2.arn=arn:aws:iam::aws:policy/B"+
		"&Tags.member.1.Key=k%20%2B&Tags.member.1.Value=&TransitiveTagKeys=", &got)
	require.NoError(t, err)
	assert.Equal(t, "AssumeRole", op)
	arn := func(n string) map[string]any { return map[string]any{"arn": "arn:aws:iam::aws:policy/" + n} }
	assert.Equal(t, map[string]any{
		"RoleArn": "arn:aws:iam::123456789012:role/r", "RoleSessionName": "sess", "DurationSeconds": int64(900),
		"PolicyArns":        []any{arn("A"), arn("B"), arn("C")},
		"Tags":              []any{map[string]any{"Key": "k +", "Value": ""}},
		"TransitiveTagKeys": []any{},
	}, got)
}

func TestMalformedQueries(t *testing.T) {
	s := load(t, "sts")
	const call = "Action=AssumeRole&Version=2011-06-15&RoleArn=arn:aws:iam::123456789012:role/r&RoleSessionName=sess"
	for name, body := range map[string]string{
		"escape":           call + "&a=%zz",
		"semicolon":        call + "&a=1;b=2",
		"not UTF-8":        call + "&a=%ff",
		"key not UTF-8":    call + "&%ff=a",
		"twice":            call + "&RoleArn=b",
		"no number":        call + "&Tags.member.x.Key=k",
		"negative number":  call + "&Tags.member.-1.Key=k",
		"zeros in front":   call + "&Tags.member.01.Key=k",
		"great number":     call + "&Tags.member.99999999999999999999.Key=k",
		"deep":             call + "&a" + strings.Repeat(".a", 100) + "=1",
		"many parameters":  call + strings.Repeat("&a=1", 60_000),
		"many lists of it": call + "&Tags.member.1.Key=1&Tags.member.1.Key=2",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decode(s, "POST", "/", "", body, &map[string]any{})
			requireError(t, err, "MalformedQueryString", 404)
		})
	}
	_, err := decode(s, "POST", "/?RoleArn=a", "", call, &map[string]any{})
	requireError(t, err, "MalformedQueryString", 404)
}

func TestMalformedXML(t *testing.T) {
	s := load(t, "route53")
	const open, end = `<CreateHostedZoneRequest><Name>a</Name><CallerReference>1</CallerReference>`, `</CreateHostedZoneRequest>`
	for name, c := range map[string]struct{ body, code string }{
		"blank":                  {"   ", "MalformedInput"},
		"not XML":                {"{}", "MalformedInput"},
		"cut off":                {open, "MalformedInput"},
		"cut off in a tag":       {open + "<HostedZ", "MalformedInput"},
		"wrong end":              {open + "</Name>", "MalformedInput"},
		"two documents":          {open + end + open + end, "MalformedInput"},
		"text after":             {open + end + "x", "MalformedInput"},
		"document type":          {`<!DOCTYPE x [<!ENTITY a "b">]>` + open + end, "MalformedInput"},
		"entity":                 {`<CreateHostedZoneRequest><Name>&a;</Name>` + end, "MalformedInput"},
		"other encoding":         {`<?xml version="1.0" encoding="latin-1"?>` + open + end, "MalformedInput"},
		"not UTF-8":              {"<CreateHostedZoneRequest><Name>\xff</Name>" + end, "MalformedInput"},
		"control character":      {"<CreateHostedZoneRequest><Name>\x01</Name>" + end, "MalformedInput"},
		"deep":                   {open + strings.Repeat("<HostedZoneConfig>", 100), "InvalidInput"},
		"other root":             {"<Create/>", "InvalidInput"},
		"unknown element":        {open + "<Nmae>x</Nmae>" + end, "InvalidInput"},
		"element twice":          {open + "<Name>b</Name>" + end, "InvalidInput"},
		"element in text":        {"<CreateHostedZoneRequest><Name>a<b/></Name>" + end, "InvalidInput"},
		"text among elements":    {open + "text" + end, "InvalidInput"},
		"member of the path":     {`<ChangeTagsForResourceRequest><ResourceId>a</ResourceId></ChangeTagsForResourceRequest>`, "InvalidInput"},
		"wrong element in list":  {`<ChangeTagsForResourceRequest><AddTags><member><Key>a</Key></member></AddTags></ChangeTagsForResourceRequest>`, "InvalidInput"},
		"long name in a message": {open + "<" + strings.Repeat("x", 100_000) + "/>" + end, "InvalidInput"},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/2013-04-01/hostedzone"
			if strings.Contains(c.body, "ChangeTags") {
				path = "/2013-04-01/tags/hostedzone/Z1"
			}
			_, err := decode(s, "POST", path, "", c.body, &map[string]any{})
			e := requireError(t, err, c.code, 400)
			assert.Less(t, len(e.Message), 5000)
		})
	}
}

func TestXMLBounds(t *testing.T) {
	s, err := wire.Load("route53", wire.Limits{Depth: 8, Members: 50})
	require.NoError(t, err)
	body := func(changes int, inner string) string {
		return `<ChangeResourceRecordSetsRequest><ChangeBatch><Changes>` +
			strings.Repeat(`<Change><Action>CREATE</Action><ResourceRecordSet><Name>a</Name><Type>A</Type>`+inner+`</ResourceRecordSet></Change>`, changes) +
			`</Changes></ChangeBatch></ChangeResourceRecordSetsRequest>`
	}
	const path = "/2013-04-01/hostedzone/Z1/rrset/"
	var in route53.ChangeResourceRecordSetsRequest
	_, err = decode(s, "POST", path, "", body(9, ""), &in)
	require.NoError(t, err)
	_, err = decode(s, "POST", path, "", body(10, ""), &in)
	assert.Contains(t, requireError(t, err, "MalformedInput", 400).Message, "more than 50 elements")
	_, err = decode(s, "POST", path, "", body(1, "<ResourceRecords><ResourceRecord><Value>1</Value></ResourceRecord></ResourceRecords>"), &in)
	require.NoError(t, err)
	s, err = wire.Load("route53", wire.Limits{Depth: 7})
	require.NoError(t, err)
	_, err = decode(s, "POST", path, "", body(1, "<ResourceRecords><ResourceRecord><Value>1</Value></ResourceRecord></ResourceRecords>"), &in)
	assert.Contains(t, requireError(t, err, "MalformedInput", 400).Message, "deeper than 7 levels")
	_, err = wire.Load("route53", wire.Limits{Depth: -1})
	require.Error(t, err)
}

func TestValidation(t *testing.T) {
	r53, token := load(t, "route53"), load(t, "sts")
	change := func(rrset string) string {
		return `<ChangeResourceRecordSetsRequest><ChangeBatch><Changes>` + rrset + `</Changes></ChangeBatch></ChangeResourceRecordSetsRequest>`
	}
	const rrset, role = "/2013-04-01/hostedzone/Z1/rrset/", "Action=AssumeRole&Version=2011-06-15&RoleArn=arn:aws:iam::123456789012:role/r&RoleSessionName=sess"
	for name, c := range map[string]struct {
		service      *wire.Service
		target, body string
		want         string
	}{
		"nothing given": {r53, "/2013-04-01/hostedzone", "", "2 validation errors detected: " +
			"Value null at 'callerReference' failed to satisfy constraint: Member must not be null; Value null at 'name' failed to satisfy constraint: Member must not be null"},
		"every fault of a batch": {r53, rrset, change(`<Change><Action>MAKE</Action><ResourceRecordSet><Name>a</Name><Type>A</Type><TTL>x</TTL><Weight>256</Weight></ResourceRecordSet></Change><Change/>`),
			"5 validation errors detected: " +
				"Value 'MAKE' at 'changeBatch.changes.1.member.action' failed to satisfy constraint: Member must satisfy enum value set: [CREATE, DELETE, UPSERT]; " +
				"Value 'x' at 'changeBatch.changes.1.member.resourceRecordSet.tTL' failed to satisfy constraint: Member must be a whole number from -9223372036854775808 to 9223372036854775807; " +
				"Value '256' at 'changeBatch.changes.1.member.resourceRecordSet.weight' failed to satisfy constraint: Member must have value less than or equal to 255; " +
				"Value null at 'changeBatch.changes.2.member.action' failed to satisfy constraint: Member must not be null; " +
				"Value null at 'changeBatch.changes.2.member.resourceRecordSet' failed to satisfy constraint: Member must not be null"},
		"empty list": {r53, rrset, change(""), "1 validation error detected: " +
			"Value at 'changeBatch.changes' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		"long id": {r53, "/2013-04-01/hostedzone/" + strings.Repeat("Z", 33) + "/rrset/", change(`<Change><Action>CREATE</Action><ResourceRecordSet><Name>a</Name><Type>A</Type></ResourceRecordSet></Change>`),
			"1 validation error detected: Value '" + strings.Repeat("Z", 33) + "' at 'hostedZoneId' failed to satisfy constraint: Member must have length less than or equal to 32"},
		"list of texts": {r53, "/2013-04-01/tags/hostedzone", "<ListTagsForResourcesRequest><ResourceIds>" + strings.Repeat("<ResourceId>a</ResourceId>", 11) + "</ResourceIds></ListTagsForResourcesRequest>",
			"1 validation error detected: Value '[a, a, a, a, a, a, a, a, a, a, a]' at 'resourceIds' failed to satisfy constraint: Member must have length less than or equal to 10"},
		"label": {r53, "/2013-04-01/tags/zone/Z1", "<ChangeTagsForResourceRequest/>",
			"1 validation error detected: Value 'zone' at 'resourceType' failed to satisfy constraint: Member must satisfy enum value set: [healthcheck, hostedzone]"},
		"number": {token, "/", role + "&DurationSeconds=1", "1 validation error detected: " +
			"Value '1' at 'durationSeconds' failed to satisfy constraint: Member must have value greater than or equal to 900"},
		"no number": {token, "/", role + "&DurationSeconds=9e3", "1 validation error detected: " +
			"Value '9e3' at 'durationSeconds' failed to satisfy constraint: Member must be a whole number from -2147483648 to 2147483647"},
		"pattern": {token, "/", role + "&SerialNumber=123456%20789", "1 validation error detected: " +
			`Value '123456 789' at 'serialNumber' failed to satisfy constraint: Member must satisfy regular expression pattern: [\w+=/:,.@-]*`},
	} {
		t.Run(name, func(t *testing.T) {
			code := "InvalidInput"
			if c.service == token {
				code = "ValidationError"
			}
			_, err := decode(c.service, "POST", c.target, "", c.body, &map[string]any{})
			assert.Equal(t, c.want, requireError(t, err, code, 400).Message)
		})
	}
}

func TestValidationShowsNoSecretAndStaysShort(t *testing.T) {
	token := load(t, "sts")
	_, err := decode(token, "POST", "/", "", "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn:aws:iam::123456789012:role/r&RoleSessionName=sess&WebIdentityToken=abc", &map[string]any{})
	assert.Equal(t, "1 validation error detected: Value at 'webIdentityToken' failed to satisfy constraint: Member must have length greater than or equal to 4",
		requireError(t, err, "ValidationError", 400).Message)

	_, err = decode(load(t, "route53"), "POST", "/2013-04-01/hostedzone/Z1/rrset/", "",
		`<ChangeResourceRecordSetsRequest><ChangeBatch><Changes>`+strings.Repeat(`<Change><Action>`+strings.Repeat("x", 1000)+`</Action></Change>`, 500)+`</Changes></ChangeBatch></ChangeResourceRecordSetsRequest>`,
		&map[string]any{})
	e := requireError(t, err, "InvalidInput", 400)
	assert.True(t, strings.HasPrefix(e.Message, "1000 validation errors detected: "))
	assert.Less(t, len(e.Message), 60_000)
}

func TestPatternsThatAreSkipped(t *testing.T) {
	for _, name := range []string{"route53", "sts"} {
		assert.Empty(t, load(t, name).SkippedPatterns(), name)
	}
}

func TestReadBody(t *testing.T) {
	b, err := wire.ReadBody(strings.NewReader("12345"), 5)
	require.NoError(t, err)
	assert.Equal(t, "12345", string(b))
	_, err = wire.ReadBody(strings.NewReader("123456"), 5)
	requireError(t, err, "RequestEntityTooLarge", http.StatusRequestEntityTooLarge)
	_, err = wire.ReadBody(http.MaxBytesReader(httptest.NewRecorder(), http.NoBody, 5), 5)
	require.NoError(t, err)
	r := httptest.NewRequest("POST", "/", bytes.NewReader(make([]byte, 10)))
	_, err = wire.ReadBody(http.MaxBytesReader(httptest.NewRecorder(), r.Body, 4), 5)
	requireError(t, err, "RequestEntityTooLarge", http.StatusRequestEntityTooLarge)
	_, err = wire.ReadBody(iotest.ErrReader(errors.New("read tcp: reset")), 5)
	e, ok := errors.AsType[*aws.Error](err)
	require.True(t, ok)
	assert.Equal(t, "IncompleteBody", e.Code)
	assert.NotContains(t, e.Message, "tcp")
	b, err = wire.ReadBody(nil, 5)
	require.NoError(t, err)
	assert.Empty(t, b)
}

func TestDecodeIntoWrongTypes(t *testing.T) {
	s := load(t, "route53")
	for _, into := range []any{nil, struct{}{}, (*route53.GetChangeRequest)(nil), &struct{}{}, new(string),
		&struct {
			Id *int64 `json:"Id"`
		}{}, &map[string]int{}} {
		_, err := decode(s, "GET", "/2013-04-01/change/C1", "", "", into)
		require.Error(t, err, "%T", into)
		_, ok := errors.AsType[*aws.Error](err)
		assert.False(t, ok, "%T is the server's fault", into)
	}
}
