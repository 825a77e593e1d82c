package dnsserver

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"
)

const (
	// cacheSlots is a power of two. A full cache of the largest UDP answers takes 40 MiB.
	cacheSlots = 1 << 15
	// cacheMaxAnswer bounds a kept answer; larger ones travel over TCP and are rare.
	cacheMaxAnswer = 1232
	// cacheMaxReads bounds how many zones a kept answer was made of.
	cacheMaxReads = 4
)

// cache keeps packed answers by question. It is two-way associative and needs no lock: a slot is
// replaced whole, and an entry says itself which versions of which zones it was made of. It pins no
// zone that has been replaced; those that were dropped are let go by clear.
type cache struct {
	seed  maphash.Seed
	slots []atomic.Pointer[cached]
}

// cached is one packed answer without EDNS. It is immutable.
type cached struct {
	key  []byte
	msg  []byte
	view uint64
	read []cachedRead
}

type cachedRead struct {
	slot *slot
	seq  uint64
}

func newCache() *cache {
	return &cache{seed: maphash.MakeSeed(), slots: make([]atomic.Pointer[cached], cacheSlots)}
}

// get returns the packed answer of a question, nil when there is none of the current zones.
func (c *cache) get(v *view, key []byte) []byte {
	at := c.index(key)
	for _, i := range [2]uint64{at, at ^ 1} {
		if e := c.slots[i].Load(); e != nil && bytes.Equal(e.key, key) && e.current(v) {
			return e.msg
		}
	}
	return nil
}

// put keeps the packed answer of a question, copied.
func (c *cache) put(v *view, key, msg []byte, read []reading) {
	if len(msg) > cacheMaxAnswer || len(read) > cacheMaxReads {
		return
	}
	buf := make([]byte, len(key)+len(msg))
	n := copy(buf, key)
	copy(buf[n:], msg)
	e := &cached{key: buf[:n:n], msg: buf[n:], view: v.seq, read: make([]cachedRead, len(read))}
	for i, r := range read {
		e.read[i] = cachedRead{slot: r.slot, seq: r.zone.seq}
	}
	at := c.index(key)
	for _, i := range [2]uint64{at, at ^ 1} {
		old := c.slots[i].Load()
		if old == nil || bytes.Equal(old.key, key) || !old.current(v) {
			c.slots[i].Store(e)
			return
		}
	}
	// Both are in use: the older stays second and will go next.
	c.slots[at^1].Store(c.slots[at].Load())
	c.slots[at].Store(e)
}

// clear drops everything.
func (c *cache) clear() {
	for i := range c.slots {
		c.slots[i].Store(nil)
	}
}

func (c *cache) index(key []byte) uint64 {
	return maphash.Bytes(c.seed, key) & (cacheSlots - 1)
}

func (e *cached) current(v *view) bool {
	if e.view != v.seq {
		return false
	}
	for _, r := range e.read {
		if r.slot.zone.Load().seq != r.seq {
			return false
		}
	}
	return true
}
