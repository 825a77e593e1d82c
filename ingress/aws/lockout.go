package awsingress

import (
	"net/netip"
	"sync"
	"time"
)

// Bounds of the lockout.
const (
	// lockoutFailures distinct failures within lockoutWindow lock an address out.
	lockoutFailures = 10
	lockoutWindow   = time.Minute
	// The first lockout lasts lockoutFirst, each further one twice as long, up to lockoutMost. An
	// address that was not locked out for lockoutMemory begins anew.
	lockoutFirst  = 30 * time.Second
	lockoutMost   = 5 * time.Minute
	lockoutMemory = 15 * time.Minute
	// lockoutAddresses bounds the addresses that are remembered, lockoutKeys the access keys of each.
	lockoutAddresses = 4096
	lockoutKeys      = 16
)

// lockout refuses addresses that fail to authenticate in many different ways, so that guessing
// access keys costs time.
//
// A failure is a pair of access key id and error code. A broken client that repeats one request all
// day has one failure and is never locked out; only somebody who tries ten different keys within a
// minute is. An address may be shared, by the clients of a NAT and by everybody on loopback; so an
// access key that has verified from the address stays usable while the address is locked out, as
// long as what is signed with it verifies. What a locked out address gets is one answer for every
// key that has not, whether it exists or not.
type lockout struct {
	mu        sync.Mutex
	addresses map[netip.Prefix]*addressState
}

type addressState struct {
	touched time.Time
	// failures are the distinct ones with the time of the last.
	failures map[failure]time.Time
	// good are the access keys that have verified, with the time of the last.
	good map[string]time.Time
	// until is the end of the current or last lockout, lasted its length; both zero before the first.
	until  time.Time
	lasted time.Duration
}

// failure is what makes two failures distinct.
type failure struct{ accessKey, code string }

func newLockout() *lockout { return &lockout{addresses: map[netip.Prefix]*addressState{}} }

// origin is what counts as one address: an IPv4 address, or the /64 that one IPv6 host has.
func origin(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address at all: all of these count as one
	}
	return prefix
}

// locked returns how long the address must wait before a request with this access key is looked at;
// 0 means not at all.
func (l *lockout) locked(addr netip.Addr, accessKey string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.addresses[origin(addr)]
	if state == nil || !now.Before(state.until) {
		return 0
	}
	if _, ok := state.good[accessKey]; ok {
		return 0
	}
	return state.until.Sub(now)
}

// succeeded notes that a request verified.
func (l *lockout) succeeded(addr netip.Addr, accessKey string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.stateLocked(addr, now)
	if _, known := state.good[accessKey]; !known && len(state.good) >= lockoutKeys {
		delete(state.good, oldest(state.good))
	}
	state.good[accessKey] = now
}

// failed notes a failure and returns for how long it has locked the address out; 0 means it has not.
func (l *lockout) failed(addr netip.Addr, accessKey, code string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.stateLocked(addr, now)
	if now.Before(state.until) {
		return 0 // a request that was under way, or a key that had verified before
	}
	for f, at := range state.failures {
		if now.Sub(at) >= lockoutWindow {
			delete(state.failures, f)
		}
	}
	state.failures[failure{accessKey, code}] = now
	if len(state.failures) < lockoutFailures {
		return 0
	}
	clear(state.failures)
	if now.Sub(state.until) >= lockoutMemory {
		state.lasted = 0
	}
	state.lasted = min(max(lockoutFirst, 2*state.lasted), lockoutMost)
	state.until = now.Add(state.lasted)
	return state.lasted
}

// stateLocked returns the state of an address, making room where there is none: the address that was
// quiet for longest is forgotten, one that is locked out only if all are.
func (l *lockout) stateLocked(addr netip.Addr, now time.Time) *addressState {
	key := origin(addr)
	state := l.addresses[key]
	if state == nil {
		if len(l.addresses) >= lockoutAddresses {
			delete(l.addresses, l.leastLocked(now))
		}
		state = &addressState{failures: map[failure]time.Time{}, good: map[string]time.Time{}}
		l.addresses[key] = state
	}
	state.touched = now
	return state
}

func (l *lockout) leastLocked(now time.Time) netip.Prefix {
	var least netip.Prefix
	var leastState *addressState
	for key, state := range l.addresses {
		if leastState == nil || lessWorth(state, leastState, now) {
			least, leastState = key, state
		}
	}
	return least
}

func lessWorth(a, b *addressState, now time.Time) bool {
	if aLocked, bLocked := now.Before(a.until), now.Before(b.until); aLocked != bLocked {
		return bLocked
	}
	return a.touched.Before(b.touched)
}

func oldest[K comparable](times map[K]time.Time) K {
	var key K
	var when time.Time
	for k, at := range times {
		if when.IsZero() || at.Before(when) {
			key, when = k, at
		}
	}
	return key
}
