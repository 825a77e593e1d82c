package route53

import (
	"fmt"
	"slices"
	"strings"
)

// Actions of a change.
const (
	actionCreate = "CREATE"
	actionUpsert = "UPSERT"
	actionDelete = "DELETE"
)

// Limits of a change batch and of what it leaves (AWS's quotas). An UPSERT counts twice.
const (
	maxChanges      = 1000  // changes of one batch
	maxBatchRecords = 1000  // resource records of one batch
	maxBatchChars   = 32000 // characters of all values of one batch
	maxSetRecords   = 400   // resource records of one record set
	maxGroup        = 100   // record sets of one name and type
	maxSets         = 10000 // record sets of one hosted zone
)

// change is one change of a batch, decoded (decode.go).
type change struct {
	action string
	set    recordSet
	// ok is false when the change does not even name a record set: only its size counts.
	ok bool
	// broken is set when decoding found a fault in its members; it still stands for its record set,
	// so that changes that build on it are not blamed.
	broken bool
}

// zoneIdent is what the rules need to know of the hosted zone.
type zoneIdent struct{ id, name string }

// batch is a decoded change batch, with the faults that decoding found.
type batch struct {
	changes []change
	faults  batchFaults
}

// evaluate applies a batch to the record sets of a zone. It is all or nothing: with any fault the
// outcome is nil and every fault is named. sets is not modified; what is returned is sorted.
//
// Each record set may be changed once, or deleted and then made again. Changes are applied in order,
// but rules about several record sets (CNAME exclusivity, routing, the apex, alias targets) are
// checked on the outcome, so their order within a batch does not matter.
func evaluate(zone zoneIdent, sets []recordSet, b *batch) ([]recordSet, *batchFaults) {
	found := b.faults.clone()
	changes, f := b.changes, &found.changes
	checkSize(changes, f)
	e := evaluation{zone: zone, state: make(map[setKey]recordSet, len(sets)), changes: changes, faults: f}
	for _, s := range sets {
		e.state[s.key()] = s
	}
	e.checkRepeats()
	for i := range changes {
		if c := &changes[i]; c.ok {
			e.checkAlone(c)
		}
	}
	for i := range changes {
		if c := &changes[i]; c.ok && !e.repeated[c.set.key()] && inZone(c.set.Name, zone.name) {
			e.apply(c)
		}
	}
	e.checkOutcome()
	if found.any() {
		return nil, found
	}
	out := make([]recordSet, 0, len(e.state))
	for _, s := range e.state {
		out = append(out, s)
	}
	sortSets(out)
	return out, nil
}

// evaluation is the state of one call of evaluate.
type evaluation struct {
	zone     zoneIdent
	state    map[setKey]recordSet
	changes  []change
	repeated map[setKey]bool
	faults   *faults
}

// checkSize applies the quotas of a batch.
func checkSize(changes []change, f *faults) {
	records, chars := 0, 0
	for i := range changes {
		weight := 1
		if changes[i].action == actionUpsert {
			weight = 2
		}
		records += weight * len(changes[i].set.Values)
		for _, v := range changes[i].set.Values {
			chars += weight * len(v)
		}
	}
	if len(changes) > maxChanges {
		f.addf("Number of changes limit of %d exceeded.", maxChanges)
	}
	if records > maxBatchRecords {
		f.addf("Number of records limit of %d exceeded.", maxBatchRecords)
	}
	if chars > maxBatchChars {
		f.addf("Number of characters limit of %d exceeded.", maxBatchChars)
	}
}

// checkRepeats refuses several changes of one record set, except a DELETE followed by a CREATE or
// an UPSERT.
func (e *evaluation) checkRepeats() {
	e.repeated = map[setKey]bool{}
	actions := map[setKey][]string{}
	for i := range e.changes {
		if c := &e.changes[i]; c.ok {
			actions[c.set.key()] = append(actions[c.set.key()], c.action)
		}
	}
	for i := range e.changes {
		c := &e.changes[i]
		if !c.ok {
			continue
		}
		a := actions[c.set.key()]
		if len(a) == 1 || len(a) == 2 && a[0] == actionDelete && a[1] != actionDelete {
			continue
		}
		e.repeated[c.set.key()] = true
		e.faults.addf("The request contains an invalid set of changes for a resource record set '%s %s'",
			c.set.Type, c.set.Name)
	}
}

