package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go/aws/awserr"
	sdkroute53 "github.com/aws/aws-sdk-go/service/route53"
	sdksts "github.com/aws/aws-sdk-go/service/sts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/aws/api/sts"
	"github.com/mulgadc/spinifex/foundation/aws/models"
	"github.com/mulgadc/spinifex/foundation/aws/wire"
)

const xmlHead = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

func TestEncodeRESTXML(t *testing.T) {
	s := load(t, "route53")
	w := httptest.NewRecorder()
	require.NoError(t, s.Encode(w, "CreateHostedZone", &route53.CreateHostedZoneResponse{
		Location:      new("https://route53.amazonaws.com/2013-04-01/hostedzone/Z1"),
		HostedZone:    &route53.HostedZone{Id: new("/hostedzone/Z1"), Name: new("a.test."), CallerReference: new("<1>"), ResourceRecordSetCount: new(int64(2))},
		ChangeInfo:    &route53.ChangeInfo{Id: new("/change/C1"), Status: new(route53.ChangeStatusPending), SubmittedAt: new(time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC))},
		DelegationSet: &route53.DelegationSet{NameServers: []string{"ns1.test", "ns2.test"}},
	}, requestID))
	assert.Equal(t, http.StatusCreated, w.Code)
	assert.Equal(t, http.Header{
		"Location":         {"https://route53.amazonaws.com/2013-04-01/hostedzone/Z1"},
		"Content-Type":     {"text/xml"},
		"Content-Length":   {fmt.Sprint(w.Body.Len())},
		"X-Amzn-Requestid": {requestID},
	}, w.Header())
	assert.Equal(t, xmlHead+`<CreateHostedZoneResponse xmlns="https://route53.amazonaws.com/doc/2013-04-01/">`+
		`<ChangeInfo><Id>/change/C1</Id><Status>PENDING</Status><SubmittedAt>2026-01-02T03:04:05.678Z</SubmittedAt></ChangeInfo>`+
		`<DelegationSet><NameServers><NameServer>ns1.test</NameServer><NameServer>ns2.test</NameServer></NameServers></DelegationSet>`+
		`<HostedZone><CallerReference>&lt;1&gt;</CallerReference><Id>/hostedzone/Z1</Id><Name>a.test.</Name><ResourceRecordSetCount>2</ResourceRecordSetCount></HostedZone>`+
		`</CreateHostedZoneResponse>`, w.Body.String())
}

func TestEncodeRequiredListsEvenWhenEmpty(t *testing.T) {
	s := load(t, "route53")
	for _, out := range []any{&route53.ListHostedZonesResponse{Marker: new("")}, &route53.ListHostedZonesResponse{Marker: new(""), HostedZones: []route53.HostedZone{}}, map[string]any{"Marker": ""}} {
		w := httptest.NewRecorder()
		require.NoError(t, s.Encode(w, "ListHostedZones", out, requestID))
		assert.Equal(t, xmlHead+`<ListHostedZonesResponse xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><HostedZones></HostedZones><Marker></Marker></ListHostedZonesResponse>`, w.Body.String())
	}
	w := httptest.NewRecorder()
	require.NoError(t, s.Encode(w, "ChangeTagsForResource", nil, requestID))
	assert.Equal(t, xmlHead+`<ChangeTagsForResourceResponse xmlns="https://route53.amazonaws.com/doc/2013-04-01/"></ChangeTagsForResourceResponse>`, w.Body.String())
}

func TestEncodeQuery(t *testing.T) {
	s := load(t, "sts")
	w := httptest.NewRecorder()
	require.NoError(t, s.Encode(w, "GetCallerIdentity", &sts.GetCallerIdentityResponse{
		Account: new("000000000001"), Arn: new("arn:aws:iam::000000000001:root"), UserId: new("000000000001"),
	}, requestID))
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, "text/xml", w.Header().Get("Content-Type"))
	assert.Equal(t, requestID, w.Header().Get("x-amzn-RequestId"))
	assert.Equal(t, xmlHead+`<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>`+
		`<Account>000000000001</Account><Arn>arn:aws:iam::000000000001:root</Arn><UserId>000000000001</UserId></GetCallerIdentityResult>`+
		`<ResponseMetadata><RequestId>`+requestID+`</RequestId></ResponseMetadata></GetCallerIdentityResponse>`, w.Body.String())
}

