package dnsserver

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	mdns "github.com/miekg/dns"

	"github.com/mulgadc/spinifex/domains/dns"
	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// The server, the zone store and JetStream together: a written zone is answered with and reported, also
// while JetStream is away.
func TestServerOnTheZoneStore(t *testing.T) {
	srv, _, js := testkit.StartTestJetStream(t)
	size, err := clustersize.Declare(1)
	require.NoError(t, err)
	store := dns.NewZoneStore(kvstore.Open(js, dnsapi.ZonesBucket, kvstore.WithSize(size)))
	statuses := kvstore.Open(js, dnsapi.ServersBucket, kvstore.WithSize(size))
	s, addr := startServer(t, Options{Zones: store, Servers: statuses})
	w, err := store.Writer(t.Context(), dnsapi.Hosted, "route53.realize", kvsync.Token{Holder: "n1/daemon", Generation: 1})
	require.NoError(t, err)
	for serial := range uint32(3) {
		z := zoneOf("example.test.", fmt.Sprintf("www A 192.0.2.%d", serial))
		z.Serial = serial + 1
		require.NoError(t, w.Put(t.Context(), z))
		testkit.Eventually(t, 5*time.Second, func() (bool, string) {
			e, err := statuses.Get(t.Context(), dnsapi.ServerKey("n1"))
			if err != nil {
				return false, err.Error()
			}
			var status dnsapi.ServerStatus
			require.NoError(t, json.Unmarshal(e.Value, &status))
			return status.Zones[z.ID] == z.Serial, string(e.Value)
		})
		resp := lookup(t, "udp", addr, "www.example.test.", mdns.TypeA)
		require.Len(t, resp.Answer, 1, "what is reported is answered")
		assert.Equal(t, fmt.Sprintf("192.0.2.%d", serial), resp.Answer[0].(*mdns.A).A.String())
	}
	require.NoError(t, w.Put(t.Context(), zoneOf("gone.test.")))
	testkit.Eventually(t, 5*time.Second, func() (bool, string) {
		got := s.view.Load().serials()
		return len(got) == 2, fmt.Sprint(got)
	})
	require.NoError(t, w.Delete(t.Context(), "gone.test."))
	testkit.Eventually(t, 5*time.Second, func() (bool, string) {
		got := s.view.Load().serials()
		return len(got) == 1, fmt.Sprint(got)
	})
	testkit.StopServer(srv)
	assert.Equal(t, "NOERROR aa an=1 ns=0 ar=0", header(lookup(t, "tcp", addr, "www.example.test.", mdns.TypeA)))
}
