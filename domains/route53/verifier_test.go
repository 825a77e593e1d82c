package route53

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// loops are both leaderships of a node, whose passes the test makes.
type loops struct {
	t testing.TB
	r *realizer
	v *verifier
}

func (c *cloud) loops(s *Service) *loops {
	c.t.Helper()
	tok, err := s.deps.VerifyLease.TryLock(c.t.Context())
	require.NoError(c.t, err)
	c.t.Cleanup(func() { s.deps.VerifyLease.Unlock(context.WithoutCancel(c.t.Context()), tok) })
	fence, err := c.bucket.Fence(c.t.Context(), VerifyLeaseKey, tok)
	require.NoError(c.t, err)
	return &loops{t: c.t, r: c.newRealizer(s), v: &verifier{s: s, fence: fence, log: slog.New(slog.DiscardHandler)}}
}

// verify makes a pass of the verifier and returns its error.
func (l *loops) verify() error {
	_, err := l.v.pass(l.t.Context())
	return err
}

func (l *loops) realize() {
	l.t.Helper()
	l.r.hints.addAll()
	_, err := l.r.pass(l.t.Context())
	require.NoError(l.t, err)
}

// base is a platform's base zone.
type base struct {
	mu   sync.Mutex
	says map[string][]string
	err  error
	asks int
}

func (b *base) delegation(_ context.Context, zone string) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asks++
	return b.says[zone], b.err
}

func TestDelegationByBaseZone(t *testing.T) {
	c := newCloud(t)
	b := &base{says: map[string][]string{}}
	s := c.node("n1", func(d *Deps) {
		d.Delegation, d.PlatformDelegation, d.Reserved = DelegationBase, b.delegation, []string{"cloud.test"}
	})
	l := c.loops(s)
	first := createZone(t, s, alice, "app.cloud.test", "1")
	second := createZone(t, s, bob, "app.cloud.test", "1")
	l.realize()
	assert.Equal(t, statePendingNameServers, c.state(s, alice, first))
	info := changeRecords(t, s, alice, first, create(rrset("www.app.cloud.test", "A", "192.0.2.1")))
	assert.Equal(t, "INSYNC", changeStatus(t, s, alice, *info.Id), "a zone that is not active has nothing to wait for")

	require.NoError(t, l.verify())
	assert.Equal(t, 1, b.asks, "one name is looked up once")
	l.realize()
	assert.Equal(t, statePendingNameServers, c.state(s, alice, first))

	b.says["app.cloud.test."] = []string{"ns2.cloud.test", "ns9.elsewhere.test."}
	require.NoError(t, l.verify())
	l.realize()
	assert.Equal(t, stateActive, c.state(s, alice, first))
	assert.Equal(t, statePendingDuplicate, c.state(s, bob, second))
	assert.Equal(t, first, c.zones.get("app.cloud.test.").ID)

	b.err = errors.New("the base zone cannot be read")
	assert.ErrorContains(t, l.verify(), "1 of 1 delegations not checked")
	l.realize()
	assert.Equal(t, stateActive, c.state(s, alice, first), "no answer is no evidence")

	b.err, b.says["app.cloud.test."] = nil, []string{"ns.elsewhere.test."}
	require.NoError(t, l.verify())
	l.realize()
	assert.Equal(t, statePendingNameServers, c.state(s, alice, first))
	assert.Nil(t, c.zones.get("app.cloud.test."))

	_, err := s.DeleteHostedZone(t.Context(), call(bob), &api.DeleteHostedZoneRequest{Id: &second})
	require.NoError(t, err)
	require.NoError(t, l.verify())
	_, _, err = s.delegations.Get(t.Context(), delegationKey(bob, second))
	assert.ErrorIs(t, err, kvstore.ErrNotFound, "nothing is left of a deleted zone")
}

