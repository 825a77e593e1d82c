package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
)

const (
	minWatchBackoff = 500 * time.Millisecond
	maxWatchBackoff = 30 * time.Second
	// listTimeout bounds one listing of the zone store.
	listTimeout = 20 * time.Second
	// eventBatch is how many events that are waiting are taken together.
	eventBatch = 1024
)

// follower keeps the server's view in step with the zone store. One goroutine at a time runs it.
type follower struct {
	s *Server
	// view is the server's once it is complete.
	view *view
	seq  uint64
	// bad are the faults of zone objects, by what was logged of them.
	bad map[zoneKey]string
	// seen are the zones of the watch's first part; nil once it is ready.
	seen map[zoneKey]bool
	// touched are the zones that the watch changed during the listing.
	touched map[zoneKey]bool
	backoff time.Duration
	broken  bool
}

func newFollower(s *Server) *follower {
	return &follower{s: s, view: newView(nil), bad: map[zoneKey]string{}, backoff: minWatchBackoff}
}

// listing is the outcome of one look at all zone objects.
type listing struct {
	found []change
	err   error
}

// change is what the zone store says of one zone: its object, a fault, or that it is gone.
type change struct {
	key  zoneKey
	zone *dnsapi.Zone
	err  error
}

// run follows the zone store until ctx ends. The watch brings every change; the listing, each Poll,
// finds what the watch missed, and decides only about zones that the watch did not touch meanwhile.
func (f *follower) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	listed := make(chan listing, 1)
	var events <-chan dnsapi.ZoneEvent
	var stopWatch context.CancelFunc = func() {}
	polling := false
	defer func() {
		cancel()
		stopWatch()
		if polling {
			<-listed
		}
	}()
	watch := time.NewTimer(0)
	defer watch.Stop()
	poll := time.NewTicker(f.s.opts.Poll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-watch.C:
			stopWatch()
			events, stopWatch = f.startWatch(ctx)
			if events == nil {
				watch.Reset(f.nextBackoff())
			}
		case ev, ok := <-events:
			if !f.takeEvents(ev, ok, events) {
				f.lostWatch(ctx, errors.New("watch ended"))
				events = nil
				watch.Reset(f.nextBackoff())
			}
		case <-poll.C:
			if !polling {
				polling = true
				f.touched = map[zoneKey]bool{}
				go func() { listed <- f.list(ctx) }()
			}
		case l := <-listed:
			polling = false
			f.takeListing(l)
			f.touched = nil
		}
	}
}

func (f *follower) startWatch(ctx context.Context) (<-chan dnsapi.ZoneEvent, context.CancelFunc) {
	watchCtx, cancel := context.WithCancel(ctx)
	events, err := f.s.opts.Zones.Watch(watchCtx)
	if err != nil {
		cancel()
		f.lostWatch(ctx, err)
		return nil, func() {}
	}
	f.seen = map[zoneKey]bool{}
	return events, cancel
}

// lostWatch logs the first failure of an outage.
func (f *follower) lostWatch(ctx context.Context, err error) {
	if ctx.Err() == nil && !f.broken {
		f.broken = true
		f.s.opts.Log.Warn("zone watch broke, serving what is loaded", "error", err)
	}
}

// nextBackoff returns the wait before the next watch: between half and all of a doubling time.
func (f *follower) nextBackoff() time.Duration {
	d := f.backoff
	f.backoff = min(2*d, maxWatchBackoff)
	return d/2 + rand.N(d/2)
}

// takeEvents applies an event and those that wait behind it. It reports whether the watch is alive.
func (f *follower) takeEvents(ev dnsapi.ZoneEvent, ok bool, events <-chan dnsapi.ZoneEvent) bool {
	var changes []change
	for range eventBatch {
		if !ok {
			break
		}
		if ev.Ready {
			f.apply(changes)
			changes = nil
			f.watchReady()
		} else if c, named := f.changeOf(ev); named {
			changes = append(changes, c)
		}
		select {
		case ev, ok = <-events:
			continue
		default:
		}
		break
	}
	f.apply(changes)
	return ok
}

// changeOf turns an event into a change and notes that the watch has spoken of the zone. An event
// whose zone cannot be told only alarms.
func (f *follower) changeOf(ev dnsapi.ZoneEvent) (change, bool) {
	name, err := wireName(ev.Name)
	if err != nil {
		f.s.opts.Log.Error("zone object without a usable name", "class", string(ev.Class), "zone", ev.Name,
			"error", errors.Join(ev.Err, err))
		return change{}, false
	}
	key := zoneKey{class: ev.Class, name: name}
	if f.seen != nil {
		f.seen[key] = true
	}
	if f.touched != nil {
		f.touched[key] = true
	}
	return change{key: key, zone: ev.Zone, err: ev.Err}, true
}

