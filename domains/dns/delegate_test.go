package dns

import (
	"context"
	"fmt"
	"net/netip"
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

func TestCheckDelegation(t *testing.T) {
	s := newCluster(t).node(t, "n1").service
	for _, name := range []string{
		"team.cloud.example", "Team.Cloud.Example.", "a.b.team.cloud.example.", "team-1.cloud.example.",
		"us.cloud.example.", "compute.team.cloud.example.", "eu-test-1.team.cloud.example.",
	} {
		got, err := s.checkDelegation(Delegation{Name: name})
		require.NoError(t, err, name)
		assert.Equal(t, []string{"ns1.cloud.example."}, got.NameServers, "this cluster's")
	}
	for name, why := range map[string]string{
		"cloud.example.":                        "not below",
		"other.example.":                        "not below",
		"notcloud.example.":                     "not below",
		"example.":                              "not below",
		".":                                     "not below",
		"":                                      "no domain name",
		"a..cloud.example.":                     "no domain name",
		"eu-test-1.cloud.example.":              "the platform's",
		"x.eu-test-1.cloud.example.":            "the platform's",
		"us-east-1.cloud.example.":              "the platform's",
		"ap-southeast-2.cloud.example.":         "the platform's",
		"us-gov-west-1.cloud.example.":          "the platform's",
		"compute.cloud.example.":                "the platform's",
		"x.y.compute.cloud.example.":            "the platform's",
		"elb.cloud.example.":                    "the platform's",
		"eks.cloud.example.":                    "the platform's",
		"rds.cloud.example.":                    "the platform's",
		"COMPUTE.cloud.example.":                "the platform's",
		"ns1.cloud.example.":                    "the platform's",
		"ns7.cloud.example.":                    "the platform's",
		"hostmaster.cloud.example.":             "the platform's",
		"*.cloud.example.":                      "letters, digits and dashes",
		"_x.cloud.example.":                     "letters, digits and dashes",
		"-x.cloud.example.":                     "letters, digits and dashes",
		`a\.b.cloud.example.`:                   "letters, digits and dashes",
		"*.team.cloud.example.":                 "letters, digits and dashes",
		`team\.cloud.example.`:                  "not below",
		"x.hostmaster.cloud.example.":           "the platform's",
		"console.cloud.example.":                "the platform's",
		"internal.cloud.example.":               "the platform's",
		"api.cloud.example.":                    "the platform's",
		"a.b.c.d.e.eks.cloud.example.":          "the platform's",
		"team.cloud.example.evil.example.":      "not below",
		"team.cloud.example.cloud.example.com.": "not below",
	} {
		_, err := s.checkDelegation(Delegation{Name: name})
		require.ErrorIs(t, err, ErrPlatformName, name)
		assert.ErrorContains(t, err, why, name)
	}
	for why, servers := range map[string][]string{
		"need its address": {"ns.team.cloud.example."}, "name server": {"a..b"}, "at most 13": make([]string, 14),
	} {
		_, err := s.checkDelegation(Delegation{Name: "team.cloud.example.", NameServers: servers})
		assert.ErrorContains(t, err, why)
	}
	_, err := s.checkDelegations([]Delegation{{Name: "elb." + base}, {Name: "other."}, {Name: "ok." + base}, {Name: "OK." + base}})
	for _, want := range []string{"elb.", "other.", "twice"} {
		require.ErrorContains(t, err, want)
	}
	_, err = s.checkDelegations(nil)
	require.Error(t, err)
	_, err = s.checkDelegations(make([]Delegation, maxDelegations+1))
	require.Error(t, err)
}

func TestDelegatePlan(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		why, zone, name string
		servers         string
		remove          bool
		want            string // "same" when nothing is to be written
		err             string
	}{
		{"a new one", "x A 60 192.0.2.1 eks", "team", "ns1.cloud.example.", false, "team NS - ns1.cloud.example. -\nx A 60 192.0.2.1 eks", ""},
		{"the same again", "team NS - ns1.cloud.example. -", "team", "ns1.cloud.example.", false, "same", ""},
		{"other servers", "team NS - ns1.cloud.example. -", "team", "ns.other.", false, "team NS - ns.other. -", ""},
		{"withdrawn", "team NS - ns1.cloud.example. -\nx A 60 192.0.2.1 eks", "team", "", true, "x A 60 192.0.2.1 eks", ""},
		{"withdrawn again", "x A 60 192.0.2.1 eks", "team", "", true, "same", ""},
		{"withdrawing is of NS only", "team DS - 1 -", "team", "", true, "same", ""},
		{"beside a DS", "team DS - 1 -", "team", "ns.other.", false, "team NS - ns.other. -\nteam DS - 1 -", ""},
		{"over a managed name", "team A 60 192.0.2.1 eks", "team", "ns.other.", false, "", "would hide"},
		{"above a managed name", "x.y.team A 60 192.0.2.1 eks", "team", "ns.other.", false, "", "would hide"},
		{"over another record", "team TXT - \"a\" -", "team", "ns.other.", false, "", "has a TXT"},
		{"managed NS are not withdrawn", "team NS 60 ns.other. eks", "team", "", true, "same", ""},
	} {
		t.Run(tc.why, func(t *testing.T) {
			z := zone(t, 5, tc.zone)
			next, err := delegate(z, []Delegation{{Name: tc.name + "." + base, NameServers: []string{tc.servers}}}, tc.remove, now)
			assert.Equal(t, tc.zone, show(z), "the current zone is left as it was")
			switch {
			case tc.err != "":
				require.ErrorIs(t, err, ErrPlatformName)
				require.ErrorContains(t, err, tc.err)
			case tc.want == "same":
				require.NoError(t, err)
				assert.Nil(t, next)
			default:
				require.NoError(t, err)
				assert.Equal(t, tc.want, show(next))
				assert.EqualValues(t, now.Unix(), next.Serial)
			}
		})
	}
}

func TestDelegateOnTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newCluster(t).node(t, "n1", &fakeSource{class: "eks", sets: []dnsapi.RRSet{a("x."+base, "192.0.2.1")}})
		stop := n.run(t)
		defer stop()
		time.Sleep(settle)
		require.NoError(t, n.service.Delegate(t.Context(), []Delegation{
			{Name: "team.cloud.example"}, {Name: "Far.Cloud.Example", NameServers: []string{"NS2.Other.", "ns1.other"}},
		}, false))
		whole := apexLines + "\nfar NS - ns1.other.,ns2.other. -\n" + ns1Line + "\nteam NS - ns1.cloud.example. -\nx A 60 192.0.2.1 eks"
		require.Equal(t, whole, show(n.zone(t)))
		rev := n.revision(t)
		require.NoError(t, n.service.Delegate(t.Context(), []Delegation{{Name: "team.cloud.example"}}, false))
		assert.Equal(t, rev, n.revision(t), "what is as asked is not written again")
		time.Sleep(time.Hour)
		assert.Equal(t, whole, show(n.zone(t)), "the passes leave it alone")
		for name, want := range map[string][]string{
			"team.cloud.example": {"ns1.cloud.example."}, "FAR.cloud.example.": {"ns1.other.", "ns2.other."},
			"x.team.cloud.example.": nil, "none.cloud.example.": nil, "cloud.example.": nil, "other.": nil,
		} {
			got, err := n.service.PlatformDelegation(t.Context(), name)
			require.NoError(t, err)
			assert.Equal(t, want, got, name)
		}
		require.NoError(t, n.service.Delegate(t.Context(), []Delegation{{Name: "team.cloud.example"}, {Name: "absent.cloud.example"}}, true))
		assert.NotContains(t, show(n.zone(t)), "team")
		rev = n.revision(t)
		err := n.service.Delegate(t.Context(), []Delegation{{Name: "ok." + base}, {Name: "rds." + base}}, false)
		require.ErrorIs(t, err, ErrPlatformName)
		assert.Equal(t, rev, n.revision(t), "all or none")
		assert.True(t, n.lease.Held(), "the loop still leads")
	})
}

// A process that runs no loop acquires the lease for the time of the write.
func TestDelegateWithoutALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.node(t, "n1")
		err := n.service.Delegate(t.Context(), []Delegation{{Name: "team." + base}}, false)
		require.ErrorIs(t, err, ErrNoBaseZone)
		got, err := n.service.PlatformDelegation(t.Context(), "team."+base)
		require.NoError(t, err)
		assert.Nil(t, got)
		stop := n.run(t)
		defer func() { stop() }()
		time.Sleep(settle)
		stop()
		require.NoError(t, n.service.Delegate(t.Context(), []Delegation{{Name: "team." + base}}, false))
		assert.Contains(t, show(n.zone(t)), "team NS")
		assert.False(t, n.lease.Held())
		stop = n.run(t)
		time.Sleep(settle)
		assert.True(t, n.lease.Held(), "the lease was given back")
	})
}

func TestDelegateWaitsForThePassOfThisNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newCluster(t).node(t, "n1")
		stop := n.run(t)
		defer stop()
		time.Sleep(settle)
		require.NoError(t, n.service.take(t.Context())) // a pass is reading and writing
		start := time.Now()
		done := make(chan error, 1)
		go func() { done <- n.service.Delegate(t.Context(), []Delegation{{Name: "team." + base}}, false) }()
		time.Sleep(3 * time.Second)
		select {
		case err := <-done:
			t.Fatalf("did not wait: %v", err)
		default:
		}
		n.service.give()
		require.NoError(t, <-done)
		assert.Less(t, time.Since(start), 4*time.Second)

		require.NoError(t, n.service.take(t.Context()))
		start = time.Now()
		err := n.service.Delegate(t.Context(), []Delegation{{Name: "late." + base}}, false)
		n.service.give()
		require.ErrorIs(t, err, ErrAnotherWriter)
		require.ErrorContains(t, err, "another writer has the zone")
		assert.Equal(t, delegateWait, time.Since(start))
		assert.NotContains(t, show(n.zone(t)), "late")
	})
}

func TestDelegateNamesTheNodeThatLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		first, second := c.node(t, "n1"), c.node(t, "n2")
		stop := first.run(t)
		defer stop()
		time.Sleep(settle)
		start := time.Now()
		err := second.service.Delegate(t.Context(), []Delegation{{Name: "team." + base}}, false)
		require.ErrorIs(t, err, ErrAnotherWriter)
		require.ErrorContains(t, err, "n1/daemon")
		assert.Equal(t, delegateWait, time.Since(start).Truncate(time.Second))
		assert.NotContains(t, show(first.zone(t)), "team")
		// The leader stops while a delegation waits: it goes through.
		done := make(chan error, 1)
		go func() { done <- second.service.Delegate(t.Context(), []Delegation{{Name: "team." + base}}, false) }()
		time.Sleep(time.Second)
		stop()
		require.NoError(t, <-done)
		assert.Contains(t, show(second.zone(t)), "team NS")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, second.service.Delegate(ctx, []Delegation{{Name: "x." + base}}, false), context.Canceled)
	})
}

func TestDelegateWaitsForItsOwnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		first, second := c.node(t, "n1"), c.node(t, "n2")
		stopFirst := first.run(t)
		defer stopFirst()
		time.Sleep(settle)
		stopSecond := second.run(t)
		defer stopSecond()
		time.Sleep(settle)
		done := make(chan error, 1)
		go func() { done <- second.service.Delegate(t.Context(), []Delegation{{Name: "team." + base}}, false) }()
		time.Sleep(time.Second)
		stopFirst()
		require.NoError(t, <-done)
		time.Sleep(election.DefaultTTL)
		assert.True(t, second.lease.Held())
		assert.Contains(t, show(second.zone(t)), "team NS")
	})
}

// Two writers: the one that was deposed between its read and its write is refused, and nothing changes.
func TestDelegateOfADeposedWriterChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.node(t, "n1")
		stop := n.run(t)
		defer stop()
		time.Sleep(settle)
		tok, held := n.lease.Token()
		require.True(t, held)
		writerOf(t, NewZoneStore(c.zones()), dnsapi.Platform, ReconcileLeaseKey, tok.Generation+1)
		rev := n.revision(t)
		err := n.service.Delegate(t.Context(), []Delegation{{Name: "team." + base}}, false)
		require.ErrorIs(t, err, kvstore.ErrFenced)
		require.ErrorIs(t, err, kvsync.ErrLost)
		assert.Equal(t, rev, n.revision(t))
	})
}

// The leadership ends only after a delegation that is being written.
func TestResignWaitsForADelegation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newCluster(t).node(t, "n1")
		n.service.setWriter(writerOf(t, n.store, dnsapi.Platform, ReconcileLeaseKey, 1))
		_, done := n.service.useWriter()
		resigned := make(chan struct{})
		go func() {
			n.service.resign()
			close(resigned)
		}()
		synctest.Wait()
		select {
		case <-resigned:
			t.Fatal("did not wait")
		default:
		}
		w, _ := n.service.useWriter()
		assert.Nil(t, w, "no other begins")
		done()
		<-resigned
	})
}

func TestEndpoints(t *testing.T) {
	e := Endpoints{
		Base: "cloud.example", Region: "eu-test-1", Services: []string{"route53", "sts"},
		Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.2"), netip.MustParseAddr("fe80::1%eth0")},
	}
	sets, complete, err := e.RRSets(t.Context())
	require.NoError(t, err)
	assert.True(t, complete)
	valid, faults := normalise(base, e.Class(), sets)
	assert.Empty(t, faults)
	want := ""
	for _, service := range e.Services {
		want += fmt.Sprintf("%s.eu-test-1 A 60 192.0.2.1,192.0.2.2 endpoints\n%s.eu-test-1 AAAA 60 fe80::1 endpoints\n", service, service)
	}
	assert.Equal(t, want, show(&dnsapi.Zone{RRSets: valid})+"\n")
	e.Addrs = nil
	sets, complete, err = e.RRSets(t.Context())
	require.NoError(t, err)
	assert.True(t, complete)
	assert.Empty(t, sets)
}
