package onenode

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/cloud"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// refuses starts a node that must not start, and returns what it says.
func refuses(t *testing.T, node *cloud.Node) string {
	t.Helper()
	node.Start()
	testkit.Eventually(t, cloud.StartTimeout, func() (bool, string) {
		return !node.Process().Running(), "still running:\n" + node.Output()
	})
	status, err := node.Process().Wait(t.Context())
	require.NoError(t, err)
	assert.Positive(t, status, "ends with a status of its own")
	return node.Output()
}

func TestConfigurationFaultsAreNamed(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		want           []string
	}{
		{"an unknown key", "[locks]\n", "[locks]\ntlt = \"5s\"\n", []string{"locks.tlt", "locks.ttl"}},
		{"an unknown section", "[locks]\n", "[lokcs]\nttl = \"5s\"\n[locks]\n", []string{"lokcs"}},
		{"a bad value", "[locks]\n", "[locks]\nttl = \"soon\"\n", []string{"locks.ttl", "soon"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			node := cloud.New(t, cloud.Options{Binary: binary})
			node.WriteConfig(strings.Replace(node.Config(), c.from, c.to, 1))
			said := refuses(t, node)
			for _, want := range c.want {
				assert.Contains(t, said, want)
			}
		})
	}
}

func TestPortInUseIsNamed(t *testing.T) {
	for _, key := range []string{"awsgw.listen", "dns.listen", "nats.listen", "telemetry.listen"} {
		t.Run(key, func(t *testing.T) {
			node := cloud.New(t, cloud.Options{Binary: binary})
			addr := map[string]string{
				"awsgw.listen": node.Gateway, "dns.listen": node.DNS, "nats.listen": node.NATS, "telemetry.listen": node.Telemetry,
			}[key]
			taken, err := net.Listen("tcp", addr)
			require.NoError(t, err)
			defer taken.Close()
			said := refuses(t, node)
			assert.Contains(t, said, key)
			assert.Contains(t, said, addr)
		})
	}
}

func TestOneDataDirectoryOneProcess(t *testing.T) {
	node := start(t)
	second := cloud.New(t, cloud.Options{Binary: binary})
	second.WriteConfig(strings.Replace(second.Config(), second.Dir, node.Dir, 1))
	said := refuses(t, second)
	assert.Contains(t, said, node.Dir)
	node.Decode(nil, "sts", "get-caller-identity")
}

func TestMetrics(t *testing.T) {
	node := start(t)
	client := &http.Client{Timeout: 10 * time.Second}
	testkit.Eventually(t, 20*time.Second, func() (bool, string) {
		resp, err := client.Get("http://" + node.Telemetry + "/metrics")
		if err != nil {
			return false, err.Error()
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return strings.Contains(string(text), "route53.realize"), string(text)
	})
}
