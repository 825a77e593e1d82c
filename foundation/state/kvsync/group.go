package kvsync

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// LeaseGroup is a family of leases below one prefix, one per name. However many of them this process
// holds, it renews one session for all: they are valid while the session is, and lost with it.
type LeaseGroup struct {
	store  KVStore
	prefix string
	holder string
	ttl    time.Duration
	morgue *morgue

	opening chan struct{} // holds one while somebody starts or ends the session; guards changes of current
	current atomic.Pointer[session]
	idle    atomic.Bool // somebody wants it looked whether the session is still needed

	mu      sync.Mutex // guards members and orphans; never held with a lease's mutex
	members map[string]*Lease
	orphans []orphan
}

// NewLeaseGroup makes the group of leases whose keys begin with prefix, which ends in a dot. It panics
// on the wiring errors of NewLease, and on a prefix that overlaps another or covers a lease's key.
func NewLeaseGroup(store KVStore, prefix, holder string, ttl time.Duration) *LeaseGroup {
	mustStore(store)
	mustHolder(holder)
	mustTTL(ttl)
	mustPrefix(prefix)
	wired.addPrefix(store, prefix)
	return &LeaseGroup{
		store: store, prefix: prefix, holder: holder, ttl: ttl, morgue: newMorgue(store, ttl),
		opening: make(chan struct{}, 1), members: map[string]*Lease{},
	}
}

// Get returns the lease of name, always the same one until Forget. It panics on a name that makes no
// valid key, or that begins with "=session.".
func (g *LeaseGroup) Get(name string) *Lease {
	mustKey(g.prefix + name)
	if strings.HasPrefix(name, sessionName) {
		panic(fmt.Sprintf("kvsync: member name %q is reserved for sessions", name))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l, ok := g.members[name]
	if !ok {
		l = newLease(g.store, g.prefix+name, g.holder, g.ttl)
		l.group, l.morgue = g, g.morgue
		g.members[name] = l
	}
	return l
}

// Forget unlocks the lease of name, if there is one, and makes it dead for good: also a TryLock that is
// under way will not keep it. A later Get makes a new lease.
func (g *LeaseGroup) Forget(name string) {
	g.mu.Lock()
	l, ok := g.members[name]
	delete(g.members, name)
	g.mu.Unlock()
	if !ok {
		return
	}
	l.mu.Lock()
	l.dead = true
	close(l.gone)
	var tok Token
	if l.acq != nil {
		tok = l.acq.tok
	}
	l.mu.Unlock()
	l.Unlock(context.Background(), tok)
}

// ClaimGroup is a family of claims below one prefix, one per name.
type ClaimGroup struct {
	store  KVStore
	prefix string
	holder string

	mu      sync.Mutex // guards members
	members map[string]*Claim
}

// NewClaimGroup makes the group of claims whose keys begin with prefix, which ends in a dot, with the
// panics of NewLeaseGroup.
func NewClaimGroup(store KVStore, prefix, holder string) *ClaimGroup {
	mustStore(store)
	mustHolder(holder)
	mustPrefix(prefix)
	wired.addPrefix(store, prefix)
	return &ClaimGroup{store: store, prefix: prefix, holder: holder, members: map[string]*Claim{}}
}

// Get returns the claim of name, always the same one. It panics on a name that makes no valid key.
func (g *ClaimGroup) Get(name string) *Claim {
	mustKey(g.prefix + name)
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.members[name]
	if !ok {
		c = newClaim(g.store, g.prefix+name, g.holder)
		g.members[name] = c
	}
	return c
}
