package dns

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	mdns "github.com/miekg/dns"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

const (
	// zoneVersion is the major version of a zone object.
	zoneVersion = 1
	// MaxZoneBytes bounds a stored zone object: NATS takes messages up to 1 MiB by default, headers
	// included.
	MaxZoneBytes = 1<<20 - 16<<10
	// packAbove is the size of the record sets, as JSON, above which they are stored compressed.
	packAbove = 128 << 10
	// maxUnpacked bounds what a compressed object may hold.
	maxUnpacked = 32 << 20
)

// ZoneStore keeps zone objects in a bucket. It implements dnsapi.ZoneReader.
type ZoneStore struct {
	bucket *kvstore.Bucket
	store  *kvstore.Store[storedZone]
}

// storedZone is the stored form of a zone.
type storedZone struct {
	dnsapi.Zone
	// Packed is the gzip of the record sets' JSON; RRSets is empty then.
	Packed []byte `json:"packed,omitzero"`
}

// NewZoneStore returns the store of the zones in bucket, which is dnsapi.ZonesBucket. It does no I/O.
func NewZoneStore(bucket *kvstore.Bucket) *ZoneStore {
	return &ZoneStore{bucket: bucket, store: kvstore.NewStore[storedZone](bucket, zoneVersion)}
}

func zoneKey(class dnsapi.Class, name string) string {
	return string(class) + "." + kvstore.EscapeToken(name)
}

// parseZoneKey is the inverse of zoneKey; ok is false for a key that is no zone's.
func parseZoneKey(key string) (class dnsapi.Class, name string, ok bool) {
	head, token, _ := strings.Cut(key, ".")
	class = dnsapi.Class(head)
	name, err := kvstore.UnescapeToken(token)
	return class, name, err == nil && knownClass(class)
}

func knownClass(class dnsapi.Class) bool { return class == dnsapi.Platform || class == dnsapi.Hosted }

// Get implements dnsapi.ZoneReader.
func (s *ZoneStore) Get(ctx context.Context, class dnsapi.Class, name string) (*dnsapi.Zone, error) {
	e, err := s.bucket.Get(ctx, zoneKey(class, name))
	if err != nil {
		return nil, fmt.Errorf("zone %s %s: %w", class, name, err)
	}
	return s.decode(class, name, e.Value)
}

// All implements dnsapi.ZoneReader.
func (s *ZoneStore) All(ctx context.Context, class dnsapi.Class) iter.Seq2[*dnsapi.Zone, error] {
	return func(yield func(*dnsapi.Zone, error) bool) {
		for e, err := range s.bucket.List(ctx, string(class)+".") {
			if err != nil {
				yield(nil, fmt.Errorf("list zones of class %s: %w", class, err))
				return
			}
			_, name, ok := parseZoneKey(e.Key)
			if !ok {
				continue
			}
			if !yield(s.decode(class, name, e.Value)) {
				return
			}
		}
	}
}

