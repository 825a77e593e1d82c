package dns

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/foundation/lifecycle/election"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

const (
	apexLines = "@ SOA 300 ns1.cloud.example. hostmaster.cloud.example. 1 7200 900 1209600 60 zone\n" +
		"@ NS 300 ns1.cloud.example. zone"
	ns1Line = "ns1 A 60 192.0.2.53 zone"
)

// settle is longer than the debounce and a pass.
const settle = 2 * time.Second

func (n *node) zone(t *testing.T) *dnsapi.Zone {
	t.Helper()
	z, err := n.store.Get(t.Context(), dnsapi.Platform, base)
	if errors.Is(err, kvstore.ErrNotFound) {
		return nil
	}
	require.NoError(t, err)
	return z
}

// spoil writes into the base zone's key as nobody should.
func (n *node) spoil(t *testing.T, value string) {
	t.Helper()
	_, err := n.bucket.Put(t.Context(), zoneKey(dnsapi.Platform, base), []byte(value))
	require.NoError(t, err)
}

func (n *node) revision(t *testing.T) uint64 {
	t.Helper()
	e, err := n.bucket.Get(t.Context(), zoneKey(dnsapi.Platform, base))
	require.NoError(t, err)
	return e.Rev
}

func TestReconcileFollowsItsSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{class: "eks", sets: []dnsapi.RRSet{a("x."+base, "192.0.2.1")}}
		n := newCluster(t).node(t, "n1", src)
		stop := n.run(t)
		defer stop()
		time.Sleep(settle)
		z := n.zone(t)
		assert.Equal(t, apexLines+"\n"+ns1Line+"\nx A 60 192.0.2.1 eks", show(z))
		assert.NotZero(t, z.Generation)
		rev := n.revision(t)
		time.Sleep(time.Hour)
		assert.Equal(t, rev, n.revision(t), "nothing changed, nothing is written")
		src.set(func(f *fakeSource) { f.sets = []dnsapi.RRSet{a("y."+base, "192.0.2.2")} })
		time.Sleep(settle)
		next := n.zone(t)
		assert.Equal(t, apexLines+"\n"+ns1Line+"\ny A 60 192.0.2.2 eks", show(next))
		assert.Greater(t, next.Serial, z.Serial)
	})
}

func TestReconcileKeepsWhatASourceDidNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eks := &fakeSource{class: "eks", sets: []dnsapi.RRSet{a("x."+base, "192.0.2.1")}}
		rds := &fakeSource{class: "rds", sets: []dnsapi.RRSet{a("y."+base, "192.0.2.2")}}
		n := newCluster(t).node(t, "n1", eks, rds)
		stop := n.run(t)
		defer stop()
		time.Sleep(settle)
		both := "\nx A 60 192.0.2.1 eks\ny A 60 192.0.2.2 rds"
		for why, spoil := range map[string]func(*fakeSource){
			"half of it":   func(f *fakeSource) { f.sets, f.incomplete = nil, true },
			"an error":     func(f *fakeSource) { f.sets, f.err = nil, errors.New("no answer") },
			"a bad record": func(f *fakeSource) { f.sets = []dnsapi.RRSet{a("x."+base, "nonsense")} },
		} {
			eks.set(spoil)
			time.Sleep(settle)
			assert.Equal(t, apexLines+"\n"+ns1Line+both, show(n.zone(t)), why)
			rds.set(func(f *fakeSource) { f.sets = append(f.sets, a("z."+base, "192.0.2.3")) })
			time.Sleep(2 * time.Minute)
			assert.Contains(t, show(n.zone(t)), "z A 60 192.0.2.3 rds", "%s: the others are followed", why)
			rds.set(func(f *fakeSource) { f.sets = f.sets[:1] })
			eks.set(func(f *fakeSource) {
				f.sets, f.incomplete, f.err = []dnsapi.RRSet{a("x."+base, "192.0.2.1")}, false, nil
			})
			time.Sleep(2 * time.Minute)
			assert.Equal(t, apexLines+"\n"+ns1Line+both, show(n.zone(t)))
		}
		assert.NotZero(t, n.log.Count("no answer"))
		eks.set(func(f *fakeSource) { f.sets = nil })
		time.Sleep(settle)
		assert.Equal(t, apexLines+"\n"+ns1Line+"\ny A 60 192.0.2.2 rds", show(n.zone(t)), "a complete look at nothing prunes")
	})
}

func TestReconcileRetriesWithBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{class: "eks", err: errors.New("no answer")}
		n := newCluster(t).node(t, "n1", src)
		stop := n.run(t)
		defer stop()
		time.Sleep(settle)
		assert.Equal(t, apexLines+"\n"+ns1Line, show(n.zone(t)), "what can be written is")
		time.Sleep(10 * time.Second)
		// No change is told: the retry finds it, long before the resync.
		src.mu.Lock()
		src.err, src.sets = nil, []dnsapi.RRSet{a("x."+base, "192.0.2.1")}
		src.mu.Unlock()
		time.Sleep(time.Minute)
		assert.Contains(t, show(n.zone(t)), "x A 60 192.0.2.1 eks")
	})
}

func TestReconcileResyncsWhatNoWatchTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{class: "eks"}
		n := newCluster(t).node(t, "n1", src)
		stop := n.run(t)
		defer stop()
		time.Sleep(settle)
		src.mu.Lock()
		src.sets = []dnsapi.RRSet{a("x."+base, "192.0.2.1")}
		src.mu.Unlock()
		time.Sleep(driftResync)
		assert.Contains(t, show(n.zone(t)), "x A 60 192.0.2.1 eks")
		src.mu.Lock()
		src.sets = nil
		src.breaks(errors.New("watch broke"))
		src.mu.Unlock()
		time.Sleep(settle)
		assert.NotContains(t, show(n.zone(t)), "x A", "a break is a reason to look")
	})
}

func TestReconcileRebuildsASpoiltZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{class: "eks", sets: []dnsapi.RRSet{a("x."+base, "192.0.2.1")}}
		n := newCluster(t).node(t, "n1", src)
		stop := n.run(t)
		defer stop()
		time.Sleep(settle)
		require.NoError(t, n.service.Delegate(t.Context(), []Delegation{{Name: "team." + base}}, false))
		whole := apexLines + "\n" + ns1Line + "\nteam NS - ns1.cloud.example. -\nx A 60 192.0.2.1 eks"
		require.Equal(t, whole, show(n.zone(t)))
		serial := n.zone(t).Serial
		// The source is not complete now, and still nothing may be lost.
		src.set(func(f *fakeSource) { f.sets, f.incomplete = nil, true })
		time.Sleep(settle)
		for why, do := range map[string]func(){
			"rubbish":         func() { n.spoil(t, "rubbish") },
			"an empty object": func() { n.spoil(t, "{}") },
			"another zone's":  func() { n.spoil(t, `{"version":1,"class":"platform","name":"other."}`) },
			"removed":         func() { require.NoError(t, n.bucket.Delete(t.Context(), zoneKey(dnsapi.Platform, base))) },
		} {
			do()
			time.Sleep(settle)
			z := n.zone(t)
			require.NotNil(t, z, why)
			assert.Equal(t, whole, show(z), why)
			assert.Greater(t, z.Serial, serial, why)
			serial = z.Serial
		}
		assert.NotZero(t, n.log.Count("platform zone cannot be read, rebuilding it"))
		assert.NotZero(t, n.log.Count("platform zone is gone, rebuilding it"))
	})
}

// A pass that rebuilds prunes nothing; the next one does.
func TestReconcilePrunesAfterTheRebuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{class: "eks", sets: []dnsapi.RRSet{a("x."+base, "192.0.2.1")}}
		n := newCluster(t).node(t, "n1", src)
		w := writerOf(t, n.store, dnsapi.Platform, ReconcileLeaseKey, 1)
		d := &drift{s: n.service, writer: w}
		_, err := d.pass(t.Context())
		require.NoError(t, err)
		src.set(func(f *fakeSource) { f.sets = nil })
		n.spoil(t, "rubbish")
		_, err = d.pass(t.Context())
		require.NoError(t, err)
		assert.Contains(t, show(n.zone(t)), "x A 60 192.0.2.1 eks")
		_, err = d.pass(t.Context())
		require.NoError(t, err)
		assert.NotContains(t, show(n.zone(t)), "x A")
	})
}

func TestReconcileBuildsASpoiltZoneThatItNeverSaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newCluster(t).node(t, "n1", &fakeSource{class: "eks", sets: []dnsapi.RRSet{a("x."+base, "192.0.2.1")}})
		n.spoil(t, "rubbish")
		stop := n.run(t)
		defer stop()
		time.Sleep(settle)
		assert.Equal(t, apexLines+"\n"+ns1Line+"\nx A 60 192.0.2.1 eks", show(n.zone(t)))
	})
}

func TestReconcileLeavesANewerReleasesZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newCluster(t).node(t, "n1")
		newer := fmt.Sprintf(`{"version":2,"class":"platform","name":%q}`, base)
		n.spoil(t, newer)
		rev := n.revision(t)
		stop := n.run(t)
		defer stop()
		time.Sleep(10 * time.Minute)
		assert.Equal(t, rev, n.revision(t))
		assert.NotZero(t, n.log.Count("written by a newer release"))
	})
}

func TestReconcileIsOneNodesAndIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		first := c.node(t, "n1", &fakeSource{class: "eks", sets: []dnsapi.RRSet{a("x."+base, "192.0.2.1")}})
		second := c.node(t, "n2", &fakeSource{class: "eks", sets: []dnsapi.RRSet{a("x."+base, "192.0.2.2")}})
		stopFirst := first.run(t)
		defer stopFirst()
		time.Sleep(settle)
		stopSecond := second.run(t)
		defer stopSecond()
		time.Sleep(10 * time.Minute)
		assert.True(t, first.lease.Held())
		assert.False(t, second.lease.Held())
		z := second.zone(t)
		assert.Contains(t, show(z), "x A 60 192.0.2.1 eks")
		assert.Zero(t, second.log.Count("platform zone written"))
		stopFirst()
		time.Sleep(settle)
		after := second.zone(t)
		assert.Contains(t, show(after), "x A 60 192.0.2.2 eks", "a clean stop hands over")
		assert.Greater(t, after.Serial, z.Serial)
		assert.Greater(t, after.Generation, z.Generation)
	})
}

// The first leader's pass hangs in a source while it is deposed: what it writes then is refused.
func TestReconcileOfADeposedLeaderWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		src := &fakeSource{class: "eks", sets: []dnsapi.RRSet{a("x."+base, "192.0.2.1")}}
		n := c.node(t, "n1", src)
		w := writerOf(t, n.store, dnsapi.Platform, ReconcileLeaseKey, 1)
		d := &drift{s: n.service, writer: w}
		_, err := d.pass(t.Context())
		require.NoError(t, err)
		block := make(chan struct{})
		src.set(func(f *fakeSource) { f.block, f.sets = block, []dnsapi.RRSet{a("late."+base, "192.0.2.9")} })
		done := make(chan error, 1)
		go func() {
			_, err := d.pass(t.Context())
			done <- err
		}()
		synctest.Wait()
		writerOf(t, NewZoneStore(c.zones()), dnsapi.Platform, ReconcileLeaseKey, 2)
		rev := n.revision(t)
		close(block)
		err = <-done
		require.ErrorIs(t, err, kvstore.ErrFenced)
		require.ErrorIs(t, err, kvsync.ErrLost)
		assert.Equal(t, rev, n.revision(t))
	})
}

func TestReconcilePassIsBoundedAndGivesLeadershipUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		block := make(chan struct{})
		stuck := &fakeSource{class: "eks", block: block}
		first, second := c.node(t, "n1", stuck), c.node(t, "n2", &fakeSource{class: "eks"})
		stopFirst := first.run(t)
		defer stopFirst()
		time.Sleep(settle)
		require.True(t, first.lease.Held())
		stopSecond := second.run(t)
		defer stopSecond()
		time.Sleep(driftPass)
		close(block) // the source answers at last, after the pass's time
		time.Sleep(election.DefaultTTL)
		assert.True(t, second.lease.Held(), "a healthy node leads now")
		assert.NotZero(t, first.log.Count("standing down"))
		assert.Equal(t, apexLines+"\n"+ns1Line, show(second.zone(t)))
	})
}

func TestNewRefusesBadDeps(t *testing.T) {
	c := newCluster(t)
	good := func() Deps {
		return Deps{
			Zones: NewZoneStore(c.zones()), Lease: c.node(t, "n1").lease, BaseDomain: "cloud.example",
			NameServers: []NameServer{{Name: "ns1.cloud.example"}},
		}
	}
	_, err := New(good())
	require.NoError(t, err)
	for want, change := range map[string]func(*Deps){
		"required":                  func(d *Deps) { d.Lease = nil },
		"base domain \"a..b\"":      func(d *Deps) { d.BaseDomain = "a..b" },
		"base domain \"\"":          func(d *Deps) { d.BaseDomain = "" },
		"no NameServers":            func(d *Deps) { d.NameServers = nil },
		"name server":               func(d *Deps) { d.NameServers = []NameServer{{Name: "a..b"}} },
		"class \"zone\" is taken":   func(d *Deps) { d.Sources = []dnsapi.Source{&fakeSource{class: "zone"}} },
		"class \"eks\" is taken":    func(d *Deps) { d.Sources = []dnsapi.Source{&fakeSource{class: "eks"}, &fakeSource{class: "eks"}} },
		"source class \"\" is take": func(d *Deps) { d.Sources = []dnsapi.Source{&fakeSource{}} },
	} {
		d := good()
		change(&d)
		_, err := New(d)
		assert.ErrorContains(t, err, want)
	}
}
