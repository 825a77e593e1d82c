package route53

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// planner builds what a pass has observed.
type planner struct {
	observed
	rules
}

func newPlanner() *planner {
	return &planner{
		observed: observed{
			zones: map[zoneRef]zoneView{}, statuses: map[zoneRef]statusRecord{},
			delegations: map[zoneRef]delegationRecord{}, published: map[string]publishedZone{},
		},
		rules: rules{reserved: func(string) bool { return false }},
	}
}

// zone adds a zone that was made at minute age; digest "d<id>" unless published otherwise.
func (p *planner) zone(account, id, name string, age int) zoneRef {
	ref := zoneRef{account, id}
	p.zones[ref] = zoneView{
		rec:  &zoneRecord{ID: id, Account: account, Name: name, Created: time.Unix(int64(age)*60, 0)},
		name: name, digest: "d" + id,
	}
	return ref
}

func (p *planner) unreadable(account, id string) {
	p.zones[zoneRef{account, id}] = zoneView{unreadable: true}
}

func (p *planner) status(ref zoneRef, s zoneState) { p.statuses[ref] = statusRecord{State: s} }

func (p *planner) publish(name, id string) {
	p.published[name] = publishedZone{id: id, digest: "d" + id}
}

func (p *planner) plan() string {
	a := plan(p.observed, p.rules)
	out := ""
	for _, ref := range a.publish {
		out += " publish " + ref.id
	}
	for _, name := range a.withdraw {
		out += " withdraw " + name
	}
	for _, c := range a.statuses {
		out += fmt.Sprintf(" %s=%s", c.ref.id, c.state)
	}
	for _, ref := range a.forget {
		out += " forget " + ref.id
	}
	if out == "" {
		return ""
	}
	return out[1:]
}

func TestPlan(t *testing.T) {
	const name = "example.test."
	tests := map[string]struct {
		set  func(*planner)
		want string
	}{
		"nothing":  {func(*planner) {}, ""},
		"new zone": {func(p *planner) { p.zone(alice, "Z1", name, 1) }, "publish Z1 Z1=ACTIVE"},
		"settled": {func(p *planner) {
			p.status(p.zone(alice, "Z1", name, 1), stateActive)
			p.publish(name, "Z1")
		}, ""},
		"changed": {func(p *planner) {
			p.status(p.zone(alice, "Z1", name, 1), stateActive)
			p.published[name] = publishedZone{id: "Z1", digest: "old"}
		}, "publish Z1"},
		"object broken": {func(p *planner) {
			p.status(p.zone(alice, "Z1", name, 1), stateActive)
			p.published[name] = publishedZone{}
		}, "publish Z1"},
		"orphan broken":                 {func(p *planner) { p.published[name] = publishedZone{} }, "withdraw " + name},
		"deleted":                       {func(p *planner) { p.publish(name, "Z1"); p.status(zoneRef{alice, "Z1"}, stateActive) }, "withdraw " + name + " forget Z1"},
		"published but status missing":  {func(p *planner) { p.zone(alice, "Z1", name, 1); p.publish(name, "Z1") }, "Z1=ACTIVE"},
		"two accounts: the oldest":      {func(p *planner) { p.zone(alice, "Z1", name, 2); p.zone(bob, "Z2", name, 1) }, "publish Z2 Z1=PENDING_DUPLICATE Z2=ACTIVE"},
		"one account twice: the oldest": {func(p *planner) { p.zone(alice, "Z1", name, 2); p.zone(alice, "Z2", name, 1) }, "publish Z2 Z1=PENDING_DUPLICATE Z2=ACTIVE"},
		"same moment: by account":       {func(p *planner) { p.zone(bob, "Z1", name, 1); p.zone(alice, "Z2", name, 1) }, "publish Z2 Z2=ACTIVE Z1=PENDING_DUPLICATE"},
		"the active one stays, though younger": {func(p *planner) {
			p.status(p.zone(alice, "Z1", name, 2), stateActive)
			p.zone(bob, "Z2", name, 1)
			p.publish(name, "Z1")
		}, "Z2=PENDING_DUPLICATE"},
		"the published one stays, whatever the statuses say": {func(p *planner) {
			p.zone(alice, "Z1", name, 2)
			p.status(p.zone(bob, "Z2", name, 1), stateActive)
			p.publish(name, "Z1")
		}, "Z1=ACTIVE Z2=PENDING_DUPLICATE"},
		"the duplicate takes over": {func(p *planner) {
			p.status(p.zone(bob, "Z2", name, 1), statePendingDuplicate)
			p.status(zoneRef{alice, "Z1"}, stateActive)
			p.publish(name, "Z1")
		}, "publish Z2 Z2=ACTIVE forget Z1"},
		"not verified": {func(p *planner) {
			p.verified = true
			p.zone(alice, "Z1", name, 1)
		}, "Z1=PENDING_NAMESERVERS"},
		"verified": {func(p *planner) {
			p.verified = true
			p.delegations[p.zone(alice, "Z1", name, 1)] = delegationRecord{Delegated: true}
		}, "publish Z1 Z1=ACTIVE"},
		"no more delegated": {func(p *planner) {
			p.verified = true
			ref := p.zone(alice, "Z1", name, 1)
			p.status(ref, stateActive)
			p.delegations[ref] = delegationRecord{}
			p.publish(name, "Z1")
		}, "withdraw " + name + " Z1=PENDING_NAMESERVERS"},
		"delegated with a duplicate": {func(p *planner) {
			p.verified = true
			p.delegations[p.zone(alice, "Z1", name, 1)] = delegationRecord{Delegated: true}
			p.delegations[p.zone(bob, "Z2", name, 2)] = delegationRecord{Delegated: true}
		}, "publish Z1 Z1=ACTIVE Z2=PENDING_DUPLICATE"},
		"reserved": {func(p *planner) {
			p.reserved = func(n string) bool { return n == name }
			p.status(p.zone(alice, "Z1", name, 1), stateActive)
			p.publish(name, "Z1")
		}, "withdraw " + name + " Z1=RESERVED"},
		"unreadable stays published": {func(p *planner) {
			p.unreadable(alice, "Z1")
			p.status(zoneRef{alice, "Z1"}, stateActive)
			p.publish(name, "Z1")
		}, ""},
		"unreadable keeps its name": {func(p *planner) {
			p.unreadable(alice, "Z1")
			p.publish(name, "Z1")
			p.zone(bob, "Z2", name, 1)
		}, "Z2=PENDING_DUPLICATE"},
		"unreadable holds up no other": {func(p *planner) {
			p.unreadable(alice, "Z1")
			p.publish(name, "Z1")
			p.publish("gone.test.", "Z9")
			p.zone(bob, "Z2", "other.test.", 1)
		}, "publish Z2 withdraw gone.test. Z2=ACTIVE"},
	}
	for title, tt := range tests {
		t.Run(title, func(t *testing.T) {
			p := newPlanner()
			tt.set(p)
			assert.Equal(t, tt.want, p.plan())
		})
	}
}

