package conformance

import (
	"bytes"
	"io"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go/aws/request"
	"github.com/aws/aws-sdk-go/aws/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws/modelcheck"
	"github.com/mulgadc/spinifex/foundation/aws/models"
	"github.com/mulgadc/spinifex/internal/cloud"
)

// checked holds every answer of a session against the API models.
type checked struct {
	checkers map[string]*modelcheck.Checker // by signing name

	mu       sync.Mutex
	visited  map[string]bool // service and operation
	findings []string
	answers  int
}

// checkedSession is a session of AWS's SDK with the node as its cloud.
func checkedSession(t *testing.T, node *cloud.Node) (*session.Session, *checked) {
	t.Helper()
	c := newChecked(t)
	s := node.Session()
	s.Handlers.ValidateResponse.PushFront(c.look)
	return s, c
}

func newChecked(t *testing.T) *checked {
	t.Helper()
	c := &checked{checkers: map[string]*modelcheck.Checker{}, visited: map[string]bool{}}
	for _, name := range models.Names() {
		model, err := models.Load(name)
		require.NoError(t, err)
		checker, err := modelcheck.New(model)
		require.NoError(t, err)
		c.checkers[name] = checker
	}
	return c
}

// look reads the answer before the SDK does.
func (c *checked) look(r *request.Request) {
	body, err := io.ReadAll(r.HTTPResponse.Body)
	if err != nil {
		r.Error = err
		return
	}
	r.HTTPResponse.Body = io.NopCloser(bytes.NewReader(body))
	c.answer(r.ClientInfo.SigningName, r.Operation.Name, r.HTTPResponse.StatusCode, r.HTTPResponse.Header, body)
}

func (c *checked) answer(service, operation string, status int, header map[string][]string, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers++
	c.visited[service+" "+operation] = true
	for _, finding := range c.checkers[service].Check(operation, status, header, body) {
		c.findings = append(c.findings, service+" "+finding.String()+" in "+string(body))
	}
}

func (c *checked) saw(service, operation string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.visited[service+" "+operation]
}

// assertClean wants no finding in any answer.
func (c *checked) assertClean(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.NotZero(t, c.answers)
	assert.Empty(t, c.findings)
}

// TestTheCheckerSeesAFault makes sure that a clean result means something.
func TestTheCheckerSeesAFault(t *testing.T) {
	c := newChecked(t)
	c.answer("sts", "GetCallerIdentity", 200, map[string][]string{"Content-Type": {"text/xml"}},
		[]byte(`<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Acount>1</Acount></GetCallerIdentityResult></GetCallerIdentityResponse>`))
	assert.NotEmpty(t, c.findings)
}
