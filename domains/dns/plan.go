package dns

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
)

const (
	// zoneTTL in seconds of records without one of their own, and of negative answers.
	zoneTTL = 300
	// managedTTL in seconds of managed records whose source says nothing else.
	managedTTL = 60
	// apexClass is the class of the zone's own records; a source cannot have it.
	apexClass = "zone"
)

// desired is what a platform zone should have.
type desired struct {
	zone string // canonical name
	// classes come in the order of precedence: the first that wants a name and type has it.
	classes []classSet
}

// classSet is what one class wants. The sets are normalised.
type classSet struct {
	class    string
	sets     []dnsapi.RRSet
	complete bool
}

// setKey is what there is one managed set of.
type setKey struct{ name, rtype string }

func keyOf(s *dnsapi.RRSet) setKey { return setKey{s.Name, s.Type} }

// planned is the outcome of plan.
type planned struct {
	// zone is the one to write, nil when the current one is right.
	zone *dnsapi.Zone
	// conflicts say which desired sets were left out, and why.
	conflicts                []string
	added, replaced, removed int
}

// plan computes the next zone from the desired set and the current one, nil when there is none. Sets that
// are not managed stay as they are, and a desired set that would stand against one is left out. A managed
// set that is not desired is removed when prune allows it and its class is complete.
func plan(d desired, current *dnsapi.Zone, prune bool, now time.Time) planned {
	var out planned
	p := planner{have: map[setKey]bool{}, cname: map[string]bool{}, other: map[string]bool{}}
	old := map[setKey]dnsapi.RRSet{}
	if current != nil {
		for _, s := range current.RRSets {
			if s.Managed {
				old[keyOf(&s)] = s
			} else {
				p.keep(s)
			}
		}
	}
	complete := map[string]bool{}
	for _, c := range d.classes {
		complete[c.class] = c.complete
		for _, s := range c.sets {
			if why := p.against(&s); why != "" {
				out.conflicts = append(out.conflicts, fmt.Sprintf("%s %s of %s: %s", s.Name, s.Type, c.class, why))
				continue
			}
			p.keep(s)
			was, there := old[keyOf(&s)]
			switch {
			case !there:
				out.added++
			case !sameSet(was, s):
				out.replaced++
			}
			delete(old, keyOf(&s))
		}
	}
	for _, key := range sortedKeys(old) {
		s := old[key]
		if prune && complete[s.Source] || p.against(&s) != "" {
			out.removed++
			continue
		}
		p.keep(s)
	}
	out.zone = next(d.zone, p.sets, current, now)
	return out
}

// planner gathers the sets of the next zone.
type planner struct {
	sets []dnsapi.RRSet
	have map[setKey]bool
	// cname and other are the names that have a CNAME, or anything else.
	cname, other map[string]bool
}

func (p *planner) keep(s dnsapi.RRSet) {
	p.sets = append(p.sets, s)
	p.have[keyOf(&s)] = true
	if s.Type == "CNAME" {
		p.cname[s.Name] = true
	} else {
		p.other[s.Name] = true
	}
}

// against says why a set cannot join those that are kept, "" when it can.
func (p *planner) against(s *dnsapi.RRSet) string {
	switch {
	case p.have[keyOf(s)]:
		return "there is another set of that name and type"
	case p.cname[s.Name], s.Type == "CNAME" && p.other[s.Name]:
		return "a CNAME stands alone"
	}
	return ""
}

// next makes the zone of the sets; nil when it is what the current one is.
func next(name string, sets []dnsapi.RRSet, current *dnsapi.Zone, now time.Time) *dnsapi.Zone {
	sortSets(sets)
	z := &dnsapi.Zone{
		Version: zoneVersion, Class: dnsapi.Platform, Name: name, ID: name,
		TTL: zoneTTL, NegativeTTL: zoneTTL, RRSets: sets,
	}
	if current != nil {
		was := *current
		was.RRSets = slices.Clone(current.RRSets)
		sortSets(was.RRSets)
		z.Serial, z.Generation = was.Serial, was.Generation
		if sameZone(&was, z) {
			return nil
		}
		z.Generation = 0
	}
	z.Serial = dnsapi.NextSerial(z.Serial, now)
	return z
}

func sameZone(a, b *dnsapi.Zone) bool {
	if len(a.RRSets) != len(b.RRSets) {
		return false
	}
	for i := range a.RRSets {
		if !sameSet(a.RRSets[i], b.RRSets[i]) {
			return false
		}
	}
	x, y := *a, *b
	x.RRSets, y.RRSets = nil, nil
	return reflect.DeepEqual(x, y)
}

func sameSet(a, b dnsapi.RRSet) bool { return reflect.DeepEqual(a, b) }

// sortSets orders sets by name, type and identifier, the SOA and NS of an apex first of their name.
func sortSets(sets []dnsapi.RRSet) {
	rank := func(rtype string) int {
		switch rtype {
		case "SOA":
			return 0
		case "NS":
			return 1
		}
		return 2
	}
	slices.SortStableFunc(sets, func(a, b dnsapi.RRSet) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(rank(a.Type), rank(b.Type)),
			cmp.Compare(a.Type, b.Type), cmp.Compare(a.SetID, b.SetID))
	})
}

func sortedKeys(m map[setKey]dnsapi.RRSet) []setKey {
	keys := make([]setKey, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b setKey) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.rtype, b.rtype))
	})
	return keys
}

// normalise makes the sets of a source those of a zone: canonical names within it, sorted values, managed
// by the class. What is not valid is left out and named.
func normalise(zone, class string, sets []dnsapi.RRSet) (out []dnsapi.RRSet, faults []error) {
	for _, s := range sets {
		name, err := canonicalName(s.Name)
		if err == nil && name != zone && !below(name, zone) {
			err = fmt.Errorf("%s is not within %s", name, zone)
		}
		if err == nil {
			err = checkSet(&s)
		}
		if err == nil && (s.SetID != "" || s.Alias != nil || s.MultiValue || s.Weight != nil) {
			err = fmt.Errorf("%s %s: managed sets have no routing policy", name, s.Type)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("source %s: %w", class, err))
			continue
		}
		ttl := uint32(managedTTL)
		if s.TTL != nil {
			ttl = *s.TTL
		}
		values := slices.Clone(s.Values)
		slices.Sort(values)
		out = append(out, dnsapi.RRSet{
			Name: name, Type: s.Type, TTL: &ttl, Values: slices.Compact(values), Managed: true, Source: class,
		})
	}
	return out, faults
}
