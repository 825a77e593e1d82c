package modelcheck_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/aws/api/sts"
	"github.com/mulgadc/spinifex/foundation/aws/modelcheck"
	"github.com/mulgadc/spinifex/foundation/aws/models"
	"github.com/mulgadc/spinifex/foundation/aws/wire"
)

func checker(t *testing.T, name string) *modelcheck.Checker {
	t.Helper()
	m, err := models.Load(name)
	require.NoError(t, err)
	c, err := modelcheck.New(m)
	require.NoError(t, err)
	return c
}

func headers(more ...string) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "text/xml")
	h.Set("X-Amzn-Requestid", "r")
	for i := 0; i < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

func texts(fs []modelcheck.Finding) []string {
	var out []string
	for _, f := range fs {
		out = append(out, strings.TrimPrefix(f.String(), f.Operation+" "))
	}
	return out
}

const (
	r53NS = ` xmlns="https://route53.amazonaws.com/doc/2013-04-01/"`
	stsNS = ` xmlns="https://sts.amazonaws.com/doc/2011-06-15/"`
)

// What the encoder writes is faultless.
func TestTheEncoderPasses(t *testing.T) {
	r53, err := wire.Load("route53", wire.Limits{})
	require.NoError(t, err)
	token, err := wire.Load("sts", wire.Limits{})
	require.NoError(t, err)
	now := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	zone := route53.HostedZone{Id: new("/hostedzone/Z1"), Name: new("a."), CallerReference: new("1"), Config: &route53.HostedZoneConfig{PrivateZone: new(false)}}
	change := &route53.ChangeInfo{Id: new("/change/C1"), Status: new(route53.ChangeStatusInsync), SubmittedAt: &now}
	for op, out := range map[string]any{
		"CreateHostedZone":         &route53.CreateHostedZoneResponse{HostedZone: &zone, ChangeInfo: change, DelegationSet: &route53.DelegationSet{NameServers: []string{"ns."}}, Location: new("https://x/y")},
		"GetChange":                &route53.GetChangeResponse{ChangeInfo: change},
		"ListHostedZones":          &route53.ListHostedZonesResponse{HostedZones: []route53.HostedZone{zone, zone}, Marker: new(""), MaxItems: new("100"), IsTruncated: new(false)},
		"ListResourceRecordSets":   &route53.ListResourceRecordSetsResponse{IsTruncated: new(false), MaxItems: new("1")},
		"ChangeTagsForResource":    &route53.ChangeTagsForResourceResponse{},
		"TestDNSAnswer":            &route53.TestDNSAnswerResponse{Nameserver: new("n"), RecordName: new("r"), RecordType: new("A"), ResponseCode: new("NOERROR"), Protocol: new("UDP"), RecordData: []string{"192.0.2.1"}},
		"ChangeResourceRecordSets": &route53.ChangeResourceRecordSetsResponse{ChangeInfo: change},
	} {
		w := httptest.NewRecorder()
		require.NoError(t, r53.Encode(w, op, out, "r"))
		assert.Empty(t, checker(t, "route53").Check(op, w.Code, w.Header(), w.Body.Bytes()), op)
	}
	w := httptest.NewRecorder()
	require.NoError(t, token.Encode(w, "GetCallerIdentity", &sts.GetCallerIdentityResponse{Account: new("000000000001"), Arn: new("arn:aws:iam::000000000001:root"), UserId: new("x")}, "r"))
	assert.Empty(t, checker(t, "sts").Check("GetCallerIdentity", w.Code, w.Header(), w.Body.Bytes()))

	for _, e := range []*aws.Error{
		aws.Errorf("NoSuchHostedZone", "m"), aws.Errorf("InvalidInput", "m"), aws.Errorf("InternalFailure", "m"), aws.Errorf("SignatureDoesNotMatch", "m"),
		{Code: "InvalidChangeBatch", Detail: &route53.InvalidChangeBatch{Messages: []string{"a", "b"}}},
	} {
		w := httptest.NewRecorder()
		require.NoError(t, r53.EncodeError(w, "ChangeResourceRecordSets", e, "r"))
		assert.Empty(t, checker(t, "route53").Check("ChangeResourceRecordSets", w.Code, w.Header(), w.Body.Bytes()), e.Code)
	}
}

