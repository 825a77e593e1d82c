package route53

import (
	"fmt"
	"slices"
)

// groupKey names the record sets that are answered together.
type groupKey struct{ name, typ string }

// outcome indexes the record sets that a batch would leave.
type outcome struct {
	types  map[string]map[string]bool // types at a name
	groups map[groupKey][]recordSet
}

// checkOutcome applies the rules about several record sets, to those that the batch makes.
func (e *evaluation) checkOutcome() {
	o := outcome{types: map[string]map[string]bool{}, groups: map[groupKey][]recordSet{}}
	for _, s := range e.state {
		if o.types[s.Name] == nil {
			o.types[s.Name] = map[string]bool{}
		}
		o.types[s.Name][s.Type] = true
		g := groupKey{s.Name, s.Type}
		o.groups[g] = append(o.groups[g], s)
	}
	for i := range e.changes {
		c := &e.changes[i]
		if !c.ok || c.action == actionDelete || !inZone(c.set.Name, e.zone.name) {
			continue
		}
		e.checkCNAME(&c.set, o)
		if !c.broken {
			e.checkRouting(&c.set, o)
		}
		e.checkTarget(&c.set, o)
	}
	e.checkApex(o)
	if len(e.state) > maxSets {
		e.faults.addf("Number of resource record sets limit of %d exceeded.", maxSets)
	}
}

// checkCNAME keeps a CNAME alone at its name.
func (e *evaluation) checkCNAME(s *recordSet, o outcome) {
	types := o.types[s.Name]
	if s.Name == e.zone.name || !types[typeCNAME] || len(types) < 2 {
		return // at the apex the CNAME itself is the fault
	}
	if s.Type == typeCNAME {
		e.faults.addf("RRSet of type CNAME with DNS name %s is not permitted as it conflicts with other records with the same DNS name in zone %s",
			s.Name, e.zone.name)
		return
	}
	// AWS writes two blanks before CNAME.
	e.faults.addf("RRSet of type %s with DNS name %s is not permitted because a conflicting RRSet of type  CNAME with the same DNS name already exists in zone %s",
		s.Type, s.Name, e.zone.name)
}

// policy is the routing policy of a record set: "" for simple.
func policy(s *recordSet) string {
	switch {
	case s.Weight != nil:
		return "weight"
	case s.MultiValue:
		return "multivalue"
	}
	return ""
}

// checkRouting keeps the record sets of a name and type to one policy: one simple set alone, or
// several of the same policy that differ in SetIdentifier.
func (e *evaluation) checkRouting(s *recordSet, o outcome) {
	group := o.groups[groupKey{s.Name, s.Type}]
	mixed := slices.ContainsFunc(group, func(other recordSet) bool {
		return other.SetID != s.SetID && (s.SetID == "" || other.SetID == "" || policy(&other) != policy(s))
	})
	if mixed {
		e.faults.addf("RRSet with DNS name %s, type %s, SetIdentifier %s%s cannot be created as other RRSets exist with the same name and type.",
			s.Name, s.Type, orNull(s.SetID), describePolicy(s))
	}
	if len(group) > maxGroup {
		e.faults.addf("Number of resource record sets limit of %d for DNS name %s, type %s exceeded.", maxGroup, s.Name, s.Type)
	}
}

func describePolicy(s *recordSet) string {
	switch {
	case s.Weight != nil:
		return fmt.Sprintf(", and weight %d", *s.Weight)
	case s.MultiValue:
		return ", and multivalue answer"
	}
	return ","
}

func orNull(s string) string {
	if s == "" {
		return "null"
	}
	return s
}

// checkTarget wants an alias's target to exist, with the alias's type, and to lead to an end.
func (e *evaluation) checkTarget(s *recordSet, o outcome) {
	if s.Alias == nil || s.Alias.Zone != e.zone.id || !inZone(s.Alias.Name, e.zone.name) {
		return
	}
	if len(o.groups[groupKey{s.Alias.Name, s.Type}]) == 0 {
		e.faults.addf("Tried to create an alias that targets %s, type %s in zone %s, but that target was not found",
			s.Alias.Name, s.Type, s.Alias.Zone)
		return
	}
	if aliasLoops(s, o) {
		e.faults.addf("Tried to create an alias that targets %s, type %s in zone %s, but that target leads back to the alias",
			s.Alias.Name, s.Type, s.Alias.Zone)
	}
}

// aliasLoops reports whether the aliases that follow from s come back to its name.
func aliasLoops(s *recordSet, o outcome) bool {
	seen := map[string]bool{}
	todo := []string{s.Alias.Name}
	for len(todo) > 0 {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if name == s.Name {
			return true
		}
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, t := range o.groups[groupKey{name, s.Type}] {
			if t.Alias != nil {
				todo = append(todo, t.Alias.Name)
			}
		}
	}
	return false
}

// checkApex keeps the SOA and NS record sets that make a zone.
func (e *evaluation) checkApex(o outcome) {
	if len(o.groups[groupKey{e.zone.name, typeNS}]) == 0 {
		e.faults.addf("A HostedZone must contain at least one NS record for the zone itself.")
	}
	if len(o.groups[groupKey{e.zone.name, typeSOA}]) != 1 {
		e.faults.addf("A HostedZone must contain exactly one SOA record.")
	}
}

// onlyApex reports whether a zone has nothing but its own SOA and NS record sets.
func onlyApex(zone string, sets []recordSet) bool {
	return !slices.ContainsFunc(sets, func(s recordSet) bool {
		return s.Name != zone || s.Type != typeNS && s.Type != typeSOA
	})
}
