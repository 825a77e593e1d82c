package awsingress

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go/aws/credentials"
	v4 "github.com/aws/aws-sdk-go/aws/signer/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/aws/api/sts"
	"github.com/mulgadc/spinifex/foundation/aws/sigv4"
	"github.com/mulgadc/spinifex/internal/testkit"
)

const (
	goodKey, goodSecret = "AKIAGOODGOODGOODGOOD", "good/secret"
	form                = "application/x-www-form-urlencoded; charset=utf-8"
)

// rig is a pipeline whose daemon is a function of the test.
type rig struct {
	*Pipeline
	server *httptest.Server
	log    *logBuffer
	reader *sdkmetric.ManualReader
	handle func(ctx context.Context, call *aws.Call, op aws.Operation, in any) (any, error)
}

func (r *rig) Call(ctx context.Context, call *aws.Call, op aws.Operation, in any) (any, error) {
	return r.handle(ctx, call, op, in)
}

// logBuffer collects log lines.
type logBuffer struct{ testkit.Buffer }

// lines returns the access log.
func (b *logBuffer) lines(t *testing.T) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(b.String()) {
		var entry map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &entry))
		if entry["msg"] == "request" {
			out = append(out, entry)
		}
	}
	return out
}

func operations() []aws.Operation {
	return []aws.Operation{
		aws.NewOperation[sts.GetCallerIdentityRequest, sts.GetCallerIdentityResponse]("sts", "GetCallerIdentity", false, nil, nil),
		aws.NewOperation[route53.CreateHostedZoneRequest, route53.CreateHostedZoneResponse]("route53", "CreateHostedZone", true, nil, nil),
		aws.NewOperation[route53.GetHostedZoneRequest, route53.GetHostedZoneResponse]("route53", "GetHostedZone", false,
			func(_ *aws.Call, in *route53.GetHostedZoneRequest) []string {
				if *in.Id == "none" {
					return nil
				}
				return []string{"arn:aws:route53:::hostedzone/" + *in.Id}
			}, nil),
	}
}

func newRig(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	r := &rig{log: &logBuffer{}, reader: sdkmetric.NewManualReader()}
	r.handle = func(_ context.Context, call *aws.Call, op aws.Operation, _ any) (any, error) {
		if op.Name != "GetCallerIdentity" {
			return nil, aws.Errorf("NoSuchHostedZone", "none")
		}
		return &sts.GetCallerIdentityResponse{Account: new(call.Account), Arn: new(call.Principal), UserId: new(call.UserID)}, nil
	}
	verifier, err := sigv4.New(sigv4.Options{Region: "eu-west-1", Lookup: func(_ context.Context, id, _ string) (*sigv4.Credentials, error) {
		if id != goodKey {
			return nil, sigv4.ErrUnknownKey
		}
		return &sigv4.Credentials{AccessKeyID: id, Secret: goodSecret, Identity: sigv4.Identity{
			Account: "000000000001", Principal: "arn:aws:iam::000000000001:user/admin", UserID: "AIDAEXAMPLE",
		}}, nil
	}})
	require.NoError(t, err)
	opts := Options{
		Operations: operations(), Verifier: verifier, Dispatcher: r, Region: "eu-west-1",
		Authorize: func(*aws.Call, aws.Operation, []string) error { return nil },
		Meter:     sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader)).Meter("test"),
		Log:       slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&opts)
	}
	r.Pipeline, err = New(opts)
	require.NoError(t, err)
	r.server = httptest.NewServer(r.Pipeline)
	t.Cleanup(r.server.Close)
	return r
}

// request is what a test sends.
type request struct {
	key, secret, service, method, path, contentType, body string
	header                                                map[string]string
}

