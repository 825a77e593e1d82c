package route53

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mulgadc/spinifex/domains/dns"
	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// published waits until the zone object of a name has so many record sets.
func (c *cloud) published(name string, sets int) *dnsapi.Zone {
	c.t.Helper()
	var z *dnsapi.Zone
	testkit.Eventually(c.t, 10*time.Second, func() (bool, string) {
		if z = c.zones.get(name); z == nil {
			return false, "not published"
		}
		return len(z.RRSets) == sets, fmt.Sprintf("%d record sets, want %d", len(z.RRSets), sets)
	})
	return z
}

func (c *cloud) withdrawn(name string) {
	c.t.Helper()
	testkit.Eventually(c.t, 10*time.Second, func() (bool, string) {
		return c.zones.get(name) == nil, name + " is still published"
	})
}

func TestRealizerPublishes(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	start(t, s.RunRealizer)
	id := createZone(t, s, alice, "Example.Test", "1")
	z := c.published("example.test.", 2)
	assert.Equal(t, id, z.ID)
	assert.Equal(t, dnsapi.Hosted, z.Class)
	assert.Equal(t, uint32(900), z.NegativeTTL, "the lower of the SOA's TTL and minimum")
	c.wantState(s, alice, id, stateActive)

	info := changeRecords(t, s, alice, id,
		create(rrset("www.example.test", "A", "192.0.2.1", "192.0.2.2")),
		create(rrset("*.example.test", "TXT", `"ex\303\244mple"`)),
		create(weighted(rrset("w.example.test", "CNAME", "a.example.com"), "one", 0)),
		create(multi(rrset("m.example.test", "A", "192.0.2.3"), "x")),
		create(with(aliasTo("example.test", "A", "www.example.test"), func(rr *api.ResourceRecordSet) { rr.AliasTarget.HostedZoneId = &id })),
	)
	z = c.published("example.test.", 7)
	ttl := new(uint32(60))
	assert.Contains(t, z.RRSets, dnsapi.RRSet{Name: "www.example.test.", Type: "A", TTL: ttl, Values: []string{"192.0.2.1", "192.0.2.2"}})
	assert.Contains(t, z.RRSets, dnsapi.RRSet{Name: "*.example.test.", Type: "TXT", TTL: ttl, Values: []string{`"ex\195\164mple"`}})
	assert.Contains(t, z.RRSets, dnsapi.RRSet{Name: "w.example.test.", Type: "CNAME", TTL: ttl, SetID: "one", Weight: new(int64(0)), Values: []string{"a.example.com."}})
	assert.Contains(t, z.RRSets, dnsapi.RRSet{Name: "m.example.test.", Type: "A", TTL: ttl, SetID: "x", MultiValue: true, Values: []string{"192.0.2.3"}})
	assert.Contains(t, z.RRSets, dnsapi.RRSet{Name: "example.test.", Type: "A", Alias: &dnsapi.Alias{Zone: id, Name: "www.example.test."}})

	assert.Equal(t, "PENDING", changeStatus(t, s, alice, *info.Id), "no server is live")
	c.report("n1")
	assert.Equal(t, "INSYNC", changeStatus(t, s, alice, *info.Id))
	later := changeRecords(t, s, alice, id, create(rrset("later.example.test", "A", "192.0.2.1")))
	assert.Equal(t, "PENDING", changeStatus(t, s, alice, *later.Id), "the server has the change before this one")
	assert.Equal(t, "INSYNC", changeStatus(t, s, alice, *info.Id))
	c.published("example.test.", 8)
	_, err := c.servers.Put(t.Context(), dnsapi.ServerKey("n2"), []byte(`{"version":1,"node":"n2"}`))
	require.NoError(t, err)
	c.report("n1")
	assert.Equal(t, "PENDING", changeStatus(t, s, alice, *later.Id), "n2 does not have it")
	c.report("n2")
	assert.Equal(t, "INSYNC", changeStatus(t, s, alice, *later.Id))

	empty := createZone(t, s, alice, "empty.test", "2")
	c.published("empty.test.", 2)
	_, err = s.DeleteHostedZone(t.Context(), call(alice), &api.DeleteHostedZoneRequest{Id: &empty})
	require.NoError(t, err)
	c.withdrawn("empty.test.")
	c.wantState(s, alice, empty, "")
}

