package dnsserver

import (
	"maps"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
)

// slot is the place of one zone object; the zone in it is replaced by one store.
type slot struct{ zone atomic.Pointer[zone] }

// view is the set of served zones. A view never changes, the zones in its slots do: a new view is
// made when a zone comes, goes or changes its id.
type view struct {
	// seq is unique among the views of a server.
	seq   uint64
	slots map[zoneKey]*slot
	// byName has the zone that answers for an apex: the platform's before a hosted one.
	byName map[string]*slot
	byID   map[string]*slot
}

func newView(slots map[zoneKey]*slot) *view {
	v := &view{slots: slots, byName: make(map[string]*slot, len(slots)), byID: make(map[string]*slot, len(slots))}
	for key, s := range slots {
		if key.class == dnsapi.Platform || v.byName[key.name] == nil {
			v.byName[key.name] = s
		}
		v.byID[s.zone.Load().id] = s
	}
	return v
}

// with returns a view with the loaded zones added or replaced, and without those that are gone. It is
// the receiver when only the content of zones differs.
func (v *view) with(loaded map[zoneKey]*zone, gone map[zoneKey]bool) *view {
	fresh := map[zoneKey]*slot{}
	for key, z := range loaded {
		old := v.slots[key]
		if old != nil && old.zone.Load().id == z.id {
			old.zone.Store(z)
			continue
		}
		s := &slot{}
		s.zone.Store(z)
		fresh[key] = s
	}
	dropped := false
	for key := range gone {
		dropped = dropped || v.slots[key] != nil
	}
	if len(fresh) == 0 && !dropped {
		return v
	}
	slots := make(map[zoneKey]*slot, len(v.slots)+len(fresh))
	maps.Copy(slots, v.slots)
	for key := range gone {
		delete(slots, key)
	}
	maps.Copy(slots, fresh)
	next := newView(slots)
	next.seq = v.seq + 1
	return next
}

// zoneFor returns the most specific zone that has the name, or nil. A DS record belongs to the zone
// above the one whose apex has the name, when that is served too.
func (v *view) zoneFor(name string, rtype uint16) *slot {
	if rtype == dns.TypeDS {
		if up, ok := parent(name); ok {
			if s := v.enclosing(up); s != nil {
				return s
			}
		}
	}
	return v.enclosing(name)
}

func (v *view) enclosing(name string) *slot {
	for ok := true; ok; name, ok = parent(name) {
		if s := v.byName[name]; s != nil {
			return s
		}
	}
	return nil
}

// serials returns the serial of each zone by the zone's id.
func (v *view) serials() map[string]uint32 {
	out := make(map[string]uint32, len(v.slots))
	for _, s := range v.slots {
		z := s.zone.Load()
		out[z.id] = z.serial
	}
	return out
}
