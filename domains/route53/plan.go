package route53

import (
	"cmp"
	"slices"
)

// zoneRef names a hosted zone across accounts.
type zoneRef struct{ account, id string }

// zoneView is a hosted zone as the realizer has read it.
type zoneView struct {
	rec *zoneRecord
	// name is the zone's in the format of zone files, by which zone objects are kept.
	name string
	// digest of the zone object that publishes rec; equal digests are equal objects.
	digest string
	// unreadable is set when the record cannot be read or rendered. Then nothing is known but that
	// the zone exists: what is published of it stays.
	unreadable bool
}

// publishedZone is a zone object of class Hosted as the realizer has read or written it.
type publishedZone struct {
	id     string // of the hosted zone; empty when the object cannot be read
	digest string // empty when the object cannot be read or a write's fate is not known
}

// observed is what a pass decides on: complete, or there is no pass.
type observed struct {
	zones       map[zoneRef]zoneView
	statuses    map[zoneRef]statusRecord
	delegations map[zoneRef]delegationRecord
	published   map[string]publishedZone // by name
}

// rules are what the configuration decides.
type rules struct {
	// verified: a zone needs a delegation record that says that it is delegated.
	verified bool
	// reserved reports the canonical names that are never published.
	reserved func(name string) bool
}

// actions are what a pass does, in this order.
type actions struct {
	publish  []zoneRef
	withdraw []string // names
	statuses []statusChange
	forget   []zoneRef // statuses of zones that are gone
}

type statusChange struct {
	ref   zoneRef
	state zoneState
}

// plan compares what should be published with what is. Of several zones of one name the active one
// stays active as long as it may be; else the oldest becomes it.
func plan(o observed, r rules) actions {
	unreadable := map[string]bool{}
	for ref, z := range o.zones {
		if z.unreadable {
			unreadable[ref.id] = true
		}
	}
	states := decide(o, r, unreadable)
	var a actions
	active := map[string]bool{}
	for _, ref := range sortedRefs(states) {
		state, z := states[ref], o.zones[ref]
		if state == stateActive {
			active[z.name] = true
			if p := o.published[z.name]; p.id != ref.id || p.digest != z.digest {
				a.publish = append(a.publish, ref)
			}
		}
		if have, ok := o.statuses[ref]; !ok || have.State != state {
			a.statuses = append(a.statuses, statusChange{ref, state})
		}
	}
	for name, p := range o.published {
		if !active[name] && !unreadable[p.id] {
			a.withdraw = append(a.withdraw, name)
		}
	}
	slices.Sort(a.withdraw)
	for ref := range o.statuses {
		if _, exists := o.zones[ref]; !exists {
			a.forget = append(a.forget, ref)
		}
	}
	slices.SortFunc(a.forget, compareRefs)
	return a
}

// decide returns the state of every zone that can be read. A name whose published object is of an
// unreadable zone is taken: its other zones are duplicates.
func decide(o observed, r rules, unreadable map[string]bool) map[zoneRef]zoneState {
	states := map[zoneRef]zoneState{}
	rivals := map[string][]zoneRef{}
	for ref, z := range o.zones {
		switch {
		case z.unreadable:
		case r.reserved(z.rec.Name):
			states[ref] = stateReserved
		case r.verified && !o.delegations[ref].Delegated:
			states[ref] = statePendingNameServers
		default:
			states[ref] = statePendingDuplicate
			rivals[z.name] = append(rivals[z.name], ref)
		}
	}
	for name, refs := range rivals {
		if !unreadable[o.published[name].id] {
			winner := slices.MinFunc(refs, func(a, b zoneRef) int { return compareRivals(o, name, a, b) })
			states[winner] = stateActive
		}
	}
	return states
}

// compareRivals orders zones of one name by their right to it: the published one, the one that is
// active by its status, the oldest. Creation times are of different clocks, so they decide only
// between zones of which none was active.
func compareRivals(o observed, name string, a, b zoneRef) int {
	first := func(has func(zoneRef) bool) int {
		switch {
		case has(a) && !has(b):
			return -1
		case has(b) && !has(a):
			return 1
		}
		return 0
	}
	return cmp.Or(
		first(func(ref zoneRef) bool { return o.published[name].id == ref.id }),
		first(func(ref zoneRef) bool { return o.statuses[ref].State == stateActive }),
		o.zones[a].rec.Created.Compare(o.zones[b].rec.Created),
		compareRefs(a, b),
	)
}

func compareRefs(a, b zoneRef) int {
	return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.id, b.id))
}

func sortedRefs(states map[zoneRef]zoneState) []zoneRef {
	refs := make([]zoneRef, 0, len(states))
	for ref := range states {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, compareRefs)
	return refs
}