func identityRequest() request {
	return request{
		key: goodKey, secret: goodSecret, service: "sts", method: "POST", path: "/", contentType: form,
		body: "Action=GetCallerIdentity&Version=2011-06-15",
	}
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (r *rig) send(t *testing.T, q request) answer {
	t.Helper()
	body := strings.NewReader(q.body)
	req, err := http.NewRequestWithContext(t.Context(), q.method, r.server.URL+q.path, body)
	require.NoError(t, err)
	if q.contentType != "" {
		req.Header.Set("Content-Type", q.contentType)
	}
	for name, value := range q.header {
		req.Header.Set(name, value)
	}
	if q.key != "" {
		signer := v4.NewSigner(credentials.NewStaticCredentials(q.key, q.secret, ""))
		_, err = signer.Sign(req, body, q.service, "eu-west-1", time.Now())
		require.NoError(t, err)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{status: resp.StatusCode, header: resp.Header, body: html.UnescapeString(string(text))}
}

func TestGoodRequest(t *testing.T) {
	r := newRig(t, nil)
	var got aws.Call
	var span trace.SpanContext
	handle := r.handle
	r.handle = func(ctx context.Context, call *aws.Call, op aws.Operation, in any) (any, error) {
		got, span = *call, trace.SpanContextFromContext(ctx)
		deadline, ok := ctx.Deadline()
		assert.True(t, ok)
		assert.Equal(t, call.Deadline, deadline)
		return handle(ctx, call, op, in)
	}
	q := identityRequest()
	q.header = map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	a := r.send(t, q)
	assert.Equal(t, 200, a.status)
	assert.Equal(t, "text/xml", a.header.Get("Content-Type"))
	assert.Contains(t, a.body, "<Arn>arn:aws:iam::000000000001:user/admin</Arn>")
	id := a.header.Get("x-amzn-RequestId")
	assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id)
	assert.Contains(t, a.body, "<RequestId>"+id+"</RequestId>")
	assert.WithinDuration(t, time.Now().Add(30*time.Second), got.Deadline, 20*time.Second)
	got.Deadline = time.Time{}
	assert.Equal(t, aws.Call{
		Account: "000000000001", Principal: "arn:aws:iam::000000000001:user/admin", UserID: "AIDAEXAMPLE",
		Region: "eu-west-1", RequestID: id, SourceIP: "127.0.0.1",
	}, got)
	assert.Equal(t, "0af7651916cd43dd8448eb211c80319c", span.TraceID().String())

	lines := r.log.lines(t)
	require.Len(t, lines, 1)
	for name, want := range map[string]any{
		"level": "INFO", "request_id": id, "service": "sts", "action": "GetCallerIdentity", "status": 200.0,
		"source_ip": "127.0.0.1", "access_key_id": goodKey, "principal": "arn:aws:iam::000000000001:user/admin",
	} {
		assert.Equal(t, want, lines[0][name], name)
	}
	assert.NotContains(t, r.log.String(), "Signature")
	assert.NotContains(t, r.log.String(), goodSecret)
}

func TestRefusedRequests(t *testing.T) {
	r := newRig(t, func(o *Options) { o.BodyLimit = 10_000 })
	zone := func(q *request) {
		q.service, q.path, q.contentType = "route53", "/2013-04-01/hostedzone", "text/xml"
	}
	for _, c := range []struct {
		name   string
		change func(q *request)
		status int
		want   []string
	}{
		{"an unknown key", func(q *request) { q.key = "AKIAUNKNOWNUNKNOWN00" }, 403, []string{"<ErrorResponse", "<Code>InvalidClientTokenId</Code>"}},
		{"a wrong secret", func(q *request) { q.secret = "bad" }, 403, []string{"<ErrorResponse", "<Code>SignatureDoesNotMatch</Code>"}},
		{"no signature", func(q *request) { q.key = "" }, 403, []string{"<ErrorResponse", "<Code>MissingAuthenticationToken</Code>"}},
		{"no signature and no form", func(q *request) { q.key, q.contentType = "", "" }, 403, []string{`"__type":"MissingAuthenticationToken"`}},
		{"an unknown action", func(q *request) { q.body = "Action=Nonsense&Version=2011-06-15" }, 400, []string{"<Code>InvalidAction</Code>", "Nonsense"}},
		{"an action of AWS that is not served", func(q *request) {
			q.body = "Action=AssumeRole&Version=2011-06-15&RoleArn=x&RoleSessionName=y"
		}, 400, []string{"<Code>InvalidAction</Code>", "The operation AssumeRole of STS is not served by this cloud."}},
		{"no action", func(q *request) { q.body = "" }, 400, []string{"<Code>MissingAction</Code>"}},
		{"a REST operation that is not served", func(q *request) { zone(q); q.path = "/2013-04-01/healthcheck" }, 404, []string{"<Code>UnknownOperationException</Code>", "CreateHealthCheck of Route 53 is not served"}},
		{"an unknown path", func(q *request) { zone(q); q.path = "/2013-04-01/nonsense" }, 404, []string{"<Code>UnknownOperationException</Code>"}},
		{"broken XML", func(q *request) { zone(q); q.body = "<CreateHostedZoneRequest><Name>" }, 400, []string{"<Code>MalformedInput</Code>"}},
		{"a missing member", func(q *request) {
			zone(q)
			q.body = `<CreateHostedZoneRequest xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Name>x.test</Name></CreateHostedZoneRequest>`
		}, 400, []string{"<Code>InvalidInput</Code>", "callerReference"}},
		{"a body over the limit", func(q *request) { q.body = strings.Repeat("x", 10_001) }, 413, []string{"<ErrorResponse", "<Code>RequestEntityTooLarge</Code>", "10000 bytes"}},
		{"a body far over the limit", func(q *request) { q.body = strings.Repeat("x", 3<<20) }, 413, []string{"<Code>RequestEntityTooLarge</Code>"}},
		{"a service of JSON", func(q *request) {
			q.service, q.contentType, q.header = "ecs", "application/x-amz-json-1.1", map[string]string{"X-Amz-Target": "X.ListClusters"}
		}, 400, []string{`"__type":"UnknownOperationException"`, `The service 'ecs' is not served by this cloud.`}},
		{"a service of query", func(q *request) { q.service = "rds" }, 400, []string{"<?xml", "<ErrorResponse>", "<Code>InvalidAction</Code>", "The service 'rds' is not served"}},
		{"EC2", func(q *request) { q.service = "ec2" }, 400, []string{"<Response><Errors><Error><Code>InvalidAction</Code>", "'ec2'", "<RequestID>"}},
		{"S3", func(q *request) { q.service, q.method, q.body = "s3", "GET", "" }, 400, []string{"<Error><Code>NotImplemented</Code>", "'s3'"}},
		{"a service nobody has", func(q *request) { q.service, q.contentType = "no\"such<", "" }, 400, []string{`not served by this cloud`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := identityRequest()
			c.change(&q)
			a := r.send(t, q)
			assert.Equal(t, c.status, a.status, a.body)
			for _, want := range c.want {
				assert.Contains(t, a.body, want)
			}
			assert.NotEmpty(t, a.header.Get("x-amzn-RequestId"))
		})
	}
	assert.NotContains(t, r.log.String(), "panic")
	assert.Contains(t, r.log.String(), "canonical_request", "at debug level")
}

func TestUploadThatIsToldBeforeItIsSent(t *testing.T) {
	r := newRig(t, nil)
	q := identityRequest()
	q.body, q.header = strings.Repeat("x", 2<<20), map[string]string{"Expect": "100-continue"}
	a := r.send(t, q)
	assert.Equal(t, 413, a.status)
	assert.EqualValues(t, 0, r.log.lines(t)[0]["bytes_in"])
}

func TestWhatADaemonAnswers(t *testing.T) {
	r := newRig(t, nil)
	zone := request{
		key: goodKey, secret: goodSecret, service: "route53", method: "GET", path: "/2013-04-01/hostedzone/Z1",
	}
	for _, c := range []struct {
		name   string
		err    error
		status int
		want   string
		level  string
	}{
		{"a modelled error", aws.Errorf("NoSuchHostedZone", "No Z1."), 404, "<Code>NoSuchHostedZone</Code><Message>No Z1.</Message>", "INFO"},
		{"nobody there", (&aws.Error{Code: "ServiceUnavailable", Status: 503, Message: "Nobody."}).WithCause(errors.New("no responder 7")), 503, "<Code>ServiceUnavailable</Code>", "WARN"},
		{"a plain error", errors.New("plain 8"), 500, "<Code>InternalFailure</Code>", "WARN"},
		{"an answer that does not fit", nil, 500, "<Code>InternalFailure</Code>", "WARN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.handle = func(context.Context, *aws.Call, aws.Operation, any) (any, error) { return 7, c.err }
			a := r.send(t, zone)
			assert.Equal(t, c.status, a.status)
			assert.Contains(t, a.body, c.want)
			lines := r.log.lines(t)
			last := lines[len(lines)-1]
			assert.Equal(t, c.level, last["level"])
			if c.err != nil && c.status >= 500 {
				cause := c.err
				if told, ok := errors.AsType[*aws.Error](c.err); ok {
					cause = told.Unwrap()
				}
				assert.Equal(t, cause.Error(), last["error"])
				assert.NotContains(t, a.body, cause.Error())
			}
		})
	}
}

