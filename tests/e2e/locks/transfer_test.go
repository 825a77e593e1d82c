package locks

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/cloud"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// TestALeaseMovesToAnotherNodeWithoutAPause has the default time to live: what is faster was handed over.
func TestALeaseMovesToAnotherNodeWithoutAPause(t *testing.T) {
	t.Parallel()
	nats := startServers(t, 1)[0]
	first := cloud.Start(t, cloud.Options{Binary: binary, NATS: nats.url(), Name: "n1"})
	cloud.Start(t, cloud.Options{
		Binary: binary, NATS: nats.url(), Name: "n2", SealingKey: filepath.Join(first.Dir, "keys", "sealing.key"),
	})
	before := lease(first, "route53.realize")
	require.NotZero(t, before.Generation)
	other := "n1"
	if strings.HasPrefix(before.Holder, "n1/") {
		other = "n2"
	}
	start := time.Now()
	r := first.Spinifex("locks", "transfer", "route53.realize", "--to", other)
	require.Equal(t, 0, r.Status, r.Stderr)
	assert.Contains(t, r.Stdout, "route53.realize is held by "+other+"/daemon")
	assert.Less(t, time.Since(start), 15*time.Second)
	testkit.Eventually(t, 10*time.Second, func() (bool, string) {
		now := lease(first, "route53.realize")
		return now.Answered && now.Holder == other+"/daemon" && now.Generation > before.Generation, fmt.Sprint(now)
	})
	r = first.Spinifex("locks", "doctor")
	assert.Equal(t, 0, r.Status, r.Stdout)
}

func lease(node *cloud.Node, key string) cloud.Lease {
	for _, l := range node.Leases() {
		if l.Key == key {
			return l
		}
	}
	return cloud.Lease{}
}
