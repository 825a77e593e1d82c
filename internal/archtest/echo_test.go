package archtest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"io/fs"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/domains/all"
	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/models"
	"github.com/mulgadc/spinifex/foundation/aws/wire"
	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/internal/archtest/echo"
	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestEchoIsADomainFolder wants the folder to keep every rule, moved to where a domain stands.
func TestEchoIsADomainFolder(t *testing.T) {
	overlay := fstest.MapFS{}
	root := os.DirFS("../..")
	mod, err := fs.ReadFile(root, "go.mod")
	require.NoError(t, err)
	overlay["go.mod"] = &fstest.MapFile{Data: mod}
	files, err := fs.ReadDir(root, "internal/archtest/echo")
	require.NoError(t, err)
	for _, file := range files {
		content, err := fs.ReadFile(root, path.Join("internal/archtest/echo", file.Name()))
		require.NoError(t, err)
		overlay["domains/echo/"+file.Name()] = &fstest.MapFile{Data: content}
	}
	tree, err := Load(overlay)
	require.NoError(t, err)
	require.NotEmpty(t, tree.Files)
	for _, rule := range Rules() {
		assert.Empty(t, rule.Check(tree), rule.Name)
	}
}

// wireEcho is the one short function that a service needs in the composition root.
func wireEcho(greeting string) []aws.Operation {
	return echo.Operations(echo.New(echo.Deps{Greeting: greeting}))
}

// oneGateway knows the key of one gateway.
type oneGateway struct{ key ed25519.PublicKey }

// PublicKey implements messaging.KeySource.
func (g oneGateway) PublicKey(context.Context, string, string) (ed25519.PublicKey, error) {
	return g.key, nil
}

// TestANewServiceIsServed adds the one line and the one function, and asks over HTTP form and NATS.
func TestANewServiceIsServed(t *testing.T) {
	gatewayTable := slices.Concat(all.Operations(), echo.Operations(nil)) // the one line
	daemonTable := wireEcho("you said ")

	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	srv, conn, _ := testkit.StartTestJetStream(t)
	service, err := messaging.NewService(conn, daemonTable, messaging.NewVerifier(oneGateway{public}), messaging.ServiceOptions{})
	require.NoError(t, err)
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { served <- service.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-served)
	})
	signer, err := messaging.NewSigner("n1", private)
	require.NoError(t, err)
	client, err := messaging.NewClient(testkit.Connect(t, srv), signer, messaging.ClientOptions{})
	require.NoError(t, err)

	g := echoGateway{table: gatewayTable, codec: echoCodec(t), client: client}
	var answer *httptest.ResponseRecorder
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		answer = g.ask(t, "hello")
		return answer.Code != 503, answer.Body.String() // until the daemon has subscribed
	})
	assert.Equal(t, 200, answer.Code)
	assert.Contains(t, answer.Body.String(), "<Text>you said hello</Text>")
	assert.Contains(t, answer.Body.String(), "<Account>000000000001</Account>")

	answer = g.ask(t, "nothing")
	assert.Equal(t, 409, answer.Code, "the model's status")
	assert.Contains(t, answer.Body.String(), "<Code>NothingToSay</Code>")
}

func echoCodec(t *testing.T) *wire.Service {
	t.Helper()
	text, err := os.ReadFile("echo/model.json")
	require.NoError(t, err)
	model := &models.Service{}
	require.NoError(t, json.Unmarshal(text, model))
	require.NoError(t, model.Resolve())
	codec, err := wire.New(model, wire.Limits{})
	require.NoError(t, err)
	return codec
}

// echoGateway does with a request what the gateway's pipeline does once the caller is known.
type echoGateway struct {
	table  []aws.Operation
	codec  *wire.Service
	client *messaging.Client
}

func (g echoGateway) ask(t *testing.T, text string) *httptest.ResponseRecorder {
	t.Helper()
	body := "Action=Say&Version=2026-01-01&Text=" + text
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request, err := g.codec.Match(r, []byte(body))
	require.NoError(t, err)
	i := slices.IndexFunc(g.table, func(op aws.Operation) bool { return op.Service == "echo" && op.Name == "Say" })
	require.GreaterOrEqual(t, i, 0)
	in := g.table[i].NewInput()
	require.NoError(t, g.codec.Decode(request, in))

	w := httptest.NewRecorder()
	call := &aws.Call{Account: "000000000001", Principal: "arn:aws:iam::000000000001:user/admin", UserID: "AIDA", Region: "us-east-1", RequestID: rand.Text()}
	out, err := g.client.Call(t.Context(), call, g.table[i], in)
	if err != nil {
		failure, ok := err.(*aws.Error)
		require.True(t, ok, "%v", err)
		require.NoError(t, g.codec.EncodeError(w, "Say", failure, call.RequestID))
		return w
	}
	require.NoError(t, g.codec.Encode(w, "Say", out, call.RequestID))
	return w
}
