package awsgw

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/awserr"
	"github.com/aws/aws-sdk-go/aws/credentials"
	"github.com/aws/aws-sdk-go/aws/session"
	sdksts "github.com/aws/aws-sdk-go/service/sts"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mulgadc/spinifex/domains/all"
	"github.com/mulgadc/spinifex/domains/iam"
	"github.com/mulgadc/spinifex/domains/sts"
	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/foundation/seal"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// cloud is a gateway and a NATS server in the process of the test.
type cloud struct {
	srv           *server.Server
	js            jetstream.JetStream
	opts          Options
	administrator iam.Administrator
	gateway       *Gateway
	log           *testkit.Buffer
	stop          func() error
}

// prepare makes everything but the gateway itself.
func prepare(t *testing.T) *cloud {
	t.Helper()
	srv, _, js := testkit.StartTestJetStream(t)
	conn, err := messaging.Connect(t.Context(), messaging.Options{Name: "n1/awsgw", InProcess: srv})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	sealer, err := seal.LoadOrCreate(filepath.Join(t.TempDir(), "sealing.key"))
	require.NoError(t, err)
	users := iam.New(iam.Deps{Records: kvstore.Open(js, iam.Bucket), Sealer: sealer})
	administrator, err := users.EnsureAdministrator(t.Context())
	require.NoError(t, err)
	c := &cloud{srv: srv, js: js, administrator: administrator, log: &testkit.Buffer{}}
	c.opts = Options{
		Node: "n1", Listen: "127.0.0.1:0", DataDir: t.TempDir(), Region: "eu-west-1", Conn: conn,
		Nodes: kvstore.Open(js, messaging.NodesBucket), Lookup: users.SigningKey, Operations: all.Operations(),
		Log: slog.New(slog.NewTextHandler(c.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	return c
}

// start runs the gateway until the end of the test or a call of c.stop.
func (c *cloud) start(t *testing.T) *cloud {
	t.Helper()
	var err error
	c.gateway, err = New(c.opts)
	require.NoError(t, err)
	require.NoError(t, c.gateway.Listen(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.gateway.Run(ctx) }()
	c.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { assert.NoError(t, c.stop()) })
	return c
}

// daemon serves operations until the end of the test.
func (c *cloud) daemon(t *testing.T, ops []aws.Operation) {
	t.Helper()
	conn, err := messaging.Connect(t.Context(), messaging.Options{Name: "n1/daemon", InProcess: c.srv})
	require.NoError(t, err)
	verifier := messaging.NewVerifier(messaging.NewKeyDirectory(kvstore.Open(c.js, messaging.NodesBucket)))
	service, err := messaging.NewService(conn.Raw(), ops, verifier, messaging.ServiceOptions{Log: c.opts.Log})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	t.Cleanup(func() { cancel(); assert.NoError(t, <-ended); conn.Close() })
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.opts.Conn.Raw().RequestWithContext(ctx, "$SRV.PING.aws-"+ops[0].Service, nil)
		return err == nil, "the daemon does not serve yet"
	})
}

// client is a client of STS with the SDK, without retries.
func (c *cloud) client(t *testing.T, secret string) *sdksts.STS {
	t.Helper()
	sess, err := session.NewSession(&awssdk.Config{
		Endpoint: new(c.gateway.Endpoint()), Region: new("eu-west-1"), MaxRetries: new(0),
		Credentials: credentials.NewStaticCredentials(c.administrator.AccessKeyID, secret, ""),
	})
	require.NoError(t, err)
	return sdksts.New(sess)
}

func TestGetCallerIdentityWithTheSDK(t *testing.T) {
	c := prepare(t).start(t)
	c.daemon(t, sts.Operations(sts.New()))
	client := c.client(t, c.administrator.Secret)
	want := &sdksts.GetCallerIdentityOutput{
		Account: new("000000000001"), Arn: new("arn:aws:iam::000000000001:user/admin"), UserId: &c.administrator.UserID,
	}
	out, err := client.GetCallerIdentity(nil)
	require.NoError(t, err)
	assert.Equal(t, want, out)

	// Presigned, for somebody who has no key.
	presigned, _ := client.GetCallerIdentityRequest(nil)
	link, err := presigned.Presign(time.Minute)
	require.NoError(t, err)
	get := func(link string) (int, string) {
		resp, err := http.Get(link)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}
	status, body := get(link)
	assert.Equal(t, 200, status, body)
	assert.Contains(t, body, "<Arn>arn:aws:iam::000000000001:user/admin</Arn>")
	parsed, err := url.Parse(link)
	require.NoError(t, err)
	query := parsed.Query()
	query.Set("Action", "AssumeRole")
	parsed.RawQuery = query.Encode()
	status, body = get(parsed.String())
	assert.Equal(t, 403, status)
	assert.Contains(t, body, "SignatureDoesNotMatch")

	assert.NotContains(t, c.log.String(), c.administrator.Secret)
	assert.NotContains(t, c.log.String(), "X-Amz-Signature=")
}

func TestErrorsWithTheSDK(t *testing.T) {
	c := prepare(t).start(t)
	code := func(err error) string {
		failure, ok := errors.AsType[awserr.RequestFailure](err)
		require.True(t, ok, "%v", err)
		assert.NotEmpty(t, failure.RequestID())
		return failure.Code()
	}
	_, err := c.client(t, "wrong").GetCallerIdentity(nil)
	assert.Equal(t, "SignatureDoesNotMatch", code(err))
	good := c.client(t, c.administrator.Secret)
	_, err = good.GetCallerIdentity(nil)
	assert.Equal(t, "ServiceUnavailable", code(err), "there is no daemon")
	_, err = good.AssumeRole(&sdksts.AssumeRoleInput{RoleArn: new("arn:aws:iam::000000000001:role/r"), RoleSessionName: new("session")})
	assert.Equal(t, "InvalidAction", code(err))
	assert.Contains(t, err.Error(), "AssumeRole of STS is not served")

	sess, err := session.NewSession(&awssdk.Config{
		Endpoint: new(c.gateway.Endpoint()), Region: new("us-east-2"), MaxRetries: new(0),
		Credentials: credentials.NewStaticCredentials(c.administrator.AccessKeyID, c.administrator.Secret, ""),
	})
	require.NoError(t, err)
	_, err = sdksts.New(sess).GetCallerIdentity(nil)
	assert.Equal(t, "SignatureDoesNotMatch", code(err))
	assert.Contains(t, err.Error(), "eu-west-1", "says which region is right")
}

func health(t *testing.T, c *cloud) (int, string) {
	t.Helper()
	resp, err := http.Get(c.gateway.Endpoint() + "/health")
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

func TestNATSGoesAway(t *testing.T) {
	c := prepare(t).start(t)
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		status, body := health(t, c)
		return status == 200, body
	})
	_, err := c.client(t, c.administrator.Secret).GetCallerIdentity(nil) // the key is remembered now
	require.Error(t, err)
	testkit.StopServer(c.srv)
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		status, body := health(t, c)
		return status == 503 && strings.Contains(body, "no connection to NATS"), body
	})
	_, err = c.client(t, c.administrator.Secret).GetCallerIdentity(nil)
	failure, ok := errors.AsType[awserr.RequestFailure](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, "ServiceUnavailable", failure.Code())
	assert.Equal(t, "The gateway has no connection to the daemons.", failure.Message())
}