// From any state one plan is enough, and it leaves exactly one active zone of each name that has one
// that may be.
func TestPlanSettles(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPlanner()
		p.verified = rapid.Bool().Draw(rt, "verified")
		names := []string{"a.test.", "b.test.", "c.test."}
		for i := range rapid.IntRange(0, 6).Draw(rt, "zones") {
			id := fmt.Sprint("Z", i)
			account := rapid.SampledFrom([]string{alice, bob}).Draw(rt, "account")
			ref := zoneRef{account, id}
			if rapid.IntRange(0, 5).Draw(rt, "readable") == 0 {
				p.unreadable(account, id)
			} else {
				p.zone(account, id, rapid.SampledFrom(names).Draw(rt, "name"), rapid.IntRange(0, 2).Draw(rt, "age"))
			}
			p.delegations[ref] = delegationRecord{Delegated: rapid.Bool().Draw(rt, "delegated")}
			if rapid.Bool().Draw(rt, "has status") {
				p.status(ref, rapid.SampledFrom([]zoneState{stateActive, statePendingDuplicate, statePendingNameServers}).Draw(rt, "state"))
			}
		}
		for _, name := range names {
			if rapid.Bool().Draw(rt, "published") {
				p.publish(name, fmt.Sprint("Z", rapid.IntRange(0, 8).Draw(rt, "published id")))
			}
		}
		a := plan(p.observed, p.rules)
		for _, ref := range a.publish {
			p.published[p.zones[ref].name] = publishedZone{ref.id, p.zones[ref].digest}
		}
		for _, name := range a.withdraw {
			delete(p.published, name)
		}
		for _, c := range a.statuses {
			p.status(c.ref, c.state)
		}
		for _, ref := range a.forget {
			delete(p.statuses, ref)
		}
		require.Empty(rt, p.plan(), "a second plan has nothing to do")
		active := map[string]string{}
		for ref, s := range p.statuses {
			z := p.zones[ref]
			if s.State != stateActive || z.unreadable {
				continue
			}
			require.Empty(rt, active[z.name], "two active zones of %s", z.name)
			active[z.name] = ref.id
			require.Equal(rt, ref.id, p.published[z.name].id)
		}
		for name, pub := range p.published {
			known := false
			for ref, z := range p.zones {
				known = known || ref.id == pub.id && (z.unreadable || active[name] == ref.id)
			}
			require.True(rt, known, "%s is published for nobody", name)
		}
	})
}
