package dns

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/testkit"
)

const hostedLease = "route53.realize"

func writerOf(t *testing.T, s *ZoneStore, class dnsapi.Class, lease string, generation uint64) dnsapi.ZoneWriter {
	t.Helper()
	w, err := s.Writer(t.Context(), class, lease, kvsync.Token{Holder: "n1/daemon", Generation: generation})
	require.NoError(t, err)
	return w
}

func hostedZone(name string, serial uint32, sets ...dnsapi.RRSet) *dnsapi.Zone {
	return &dnsapi.Zone{Name: name, ID: "Z" + name, Serial: serial, TTL: 300, RRSets: sets}
}

func TestZoneStoreRoundTrip(t *testing.T) {
	s := NewZoneStore(newCluster(t).zones())
	w := writerOf(t, s, dnsapi.Hosted, hostedLease, 10)
	weight := int64(3)
	z := hostedZone("example.test.", 5,
		dnsapi.RRSet{Name: "www.example.test.", Type: "A", TTL: new(uint32(0)), Values: []string{"192.0.2.1"}},
		dnsapi.RRSet{Name: "w.example.test.", Type: "A", SetID: "a", Weight: &weight, Alias: &dnsapi.Alias{Zone: "Z", Name: "www.example.test."}},
		dnsapi.RRSet{Name: "m.example.test.", Type: "A", SetID: "a", MultiValue: true, Values: []string{"192.0.2.1"}},
	)
	require.NoError(t, w.Put(t.Context(), z))
	assert.EqualValues(t, 10, z.Generation)
	assert.Equal(t, dnsapi.Hosted, z.Class)
	got, err := s.Get(t.Context(), dnsapi.Hosted, "example.test.")
	require.NoError(t, err)
	assert.Equal(t, z, got)
	_, err = s.Get(t.Context(), dnsapi.Platform, "example.test.")
	require.ErrorIs(t, err, kvstore.ErrNotFound)
	require.NoError(t, w.Delete(t.Context(), "example.test."))
	require.NoError(t, w.Delete(t.Context(), "example.test."), "one that is absent is no error")
	_, err = s.Get(t.Context(), dnsapi.Hosted, "example.test.")
	require.ErrorIs(t, err, kvstore.ErrNotFound)
}