func TestPortInUse(t *testing.T) {
	c := prepare(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	c.opts.Listen = taken.Addr().String()
	gateway, err := New(c.opts)
	require.NoError(t, err)
	err = gateway.Listen(t.Context())
	require.Error(t, err)
	for _, want := range []string{"awsgw.listen", "[awsgw]", taken.Addr().String(), "in use by another program"} {
		assert.ErrorContains(t, err, want)
	}
	require.Error(t, gateway.Run(t.Context()))

	c.opts.Listen = "192.0.2.77:80"
	gateway, err = New(c.opts)
	require.NoError(t, err)
	require.ErrorContains(t, gateway.Listen(t.Context()), `awsgw.listen = "192.0.2.77:80"`)
}

func TestOptionsAreChecked(t *testing.T) {
	c := prepare(t)
	for name, change := range map[string]func(*Options){
		"no node": func(o *Options) { o.Node = "" }, "a bad node": func(o *Options) { o.Node = "a b" },
		"no port": func(o *Options) { o.Listen = "127.0.0.1" }, "no lookup": func(o *Options) { o.Lookup = nil },
		"an operation without model": func(o *Options) { o.Operations = []aws.Operation{{Service: "x"}} },
	} {
		opts := c.opts
		change(&opts)
		_, err := New(opts)
		assert.Error(t, err, name)
	}
	key := filepath.Join(c.opts.DataDir, "keys", "gateway.ed25519")
	_, err := New(c.opts)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(key, 0o644))
	_, err = New(c.opts)
	require.ErrorContains(t, err, key)
}

