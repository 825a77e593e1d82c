package kvsync

import (
	"context"
	"slices"
)

// maxOrphans bounds what a group remembers of its orphans; the oldest are forgotten first.
const maxOrphans = 1024

// orphan is a member's record of this process that no lease of it holds: of an unlock that could not
// delete it, or of an acquiring write whose outcome was never learned. It names a session that lives on
// for other members, so that it would never lapse: the group deletes it.
type orphan struct {
	key, nonce, session string
	rev                 uint64 // 0: not known
	late                bool   // it may land at any time
	due                 bool   // it is to be looked for
}

// disown remembers an orphan.
func (g *LeaseGroup) disown(o orphan) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.orphans = append(g.orphans, o)
	if extra := len(g.orphans) - maxOrphans; extra > 0 {
		g.orphans = slices.Delete(g.orphans, 0, extra)
	}
}

// sighted notes that the watch has shown a record.
func (g *LeaseGroup) sighted(nonce string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.orphans {
		if g.orphans[i].nonce == nonce {
			g.orphans[i].due = true
		}
	}
}

// searchAll has every orphan looked for, after a watch was away.
func (g *LeaseGroup) searchAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.orphans {
		g.orphans[i].due = true
	}
}

// collect deletes the orphans that are due. One that a TryLock of its lease may adopt is left for the
// next time.
func (g *LeaseGroup) collect(ctx context.Context) {
	type found struct {
		orphan
		by *Lease
	}
	var due []found
	g.mu.Lock()
	for _, o := range g.orphans {
		if o.due {
			due = append(due, found{o, g.members[o.key[len(g.prefix):]]})
		}
	}
	g.mu.Unlock()
	for _, o := range due {
		if o.by != nil && o.by.isBusy() {
			continue
		}
		if o.rev > 0 && remove(ctx, g.store, o.key, o.rev) == nil {
			g.settled(o.orphan, true)
			continue
		}
		saw := load(ctx, g.store, o.key)
		there := !saw.absent && !saw.bad && saw.rec.Nonce == o.nonce
		if saw.err != nil || there && remove(ctx, g.store, o.key, saw.rev) != nil {
			continue // the next round tries again
		}
		g.settled(o.orphan, there || !o.late)
	}
}

// settled forgets an orphan for good, or until it is sighted.
func (g *LeaseGroup) settled(o orphan, gone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.orphans, o)
	switch {
	case i < 0:
	case gone:
		g.orphans = slices.Delete(g.orphans, i, i+1)
	default:
		g.orphans[i].due = false
	}
}

// abandon forgets the orphans of a session that has ended: they lapse with it.
func (g *LeaseGroup) abandon(session string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.orphans = slices.DeleteFunc(g.orphans, func(o orphan) bool { return o.session == session })
}

func (l *Lease) isBusy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy
}
