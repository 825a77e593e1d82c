package dnsserver

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// following runs a server's loops, without sockets, in a bubble.
func following(t *testing.T, store *memZones, test func(t *testing.T, s *Server, status *memStatus, log *testkit.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log, status := &testkit.Buffer{}, newMemStatus()
		s, err := New(Options{
			Listen: "127.0.0.1:0", Node: "n1", Zones: store, Servers: status, Sockets: 1,
			Log: slog.New(slog.NewTextHandler(log, nil)),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var loops sync.WaitGroup
		loops.Go(func() { assert.ErrorIs(t, s.follower.run(ctx), context.Canceled) })
		loops.Go(func() { assert.ErrorIs(t, s.report(ctx), context.Canceled) })
		test(t, s, status, log)
		cancel()
		loops.Wait()
		assert.Empty(t, status.get("server.n1"), "a server that has stopped is not waited for")
	})
}

func serials(s *Server) map[string]uint32 {
	if v := s.view.Load(); v != nil {
		return v.serials()
	}
	return nil
}

func version(serial uint32, lines ...string) *dnsapi.Zone {
	z := zoneOf("example.test.", lines...)
	z.Serial = serial
	return z
}

func TestFollowerReportsAtOnceAndEveryTwoSeconds(t *testing.T) {
	store := newMemZones(version(1))
	following(t, store, func(t *testing.T, s *Server, status *memStatus, _ *testkit.Buffer) {
		time.Sleep(100 * time.Millisecond)
		assert.JSONEq(t, `{"version":1,"node":"n1","zones":{"ZEXAMPLE.TEST":1}}`, status.get("server.n1"))
		time.Sleep(700 * time.Millisecond)
		store.put(version(2))
		synctest.Wait()
		assert.JSONEq(t, `{"version":1,"node":"n1","zones":{"ZEXAMPLE.TEST":2}}`, status.get("server.n1"))
		before := status.count()
		time.Sleep(20 * time.Second)
		assert.InDelta(t, before+10, status.count(), 1)
		for i := range uint32(100) {
			store.put(version(3 + i))
		}
		time.Sleep(time.Second)
		assert.LessOrEqual(t, status.count(), before+14, "a burst of reloads is one report")
		assert.Contains(t, status.get("server.n1"), ":102}")
	})
}

func TestFollowerServesWhatItHasWhileTheStoreIsAway(t *testing.T) {
	store := newMemZones(version(1), zoneOf("gone.test."))
	following(t, store, func(t *testing.T, s *Server, status *memStatus, log *testkit.Buffer) {
		synctest.Wait()
		store.leave(true)
		time.Sleep(10 * time.Minute)
		assert.Len(t, serials(s), 2)
		assert.Equal(t, 1, log.Count("zone watch broke"), "one line for one outage")
		store.put(version(2))
		store.delete(dnsapi.Hosted, "gone.test.")
		store.leave(false)
		time.Sleep(maxWatchBackoff)
		synctest.Wait()
		assert.Equal(t, map[string]uint32{"ZEXAMPLE.TEST": 2}, serials(s))
		assert.Equal(t, 1, log.Count("zone watch works again"))
		store.put(version(3))
		synctest.Wait()
		assert.EqualValues(t, 3, serials(s)["ZEXAMPLE.TEST"], "the new watch is followed")
	})
}

func TestFollowerAnswersNothingBeforeTheFirstCompleteLook(t *testing.T) {
	store := newMemZones(version(1))
	store.leave(true)
	following(t, store, func(t *testing.T, s *Server, status *memStatus, _ *testkit.Buffer) {
		time.Sleep(time.Minute)
		assert.Nil(t, s.view.Load())
		assert.Zero(t, status.count())
		store.leave(false)
		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, serials(s)["ZEXAMPLE.TEST"])
	})
}

func TestFollowerPollsWhatTheWatchMissed(t *testing.T) {
	store := newMemZones(version(1), zoneOf("gone.test."))
	following(t, store, func(t *testing.T, s *Server, _ *memStatus, _ *testkit.Buffer) {
		synctest.Wait()
		store.mu.Lock()
		store.silent = true
		store.mu.Unlock()
		store.put(version(2))
		store.put(zoneOf("new.test."))
		store.delete(dnsapi.Hosted, "gone.test.")
		synctest.Wait()
		assert.EqualValues(t, 1, serials(s)["ZEXAMPLE.TEST"])
		time.Sleep(DefaultPoll)
		synctest.Wait()
		assert.Equal(t, map[string]uint32{"ZEXAMPLE.TEST": 2, "ZNEW.TEST": 7}, serials(s))
	})
}

