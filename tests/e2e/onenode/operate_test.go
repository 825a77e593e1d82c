package onenode

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/cloud"
	"github.com/mulgadc/spinifex/internal/testkit"
)

func lease(t *testing.T, node *cloud.Node, key string) cloud.Lease {
	t.Helper()
	leases := node.Leases()
	i := slices.IndexFunc(leases, func(l cloud.Lease) bool { return l.Key == key })
	require.GreaterOrEqual(t, i, 0, "%s is not among %+v", key, leases)
	return leases[i]
}

// TestABrokenLeaseIsWonAgainLater breaks a lease: only its own generation can be broken, and who wins
// the key next has a greater one.
func TestABrokenLeaseIsWonAgainLater(t *testing.T) {
	node := start(t)
	const key = "route53.realize"
	before := lease(t, node, key)
	broken := func(generation uint64) cloud.Result {
		return node.Spinifex("locks", "break", key, "--generation", fmt.Sprint(generation), "--reason", "a test")
	}

	assert.NotZero(t, broken(before.Generation-1).Status, "not the generation that holds it")
	assert.Equal(t, before, lease(t, node, key))

	r := broken(before.Generation)
	require.Equal(t, 0, r.Status, r.Stderr)
	testkit.Eventually(t, 40*time.Second, func() (bool, string) {
		leases := node.Leases()
		again := slices.ContainsFunc(leases, func(l cloud.Lease) bool { return l.Key == key && l.Generation > before.Generation })
		return again, fmt.Sprintf("%+v", leases)
	})
	makeZone(t, node)
	assertServed(t, node)
}

func TestBucketsAreAudited(t *testing.T) {
	node := start(t)
	r := node.Spinifex("bucket", "audit", "--output", "json")
	require.Equal(t, 0, r.Status, r.Stderr)
	require.True(t, json.Valid([]byte(r.Stdout)), r.Stdout)
	table := node.Spinifex("bucket", "audit")
	require.Equal(t, 0, table.Status, table.Stderr)
	for _, bucket := range []string{"spinifex-sync", "spinifex-dns-zones", "spinifex-route53", "spinifex-iam", "spinifex-nodes"} {
		assert.Contains(t, r.Stdout, bucket)
		assert.Contains(t, table.Stdout, bucket)
	}
}

// TestLocksAreShownWithTheirTimeLeft reads the table that people read.
func TestLocksAreShownWithTheirTimeLeft(t *testing.T) {
	node := start(t)
	r := node.Spinifex("locks", "ls")
	require.Equal(t, 0, r.Status, r.Stderr)
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	require.Len(t, lines, 4, "a head and three leases:\n%s", r.Stdout)
	for _, column := range []string{"KEY", "HOLDER", "GENERATION", "AGE", "LEFT"} {
		assert.Contains(t, lines[0], column)
	}
	for _, line := range lines[1:] {
		assert.Contains(t, line, node.Name()+"/daemon")
		assert.NotContains(t, line, "unanswered")
	}
}
