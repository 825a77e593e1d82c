package iam

import (
	"sync"
	"time"
)

const (
	// CacheTTL is how long a credential is used before it is read again.
	CacheTTL = 30 * time.Second
	// maxCached bounds the credentials in memory.
	maxCached = 1024
)

// cache remembers credentials that exist. Ids that do not are asked for each time, so that nobody
// can drive the others out with made-up ones.
type cache struct {
	limit int
	ttl   time.Duration

	mu      sync.Mutex
	entries map[string]cached
}

type cached struct {
	credential Credential
	read       time.Time
}

func newCache(limit int, ttl time.Duration) *cache {
	return &cache{limit: limit, ttl: ttl, entries: map[string]cached{}}
}

func (c *cache) get(id string, now time.Time) (Credential, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.entries[id]
	if !ok || now.Sub(entry.read) >= c.ttl {
		delete(c.entries, id)
		return Credential{}, false
	}
	return entry.credential, true
}

func (c *cache) put(credential Credential, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.entries { // any one makes room; it is read again when it is needed
		if len(c.entries) < c.limit {
			break
		}
		delete(c.entries, id)
	}
	c.entries[credential.AccessKeyID] = cached{credential: credential, read: now}
}