func TestFindings(t *testing.T) {
	const info = `<ChangeInfo><Id>C</Id><Status>INSYNC</Status><SubmittedAt>2026-01-02T03:04:05Z</SubmittedAt></ChangeInfo>`
	const zone = `<HostedZone><Id>Z</Id><Name>a.</Name><CallerReference>1</CallerReference></HostedZone>`
	list := func(inner string) string {
		return `<ListHostedZonesResponse` + r53NS + `><HostedZones>` + inner + `</HostedZones><Marker/><IsTruncated>false</IsTruncated><MaxItems>1</MaxItems></ListHostedZonesResponse>`
	}
	for name, c := range map[string]struct {
		op     string
		status int
		header http.Header
		body   string
		want   []string
	}{
		"good":                {"GetChange", 200, headers(), `<GetChangeResponse` + r53NS + `>` + info + `</GetChangeResponse>`, nil},
		"unknown operation":   {"Nope", 200, headers(), ``, []string{"unknown operation: the model does not have it"}},
		"no request id":       {"GetChange", 200, http.Header{"Content-Type": {"text/xml"}}, `<GetChangeResponse` + r53NS + `>` + info + `</GetChangeResponse>`, []string{"required header x-amzn-RequestId"}},
		"status":              {"GetChange", 201, headers(), `<GetChangeResponse` + r53NS + `>` + info + `</GetChangeResponse>`, []string{"status 201, the model says 200"}},
		"broken":              {"GetChange", 200, headers(), `<a>`, []string{"body not XML: XML syntax error on line 1: unexpected EOF"}},
		"two roots":           {"GetChange", 200, headers(), `<a/><b/>`, []string{"body not XML: 2 root elements"}},
		"content type":        {"GetChange", 200, headers("Content-Type", "application/json"), `<GetChangeResponse` + r53NS + `>` + info + `</GetChangeResponse>`, []string{`body content type "application/json"`}},
		"namespace":           {"GetChange", 200, headers(), `<GetChangeResponse>` + info + `</GetChangeResponse>`, []string{`body namespace "", the model says "https://route53.amazonaws.com/doc/2013-04-01/"`}},
		"root":                {"GetChange", 200, headers(), `<GetChangeResult` + r53NS + `>` + info + `</GetChangeResult>`, []string{"body root <GetChangeResult>, the model says <GetChangeResponse>"}},
		"member absent":       {"GetChange", 200, headers(), `<GetChangeResponse` + r53NS + `/>`, []string{"required .ChangeInfo"}},
		"member unknown":      {"GetChange", 200, headers(), `<GetChangeResponse` + r53NS + `>` + info + `<Extra/></GetChangeResponse>`, []string{"unknown .Extra"}},
		"member twice":        {"GetChange", 200, headers(), `<GetChangeResponse` + r53NS + `>` + info + info + `</GetChangeResponse>`, []string{"unknown .ChangeInfo, a second time"}},
		"enum and time":       {"GetChange", 200, headers(), `<GetChangeResponse` + r53NS + `><ChangeInfo><Id>C</Id><Status>DONE</Status><SubmittedAt>1767323045</SubmittedAt></ChangeInfo></GetChangeResponse>`, []string{"enum .ChangeInfo.Status=DONE", `type .ChangeInfo.SubmittedAt="1767323045" is no timestamp`}},
		"list element":        {"ListHostedZones", 200, headers(), list(strings.ReplaceAll(zone, "HostedZone>", "member>")), []string{"unknown .HostedZones.<member>, the model says <HostedZone>"}},
		"list without":        {"ListHostedZones", 200, headers(), list("") + "", nil},
		"inside of a list":    {"ListHostedZones", 200, headers(), list(`<HostedZone><Id>Z</Id><Name>a.</Name><ResourceRecordSetCount>x</ResourceRecordSetCount></HostedZone>`), []string{`type .HostedZones[].ResourceRecordSetCount="x" is no long`, "required .HostedZones[].CallerReference"}},
		"boolean":             {"ListHostedZones", 200, headers(), strings.Replace(list(zone), "false", "False", 1), []string{`type .IsTruncated="False" is no boolean`}},
		"text in a structure": {"GetChange", 200, headers(), `<GetChangeResponse` + r53NS + `>` + info + `text</GetChangeResponse>`, []string{"type : text where elements belong"}},
		"text in a list":      {"ListHostedZones", 200, headers(), list(zone + "text"), []string{"type .HostedZones: text where elements belong"}},
		"element in a text":   {"GetChange", 200, headers(), `<GetChangeResponse` + r53NS + `>` + strings.Replace(info, ">C<", "><a/><", 1) + `</GetChangeResponse>`, []string{"type .ChangeInfo.Id: <a> inside a string"}},
		"header absent": {"CreateHostedZone", 201, headers(), `<CreateHostedZoneResponse` + r53NS + `>` + zone + info + `<DelegationSet><NameServers><NameServer>n</NameServer></NameServers></DelegationSet></CreateHostedZoneResponse>`,
			[]string{"required header Location"}},
		"error code":         {"GetChange", 400, headers(), `<ErrorResponse` + r53NS + `><Error><Type>Sender</Type><Code>NoSuchThing</Code><Message>m</Message></Error><RequestId>r</RequestId></ErrorResponse>`, []string{"error NoSuchThing (400) is not modelled; modelled: NoSuchChange, InvalidInput"}},
		"error status":       {"GetChange", 400, headers(), `<ErrorResponse` + r53NS + `><Error><Type>Sender</Type><Code>NoSuchChange</Code><Message>m</Message></Error><RequestId>r</RequestId></ErrorResponse>`, []string{"error NoSuchChange with status 400, the model says 404"}},
		"error type":         {"GetChange", 404, headers(), `<ErrorResponse` + r53NS + `><Error><Type>Receiver</Type><Code>NoSuchChange</Code><Message>m</Message></Error><RequestId>r</RequestId></ErrorResponse>`, []string{"enum <Type>Receiver with status 404"}},
		"error empty":        {"GetChange", 404, headers(), `<ErrorResponse` + r53NS + `><Error/></ErrorResponse>`, []string{"required <RequestId>", "required <Error><Type>", "required <Error><Code>", "required <Error><Message>"}},
		"error root":         {"GetChange", 404, headers(), `<Response` + r53NS + `><Error><Type>Sender</Type><Code>NoSuchChange</Code><Message>m</Message></Error><RequestId>r</RequestId></Response>`, []string{"body root <Response>, the protocol says <ErrorResponse>"}},
		"error without form": {"GetChange", 404, headers(), `<Oops` + r53NS + `><RequestId>r</RequestId></Oops>`, []string{"body <Oops> without <Error>"}},
		"batch without list": {"ChangeResourceRecordSets", 400, headers(), `<ErrorResponse` + r53NS + `><Error><Type>Sender</Type><Code>InvalidChangeBatch</Code><Message>m</Message></Error><RequestId>r</RequestId></ErrorResponse>`, []string{"body root <ErrorResponse>, the protocol says <InvalidChangeBatch>", "required <Messages><Message>"}},
		"batch of members":   {"ChangeResourceRecordSets", 400, headers(), `<InvalidChangeBatch` + r53NS + `><Error><Type>Sender</Type><Code>InvalidChangeBatch</Code><Message>m</Message></Error><Messages><member>m</member></Messages><RequestId>r</RequestId></InvalidChangeBatch>`, []string{"unknown <Messages><member>, the model says <Message>"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, texts(checker(t, "route53").Check(c.op, c.status, c.header, []byte(c.body))))
		})
	}
}

