package dnsserver

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("zone store is away")

// zoneOf makes a zone object of lines "owner TYPE value", where values of one owner and type are one
// set; "@" is the apex and other owners are relative to it. It has a SOA and one NS.
func zoneOf(name string, lines ...string) *dnsapi.Zone {
	z := &dnsapi.Zone{
		Version: 1, Class: dnsapi.Hosted, Name: name, ID: "Z" + strings.ToUpper(strings.TrimSuffix(name, ".")),
		Serial: 7, TTL: 300, NegativeTTL: 900, Generation: 1,
	}
	lines = append([]string{
		"@ SOA " + owner("ns1", name) + " " + owner("hostmaster", name) + " 1 7200 900 1209600 60",
		"@ NS " + owner("ns1", name),
	}, lines...)
	for _, line := range lines {
		f := strings.SplitN(line, " ", 3)
		addValue(z, owner(f[0], name), f[1], f[2])
	}
	return z
}

func owner(relative, apex string) string {
	switch {
	case relative == "@":
		return apex
	case apex == ".":
		return relative + "."
	}
	return relative + "." + apex
}

func addValue(z *dnsapi.Zone, name, rtype, value string) {
	for i := range z.RRSets {
		if s := &z.RRSets[i]; s.Name == name && s.Type == rtype && s.SetID == "" {
			s.Values = append(s.Values, value)
			return
		}
	}
	z.RRSets = append(z.RRSets, dnsapi.RRSet{Name: name, Type: rtype, Values: []string{value}})
}

// withSets adds record sets to a zone object.
func withSets(z *dnsapi.Zone, sets ...dnsapi.RRSet) *dnsapi.Zone {
	z.RRSets = append(z.RRSets, sets...)
	return z
}

func viewOf(t testing.TB, zones ...*dnsapi.Zone) *view {
	t.Helper()
	loaded := map[zoneKey]*zone{}
	for i, src := range zones {
		z, err := compile(src)
		require.NoError(t, err)
		z.seq = uint64(i + 1)
		loaded[z.key] = z
	}
	return newView(nil).with(loaded, nil)
}

// memZones is a zone store in memory.
type memZones struct {
	mu       sync.Mutex
	zones    map[string]*dnsapi.Zone
	bad      map[string]error
	watchers map[chan dnsapi.ZoneEvent]bool
	away     bool
	// silent watches see no changes.
	silent bool
	lists  int
}

func newMemZones(zones ...*dnsapi.Zone) *memZones {
	m := &memZones{
		zones: map[string]*dnsapi.Zone{}, bad: map[string]error{}, watchers: map[chan dnsapi.ZoneEvent]bool{},
	}
	for _, z := range zones {
		m.put(z)
	}
	return m
}

func memKey(class dnsapi.Class, name string) string { return string(class) + " " + name }

func (m *memZones) put(z *dnsapi.Zone) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.zones[memKey(z.Class, z.Name)] = z
	delete(m.bad, memKey(z.Class, z.Name))
	m.sendLocked(dnsapi.ZoneEvent{Class: z.Class, Name: z.Name, Zone: z})
}

func (m *memZones) delete(class dnsapi.Class, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.zones, memKey(class, name))
	delete(m.bad, memKey(class, name))
	m.sendLocked(dnsapi.ZoneEvent{Class: class, Name: name})
}

// spoil makes the object of a zone unreadable.
func (m *memZones) spoil(class dnsapi.Class, name string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.zones, memKey(class, name))
	m.bad[memKey(class, name)] = err
	m.sendLocked(dnsapi.ZoneEvent{Class: class, Name: name, Err: err})
}

// leave breaks the watches and fails every call until the store is back.
func (m *memZones) leave(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
	if away {
		for ch := range m.watchers {
			close(ch)
		}
		clear(m.watchers)
	}
}

func (m *memZones) sendLocked(ev dnsapi.ZoneEvent) {
	if m.silent {
		return
	}
	for ch := range m.watchers {
		ch <- ev
	}
}

func (m *memZones) Get(_ context.Context, class dnsapi.Class, name string) (*dnsapi.Zone, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, errAway
	}
	return m.zones[memKey(class, name)], nil
}

func (m *memZones) All(_ context.Context, class dnsapi.Class) iter.Seq2[*dnsapi.Zone, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lists++
	away := m.away
	var zones []*dnsapi.Zone
	for _, z := range m.zones {
		if z.Class == class {
			zones = append(zones, z)
		}
	}
	slices.SortFunc(zones, func(a, b *dnsapi.Zone) int { return cmp.Compare(a.Name, b.Name) })
	var bad []*dnsapi.BadZoneError
	for key, err := range m.bad {
		if name, ok := strings.CutPrefix(key, string(class)+" "); ok {
			bad = append(bad, &dnsapi.BadZoneError{Class: class, Name: name, Err: err})
		}
	}
	return func(yield func(*dnsapi.Zone, error) bool) {
		if away {
			yield(nil, errAway)
			return
		}
		for _, err := range bad {
			if !yield(nil, err) {
				return
			}
		}
		for _, z := range zones {
			if !yield(z, nil) {
				return
			}
		}
	}
}

func (m *memZones) Watch(ctx context.Context) (<-chan dnsapi.ZoneEvent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, errAway
	}
	ch := make(chan dnsapi.ZoneEvent, 10_000)
	for _, z := range m.zones {
		ch <- dnsapi.ZoneEvent{Class: z.Class, Name: z.Name, Zone: z}
	}
	for key, err := range m.bad {
		class, name, _ := strings.Cut(key, " ")
		ch <- dnsapi.ZoneEvent{Class: dnsapi.Class(class), Name: name, Err: err}
	}
	ch <- dnsapi.ZoneEvent{Ready: true}
	m.watchers[ch] = true
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.watchers[ch] {
			delete(m.watchers, ch)
			close(ch)
		}
	})
	return ch, nil
}

// memStatus keeps statuses in memory.
type memStatus struct {
	mu     sync.Mutex
	values map[string][]byte
	puts   int
	fail   bool
}

func newMemStatus() *memStatus { return &memStatus{values: map[string][]byte{}} }

func (m *memStatus) Put(_ context.Context, key string, value []byte) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.puts++
	if m.fail {
		return 0, errAway
	}
	m.values[key] = value
	return uint64(m.puts), nil
}

func (m *memStatus) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
	return nil
}

func (m *memStatus) get(key string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.values[key])
}

func (m *memStatus) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.puts
}