func TestEncodeRefusesWhatDoesNotFit(t *testing.T) {
	s := load(t, "route53")
	for name, c := range map[string]struct {
		op  string
		out any
	}{
		"unknown operation": {"Nope", nil},
		"member unknown": {"GetChange", &struct {
			Nope *string `json:"Nope"`
		}{new("x")}},
		"other type":      {"GetChange", map[string]any{"ChangeInfo": "text"}},
		"list of another": {"ListHostedZones", map[string]any{"HostedZones": "text"}},
		"element of list": {"ListHostedZones", map[string]any{"HostedZones": []any{nil}}},
		"not a structure": {"GetChange", 7},
		"bad time":        {"GetChange", map[string]any{"ChangeInfo": map[string]any{"SubmittedAt": "soon"}}},
		"bad number":      {"GetHostedZoneCount", map[string]any{"HostedZoneCount": 1.5}},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			require.Error(t, s.Encode(w, c.op, c.out, requestID))
			assert.Empty(t, w.Body.String())
			assert.Empty(t, w.Header())
		})
	}
}

func TestErrorsOfRESTXML(t *testing.T) {
	s := load(t, "route53")
	const ns = ` xmlns="https://route53.amazonaws.com/doc/2013-04-01/"`
	for name, c := range map[string]struct {
		op     string
		err    *aws.Error
		status int
		body   string
	}{
		"modelled": {"GetHostedZone", aws.Errorf("NoSuchHostedZone", "No hosted zone found with ID: %s", "Z1"), 404,
			`<ErrorResponse` + ns + `><Error><Type>Sender</Type><Code>NoSuchHostedZone</Code><Message>No hosted zone found with ID: Z1</Message></Error><RequestId>` + requestID + `</RequestId></ErrorResponse>`},
		"modelled elsewhere": {"", aws.Errorf("HostedZoneAlreadyExists", "x"), 409,
			`<ErrorResponse` + ns + `><Error><Type>Sender</Type><Code>HostedZoneAlreadyExists</Code><Message>x</Message></Error><RequestId>` + requestID + `</RequestId></ErrorResponse>`},
		"own status": {"GetHostedZone", &aws.Error{Code: "NoSuchHostedZone", Message: "x", Status: 410}, 410,
			`<ErrorResponse` + ns + `><Error><Type>Sender</Type><Code>NoSuchHostedZone</Code><Message>x</Message></Error><RequestId>` + requestID + `</RequestId></ErrorResponse>`},
		"the server's, and its cause stays here": {"GetHostedZone", aws.Errorf("InternalFailure", "An internal error occurred.").WithCause(errors.New("nats: timeout")), 500,
			`<ErrorResponse` + ns + `><Error><Type>Receiver</Type><Code>InternalFailure</Code><Message>An internal error occurred.</Message></Error><RequestId>` + requestID + `</RequestId></ErrorResponse>`},
		"not to be parsed as XML": {"GetHostedZone", aws.Errorf("InvalidInput", "<a>&\x01\xff"), 400,
			`<ErrorResponse` + ns + `><Error><Type>Sender</Type><Code>InvalidInput</Code><Message>&lt;a&gt;&amp;` + "\uFFFD\uFFFD" + `</Message></Error><RequestId>` + requestID + `</RequestId></ErrorResponse>`},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			require.NoError(t, s.EncodeError(w, c.op, c.err, requestID))
			assert.Equal(t, c.status, w.Code)
			assert.Equal(t, requestID, w.Header().Get("x-amzn-RequestId"))
			assert.Equal(t, "text/xml", w.Header().Get("Content-Type"))
			assert.Equal(t, xmlHead+c.body, w.Body.String())
		})
	}
}