func TestFollowerKeepsTheLastGoodZone(t *testing.T) {
	store := newMemZones(version(1, "www A 192.0.2.1"))
	following(t, store, func(t *testing.T, s *Server, status *memStatus, log *testkit.Buffer) {
		synctest.Wait()
		answers := func(want string) {
			t.Helper()
			synctest.Wait()
			assert.Contains(t, ask(t, s.view.Load(), "www.example.test. A", fixed(0)), want)
		}
		store.put(version(2, "www A nonsense"))
		answers("192.0.2.1")
		assert.EqualValues(t, 1, s.badZones.Load())
		time.Sleep(time.Minute)
		assert.Contains(t, status.get("server.n1"), ":1}", "the serial that is served")
		assert.Equal(t, 1, log.Count("bad zone object"), "logged once, whatever the polls see")
		store.spoil(dnsapi.Hosted, "example.test.", errors.New("not JSON"))
		answers("192.0.2.1")
		time.Sleep(time.Minute)
		answers("192.0.2.1")
		assert.Equal(t, 2, log.Count("bad zone object"), "another fault is another line")
		store.put(version(3, "www A 192.0.2.3"))
		answers("192.0.2.3")
		assert.Zero(t, s.badZones.Load())
		store.put(zoneOf("never.test.", "www A nonsense"))
		synctest.Wait()
		assert.EqualValues(t, 1, s.badZones.Load())
		assert.NotContains(t, serials(s), "ZNEVER.TEST")
		store.delete(dnsapi.Hosted, "never.test.")
		synctest.Wait()
		assert.Zero(t, s.badZones.Load())
	})
}

func TestFollowerKeepsABadZoneThroughANewWatch(t *testing.T) {
	store := newMemZones(version(1, "www A 192.0.2.1"))
	following(t, store, func(t *testing.T, s *Server, _ *memStatus, _ *testkit.Buffer) {
		synctest.Wait()
		store.leave(true)
		store.spoil(dnsapi.Hosted, "example.test.", errors.New("not JSON"))
		store.leave(false)
		time.Sleep(time.Minute)
		assert.Equal(t, map[string]uint32{"ZEXAMPLE.TEST": 1}, serials(s))
	})
}

func TestFollowerReplacesAZoneOfAnotherID(t *testing.T) {
	store := newMemZones(version(5))
	following(t, store, func(t *testing.T, s *Server, _ *memStatus, _ *testkit.Buffer) {
		synctest.Wait()
		store.delete(dnsapi.Hosted, "example.test.")
		again := version(3)
		again.ID = "ZAGAIN"
		store.put(again)
		synctest.Wait()
		assert.Equal(t, map[string]uint32{"ZAGAIN": 3}, serials(s))
	})
}

func TestFollowerOutlivesFailingReports(t *testing.T) {
	store := newMemZones(version(1))
	following(t, store, func(t *testing.T, s *Server, status *memStatus, log *testkit.Buffer) {
		synctest.Wait()
		status.mu.Lock()
		status.fail = true
		status.mu.Unlock()
		time.Sleep(time.Minute)
		assert.Equal(t, 1, log.Count("dns status not written"))
		status.mu.Lock()
		status.fail = false
		status.mu.Unlock()
		time.Sleep(time.Minute)
		assert.Equal(t, 1, log.Count("dns status written again"))
		assert.NotEmpty(t, status.get("server.n1"))
	})
}

// A listing that was taken before a change of the watch must not undo it.
func TestFollowerListingDoesNotUndoTheWatch(t *testing.T) {
	s := testServer(t)
	f := s.follower
	take := func(ev dnsapi.ZoneEvent) {
		ch := make(chan dnsapi.ZoneEvent)
		f.takeEvents(ev, true, ch)
	}
	event := func(z *dnsapi.Zone) dnsapi.ZoneEvent { return dnsapi.ZoneEvent{Class: z.Class, Name: z.Name, Zone: z} }
	take(event(version(1)))
	take(event(zoneOf("gone.test.")))
	take(dnsapi.ZoneEvent{Ready: true})
	key := func(name string) zoneKey {
		wire, err := wireName(name)
		require.NoError(t, err)
		return zoneKey{class: dnsapi.Hosted, name: wire}
	}
	f.touched = map[zoneKey]bool{}
	old := listing{found: []change{
		{key: key("example.test."), zone: version(1)}, {key: key("gone.test."), zone: zoneOf("gone.test.")},
	}}
	take(event(version(2)))
	take(event(zoneOf("new.test.")))
	take(dnsapi.ZoneEvent{Class: dnsapi.Hosted, Name: "gone.test."})
	f.takeListing(old)
	assert.Equal(t, map[string]uint32{"ZEXAMPLE.TEST": 2, "ZNEW.TEST": 7}, serials(s))
	f.takeListing(listing{err: errAway})
	assert.Len(t, serials(s), 2, "a listing that failed proves no absence")
}
