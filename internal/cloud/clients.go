package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/credentials"
	"github.com/aws/aws-sdk-go/aws/session"
	v4 "github.com/aws/aws-sdk-go/aws/signer/v4"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/process"
)

// clientTimeout bounds one run of a client.
const clientTimeout = 60 * time.Second

// Result is what a program printed and how it ended.
type Result struct {
	Stdout, Stderr string
	Status         int
}

// AWS runs the AWS CLI against the node with the settings that the node printed.
func (n *Node) AWS(args ...string) Result {
	n.t.Helper()
	return n.AWSWith(nil, args...)
}

// AWSWith is AWS with variables that replace the node's settings.
func (n *Node) AWSWith(env []string, args ...string) Result {
	n.t.Helper()
	all := append(append(n.Settings(), "AWS_PAGER=", "AWS_MAX_ATTEMPTS=2"), env...)
	// Debian's awscli 2.9 does not know AWS_ENDPOINT_URL.
	return run(n.t, all, awsCLI(n.t), append([]string{"--endpoint-url", n.Endpoint()}, args...)...)
}

// Shell runs a script with bash, with the settings that the node printed and the AWS CLI as aws.
func (n *Node) Shell(script string) Result {
	n.t.Helper()
	env := append(n.Settings(), "AWS_PAGER=", "PATH="+filepath.Dir(awsCLI(n.t))+":"+os.Getenv("PATH"))
	return run(n.t, env, "bash", "-c", script)
}

// awsCLI prefers the package that scripts/apt-install installs.
func awsCLI(t testing.TB) string {
	t.Helper()
	const packaged = "/usr/bin/aws"
	if _, err := os.Stat(packaged); err == nil {
		return packaged
	}
	path, err := exec.LookPath("aws")
	require.NoError(t, err, "run scripts/apt-install test")
	return path
}

// Decode runs the CLI, which must succeed, and decodes its JSON into out, unless out is nil.
func (n *Node) Decode(out any, args ...string) {
	n.t.Helper()
	r := n.AWS(args...)
	require.Equal(n.t, 0, r.Status, "aws %s: %s", strings.Join(args, " "), r.Stderr)
	if out != nil {
		require.NoError(n.t, json.Unmarshal([]byte(r.Stdout), out), "%s", r.Stdout)
	}
}

// Session configures the AWS SDK with the settings that the node printed.
func (n *Node) Session() *session.Session {
	n.t.Helper()
	config := &aws.Config{Region: aws.String("us-east-1"), Endpoint: aws.String(n.Endpoint()), MaxRetries: aws.Int(0)}
	file, _ := n.setting("AWS_SHARED_CREDENTIALS_FILE")
	profile, _ := n.setting("AWS_PROFILE")
	config.Credentials = credentials.NewSharedCredentials(file, profile)
	s, err := session.NewSessionWithOptions(session.Options{Config: *config, SharedConfigState: session.SharedConfigDisable})
	require.NoError(n.t, err)
	return s
}

// Answer is what the gateway says to a raw request.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Send signs a request as the administrator and sends it: for what no client would send.
func (n *Node) Send(service, method, path, contentType, body string) Answer {
	n.t.Helper()
	reader := strings.NewReader(body)
	req, err := http.NewRequestWithContext(n.t.Context(), method, n.Endpoint()+path, reader)
	require.NoError(n.t, err)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	_, err = v4.NewSigner(n.Session().Config.Credentials).Sign(req, reader, service, "us-east-1", time.Now())
	require.NoError(n.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(n.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(n.t, err)
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(text)}
}

// Dig asks the node's DNS server and returns the lines of dig's +short answer.
func (n *Node) Dig(args ...string) []string {
	n.t.Helper()
	r := n.DigFull(append([]string{"+short"}, args...)...)
	return strings.FieldsFunc(r.Stdout, func(c rune) bool { return c == '\n' })
}

// DigFull asks the node's DNS server and returns all that dig prints.
func (n *Node) DigFull(args ...string) Result {
	n.t.Helper()
	host, port, _ := strings.Cut(n.DNS, ":")
	return run(n.t, nil, "dig", append([]string{"@" + host, "-p", port, "+time=3", "+tries=2"}, args...)...)
}

// Spinifex runs the binary itself with the node's configuration.
func (n *Node) Spinifex(args ...string) Result {
	n.t.Helper()
	return run(n.t, nil, n.opts.Binary, append(args, "--config", n.config)...)
}

// Run runs the binary without the node's configuration.
func (n *Node) Run(args ...string) Result {
	n.t.Helper()
	return run(n.t, nil, n.opts.Binary, args...)
}

// Lease is a line of "spinifex locks ls".
type Lease struct {
	Key        string `json:"key"`
	Holder     string `json:"holder"`
	Generation uint64 `json:"generation"`
	// Answered is true when the holder's process says so itself.
	Answered bool `json:"answered"`
}

// Leases are the leases that the cloud of this node has.
func (n *Node) Leases() []Lease {
	n.t.Helper()
	r := n.Spinifex("locks", "ls", "--output", "json")
	require.Equal(n.t, 0, r.Status, r.Stderr)
	var leases []Lease
	require.NoError(n.t, json.Unmarshal([]byte(r.Stdout), &leases), "%s", r.Stdout)
	return leases
}

func run(t testing.TB, env []string, path string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(process.CleanEnv(), env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := Result{Stdout: stdout.String(), Stderr: stderr.String(), Status: cmd.ProcessState.ExitCode()}
	if err != nil && r.Status <= 0 {
		require.NoError(t, err, "%s %s\n%s%s", path, strings.Join(args, " "), r.Stdout, r.Stderr)
	}
	return r
}