func TestNextLeaderGoesOn(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) }) // runs last, after the server has stopped
	c := newCloud(t)
	n1, n2 := c.node("n1"), c.node("n2")
	stop := start(t, n1.RunRealizer)
	id := createZone(t, n1, alice, "example.test", "1")
	c.wantState(n1, alice, id, stateActive)
	first := c.published("example.test.", 2).Generation
	stop()
	changeRecords(t, n1, alice, id, create(rrset("www.example.test", "A", "192.0.2.1")))
	other := createZone(t, n1, alice, "other.test", "2")
	assert.Nil(t, c.zones.get("other.test."), "nobody leads")
	stop = start(t, n2.RunRealizer)
	second := c.published("example.test.", 3).Generation
	assert.Greater(t, second, first)
	c.wantState(n2, alice, other, stateActive)
	stop()
	puts := c.zones.puts
	stop = start(t, n1.RunRealizer)
	last := createZone(t, n1, alice, "last.test.test", "3")
	c.wantState(n1, alice, last, stateActive)
	assert.Equal(t, puts+1, c.zones.puts, "what is published already is not written again")
	stop()
}

// lead is one leadership that ends by itself.
func lead(t *testing.T, s *Service, tok kvsync.Token) error {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return s.realize(ctx, tok, s.deps.Log)
}

// A leader that is deposed in the middle of a pass writes nothing more, neither a zone nor a status,
// and stands down.
func TestDeposedRealizerWritesNothing(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	for i := range 3 {
		createZone(t, s, alice, fmt.Sprintf("z%d.test", i), fmt.Sprint(i))
	}
	tok, err := s.deps.RealizeLease.TryLock(t.Context())
	require.NoError(t, err)
	defer s.deps.RealizeLease.Unlock(t.Context(), tok)
	later := kvsync.Token{Holder: "n2/daemon", Generation: tok.Generation + 1}
	seen := 0
	c.zones.set(func(f *fakeZones) {
		f.beforePut = func(*dnsapi.Zone) {
			if seen++; seen != 2 {
				return
			}
			_, err := f.writer(t.Context(), later)
			assert.NoError(t, err)
			_, err = c.bucket.Fence(t.Context(), RealizeLeaseKey, later)
			assert.NoError(t, err)
		}
	})
	assert.ErrorIs(t, lead(t, s, tok), kvsync.ErrLost)
	assert.Len(t, c.zones.all(), 1, "the write before the deposition is the last one")
	for e, err := range c.bucket.List(t.Context(), prefix(alice, kindStatus)) {
		require.NoError(t, err)
		t.Errorf("status written: %s", e.Key)
	}
	_, err = s.deps.Bucket.Fence(t.Context(), RealizeLeaseKey, tok)
	assert.ErrorIs(t, err, kvsync.ErrLost)
}

// A status write of a deposed leader is refused although its zones were written in time.
func TestDeposedBeforeStatus(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	id := createZone(t, s, alice, "z.test.test", "1")
	tok, err := s.deps.RealizeLease.TryLock(t.Context())
	require.NoError(t, err)
	defer s.deps.RealizeLease.Unlock(t.Context(), tok)
	c.zones.set(func(f *fakeZones) {
		f.beforePut = func(*dnsapi.Zone) {
			_, err := c.bucket.Fence(t.Context(), RealizeLeaseKey, kvsync.Token{Holder: "n2/daemon", Generation: tok.Generation + 1})
			assert.NoError(t, err)
		}
	})
	assert.ErrorIs(t, lead(t, s, tok), kvsync.ErrLost)
	assert.Empty(t, c.state(s, alice, id))
}

// newRealizer is one leadership whose passes the test makes.
func (c *cloud) newRealizer(s *Service) *realizer {
	c.t.Helper()
	tok, err := s.deps.RealizeLease.TryLock(c.t.Context())
	require.NoError(c.t, err)
	c.t.Cleanup(func() { s.deps.RealizeLease.Unlock(context.WithoutCancel(c.t.Context()), tok) })
	w, err := c.zones.writer(c.t.Context(), tok)
	require.NoError(c.t, err)
	fence, err := c.bucket.Fence(c.t.Context(), RealizeLeaseKey, tok)
	require.NoError(c.t, err)
	return &realizer{s: s, writer: w, fence: fence, log: slog.New(slog.DiscardHandler), hints: newHints(func() {})}
}

