package sigv4

import (
	"crypto/sha256"
	"sync"
)

// keyCache keeps derived signing keys: four HMACs fewer for each request of one key, day, region
// and service. An entry is bound to the secret it came from, so that a changed secret takes effect
// at once.
type keyCache struct {
	most int

	mu   sync.Mutex
	keys map[keyID][]byte
}

type keyID struct {
	scope  Scope
	secret [sha256.Size]byte
}

func newKeyCache(most int) *keyCache {
	return &keyCache{most: most, keys: make(map[keyID][]byte)}
}

// derive returns the signing key of a secret for a scope.
func (c *keyCache) derive(secret string, scope Scope) []byte {
	id := keyID{scope, sha256.Sum256([]byte(secret))}
	c.mu.Lock()
	key := c.keys[id]
	c.mu.Unlock()
	if key != nil {
		return key
	}
	key = []byte("AWS4" + secret)
	for _, part := range []string{scope.Date, scope.Region, scope.Service, terminator} {
		key = hmacSHA256(key, part)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.keys) >= c.most {
		clear(c.keys) // keys are of one day; the whole set is of no use tomorrow
	}
	c.keys[id] = key
	return key
}