// label names a record set in the messages about CREATE and DELETE.
func label(s *recordSet) string {
	if s.SetID == "" {
		return fmt.Sprintf("[name='%s', type='%s']", s.Name, s.Type)
	}
	return fmt.Sprintf("[name='%s', type='%s', set identifier='%s']", s.Name, s.Type, s.SetID)
}

// apply makes one change. After a fault the outcome is what the client meant, so that one mistake is
// not reported twice.
func (e *evaluation) apply(c *change) {
	k := c.set.key()
	have, exists := e.state[k]
	switch c.action {
	case actionCreate:
		if exists {
			e.faults.addf("Tried to create resource record set %s but it already exists", label(&c.set))
			return
		}
		e.state[k] = c.set
	case actionUpsert:
		e.state[k] = c.set
	case actionDelete:
		switch {
		case !exists:
			e.faults.addf("Tried to delete resource record set %s but it was not found", label(&c.set))
			return
		case !c.broken && !sameSet(&have, &c.set):
			e.faults.addf("Tried to delete resource record set %s but the values provided do not match the current values",
				label(&c.set))
		}
		delete(e.state, k)
	}
}

// sameSet reports whether a DELETE names the record set as it is; the order of values is no matter.
func sameSet(a, b *recordSet) bool {
	return a.key() == b.key() && equalPtr(a.TTL, b.TTL) && equalPtr(a.Weight, b.Weight) &&
		a.MultiValue == b.MultiValue && equalPtr(a.Alias, b.Alias) &&
		slices.Equal(slices.Sorted(slices.Values(a.Values)), slices.Sorted(slices.Values(b.Values)))
}

func equalPtr[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// checkAlone applies the rules about one change by itself.
func (e *evaluation) checkAlone(c *change) {
	s := &c.set
	if !inZone(s.Name, e.zone.name) {
		e.faults.addf("RRSet with DNS name %s is not permitted in zone %s", s.Name, e.zone.name)
		return
	}
	if c.action == actionDelete {
		return // it has to match what exists, which has passed these rules
	}
	apex := s.Name == e.zone.name
	permit := func(ok bool, why string) {
		if !ok {
			e.faults.addf("RRSet of type %s with DNS name %s is not permitted %s in zone %s",
				s.Type, s.Name, why, e.zone.name)
		}
	}
	permit(s.Type != typeCNAME || !apex, "at apex")
	permit(s.Type != typeDS || !apex, "at apex")
	permit(s.Type != typeSOA || apex, "below the apex")
	permit(s.Type != typeNS || !isWildcard(s.Name), "at a wildcard name")
	rooted := s.Type == typeNS || s.Type == typeSOA
	permit(!rooted || s.SetID == "", "with a routing policy")
	permit(!rooted || s.Alias == nil, "as an alias")
	permit(s.Type != typeCNAME || !s.MultiValue, "as a multivalue answer")
	permit(s.Alias == nil || !s.MultiValue, "as a multivalue answer and an alias")
	single := s.Type == typeCNAME || s.Type == typeSOA
	permit(!single || len(s.Values) <= 1, "with more than one value")
	e.checkValues(s)
	e.checkAlias(s)
}

func (e *evaluation) checkValues(s *recordSet) {
	if len(s.Values) > maxSetRecords {
		e.faults.addf("RRSet of type %s with DNS name %s has more than %d resource records", s.Type, s.Name, maxSetRecords)
		return
	}
	seen := make(map[string]bool, len(s.Values))
	for _, v := range s.Values {
		data, p := rdata(s.Type, v)
		if p != nil {
			e.faults.addf("Invalid Resource Record: '%s'", p)
			continue
		}
		if foldsCase(s.Type) {
			data = strings.ToLower(data)
		}
		if seen[data] {
			e.faults.addf("Duplicate Resource Record: '%s'", clip(v))
		}
		seen[data] = true
	}
}

// checkAlias applies the rules about an alias that need no other record set.
func (e *evaluation) checkAlias(s *recordSet) {
	a := s.Alias
	switch {
	case a == nil || a.Zone == "" || a.Name == "": // decoding has found it
	case a.Zone != e.zone.id:
		e.faults.addf("Tried to create an alias that targets %s, type %s in zone %s, but only targets in the alias's own hosted zone %s are supported by this release",
			a.Name, s.Type, a.Zone, e.zone.id)
	case !inZone(a.Name, e.zone.name):
		e.faults.addf("Tried to create an alias that targets %s, type %s in zone %s, but the alias target name does not lie within the target zone",
			a.Name, s.Type, a.Zone)
	}
}