func TestPanicIsAnInternalFailure(t *testing.T) {
	r := newRig(t, nil)
	r.handle = func(context.Context, *aws.Call, aws.Operation, any) (any, error) { panic("boom 9") }
	a := r.send(t, identityRequest())
	assert.Equal(t, 500, a.status)
	assert.Contains(t, a.body, "<Code>InternalFailure</Code>")
	assert.NotContains(t, a.body, "boom 9")
	assert.Equal(t, 1, strings.Count(r.log.String(), "made the gateway panic"))
	assert.Contains(t, r.log.String(), "pipeline_test.go", "the stack")
	require.Len(t, r.log.lines(t), 1)
	assert.EqualValues(t, 500, r.log.lines(t)[0]["status"])
	assert.Equal(t, 200, func() int { r.handle = newRig(t, nil).handle; return r.send(t, identityRequest()).status }(), "it goes on")
	assert.Empty(t, r.room, "the room is given back")
}

func TestAuthorisation(t *testing.T) {
	var asked []string
	r := newRig(t, func(o *Options) {
		o.Authorize = func(call *aws.Call, op aws.Operation, resources []string) error {
			asked = append(asked, call.Principal+" "+op.Name+" "+strings.Join(resources, ","))
			return &aws.Error{Code: "AccessDenied", Status: 403, Message: "No."}
		}
	})
	r.handle = func(context.Context, *aws.Call, aws.Operation, any) (any, error) {
		t.Error("a call that was denied has been dispatched")
		return nil, nil
	}
	get := request{key: goodKey, secret: goodSecret, service: "route53", method: "GET", path: "/2013-04-01/hostedzone/Z1"}
	broken := request{key: goodKey, secret: goodSecret, service: "route53", method: "POST", path: "/2013-04-01/hostedzone", contentType: "text/xml", body: "<"}
	nothing := get
	nothing.path = "/2013-04-01/hostedzone/none"
	for _, q := range []request{get, broken, nothing} {
		a := r.send(t, q)
		assert.Equal(t, 403, a.status)
		assert.Contains(t, a.body, "<Code>AccessDenied</Code><Message>No.</Message>", "also where the input is broken")
	}
	assert.Equal(t, []string{
		"arn:aws:iam::000000000001:user/admin GetHostedZone arn:aws:route53:::hostedzone/Z1",
		"arn:aws:iam::000000000001:user/admin CreateHostedZone *",
		"arn:aws:iam::000000000001:user/admin GetHostedZone *",
	}, asked)
}