func TestDelegationByPublicParent(t *testing.T) {
	c := newCloud(t)
	p := startPublicDNS(t)
	s := c.node("n1", func(d *Deps) { d.Delegation, d.Parents = DelegationPublic, p.parents(t) })
	l := c.loops(s)
	first := createZone(t, s, alice, "example.test", "1")
	second := createZone(t, s, bob, "example.test", "1")
	step := func(want zoneState) {
		t.Helper()
		require.NoError(t, l.verify())
		l.realize()
		assert.Equal(t, want, c.state(s, alice, first))
	}
	step(statePendingNameServers)
	p.set(func(p *publicDNS) { p.delegations["example.test."] = []string{"ns1.cloud.test."} })
	step(stateActive)
	assert.Equal(t, statePendingDuplicate, c.state(s, bob, second))
	p.set(func(p *publicDNS) { p.rcode = 2 })
	assert.Error(t, l.verify())
	l.realize()
	assert.Equal(t, stateActive, c.state(s, alice, first))
	p.set(func(p *publicDNS) { p.rcode, p.delegations = 0, map[string][]string{} })
	step(statePendingNameServers)
}

func TestTrustAsksNobody(t *testing.T) {
	c := newCloud(t)
	b := &base{}
	s := c.node("n1", func(d *Deps) { d.PlatformDelegation = b.delegation })
	l := c.loops(s)
	id := createZone(t, s, alice, "example.test", "1")
	require.NoError(t, l.verify())
	l.realize()
	assert.Equal(t, stateActive, c.state(s, alice, id))
	assert.Zero(t, b.asks)
}

// A verifier that is deposed while it asks writes nothing.
func TestDeposedVerifierWritesNothing(t *testing.T) {
	c := newCloud(t)
	var depose func()
	s := c.node("n1", func(d *Deps) {
		d.Delegation = DelegationBase
		d.PlatformDelegation = func(context.Context, string) ([]string, error) {
			depose()
			return []string{"ns1.cloud.test."}, nil
		}
	})
	l := c.loops(s)
	depose = func() {
		_, err := c.bucket.Fence(t.Context(), VerifyLeaseKey, kvsync.Token{Holder: "n2/daemon", Generation: l.v.fence.Generation() + 1})
		assert.NoError(t, err)
	}
	id := createZone(t, s, alice, "example.test", "1")
	assert.ErrorIs(t, l.verify(), kvsync.ErrLost)
	_, _, err := s.delegations.Get(t.Context(), delegationKey(alice, id))
	assert.ErrorIs(t, err, kvstore.ErrNotFound)
}

// Both loops together: the verifier's finding wakes the realizer.
func TestVerifierWakesRealizer(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1", func(d *Deps) {
		d.Delegation = DelegationBase
		d.PlatformDelegation = func(context.Context, string) ([]string, error) { return []string{"ns1.cloud.test."}, nil }
	})
	start(t, s.RunRealizer)
	id := createZone(t, s, alice, "example.test", "1")
	c.wantState(s, alice, id, statePendingNameServers)
	start(t, s.RunVerifier)
	c.wantState(s, alice, id, stateActive)
	c.published("example.test.", 2)
}

func TestOldChangesArePruned(t *testing.T) {
	c := newCloud(t)
	s := c.node("n1")
	l := c.loops(s)
	id := createZone(t, s, alice, "example.test", "1")
	fresh := changeRecords(t, s, alice, id, create(rrset("a.example.test", "A", "192.0.2.1")))
	for i, age := range []time.Duration{changeAge + time.Hour, changeAge - time.Hour} {
		err := s.putChange(t.Context(), alice, &pendingChange{
			id: fmt.Sprint("C", i), changeRecord: changeRecord{Zone: id, Serial: 1, SubmittedAt: time.Now().Add(-age)},
		})
		require.NoError(t, err)
	}
	require.NoError(t, l.verify())
	_, err := s.GetChange(t.Context(), call(alice), &api.GetChangeRequest{Id: new("C0")})
	requireCode(t, api.CodeNoSuchChange, err)
	changeStatus(t, s, alice, "C1")
	changeStatus(t, s, alice, *fresh.Id)

	l.v.s.changes = kvstore.NewStore[changeRecord](nil, 1) // would panic
	require.NoError(t, l.verify(), "the next look is an hour away")
}