// The one error of Route 53 with a list: its members reach the SDK whatever way the detail came.
func TestInvalidChangeBatch(t *testing.T) {
	s := load(t, "route53")
	messages := []string{"Tried to delete resource record set [name='a.', type='A'] but it was not found", "second"}
	detail := &route53.InvalidChangeBatch{Messages: messages}
	raw, err := json.Marshal(detail)
	require.NoError(t, err)
	for name, d := range map[string]any{"typed": detail, "raw": json.RawMessage(raw), "map": map[string]any{"messages": messages}} {
		t.Run(name, func(t *testing.T) {
			var body string
			c := sdkroute53.New(transport(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
				rec := httptest.NewRecorder()
				e := &aws.Error{Code: route53.CodeInvalidChangeBatch, Detail: d}
				require.NoError(t, s.EncodeError(rec, "ChangeResourceRecordSets", e, requestID))
				body = rec.Body.String()
				require.NoError(t, s.EncodeError(w, "ChangeResourceRecordSets", e, requestID))
			}))
			_, err := c.ChangeResourceRecordSets(&sdkroute53.ChangeResourceRecordSetsInput{HostedZoneId: new("Z1")})
			batch, ok := errors.AsType[awserr.BatchedErrors](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, "InvalidChangeBatch", batch.Code())
			require.Len(t, batch.OrigErrs(), 2)
			assert.Contains(t, batch.OrigErrs()[0].Error(), messages[0])
			failure, ok := errors.AsType[awserr.RequestFailure](err)
			require.True(t, ok)
			assert.Equal(t, 400, failure.StatusCode())
			assert.Equal(t, requestID, failure.RequestID())
			assert.Equal(t, xmlHead+`<InvalidChangeBatch xmlns="https://route53.amazonaws.com/doc/2013-04-01/">`+
				`<Error><Type>Sender</Type><Code>InvalidChangeBatch</Code><Message>[Tried to delete resource record set [name=&#39;a.&#39;, type=&#39;A&#39;] but it was not found, second]</Message></Error>`+
				`<Message>[Tried to delete resource record set [name=&#39;a.&#39;, type=&#39;A&#39;] but it was not found, second]</Message>`+
				`<Messages><Message>Tried to delete resource record set [name=&#39;a.&#39;, type=&#39;A&#39;] but it was not found</Message><Message>second</Message></Messages>`+
				`<RequestId>`+requestID+`</RequestId></InvalidChangeBatch>`, body)
		})
	}
	w := httptest.NewRecorder()
	require.NoError(t, s.EncodeError(w, "ChangeResourceRecordSets", aws.Errorf("InvalidChangeBatch", "only text"), requestID))
	assert.Contains(t, w.Body.String(), "<Messages><Message>only text</Message></Messages>")
	w = httptest.NewRecorder()
	require.NoError(t, s.EncodeError(w, "ChangeResourceRecordSets", &aws.Error{Code: "InvalidChangeBatch", Message: "kept", Detail: json.RawMessage(`{`)}, requestID))
	assert.Contains(t, w.Body.String(), "<Code>InvalidChangeBatch</Code><Message>kept</Message>")
}

func TestErrorsOfQuery(t *testing.T) {
	s := load(t, "sts")
	for code, status := range map[string]int{
		"AccessDenied": 403, "SignatureDoesNotMatch": 403, "InvalidClientTokenId": 403, "MissingAuthenticationToken": 403, "ExpiredToken": 403,
		"InvalidAction": 400, "ValidationError": 400, "Throttling": 400, "IncompleteSignature": 400, "RequestExpired": 400, "InternalFailure": 500,
		"ServiceUnavailable": 503, "RequestEntityTooLarge": 413, "MalformedQueryString": 404, "PackedPolicyTooLarge": 400, "RegionDisabledException": 403,
	} {
		c := sdksts.New(transport(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			require.NoError(t, s.EncodeError(w, "AssumeRole", aws.Errorf(code, "the message"), requestID))
		}))
		_, err := c.AssumeRole(&sdksts.AssumeRoleInput{})
		failure, ok := errors.AsType[awserr.RequestFailure](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, code, failure.Code())
		assert.Equal(t, "the message", failure.Message())
		assert.Equal(t, status, failure.StatusCode(), code)
		assert.Equal(t, requestID, failure.RequestID())
	}
}

// Every error that the models list for a served operation reaches the SDK with its code and status.
func TestModelledErrorsReachTheSDK(t *testing.T) {
	s := load(t, "route53")
	for _, name := range route53.Operations() {
		for _, ref := range s.Model().Operations[name].Errors {
			w := httptest.NewRecorder()
			require.NoError(t, s.EncodeError(w, name, aws.Errorf(ref.Shape.ErrorCode(), "m"), requestID))
			assert.Equal(t, ref.Shape.ErrorStatus(), w.Code, ref.ShapeName)
			c := sdkroute53.New(transport(func(out http.ResponseWriter, _ *http.Request, _ []byte) {
				require.NoError(t, s.EncodeError(out, name, aws.Errorf(ref.Shape.ErrorCode(), "m"), requestID))
			}))
			_, err := c.GetChange(&sdkroute53.GetChangeInput{Id: new("C1")})
			failure, ok := errors.AsType[awserr.RequestFailure](err)
			require.True(t, ok)
			if ref.ShapeName != "InvalidChangeBatch" { // which the SDK expects of one operation only
				assert.Equal(t, ref.Shape.ErrorCode(), failure.Code())
			}
		}
	}
}

func TestServicesWithoutACodec(t *testing.T) {
	_, err := wire.New(&models.Service{Metadata: models.Metadata{Protocol: "smoke-signals"}}, wire.Limits{})
	require.ErrorContains(t, err, "smoke-signals")
	_, err = wire.Load("nothing", wire.Limits{})
	require.ErrorIs(t, err, models.ErrUnknownService)
	_, err = wire.New(&models.Service{Metadata: models.Metadata{Protocol: "rest-xml"}, Operations: map[string]*models.Operation{"X": {HTTP: models.HTTP{RequestURI: "no slash"}}}}, wire.Limits{})
	require.ErrorContains(t, err, "no slash")
}