func TestGuessersAreLockedOutAndOthersAreNot(t *testing.T) {
	r := newRig(t, nil)
	require.Equal(t, 200, r.send(t, identityRequest()).status)
	guess := identityRequest()
	for i := range 10 {
		guess.key = "AKIAGUESSGUESSGUESS" + string(rune('A'+i))
		assert.Contains(t, r.send(t, guess).body, "InvalidClientTokenId")
	}
	a := r.send(t, guess)
	assert.Equal(t, 403, a.status)
	assert.Contains(t, a.body, "<Code>AccessDenied</Code>")
	assert.Contains(t, a.body, "Try again in 30 seconds.")
	assert.Equal(t, 200, r.send(t, identityRequest()).status, "a key that has verified from here")
	assert.Equal(t, 1, strings.Count(r.log.String(), "an address is locked out"))
}

func TestRoomIsBounded(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxRequests = 1 })
	inside, release := make(chan struct{}), make(chan struct{})
	r.handle = func(context.Context, *aws.Call, aws.Operation, any) (any, error) {
		close(inside)
		<-release
		return &sts.GetCallerIdentityResponse{}, nil
	}
	first := make(chan answer, 1)
	go func() { first <- r.send(t, identityRequest()) }()
	<-inside
	a := r.send(t, identityRequest())
	assert.Equal(t, 503, a.status)
	assert.Contains(t, a.body, "ServiceUnavailable")
	close(release)
	assert.Equal(t, 200, (<-first).status)
}

// A refusal for lack of room has the form of the service that was asked.
func TestNoRoomIsToldInTheServicesForm(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxRequests = 1 })
	r.room <- struct{}{}
	q := request{key: goodKey, secret: goodSecret, service: "route53", method: "GET", path: "/2013-04-01/hostedzone/Z1"}
	a := r.send(t, q)
	assert.Equal(t, 503, a.status)
	assert.Contains(t, a.body, "<Code>ServiceUnavailable</Code>")
	<-r.room
	q.method, q.path, q.contentType = "POST", "/2013-04-01/hostedzone", "text/xml"
	q.body = strings.Repeat(" ", smallBody+1)
	r.bodies <- struct{}{}
	a = r.send(t, q)
	assert.Equal(t, 503, a.status)
	assert.Contains(t, a.body, "<Code>ServiceUnavailable</Code>")
	<-r.bodies
	assert.Equal(t, 400, r.send(t, q).status)
	assert.Empty(t, r.room)
	assert.Empty(t, r.bodies)
}

