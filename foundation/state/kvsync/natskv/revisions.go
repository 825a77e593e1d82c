package natskv

import "sync"

// known is the last that was seen of a key.
type known struct {
	rev     uint64
	deleted bool
}

// revisions is a bounded memory of keys. What is known of a key saves the look before a create;
// what is forgotten costs one. It keeps two generations of maps: when the young one is full it
// becomes the old one, so that at most 2*limit keys are kept and the used ones stay.
type revisions struct {
	limit int

	mu sync.Mutex
	// Everything below is protected by mu.
	young, old map[string]known
}

func newRevisions(limit int) *revisions {
	return &revisions{limit: limit, young: make(map[string]known)}
}

// get returns what is known of the key.
func (r *revisions) get(key string) (known, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.young[key]
	if ok {
		return k, true
	}
	if k, ok = r.old[key]; ok {
		r.storeLocked(key, k)
	}
	return k, ok
}

// see remembers a state of the key unless a later one is known: answers arrive in any order.
func (r *revisions) see(key string, k known) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have, ok := r.young[key]
	if !ok {
		have, ok = r.old[key]
	}
	if ok && have.rev > k.rev {
		return
	}
	r.storeLocked(key, k)
}

// forget drops everything, when the stream behind the revisions was replaced.
func (r *revisions) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.young, r.old = make(map[string]known), nil
}

func (r *revisions) storeLocked(key string, k known) {
	r.young[key] = k
	if len(r.young) >= r.limit {
		r.young, r.old = make(map[string]known), r.young
	}
}