func TestStopFinishesRequestsUnderWay(t *testing.T) {
	c := prepare(t).start(t)
	inside, release := make(chan struct{}), make(chan struct{})
	ops := sts.Operations(sts.New())
	answer := ops[0].Handler
	ops[0].Handler = func(ctx context.Context, call *aws.Call, in any) (any, error) {
		close(inside)
		<-release
		return answer(ctx, call, in)
	}
	c.daemon(t, ops)
	answered := make(chan error, 1)
	go func() { _, err := c.client(t, c.administrator.Secret).GetCallerIdentity(nil); answered <- err }()
	<-inside
	stopped := make(chan error, 1)
	go func() { stopped <- c.stop() }()
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		conn, err := net.Dial("tcp", c.gateway.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil, "connections are still taken"
	})
	close(release)
	require.NoError(t, <-answered)
	require.NoError(t, <-stopped)
	http.DefaultClient.CloseIdleConnections()

	// Supervised, it can be started again.
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.gateway.Run(ctx) }()
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		conn, err := net.Dial("tcp", c.gateway.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil, "it does not listen again"
	})
	cancel()
	require.NoError(t, <-ended)
}

func TestStopIsBounded(t *testing.T) {
	c := prepare(t)
	c.opts.DrainTimeout = 50 * time.Millisecond
	_, err := c.opts.Nodes.KV(t.Context()) // the server in this process starts goroutines for a bucket
	require.NoError(t, err)
	running := goleak.IgnoreCurrent()
	c.start(t)
	conn, err := net.Dial("tcp", c.gateway.Addr().String())
	require.NoError(t, err)
	// A request whose body never comes.
	_, err = conn.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n" +
		"Content-Type: application/x-www-form-urlencoded\r\n\r\n"))
	require.NoError(t, err)
	testkit.Eventually(t, 10*time.Second, func() (bool, string) { return c.gateway.published.Load(), "not published" })
	require.NoError(t, c.stop())
	_, _ = io.ReadAll(conn) // it has been cut off
	require.NoError(t, conn.Close())
	goleak.VerifyNone(t, running)
}

func TestServerHasItsBounds(t *testing.T) {
	c := prepare(t).start(t)
	server := c.gateway.server()
	for name, bound := range map[string]time.Duration{
		"header": server.ReadHeaderTimeout, "request": server.ReadTimeout, "answer": server.WriteTimeout, "idle": server.IdleTimeout,
	} {
		assert.Positive(t, bound, name)
	}
	assert.Greater(t, server.WriteTimeout, server.ReadTimeout+30*time.Second, "there is time for a call after a slow upload")

	conn, err := net.Dial("tcp", c.gateway.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Big: "+strings.Repeat("x", 80<<10)+"\r\n\r\n")
	require.NoError(t, err)
	answer, _ := io.ReadAll(conn) // the connection may be reset after the answer
	assert.Contains(t, string(answer), "431 Request Header Fields Too Large")
}

func TestEndpoint(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:9999": "http://127.0.0.1:9999", "0.0.0.0:80": "http://127.0.0.1:80", "[::]:80": "http://127.0.0.1:80",
		"[::1]:80": "http://[::1]:80", "192.0.2.1:80": "http://192.0.2.1:80",
	} {
		addr, err := net.ResolveTCPAddr("tcp", listen)
		require.NoError(t, err)
		assert.Equal(t, want, (&Gateway{addr: addr}).Endpoint())
	}
	assert.Empty(t, (&Gateway{}).Endpoint())
}