// Clients that send their bodies slowly, signed or not, keep no other request out.
func TestSlowBodiesHoldUpNobody(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxRequests = 1 })
	for _, head := range []string{"Content-Length: 1000", "Content-Length: 1000000", "Transfer-Encoding: chunked"} {
		conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = conn.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n" + head + "\r\n\r\n"))
		require.NoError(t, err)
		// The gateway asks for the body when it begins to read, or has no room for a large one.
		status, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		assert.Contains(t, []string{"HTTP/1.1 100 Continue\r\n", "HTTP/1.1 503 Service Unavailable\r\n"}, status)
	}
	assert.Len(t, r.bodies, 1)
	assert.Equal(t, 200, r.send(t, identityRequest()).status)
}

func TestHealth(t *testing.T) {
	var notReady error
	r := newRig(t, func(o *Options) { o.Ready = func() error { return notReady } })
	a := r.send(t, request{method: "GET", path: "/health"})
	assert.Equal(t, 200, a.status)
	assert.JSONEq(t, `{"status":"ok"}`, a.body)
	notReady = errors.New("no connection to NATS")
	a = r.send(t, request{method: "GET", path: "/health"})
	assert.Equal(t, 503, a.status)
	assert.JSONEq(t, `{"status":"unavailable","reason":"no connection to NATS"}`, a.body)
	assert.Empty(t, r.log.lines(t))
}

func TestMetrics(t *testing.T) {
	r := newRig(t, nil)
	r.send(t, identityRequest())
	q := identityRequest()
	q.body = "Action=Whatever" + strings.Repeat("x", 100) + "&Version=2011-06-15"
	r.send(t, q)
	q.service = "made-up"
	r.send(t, q)
	var all metricdata.ResourceMetrics
	require.NoError(t, r.reader.Collect(t.Context(), &all))
	got := map[string]int64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, point := range data.DataPoints {
				got[m.Name+" "+point.Attributes.Encoded(attribute.DefaultEncoder())] += point.Value
			}
		case metricdata.Histogram[float64]:
			for _, point := range data.DataPoints {
				got[m.Name+" "+point.Attributes.Encoded(attribute.DefaultEncoder())] += int64(point.Count)
			}
		}
	}
	assert.Equal(t, map[string]int64{
		"spinifex.awsgw.requests action=GetCallerIdentity,code=,service=sts,status=200":                    1,
		"spinifex.awsgw.requests action=unknown,code=InvalidAction,service=sts,status=400":                 1,
		"spinifex.awsgw.requests action=unknown,code=UnknownOperationException,service=unknown,status=400": 1,
		"spinifex.awsgw.request.duration action=GetCallerIdentity,service=sts":                             1,
		"spinifex.awsgw.request.duration action=unknown,service=sts":                                       1,
		"spinifex.awsgw.request.duration action=unknown,service=unknown":                                   1,
		"spinifex.awsgw.requests.underway ":                                                                0,
	}, got)
}

func TestNewRefusesWhatIsMissing(t *testing.T) {
	good := newRig(t, nil).opts
	for name, change := range map[string]func(*Options){
		"no verifier": func(o *Options) { o.Verifier = nil }, "no authoriser": func(o *Options) { o.Authorize = nil },
		"no dispatcher": func(o *Options) { o.Dispatcher = nil }, "no region": func(o *Options) { o.Region = "" },
		"a negative limit": func(o *Options) { o.BodyLimit = -1 },
		"an operation without a model": func(o *Options) {
			o.Operations = []aws.Operation{{Service: "nope", Name: "X"}}
		},
		"an operation that the model has not": func(o *Options) {
			o.Operations = []aws.Operation{{Service: "sts", Name: "X"}}
		},
		"an operation without types": func(o *Options) {
			o.Operations = []aws.Operation{{Service: "sts", Name: "GetCallerIdentity"}}
		},
	} {
		opts := good
		change(&opts)
		_, err := New(opts)
		assert.Error(t, err, name)
	}
}
