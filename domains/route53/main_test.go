package route53

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/foundation/aws"
	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/lifecycle/election"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	alice = "000000000001"
	bob   = "000000000002"
)

// cloud is a store with everything of Route 53's, and one or more nodes on it.
type cloud struct {
	t       testing.TB
	js      jetstream.JetStream
	bucket  *kvstore.Bucket
	servers *kvstore.Bucket
	zones   *fakeZones
}

func newCloud(t testing.TB) *cloud {
	_, _, js := testkit.StartTestJetStream(t)
	return &cloud{
		t: t, js: js, zones: newFakeZones(),
		bucket: kvstore.Open(js, Bucket), servers: kvstore.Open(js, dnsapi.ServersBucket),
	}
}

// node makes a Service with leases of its own; change functions alter its Deps.
func (c *cloud) node(name string, change ...func(*Deps)) *Service {
	sync := kvstore.OpenSyncBucket(c.js)
	ttl := election.WithTTL(3 * time.Second)
	d := Deps{
		Bucket: c.bucket, Servers: c.servers, NameServers: []string{"ns1.cloud.test", "ns2.cloud.test."},
		Zones: c.zones, ZoneWriter: c.zones.writer,
		RealizeLease: NewRealizeLease(sync, name+"/daemon", ttl),
		VerifyLease:  NewVerifyLease(sync, name+"/daemon", ttl),
		Log:          slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	for _, f := range change {
		f(&d)
	}
	return New(d)
}

// start runs a loop until the test ends or stop is called, and waits for its end.
func start(t testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

func call(account string) *aws.Call { return &aws.Call{Account: account} }

// createZone makes a hosted zone and returns its bare id.
func createZone(t testing.TB, s *Service, account, name, reference string) string {
	t.Helper()
	out, err := s.CreateHostedZone(t.Context(), call(account), &api.CreateHostedZoneRequest{Name: &name, CallerReference: &reference})
	require.NoError(t, err)
	id, ok := bareID(*out.HostedZone.Id, zonePrefix)
	require.True(t, ok)
	return id
}

func changeRecords(t testing.TB, s *Service, account, zone string, changes ...api.Change) *api.ChangeInfo {
	t.Helper()
	out, err := s.ChangeResourceRecordSets(t.Context(), call(account), &api.ChangeResourceRecordSetsRequest{
		HostedZoneId: &zone, ChangeBatch: &api.ChangeBatch{Changes: changes},
	})
	require.NoError(t, err)
	return out.ChangeInfo
}

func listRecords(t testing.TB, s *Service, account, zone string) []api.ResourceRecordSet {
	t.Helper()
	var all []api.ResourceRecordSet
	in := &api.ListResourceRecordSetsRequest{HostedZoneId: &zone}
	for {
		out, err := s.ListResourceRecordSets(t.Context(), call(account), in)
		require.NoError(t, err)
		all = append(all, out.ResourceRecordSets...)
		if !*out.IsTruncated {
			return all
		}
		in.StartRecordName, in.StartRecordType, in.StartRecordIdentifier = out.NextRecordName, out.NextRecordType, out.NextRecordIdentifier
	}
}

func changeStatus(t testing.TB, s *Service, account, id string) string {
	t.Helper()
	out, err := s.GetChange(t.Context(), call(account), &api.GetChangeRequest{Id: &id})
	require.NoError(t, err)
	return *out.ChangeInfo.Status
}

// state is what the realizer has decided about a zone, "" before it has.
func (c *cloud) state(s *Service, account, zone string) zoneState {
	c.t.Helper()
	rec, _, err := s.statuses.Get(c.t.Context(), statusKey(account, zone))
	if errors.Is(err, kvstore.ErrNotFound) {
		return ""
	}
	require.NoError(c.t, err)
	return rec.State
}

func (c *cloud) wantState(s *Service, account, zone string, want zoneState) {
	c.t.Helper()
	testkit.Eventually(c.t, 10*time.Second, func() (bool, string) {
		got := c.state(s, account, zone)
		return got == want, fmt.Sprintf("state %q, want %q", got, want)
	})
}

// report writes the report of a DNS server that serves what is published now.
func (c *cloud) report(node string) {
	c.t.Helper()
	status := dnsapi.ServerStatus{Version: 1, Node: node, Zones: map[string]uint32{}}
	for _, z := range c.zones.all() {
		status.Zones[z.ID] = z.Serial
	}
	value, err := json.Marshal(status)
	require.NoError(c.t, err)
	_, err = c.servers.Put(c.t.Context(), dnsapi.ServerKey(node), value)
	require.NoError(c.t, err)
}

// awsCode is the code and message of an error that a client may see.
func awsCode(t testing.TB, err error) (code, message string) {
	t.Helper()
	e, ok := errors.AsType[*aws.Error](err)
	require.True(t, ok, "%v is no answer", err)
	return e.Code, e.Message
}

func requireCode(t testing.TB, code string, err error) {
	t.Helper()
	got, _ := awsCode(t, err)
	require.Equal(t, code, got)
}

// fakeZones is a zone store in memory, fenced by generation as the real one is.
type fakeZones struct {
	mu         sync.Mutex
	zones      map[string]*dnsapi.Zone
	generation uint64
	puts       int
	beforePut  func(*dnsapi.Zone)
	refuse     func(*dnsapi.Zone) error
	listErr    error
	bad        []string
}

func newFakeZones() *fakeZones { return &fakeZones{zones: map[string]*dnsapi.Zone{}} }

func (f *fakeZones) all() map[string]*dnsapi.Zone {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.zones)
}

func (f *fakeZones) get(name string) *dnsapi.Zone { return f.all()[name] }

func (f *fakeZones) set(change func(*fakeZones)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeZones) Get(_ context.Context, _ dnsapi.Class, name string) (*dnsapi.Zone, error) {
	if z := f.get(name); z != nil {
		return z, nil
	}
	return nil, kvstore.ErrNotFound
}

func (f *fakeZones) All(context.Context, dnsapi.Class) iter.Seq2[*dnsapi.Zone, error] {
	zones := f.all()
	f.mu.Lock()
	bad, err := slices.Clone(f.bad), f.listErr
	f.mu.Unlock()
	return func(yield func(*dnsapi.Zone, error) bool) {
		for _, name := range bad {
			if !yield(nil, &dnsapi.BadZoneError{Class: dnsapi.Hosted, Name: name, Err: errors.New("broken")}) {
				return
			}
		}
		for _, name := range slices.Sorted(maps.Keys(zones)) {
			if slices.Contains(bad, name) {
				continue
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(zones[name], nil) {
				return
			}
		}
	}
}

func (f *fakeZones) Watch(context.Context) (<-chan dnsapi.ZoneEvent, error) {
	return nil, errors.ErrUnsupported
}

// writer stamps the store for an acquisition.
func (f *fakeZones) writer(_ context.Context, tok kvsync.Token) (dnsapi.ZoneWriter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if tok.Generation < f.generation {
		return nil, kvsync.ErrLost
	}
	f.generation = tok.Generation
	return &fakeWriter{f, tok.Generation}, nil
}

type fakeWriter struct {
	f          *fakeZones
	generation uint64
}

func (w *fakeWriter) Put(_ context.Context, z *dnsapi.Zone) error {
	w.f.mu.Lock()
	hook := w.f.beforePut
	w.f.mu.Unlock()
	if hook != nil {
		hook(z)
	}
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	if w.generation != w.f.generation {
		return fmt.Errorf("put %s: %w", z.Name, kvsync.ErrLost)
	}
	if w.f.refuse != nil {
		if err := w.f.refuse(z); err != nil {
			return err
		}
	}
	stored := *z
	stored.Version, stored.Class, stored.Generation = 1, dnsapi.Hosted, w.generation
	w.f.zones[z.Name] = &stored
	w.f.bad = slices.DeleteFunc(w.f.bad, func(n string) bool { return n == z.Name })
	w.f.puts++
	return nil
}

func (w *fakeWriter) Delete(_ context.Context, name string) error {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	if w.generation != w.f.generation {
		return fmt.Errorf("delete %s: %w", name, kvsync.ErrLost)
	}
	delete(w.f.zones, name)
	w.f.bad = slices.DeleteFunc(w.f.bad, func(n string) bool { return n == name })
	return nil
}