// Watch implements dnsapi.ZoneReader.
func (s *ZoneStore) Watch(ctx context.Context) (<-chan dnsapi.ZoneEvent, error) {
	changes, err := s.bucket.Follow(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("watch zones: %w", err)
	}
	events := make(chan dnsapi.ZoneEvent)
	go func() {
		defer close(events)
		for c := range changes {
			ev, ok := s.event(c)
			if !ok {
				continue
			}
			select {
			case events <- ev:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events, nil
}

func (s *ZoneStore) event(c kvstore.Change) (dnsapi.ZoneEvent, bool) {
	if c.Ready {
		return dnsapi.ZoneEvent{Ready: true}, true
	}
	class, name, ok := parseZoneKey(c.Key)
	ev := dnsapi.ZoneEvent{Class: class, Name: name}
	if ok && !c.Deleted {
		ev.Zone, ev.Err = s.decode(class, name, c.Value)
		if bad, isBad := errors.AsType[*dnsapi.BadZoneError](ev.Err); isBad {
			ev.Err = bad.Err
		}
	}
	return ev, ok
}

// decode returns the zone of a stored object; every error is a *dnsapi.BadZoneError.
func (s *ZoneStore) decode(class dnsapi.Class, name string, value []byte) (*dnsapi.Zone, error) {
	stored, err := s.store.Decode(value)
	if err == nil {
		err = stored.unpack()
	}
	if err == nil && (stored.Class != class || stored.Name != name) {
		err = fmt.Errorf("object is of the zone %s %s", stored.Class, stored.Name)
	}
	if err != nil {
		return nil, &dnsapi.BadZoneError{Class: class, Name: name, Err: err}
	}
	return &stored.Zone, nil
}

// Writer stamps the bucket with an acquisition of the lease that writes a class, and returns the writer
// for that acquisition. What is read before it may be older than what it replaces. A later acquisition's
// stamp is an error that is kvsync.ErrLost.
func (s *ZoneStore) Writer(ctx context.Context, class dnsapi.Class, leaseKey string, tok kvsync.Token) (dnsapi.ZoneWriter, error) {
	if !knownClass(class) {
		return nil, fmt.Errorf("zones of class %q have no writer", class)
	}
	fence, err := s.bucket.Fence(ctx, leaseKey, tok)
	if err != nil {
		return nil, fmt.Errorf("fence the zones of class %s: %w", class, err)
	}
	return &zoneWriter{store: s, class: class, fence: fence}, nil
}

// zoneWriter writes the zones of one class for one acquisition.
type zoneWriter struct {
	store *ZoneStore
	class dnsapi.Class
	fence *kvstore.Fence
}

// Put implements dnsapi.ZoneWriter. A zone of another class or without a proper name is refused, and so
// is one whose object is larger than MaxZoneBytes (kvstore.ErrTooLarge), or was written by a newer
// release (kvstore.ErrNewerVersion).
func (w *zoneWriter) Put(ctx context.Context, zone *dnsapi.Zone) error {
	if zone.Class != "" && zone.Class != w.class {
		return fmt.Errorf("put zone %s: it is of class %s, this writer's is %s", zone.Name, zone.Class, w.class)
	}
	// Not compared with canonicalName: other ways to write an escape are fine.
	if _, err := canonicalName(zone.Name); err != nil || !mdns.IsFqdn(zone.Name) || zone.Name != strings.ToLower(zone.Name) {
		return fmt.Errorf("put zone %q: want its name absolute and in lower case", zone.Name)
	}
	zone.Version, zone.Class, zone.Generation = zoneVersion, w.class, w.fence.Generation()
	key := zoneKey(w.class, zone.Name)
	value, err := w.encode(ctx, key, zone)
	if err != nil {
		return fmt.Errorf("put zone %s: %w", zone.Name, err)
	}
	if len(value) > MaxZoneBytes {
		return fmt.Errorf("put zone %s: %d record sets take %d bytes, the limit is %d: %w",
			zone.Name, len(zone.RRSets), len(value), MaxZoneBytes, kvstore.ErrTooLarge)
	}
	if _, err := w.fence.Put(ctx, key, value); err != nil {
		return fmt.Errorf("put zone %s: %w", zone.Name, err)
	}
	return nil
}

// encode returns the stored form, which keeps what a newer release added to the object it replaces.
func (w *zoneWriter) encode(ctx context.Context, key string, zone *dnsapi.Zone) ([]byte, error) {
	stored := &storedZone{Zone: *zone}
	if err := stored.pack(); err != nil {
		return nil, err
	}
	var old []byte
	e, err := w.store.bucket.Get(ctx, key)
	switch {
	case errors.Is(err, kvstore.ErrNotFound):
	case err != nil:
		return nil, err
	default:
		_, err := w.store.store.Decode(e.Value)
		if errors.Is(err, kvstore.ErrNewerVersion) {
			return nil, err
		}
		if err == nil { // else it is corrupt, and replaced whole
			old = e.Value
		}
	}
	return w.store.store.EncodeOver(old, stored)
}

// Delete implements dnsapi.ZoneWriter.
func (w *zoneWriter) Delete(ctx context.Context, name string) error {
	if err := w.fence.Delete(ctx, zoneKey(w.class, name)); err != nil {
		return fmt.Errorf("delete zone %s: %w", name, err)
	}
	return nil
}

// pack compresses the record sets of a large zone.
func (z *storedZone) pack() error {
	sets, err := json.Marshal(z.RRSets)
	if err != nil {
		return fmt.Errorf("encode record sets: %w", err)
	}
	if len(sets) <= packAbove {
		return nil
	}
	if len(sets) > maxUnpacked {
		return fmt.Errorf("%d record sets take %d bytes, the limit is %d: %w",
			len(z.RRSets), len(sets), maxUnpacked, kvstore.ErrTooLarge)
	}
	var b bytes.Buffer
	gz, err := gzip.NewWriterLevel(&b, gzip.BestSpeed) // names and addresses shrink to a tenth at any level
	if err != nil {
		return fmt.Errorf("compress record sets: %w", err)
	}
	if _, err := gz.Write(sets); err != nil {
		return fmt.Errorf("compress record sets: %w", err)
	}
	if err := gz.Close(); err != nil {
		return fmt.Errorf("compress record sets: %w", err)
	}
	z.RRSets, z.Packed = nil, b.Bytes()
	return nil
}

func (z *storedZone) unpack() error {
	if z.Packed == nil {
		return nil
	}
	gz, err := gzip.NewReader(bytes.NewReader(z.Packed))
	if err != nil {
		return fmt.Errorf("decompress record sets: %w", err)
	}
	sets, err := io.ReadAll(io.LimitReader(gz, maxUnpacked+1))
	if err != nil {
		return fmt.Errorf("decompress record sets: %w", err)
	}
	if len(sets) > maxUnpacked {
		return fmt.Errorf("record sets take more than %d bytes", maxUnpacked)
	}
	if err := json.Unmarshal(sets, &z.RRSets); err != nil {
		return fmt.Errorf("decode record sets: %w", err)
	}
	z.Packed = nil
	return nil
}
