package twonode

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// write is one accepted write of a zone object.
type write struct {
	key        string
	generation uint64
	serial     uint32
}

// oracle sees every write that the server accepted into the bucket of the zones, in order.
type oracle struct {
	mu     sync.Mutex
	writes []write
}

func watchZones(t *testing.T, js jetstream.JetStream) *oracle {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), dnsapi.ZonesBucket)
	require.NoError(t, err)
	watcher, err := kv.WatchAll(t.Context())
	require.NoError(t, err)
	o := &oracle{}
	var wg sync.WaitGroup
	wg.Go(func() {
		for entry := range watcher.Updates() {
			if entry != nil && entry.Operation() == jetstream.KeyValuePut && entry.Key()[0] != '_' {
				o.record(entry)
			}
		}
	})
	t.Cleanup(func() {
		_ = watcher.Stop()
		wg.Wait()
	})
	return o
}

func (o *oracle) record(entry jetstream.KeyValueEntry) {
	var z dnsapi.Zone
	w := write{key: entry.Key()}
	if err := json.Unmarshal(entry.Value(), &z); err == nil {
		w.generation, w.serial = z.Generation, z.Serial
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writes = append(o.writes, w)
}

func (o *oracle) all() []write {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]write(nil), o.writes...)
}

// last is the last write of a zone object whose key contains part.
func (o *oracle) last(part string) (w write) {
	for _, candidate := range o.all() {
		if contains(candidate.key, part) {
			w = candidate
		}
	}
	return w
}

// assertNoLateWrites wants the generations of each object, and its serials, never to go back.
func (o *oracle) assertNoLateWrites(t *testing.T) {
	t.Helper()
	newest := map[string]write{}
	for i, w := range o.all() {
		assert.NotZerof(t, w.generation, "write %d of %s names no generation", i, w.key)
		before := newest[w.key]
		assert.GreaterOrEqualf(t, w.generation, before.generation, "write %d of %s came from a deposed leader", i, w.key)
		assert.GreaterOrEqualf(t, w.serial, before.serial, "write %d of %s went back", i, w.key)
		newest[w.key] = w
	}
}

// waitGeneration waits until the object was written by a later generation than before.
func (o *oracle) waitGeneration(t *testing.T, part string, after uint64) uint64 {
	t.Helper()
	var w write
	testkit.Eventually(t, 30*time.Second, func() (bool, string) {
		w = o.last(part)
		return w.generation > after, fmt.Sprintf("%+v", w)
	})
	return w.generation
}
