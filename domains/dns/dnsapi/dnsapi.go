package dnsapi

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

// Buckets of the DNS domain.
const (
	// ZonesBucket holds one zone object per key.
	ZonesBucket = "spinifex-dns-zones"
	// ServersBucket holds "server.<node>": which serial of each zone that server answers with.
	ServersBucket = "spinifex-dns-servers"
)

// ServerPrefix is what the keys of ServersBucket begin with: "server.<node>".
const ServerPrefix = "server."

// ServerKey is the key of a node's DNS server in ServersBucket.
func ServerKey(node string) string { return ServerPrefix + kvstore.EscapeToken(node) }

// ServerLive is how long after its last report a DNS server counts as live.
const ServerLive = 10 * time.Second

// Class says which lease's holder writes a zone object; it is the first token of the object's key,
// so that the two writers can never touch one another's objects.
type Class string

// The classes of zones. Where both have one name, the platform's is served.
const (
	Platform Class = "platform" // written under the lease dns.reconcile
	Hosted   Class = "hosted"   // written under the lease route53.realize
)

// Zone is one zone object, as the DNS servers load it.
type Zone struct {
	// Version is the major version of the record.
	Version int `json:"version"`
	// Class is the owner's class.
	Class Class `json:"class"`
	// Name is the apex: lower case, absolute, such as "example.test.".
	Name string `json:"name"`
	// ID is the hosted zone's id, or the zone's name for a platform zone; servers report by it.
	ID string `json:"id"`
	// Serial grows with every change of the zone.
	Serial uint32 `json:"serial"`
	// TTL in seconds of an answer whose RRSet has none.
	TTL uint32 `json:"ttl"`
	// NegativeTTL in seconds, for NXDOMAIN and NODATA.
	NegativeTTL uint32 `json:"negative_ttl"`
	// Generation of the writer that last wrote the object.
	Generation uint64 `json:"generation"`
	// RRSets include the apex SOA and NS. The serial in the SOA's value is replaced by Serial when served.
	RRSets []RRSet `json:"rrsets"`
}

// RRSet is one set of records of a name and type, or one of several that share them and differ in SetID.
type RRSet struct {
	// Name is the owner name: lower case, absolute; "*" is written as such.
	Name string `json:"name"`
	// Type is the RR type's mnemonic.
	Type string `json:"type"`
	// TTL in seconds; nil takes the zone's. An alias takes its target's.
	TTL *uint32 `json:"ttl,omitzero"`
	// Values are RDATA in presentation format.
	Values []string `json:"values,omitzero"`
	// SetID tells apart the sets of a weighted or multivalue answer.
	SetID string `json:"set_id,omitzero"`
	// Weight 0..255 of a weighted answer. When every weight is 0 all are equal.
	Weight *int64 `json:"weight,omitzero"`
	// MultiValue answers with up to eight values drawn from the sets.
	MultiValue bool `json:"multi_value,omitzero"`
	// Alias answers with the records of another name of a served zone, under this name.
	Alias *Alias `json:"alias,omitzero"`
	// Managed records are the drift reconcile's; it never touches others.
	Managed bool `json:"managed,omitzero"`
	// Source is the class of the Source that wants a managed record.
	Source string `json:"source,omitzero"`
}

// Alias is the target of an alias record set.
type Alias struct {
	// Zone is the id of the hosted zone that has the target.
	Zone string `json:"zone"`
	// Name is the target: lower case, absolute.
	Name string `json:"name"`
}

// ZoneEvent is a change of a zone object. Zone is nil when it was deleted.
type ZoneEvent struct {
	Class Class
	Name  string
	Zone  *Zone
	// Err is set when the object cannot be read: the server keeps the last good one and alarms.
	Err error
	// Ready is set, alone, once the objects that existed when the watch began have all been sent.
	Ready bool
}

// BadZoneError is a zone object that is there and cannot be read.
type BadZoneError struct {
	Class Class
	Name  string
	Err   error
}

// Error names the zone and the fault.
func (e *BadZoneError) Error() string {
	return fmt.Sprintf("zone object %s %s: %v", e.Class, e.Name, e.Err)
}

// Unwrap returns the fault.
func (e *BadZoneError) Unwrap() error { return e.Err }

// ZoneReader reads zone objects.
type ZoneReader interface {
	// Get returns a zone, an error that is kvstore.ErrNotFound, or a *BadZoneError.
	Get(ctx context.Context, class Class, name string) (*Zone, error)
	// All yields every zone of a class in the order of keys. An error that is a *BadZoneError is of
	// one object, and the others follow; any other error ends it, and then absence proves nothing.
	All(ctx context.Context, class Class) iter.Seq2[*Zone, error]
	// Watch sends all zones of both classes, a Ready event, then every change; the channel closes
	// when ctx ends or the watch breaks.
	Watch(ctx context.Context) (<-chan ZoneEvent, error)
}

// ZoneWriter writes the zone objects of one class under the fence of one acquisition of its lease.
type ZoneWriter interface {
	// Put writes the zone whole. It sets Version, Class and Generation. A deposed writer gets an
	// error that is kvsync.ErrLost, and has written nothing.
	Put(ctx context.Context, zone *Zone) error
	// Delete removes the zone; one that is absent is no error.
	Delete(ctx context.Context, name string) error
}

// ServerStatus is what a DNS server reports about itself every 2 s and at each reload.
type ServerStatus struct {
	Version int    `json:"version"`
	Node    string `json:"node"`
	// Zones maps a zone's ID to the serial that this server answers with.
	Zones map[string]uint32 `json:"zones"`
}

// Source says which records one class of things wants in the platform's zone: a domain implements it,
// and the composition root gives it to the DNS domain.
type Source interface {
	// Class is the name of the class, such as "instances". It is stored with the records, and so
	// never changes.
	Class() string
	// RRSets returns the sets of all things of the class, of all accounts. Managed and Source are
	// set by the receiver; a TTL that is nil becomes the one of managed records. complete says that
	// all things were seen: when it is false, or with an error, what is absent stays as it is.
	RRSets(ctx context.Context) (sets []RRSet, complete bool, err error)
}

// WatchedSource is a Source that tells when its records may have changed. Others are asked at each
// resync.
type WatchedSource interface {
	Source
	// Watch calls changed after each change, and returns when ctx ends or the watch breaks; it is
	// then called again. changed does not block.
	Watch(ctx context.Context, changed func()) error
}