// watchReady ends the first part of a watch: what it did not send is gone.
func (f *follower) watchReady() {
	if f.broken {
		f.s.opts.Log.Info("zone watch works again")
	}
	f.broken, f.backoff = false, minWatchBackoff
	if f.seen != nil {
		f.dropAbsent(f.seen)
		f.seen = nil
	}
	f.publish()
}

// list reads every zone object. An object that cannot be read is a change with its fault.
func (f *follower) list(ctx context.Context) listing {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var l listing
	for _, class := range []dnsapi.Class{dnsapi.Platform, dnsapi.Hosted} {
		for z, err := range f.s.opts.Zones.All(ctx, class) {
			c := change{key: zoneKey{class: class}, zone: z}
			name := ""
			if bad, ok := errors.AsType[*dnsapi.BadZoneError](err); ok {
				name, c.err = bad.Name, bad.Err
			} else if err != nil {
				l.err = err
				return l
			} else {
				name = z.Name
			}
			wire, err := wireName(name)
			if err != nil {
				l.err = err
				return l
			}
			c.key.name = wire
			l.found = append(l.found, c)
		}
	}
	return l
}

// takeListing applies what a complete listing found and the watch has not told already.
func (f *follower) takeListing(l listing) {
	if l.err != nil {
		f.s.opts.Log.Debug("zone store not listed", "error", l.err)
		return
	}
	found := make(map[zoneKey]bool, len(l.found))
	var changes []change
	for _, c := range l.found {
		found[c.key] = true
		switch {
		case f.touched[c.key]:
		case c.err != nil || f.isNews(c):
			changes = append(changes, c)
		default:
			delete(f.bad, c.key)
		}
	}
	for key := range f.touched {
		found[key] = true
	}
	f.apply(changes)
	f.dropAbsent(found)
	f.publish()
}

// isNews reports whether a listed object differs from the zone that is loaded.
func (f *follower) isNews(c change) bool {
	s := f.view.slots[c.key]
	if s == nil {
		return true
	}
	z := s.zone.Load()
	return z.id != c.zone.ID || z.serial != c.zone.Serial || z.generation != c.zone.Generation
}

// apply brings changes into the view.
func (f *follower) apply(changes []change) {
	if len(changes) == 0 {
		return
	}
	loaded := map[zoneKey]*zone{}
	gone := map[zoneKey]bool{}
	for _, c := range changes {
		delete(loaded, c.key)
		delete(gone, c.key)
		if c.err == nil && c.zone == nil {
			gone[c.key] = true
			delete(f.bad, c.key)
			continue
		}
		z, err := f.load(c)
		if err != nil {
			f.alarm(c.key, err)
			continue
		}
		delete(f.bad, c.key)
		loaded[c.key] = z
	}
	f.update(loaded, gone)
}

func (f *follower) load(c change) (*zone, error) {
	if c.err != nil {
		return nil, c.err
	}
	z, err := compile(c.zone)
	if err != nil {
		return nil, err
	}
	if z.key != c.key {
		return nil, fmt.Errorf("object is of the zone %s %s", z.key.class, textName(z.key.name))
	}
	f.seq++
	z.seq = f.seq
	return z, nil
}

// alarm logs the fault of a zone object, once for each fault.
func (f *follower) alarm(key zoneKey, err error) {
	if f.bad[key] == err.Error() {
		return
	}
	f.bad[key] = err.Error()
	f.s.opts.Log.Error("bad zone object, keeping the last good one", "class", string(key.class),
		"zone", textName(key.name), "served", f.view.slots[key] != nil, "error", err)
}

// dropAbsent drops the zones that are not in present.
func (f *follower) dropAbsent(present map[zoneKey]bool) {
	gone := map[zoneKey]bool{}
	for key := range f.view.slots {
		if !present[key] {
			gone[key] = true
		}
	}
	for key := range f.bad {
		if !present[key] {
			delete(f.bad, key)
		}
	}
	f.update(nil, gone)
}

// update changes the view, and the server's when it has one.
func (f *follower) update(loaded map[zoneKey]*zone, gone map[zoneKey]bool) {
	f.s.badZones.Store(int64(len(f.bad)))
	next := f.view.with(loaded, gone)
	if next != f.view {
		f.view = next
		if f.s.view.Load() != nil {
			f.publish()
		}
	}
	if len(loaded)+len(gone) > 0 {
		f.s.wakeReport()
	}
}

// publish makes the follower's view the server's.
func (f *follower) publish() {
	if f.s.view.Load() == f.view {
		return
	}
	f.s.cache.clear() // a straggler that still keeps an answer of the old view harms nobody
	f.s.view.Store(f.view)
	f.s.wakeReport()
}