func TestFindingsOfQuery(t *testing.T) {
	const meta = `<ResponseMetadata><RequestId>r</RequestId></ResponseMetadata>`
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"good":          {`<GetCallerIdentityResponse` + stsNS + `><GetCallerIdentityResult><Account>1</Account></GetCallerIdentityResult>` + meta + `</GetCallerIdentityResponse>`, nil},
		"no wrapper":    {`<GetCallerIdentityResponse` + stsNS + `><Account>1</Account>` + meta + `</GetCallerIdentityResponse>`, []string{"required result wrapper <GetCallerIdentityResult>"}},
		"wrong wrapper": {`<GetCallerIdentityResponse` + stsNS + `><Result/><GetCallerIdentityResult/>` + meta + `</GetCallerIdentityResponse>`, []string{"unknown <Result> beside <GetCallerIdentityResult>"}},
		"wrong root":    {`<Response` + stsNS + `><GetCallerIdentityResult/>` + meta + `</Response>`, []string{"body root <Response>, the protocol says <GetCallerIdentityResponse>"}},
		"no metadata":   {`<GetCallerIdentityResponse` + stsNS + `><GetCallerIdentityResult/></GetCallerIdentityResponse>`, []string{"required <ResponseMetadata><RequestId>"}},
		"wrong member":  {`<GetCallerIdentityResponse` + stsNS + `><GetCallerIdentityResult><account>1</account></GetCallerIdentityResult>` + meta + `</GetCallerIdentityResponse>`, []string{"unknown .account"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, texts(checker(t, "sts").Check("GetCallerIdentity", 200, headers(), []byte(c.body))))
		})
	}
}