func TestZoneStoreLists(t *testing.T) {
	c := newCluster(t)
	s := NewZoneStore(c.zones())
	hosted := writerOf(t, s, dnsapi.Hosted, hostedLease, 10)
	for _, name := range []string{"b.test.", "a.test.", `odd\032name.test.`, "c.test."} {
		require.NoError(t, hosted.Put(t.Context(), hostedZone(name, 1)))
	}
	platform := writerOf(t, s, dnsapi.Platform, ReconcileLeaseKey, 11)
	require.NoError(t, platform.Put(t.Context(), hostedZone("p.test.", 1)))
	_, err := c.zones().Put(t.Context(), "hosted.b=2Etest=2E", []byte("{not JSON"))
	require.NoError(t, err)
	_, err = c.zones().Put(t.Context(), "strange.key.of.another", []byte("{}"))
	require.NoError(t, err)
	var names, bad []string
	for z, err := range s.All(t.Context(), dnsapi.Hosted) {
		if err != nil {
			var fault *dnsapi.BadZoneError
			require.ErrorAs(t, err, &fault)
			bad = append(bad, fault.Name)
			continue
		}
		names = append(names, z.Name)
	}
	assert.Equal(t, []string{"a.test.", "c.test.", `odd\032name.test.`}, names)
	assert.Equal(t, []string{"b.test."}, bad)
	for z, err := range s.All(t.Context(), dnsapi.Platform) {
		require.NoError(t, err)
		assert.Equal(t, "p.test.", z.Name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.All(ctx, dnsapi.Hosted) {
		var fault *dnsapi.BadZoneError
		require.Error(t, err)
		require.NotErrorAs(t, err, &fault, "an unfinished list is not the fault of one object")
	}
}

func TestZoneStoreWatch(t *testing.T) {
	c := newCluster(t)
	s := NewZoneStore(c.zones())
	w := writerOf(t, s, dnsapi.Hosted, hostedLease, 10)
	require.NoError(t, w.Put(t.Context(), hostedZone("a.test.", 1)))
	ctx, cancel := context.WithCancel(t.Context())
	events, err := s.Watch(ctx)
	require.NoError(t, err)
	next := func() string {
		select {
		case ev, ok := <-events:
			switch {
			case !ok:
				return "closed"
			case ev.Ready:
				return "ready"
			case ev.Err != nil:
				return fmt.Sprintf("%s %s bad", ev.Class, ev.Name)
			case ev.Zone == nil:
				return fmt.Sprintf("%s %s gone", ev.Class, ev.Name)
			}
			return fmt.Sprintf("%s %s %d", ev.Class, ev.Name, ev.Zone.Serial)
		case <-time.After(10 * time.Second):
			return "nothing"
		}
	}
	assert.Equal(t, "hosted a.test. 1", next())
	assert.Equal(t, "ready", next())
	require.NoError(t, w.Put(t.Context(), hostedZone("a.test.", 2)))
	assert.Equal(t, "hosted a.test. 2", next())
	platform := writerOf(t, s, dnsapi.Platform, ReconcileLeaseKey, 11)
	require.NoError(t, platform.Put(t.Context(), hostedZone("a.test.", 3)))
	assert.Equal(t, "platform a.test. 3", next())
	_, err = c.zones().Put(t.Context(), "strange.key", []byte("{}"))
	require.NoError(t, err)
	_, err = c.zones().Put(t.Context(), "hosted.a=2Etest=2E", []byte(`{"version":1,"class":"hosted","name":"b.test."}`))
	require.NoError(t, err)
	assert.Equal(t, "hosted a.test. bad", next(), "the object of another zone")
	require.NoError(t, w.Delete(t.Context(), "a.test."))
	assert.Equal(t, "hosted a.test. gone", next())
	cancel()
	assert.Equal(t, "closed", next())
}

func TestZoneStoreWatchBreaksWithTheServer(t *testing.T) {
	srv, _, js := testkit.StartTestJetStream(t)
	c := newCluster(t)
	c.js = js
	events, err := NewZoneStore(c.zones()).Watch(t.Context())
	require.NoError(t, err)
	assert.True(t, (<-events).Ready)
	testkit.StopServer(srv)
	_, open := <-events
	assert.False(t, open)
}

func TestWriterRefuses(t *testing.T) {
	s := NewZoneStore(newCluster(t).zones())
	w := writerOf(t, s, dnsapi.Hosted, hostedLease, 10)
	other := hostedZone("a.test.", 1)
	other.Class = dnsapi.Platform
	require.ErrorContains(t, w.Put(t.Context(), other), "class platform")
	for _, name := range []string{"", "a.test", "A.test.", "a..test.", strings.Repeat("a", 64) + "."} {
		require.ErrorContains(t, w.Put(t.Context(), hostedZone(name, 1)), "absolute and in lower case", name)
	}
	_, err := s.Writer(t.Context(), "other", hostedLease, kvsync.Token{Holder: "n", Generation: 1})
	require.ErrorContains(t, err, "no writer")
	for range s.All(t.Context(), dnsapi.Hosted) {
		t.Fatal("something was written")
	}
}

// A leader that was deposed writes nothing, whatever it has read and checked before.
func TestDeposedWriterChangesNothing(t *testing.T) {
	c := newCluster(t)
	s := NewZoneStore(c.zones())
	first := writerOf(t, s, dnsapi.Hosted, hostedLease, 10)
	require.NoError(t, first.Put(t.Context(), hostedZone("a.test.", 1)))
	second := writerOf(t, NewZoneStore(c.zones()), dnsapi.Hosted, hostedLease, 20)
	for why, write := range map[string]func() error{
		"a change":   func() error { return first.Put(t.Context(), hostedZone("a.test.", 2)) },
		"a new zone": func() error { return first.Put(t.Context(), hostedZone("b.test.", 1)) },
		"a removal":  func() error { return first.Delete(t.Context(), "a.test.") },
	} {
		err := write()
		require.ErrorIs(t, err, kvstore.ErrFenced, why)
		require.ErrorIs(t, err, kvsync.ErrLost, why)
	}
	z, err := s.Get(t.Context(), dnsapi.Hosted, "a.test.")
	require.NoError(t, err)
	assert.EqualValues(t, 1, z.Serial)
	_, err = s.Get(t.Context(), dnsapi.Hosted, "b.test.")
	require.ErrorIs(t, err, kvstore.ErrNotFound)
	require.NoError(t, second.Put(t.Context(), hostedZone("a.test.", 3)))
	_, err = s.Writer(t.Context(), dnsapi.Hosted, hostedLease, kvsync.Token{Holder: "n1/daemon", Generation: 10})
	require.ErrorIs(t, err, kvsync.ErrLost, "nor can it begin again")
	// The lease of the other class is another fence.
	require.NoError(t, writerOf(t, s, dnsapi.Platform, ReconcileLeaseKey, 5).Put(t.Context(), hostedZone("a.test.", 1)))
}

func TestLargeZonesAreCompressed(t *testing.T) {
	c := newCluster(t)
	s := NewZoneStore(c.zones())
	w := writerOf(t, s, dnsapi.Hosted, hostedLease, 10)
	z := hostedZone("big.test.", 1)
	for i := range 8_000 {
		z.RRSets = append(z.RRSets, a(fmt.Sprintf("host-%d.big.test.", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250)))
	}
	require.NoError(t, w.Put(t.Context(), z))
	got, err := s.Get(t.Context(), dnsapi.Hosted, "big.test.")
	require.NoError(t, err)
	assert.Equal(t, z, got)
	e, err := c.zones().Get(t.Context(), "hosted.big=2Etest=2E")
	require.NoError(t, err)
	assert.Less(t, len(e.Value), MaxZoneBytes)
	small := hostedZone("big.test.", 2, a("www.big.test.", "192.0.2.1"))
	require.NoError(t, w.Put(t.Context(), small))
	got, err = s.Get(t.Context(), dnsapi.Hosted, "big.test.")
	require.NoError(t, err)
	assert.Equal(t, small, got, "and not compressed when it is small again")
}

func TestZonesThatAreTooLargeAreRefused(t *testing.T) {
	s := NewZoneStore(newCluster(t).zones())
	w := writerOf(t, s, dnsapi.Hosted, hostedLease, 10)
	z := hostedZone("big.test.", 1)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 8_000 {
		random := make([]byte, 125)
		for j := range random {
			random[j] = byte(rng.Uint32())
		}
		z.RRSets = append(z.RRSets, dnsapi.RRSet{
			Name: fmt.Sprintf("h%d.big.test.", i), Type: "TXT", Values: []string{fmt.Sprintf("\"%x\"", random)},
		})
	}
	err := w.Put(t.Context(), z)
	require.ErrorIs(t, err, kvstore.ErrTooLarge)
	require.ErrorContains(t, err, "big.test.")
	require.ErrorContains(t, err, fmt.Sprint(MaxZoneBytes))
	_, err = s.Get(t.Context(), dnsapi.Hosted, "big.test.")
	require.ErrorIs(t, err, kvstore.ErrNotFound)
}

func TestPackedObjectsAreBounded(t *testing.T) {
	s := NewZoneStore(newCluster(t).zones())
	for why, packed := range map[string][]byte{"no gzip": []byte("nonsense"), "an empty gzip": {0x1f, 0x8b}} {
		value, err := json.Marshal(storedZone{Zone: dnsapi.Zone{Version: 1, Class: dnsapi.Hosted, Name: "a.test."}, Packed: packed})
		require.NoError(t, err)
		_, err = s.decode(dnsapi.Hosted, "a.test.", value)
		require.ErrorContains(t, err, "decompress", why)
	}
}

func TestPutKeepsWhatANewerReleaseAdded(t *testing.T) {
	c := newCluster(t)
	s := NewZoneStore(c.zones())
	w := writerOf(t, s, dnsapi.Hosted, hostedLease, 10)
	_, err := c.zones().Put(t.Context(), "hosted.a=2Etest=2E", []byte(`{"version":1,"class":"hosted","name":"a.test.","dnssec":{"on":true}}`))
	require.NoError(t, err)
	require.NoError(t, w.Put(t.Context(), hostedZone("a.test.", 9)))
	e, err := c.zones().Get(t.Context(), "hosted.a=2Etest=2E")
	require.NoError(t, err)
	assert.Contains(t, string(e.Value), `"dnssec":{"on":true}`)
	assert.Contains(t, string(e.Value), `"serial":9`)
	_, err = c.zones().Put(t.Context(), "hosted.a=2Etest=2E", []byte(`{"version":2,"class":"hosted","name":"a.test."}`))
	require.NoError(t, err)
	require.ErrorIs(t, w.Put(t.Context(), hostedZone("a.test.", 10)), kvstore.ErrNewerVersion)
	_, err = c.zones().Put(t.Context(), "hosted.a=2Etest=2E", []byte(`rubbish`))
	require.NoError(t, err)
	require.NoError(t, w.Put(t.Context(), hostedZone("a.test.", 11)), "a corrupt object is replaced")
}