func TestPartialListWithdrawsNothing(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	r := c.newRealizer(s)
	id := createZone(t, s, alice, "example.test", "1")
	_, err := r.pass(t.Context())
	require.NoError(t, err)
	c.zones.set(func(f *fakeZones) {
		f.zones["orphan.test."] = &dnsapi.Zone{Name: "orphan.test.", ID: "ZGONE"}
		f.listErr = errors.New("the store went away")
	})
	other := createZone(t, s, alice, "other.test", "2")
	r.hints.addAll()
	_, err = r.pass(t.Context())
	assert.ErrorContains(t, err, "the store went away")
	assert.NotNil(t, c.zones.get("orphan.test."))
	assert.NotNil(t, c.zones.get("example.test."))
	assert.Empty(t, c.state(s, alice, other), "without a complete list there is no pass")

	c.zones.set(func(f *fakeZones) { f.listErr, f.bad = nil, []string{"example.test.", "bad.test."} })
	_, err = r.pass(t.Context())
	require.NoError(t, err)
	assert.Nil(t, c.zones.get("orphan.test."))
	assert.Equal(t, id, c.zones.get("example.test.").ID)
	assert.Empty(t, c.zones.bad, "objects that cannot be read are written anew or withdrawn")
	assert.Equal(t, stateActive, c.state(s, alice, other))
}

func TestUnreadableRecordKeepsWhatIsPublished(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	r := c.newRealizer(s)
	id := createZone(t, s, alice, "example.test", "1")
	_, err := r.pass(t.Context())
	require.NoError(t, err)
	stored, err := c.bucket.Get(t.Context(), zoneKey(alice, id))
	require.NoError(t, err)
	for _, value := range []string{`{"version":2}`, `not JSON`, `{"version":1,"name":"example.test.","record_sets":[{"name":"x.","type":"A","values":["?"]}]}`} {
		_, err = c.bucket.Put(t.Context(), zoneKey(alice, id), []byte(value))
		require.NoError(t, err)
		other := createZone(t, s, bob, "other.test", value)
		r.hints.add(zoneKey(alice, id))
		r.hints.add(zoneKey(bob, other))
		_, err = r.pass(t.Context())
		require.NoError(t, err)
		assert.Equal(t, id, c.zones.get("example.test.").ID)
		assert.NotEmpty(t, c.state(s, bob, other), "other zones are not held up")
	}
	_, err = c.bucket.Put(t.Context(), zoneKey(alice, id), stored.Value)
	require.NoError(t, err)
	r.hints.add(zoneKey(alice, id))
	_, err = r.pass(t.Context())
	require.NoError(t, err)
	assert.Equal(t, stateActive, c.state(s, alice, id))
}

// A hint makes a pass read one record again; without hints a pass asks the stores nothing.
func TestPassReadsWhatIsHinted(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	r := c.newRealizer(s)
	id := createZone(t, s, alice, "example.test", "1")
	_, err := r.pass(t.Context())
	require.NoError(t, err)
	changeRecords(t, s, alice, id, create(rrset("www.example.test", "A", "192.0.2.1")))
	c.zones.set(func(f *fakeZones) { f.listErr = errors.New("must not be listed") })
	_, err = r.pass(t.Context())
	require.NoError(t, err)
	assert.Len(t, c.zones.get("example.test.").RRSets, 2)
	r.hints.add(zoneKey(alice, id))
	_, err = r.pass(t.Context())
	require.NoError(t, err)
	assert.Len(t, c.zones.get("example.test.").RRSets, 3)
	r.refreshed = r.refreshed.Add(-realizeResync)
	_, err = r.pass(t.Context())
	assert.ErrorContains(t, err, "must not be listed", "after the resync period everything is read")
}