// Shapes that the services of today do not have in their outputs.
func TestFlattenedListsMapsAndPayloads(t *testing.T) {
	var m models.Service
	require.NoError(t, json.Unmarshal([]byte(`{"metadata":{"protocol":"rest-xml"},
		"operations":{"Op":{"name":"Op","http":{"method":"GET","requestUri":"/"},"output":{"shape":"Out"}},"Raw":{"name":"Raw","http":{"method":"GET","requestUri":"/raw"},"output":{"shape":"RawOut"}},"None":{"name":"None","http":{"method":"GET","requestUri":"/none"}}},
		"shapes":{"Out":{"type":"structure","members":{"Flat":{"shape":"Flat"},"Named":{"shape":"Named"},"Map":{"shape":"Map"},"FlatMap":{"shape":"FlatMap"},"D":{"shape":"D"},"U":{"shape":"U"},"R":{"shape":"R"}}},
		"RawOut":{"type":"structure","payload":"Body","members":{"Body":{"shape":"Blob"}}},"Blob":{"type":"blob"},
		"Flat":{"type":"list","flattened":true,"member":{"shape":"I"}},"Named":{"type":"list","flattened":true,"member":{"shape":"I","locationName":"N"}},
		"Map":{"type":"map","key":{"shape":"S"},"value":{"shape":"I","locationName":"v"}},"FlatMap":{"type":"map","flattened":true,"key":{"shape":"S","locationName":"k"},"value":{"shape":"I"}},
		"I":{"type":"integer"},"S":{"type":"string"},"D":{"type":"double"},"U":{"type":"timestamp","timestampFormat":"unixTimestamp"},"R":{"type":"timestamp","timestampFormat":"rfc822"}}}`), &m))
	require.NoError(t, m.Resolve())
	c, err := modelcheck.New(&m)
	require.NoError(t, err)
	good := `<Out><Flat>1</Flat><Flat>2</Flat><N>3</N><Map><entry><key>a</key><v>1</v></entry></Map><FlatMap><k>a</k><value>1</value></FlatMap><D>1.5</D><U>1</U><R>Fri, 02 Jan 2026 03:04:05 GMT</R></Out>`
	assert.Empty(t, c.Check("Op", 200, headers(), []byte(good)))
	bad := `<Out><Flat>x</Flat><N>99999999999</N><Map><pair/><entry><key>a</key><value>1</value></entry></Map><FlatMap><k>a</k></FlatMap><D>x</D><U>x</U><R>x</R></Out>`
	assert.Equal(t, []string{
		`type .Flat[]="x" is no integer`, `type .Named[]="99999999999" is no integer`, "unknown .Map.<pair>, the protocol says <entry>",
		"unknown .Map{}.<value>, the model says <key> and <v>", "required .Map{}.<v>", "required .FlatMap{}.<value>",
		`type .D="x" is no double`, `type .U="x" is no timestamp`, `type .R="x" is no timestamp`,
	}, texts(c.Check("Op", 200, headers(), []byte(bad))))
	assert.Empty(t, c.Check("Raw", 200, headers(), []byte("anything")))
	assert.Empty(t, c.Check("None", 200, headers(), nil))

	_, err = modelcheck.New(&models.Service{Metadata: models.Metadata{Protocol: "json"}})
	require.ErrorContains(t, err, "json")
}
