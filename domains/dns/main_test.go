package dns

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const base = "cloud.example."

// cluster is the two buckets of a test, which several nodes open.
type cluster struct {
	js   jetstream.JetStream
	size clustersize.Size
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	_, _, js := testkit.StartTestJetStream(t)
	size, err := clustersize.Declare(1)
	require.NoError(t, err)
	return &cluster{js: js, size: size}
}

func (c *cluster) zones() *kvstore.Bucket {
	return kvstore.Open(c.js, dnsapi.ZonesBucket, kvstore.WithSize(c.size))
}

func (c *cluster) sync() *kvstore.Bucket {
	return kvstore.OpenSyncBucket(c.js, kvstore.WithSize(c.size))
}

// node is one process's part.
type node struct {
	name    string
	service *Service
	store   *ZoneStore
	bucket  *kvstore.Bucket
	lease   *kvsync.Lease
	log     *testkit.Buffer
	sources []*fakeSource
}

func (c *cluster) node(t *testing.T, name string, sources ...*fakeSource) *node {
	t.Helper()
	n := &node{name: name, bucket: c.zones(), log: &testkit.Buffer{}, sources: sources}
	n.store = NewZoneStore(n.bucket)
	n.lease = NewReconcileLease(c.sync(), name+"/daemon")
	deps := Deps{
		Zones: n.store, Lease: n.lease, BaseDomain: "cloud.example", Region: "eu-test-1",
		NameServers: []NameServer{{Name: "ns1.cloud.example", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.53")}}},
		Log:         slog.New(slog.NewTextHandler(n.log, nil)),
	}
	for _, src := range sources {
		deps.Sources = append(deps.Sources, src)
	}
	var err error
	n.service, err = New(deps)
	require.NoError(t, err)
	return n
}

// run runs the service until stop is called.
func (n *node) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- n.service.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

// fakeSource wants what the test says.
type fakeSource struct {
	class string

	mu         sync.Mutex
	sets       []dnsapi.RRSet
	incomplete bool
	err        error
	block      chan struct{} // RRSets waits until it is closed
	changed    func()
	breaks     context.CancelCauseFunc
}

func (f *fakeSource) Class() string { return f.class }

func (f *fakeSource) RRSets(context.Context) ([]dnsapi.RRSet, bool, error) {
	f.mu.Lock()
	block := f.block
	f.mu.Unlock()
	if block != nil {
		<-block
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.sets), !f.incomplete, f.err
}

func (f *fakeSource) Watch(ctx context.Context, changed func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.mu.Lock()
	f.changed, f.breaks = changed, cancel
	f.mu.Unlock()
	<-ctx.Done()
	return context.Cause(ctx)
}

// set changes the source and wakes whoever watches.
func (f *fakeSource) set(change func(*fakeSource)) {
	f.mu.Lock()
	change(f)
	changed := f.changed
	f.mu.Unlock()
	if changed != nil {
		changed()
	}
}

func a(name string, values ...string) dnsapi.RRSet {
	return dnsapi.RRSet{Name: name, Type: "A", Values: values}
}

// show formats the sets of a zone: name, type, TTL, values and the class, "-" when not managed.
func show(z *dnsapi.Zone) string {
	if z == nil {
		return "none"
	}
	var lines []string
	for _, s := range z.RRSets {
		ttl, class := "-", "-"
		if s.TTL != nil {
			ttl = fmt.Sprint(*s.TTL)
		}
		if s.Managed {
			class = s.Source
		}
		name := "@"
		if s.Name != base {
			name = strings.TrimSuffix(s.Name, "."+base)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s %s", name, s.Type, ttl, strings.Join(s.Values, ","), class))
	}
	return strings.Join(lines, "\n")
}