// A zone that the store refuses is tried once, and again after a complete read; the others go on.
func TestRefusedZoneHoldsUpNoOther(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	r := c.newRealizer(s)
	bad := createZone(t, s, alice, "bad.test.test", "1")
	good := createZone(t, s, alice, "good.test.test", "2")
	tries := 0
	c.zones.set(func(f *fakeZones) {
		f.refuse = func(z *dnsapi.Zone) error {
			if z.Name != "bad.test.test." {
				return nil
			}
			tries++
			return kvstore.ErrTooLarge
		}
	})
	for range 3 {
		_, err := r.pass(t.Context())
		require.NoError(t, err)
	}
	assert.Equal(t, 1, tries)
	assert.Equal(t, stateActive, c.state(s, alice, good))
	assert.Empty(t, c.state(s, alice, bad), "its changes stay pending")
	c.zones.set(func(f *fakeZones) { f.refuse = nil })
	r.hints.addAll()
	_, err := r.pass(t.Context())
	require.NoError(t, err)
	assert.Equal(t, stateActive, c.state(s, alice, bad))
}

// With the DNS domain's own zone store, what a complete read finds is what was published, small or
// large, and a pass after it writes nothing.
func TestRealZoneStore(t *testing.T) {
	c := newCloud(t)
	bucket := kvstore.Open(c.js, dnsapi.ZonesBucket)
	zones := dns.NewZoneStore(bucket)
	s := c.node("n1", func(d *Deps) {
		d.Zones = zones
		d.ZoneWriter = func(ctx context.Context, tok kvsync.Token) (dnsapi.ZoneWriter, error) {
			return zones.Writer(ctx, dnsapi.Hosted, RealizeLeaseKey, tok)
		}
	})
	r := c.newRealizer(s)
	tok, ok := s.deps.RealizeLease.Token()
	require.True(t, ok)
	var err error
	r.writer, err = s.deps.ZoneWriter(t.Context(), tok)
	require.NoError(t, err)
	id := createZone(t, s, alice, "example.test", "1")
	createZone(t, s, alice, `a.*.exämple.test`, "2")
	var changes []api.Change
	for i := range 100 {
		changes = append(changes, create(rrset(fmt.Sprintf("t%d.example.test", i), "TXT", `"`+strings.Repeat("ä", 100)+`"`)))
	}
	changes = append(changes,
		create(weighted(rrset("*.example.test", "A", "192.0.2.1"), "é", 0)),
		create(multi(rrset("m.example.test", "AAAA", "2001:db8::1"), "x")),
		create(with(aliasTo("example.test", "TXT", "t1.example.test"), func(rr *api.ResourceRecordSet) { rr.AliasTarget.HostedZoneId = &id })))
	changeRecords(t, s, alice, id, changes...)
	_, err = r.pass(t.Context())
	require.NoError(t, err)
	revisions := func() map[string]uint64 {
		out := map[string]uint64{}
		for e, err := range bucket.List(t.Context(), "") {
			require.NoError(t, err)
			out[e.Key] = e.Rev
		}
		return out
	}
	before := revisions()
	require.Len(t, before, 2)
	r.hints.addAll()
	_, err = r.pass(t.Context())
	require.NoError(t, err)
	assert.Equal(t, before, revisions())
	_, err = bucket.Put(t.Context(), "hosted."+kvstore.EscapeToken("example.test."), []byte("broken"))
	require.NoError(t, err)
	r.hints.addAll()
	_, err = r.pass(t.Context())
	require.NoError(t, err)
	z, err := zones.Get(t.Context(), dnsapi.Hosted, "example.test.")
	require.NoError(t, err)
	assert.Len(t, z.RRSets, 105)
}

func TestTwoAccountsOneName(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	start(t, s.RunRealizer)
	first := createZone(t, s, alice, "example.test", "1")
	c.wantState(s, alice, first, stateActive)
	second := createZone(t, s, bob, "example.test", "1")
	c.wantState(s, bob, second, statePendingDuplicate)
	info := changeRecords(t, s, bob, second, create(rrset("www.example.test", "A", "192.0.2.66")))
	assert.Equal(t, "INSYNC", changeStatus(t, s, bob, *info.Id), "changes of a zone that is not active settle at once")
	third := createZone(t, s, alice, "example.test", "2")
	c.wantState(s, alice, third, statePendingDuplicate)
	assert.Equal(t, first, c.zones.get("example.test.").ID)

	_, err := s.DeleteHostedZone(t.Context(), call(alice), &api.DeleteHostedZoneRequest{Id: &first})
	require.NoError(t, err)
	c.wantState(s, bob, second, stateActive)
	assert.Equal(t, second, c.published("example.test.", 3).ID)
	c.wantState(s, alice, third, statePendingDuplicate)
}
