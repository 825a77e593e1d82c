package twonode

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/cloud"
	"github.com/mulgadc/spinifex/internal/process"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// The programs, built once for the tests of this package: spinifex as it is released, the same with
// fault points, and a NATS server.
var binary, faulty, natsd string

func TestMain(m *testing.M) { cloud.Main(m, build) }

func build(ctx context.Context, dir string) error {
	var errs [3]error
	binary, errs[0] = process.Build(ctx, dir, "./cmd/spinifex")
	faulty, errs[1] = process.Build(ctx, filepath.Join(dir, "fault"), "./cmd/spinifex", "fault")
	natsd, errs[2] = process.Build(ctx, dir, "./internal/natsd")
	return errors.Join(errs[:]...)
}

// ttl is the time to live of the locks in these tests, the shortest that a configuration may have.
const ttl = 3 * time.Second

// takeOver is how soon after the leader's end another must lead.
const takeOver = ttl + 5*time.Second

// startNATS starts a NATS server as a process of its own.
func startNATS(t *testing.T) (url string) {
	t.Helper()
	p, err := process.Start(process.Options{Path: natsd, Args: []string{"-dir", t.TempDir()}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	testkit.Eventually(t, 30*time.Second, func() (bool, string) {
		line, _, whole := strings.Cut(p.Output(), "\n")
		url = strings.TrimPrefix(line, "ready ")
		return whole && url != line, p.Output()
	})
	return url
}

// connect connects the test itself to the server.
func connect(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return testkit.NewJetStream(t, conn)
}

// pair is two nodes on one NATS server.
type pair struct {
	url   string
	nodes []*cloud.Node
}

// startPair starts n1, then n2, with the sealing key of n1.
func startPair(t *testing.T, opts cloud.Options) *pair {
	t.Helper()
	p := &pair{url: startNATS(t)}
	opts.NATS = p.url
	opts.Name = "n1"
	first := cloud.Start(t, opts)
	opts.Name = "n2"
	opts.SealingKey = filepath.Join(first.Dir, "keys", "sealing.key")
	p.nodes = []*cloud.Node{first, cloud.Start(t, opts)}
	return p
}

// holder returns the node that leads under a lease and the other one, asked at the node given.
func (p *pair) holder(t *testing.T, key string) (leader, other *cloud.Node) {
	t.Helper()
	testkit.Eventually(t, takeOver, func() (bool, string) {
		leases := p.nodes[1].Leases()
		for i, node := range p.nodes {
			if leads(leases, node, key) {
				leader, other = node, p.nodes[1-i]
				return true, ""
			}
		}
		return false, fmt.Sprintf("%s is nobody's: %+v", key, leases)
	})
	return leader, other
}

func leads(leases []cloud.Lease, node *cloud.Node, key string) bool {
	for _, lease := range leases {
		if lease.Key == key {
			return strings.HasPrefix(lease.Holder, node.Name()+"/")
		}
	}
	return false
}

// leaseKeys are the elections of this release.
func leaseKeys() []string { return []string{"dns.reconcile", "route53.realize", "route53.verify"} }

// waitLeadsAll waits until a node leads everywhere, within a time.
func waitLeadsAll(t *testing.T, node *cloud.Node, within time.Duration) {
	t.Helper()
	testkit.Eventually(t, within, func() (bool, string) {
		leases := node.Leases()
		for _, key := range leaseKeys() {
			if !leads(leases, node, key) {
				return false, fmt.Sprintf("%s does not lead %s: %+v", node.Name(), key, leases)
			}
		}
		return true, ""
	})
}
