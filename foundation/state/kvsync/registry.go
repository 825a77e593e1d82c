package kvsync

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"unsafe"
	"weak"
)

// The registry knows which keys were constructed against which store value, so that a key wired
// twice is found at construction. It holds stores weakly: a store that is no longer referenced goes,
// and its keys with it.
type registry struct {
	mu     sync.Mutex
	stores map[any]*wiring // by storeKey
}

// wiring is what was constructed against one store value.
type wiring struct {
	keys     map[string]struct{}
	prefixes map[string]struct{}
}

// wired is process-wide by nature: it exists to find two constructions that do not know each other.
var wired = &registry{stores: map[any]*wiring{}}

// addKey panics when key is taken, or lies below a registered prefix.
func (r *registry) addKey(store KVStore, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.wiringLocked(store)
	if w == nil {
		return
	}
	if _, taken := w.keys[key]; taken {
		panic(fmt.Sprintf("kvsync: key %q is constructed twice against one store", key))
	}
	for p := range w.prefixes {
		if strings.HasPrefix(key, p) {
			panic(fmt.Sprintf("kvsync: key %q lies under the prefix %q of a group", key, p))
		}
	}
	w.keys[key] = struct{}{}
}

// addPrefix panics when prefix overlaps another one or covers a registered key.
func (r *registry) addPrefix(store KVStore, prefix string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.wiringLocked(store)
	if w == nil {
		return
	}
	for p := range w.prefixes {
		if strings.HasPrefix(prefix, p) || strings.HasPrefix(p, prefix) {
			panic(fmt.Sprintf("kvsync: group prefix %q overlaps %q", prefix, p))
		}
	}
	for k := range w.keys {
		if strings.HasPrefix(k, prefix) {
			panic(fmt.Sprintf("kvsync: group prefix %q covers the key %q", prefix, k))
		}
	}
	w.prefixes[prefix] = struct{}{}
}

func (r *registry) wiringLocked(store KVStore) *wiring {
	key, first := storeKey(store)
	if key == nil {
		return nil
	}
	w, ok := r.stores[key]
	if !ok {
		w = &wiring{keys: map[string]struct{}{}, prefixes: map[string]struct{}{}}
		r.stores[key] = w
		if first != nil {
			runtime.AddCleanup(first, r.drop, key)
		}
	}
	return w
}

func (r *registry) drop(key any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.stores, key)
}

// typedWeak tells apart a struct and its first field, which have one address.
type typedWeak struct {
	typ reflect.Type
	ptr weak.Pointer[byte]
}

// storeKey identifies a store value: a pointer by a weak pointer to what it points to (first is that
// byte), another comparable value by itself. A value that cannot be compared has no identity and is
// not registered.
func storeKey(store KVStore) (key any, first *byte) {
	v := reflect.ValueOf(store)
	if v.Kind() == reflect.Pointer && v.Type().Elem().Size() > 0 {
		p := (*byte)(unsafe.Pointer(v.Pointer())) //nolint:gosec // identity only, never read
		return typedWeak{typ: v.Type(), ptr: weak.Make(p)}, p
	}
	if v.Comparable() {
		return store, nil
	}
	return nil, nil
}

// mustKey panics unless key is one that JetStream KV and this package take.
func mustKey(key string) {
	if why := badKey(key); why != "" {
		panic(fmt.Sprintf("kvsync: key %q %s", key, why))
	}
}

func mustPrefix(prefix string) {
	if !strings.HasSuffix(prefix, ".") {
		panic(fmt.Sprintf("kvsync: group prefix %q must end in a dot", prefix))
	}
	if why := badKey(strings.TrimSuffix(prefix, ".")); why != "" {
		panic(fmt.Sprintf("kvsync: group prefix %q %s", prefix, why))
	}
}

// badKey says what is wrong with a key, or nothing.
func badKey(key string) string {
	switch {
	case key == "":
		return "is empty"
	case strings.HasPrefix(key, "_"):
		return "begins with _, which is reserved"
	case strings.HasPrefix(key, "."), strings.HasSuffix(key, "."), strings.Contains(key, ".."):
		return "has a leading, trailing or doubled dot"
	}
	for _, c := range []byte(key) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-/_=.", c) >= 0:
		default:
			return fmt.Sprintf("has the character %q; allowed are [-/_=.a-zA-Z0-9]", string(rune(c)))
		}
	}
	return ""
}

func mustStore(store KVStore) {
	if store == nil {
		panic("kvsync: nil store")
	}
	if v := reflect.ValueOf(store); v.Kind() == reflect.Pointer && v.IsNil() {
		panic("kvsync: nil store")
	}
}

func mustHolder(holder string) {
	if holder == "" {
		panic("kvsync: empty holder")
	}
}
