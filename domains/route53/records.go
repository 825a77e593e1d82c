package route53

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

// Bucket holds everything of this domain; doc.go lists its keys.
const Bucket = "spinifex-route53"

// recordVersion is the major version of every record of this domain.
const recordVersion = 1

// recordSet is one record set of a hosted zone, as the API has it.
type recordSet struct {
	// Name is canonical (names.go): "\052.example.test." for a wildcard.
	Name string `json:"name"`
	// Type is the RR type's mnemonic.
	Type string `json:"type"`
	// SetID is the SetIdentifier of a weighted or multivalue set, else empty.
	SetID string `json:"set_id,omitzero"`
	// TTL in seconds; nil for an alias.
	TTL *int64 `json:"ttl,omitzero"`
	// Values are the resource records exactly as the client gave them, in its order.
	Values []string `json:"values,omitzero"`
	// Weight 0..255 of a weighted set, else nil.
	Weight *int64 `json:"weight,omitzero"`
	// MultiValue marks a multivalue answer set.
	MultiValue bool `json:"multi_value,omitzero"`
	// Alias is the target of an alias set, else nil.
	Alias *aliasTarget `json:"alias,omitzero"`
}

// aliasTarget names another record set of the same hosted zone.
type aliasTarget struct {
	Zone           string `json:"zone"` // hosted zone id, bare
	Name           string `json:"name"` // canonical
	EvaluateHealth bool   `json:"evaluate_health,omitzero"`
}

// setKey identifies a record set within its zone.
type setKey struct{ name, typ, setID string }

func (s *recordSet) key() setKey { return setKey{s.Name, s.Type, s.SetID} }

// zoneRecord is "<account>.zone.<id>": one hosted zone whole, so that a change batch is one
// compare-and-swap. It exists exactly while the hosted zone does.
type zoneRecord struct {
	Version         int       `json:"version"`
	ID              string    `json:"id"`
	Account         string    `json:"account"`
	Name            string    `json:"name"` // canonical
	CallerReference string    `json:"caller_reference"`
	Comment         string    `json:"comment,omitzero"`
	Created         time.Time `json:"created"`
	// NameServers is the delegation set that the zone was made with.
	NameServers []string `json:"name_servers"`
	// Serial of the last change of the record sets; see dnsapi.NextSerial.
	Serial uint32 `json:"serial"`
	// RecentChanges are the ids of the last changes, newest last. A writer that lost the answer to
	// its write finds its own id here, so a retry never applies a batch twice.
	RecentChanges []string    `json:"recent_changes,omitzero"`
	Tags          []tag       `json:"tags,omitzero"` // sorted by key
	RecordSets    []recordSet `json:"record_sets"`   // in list order (listing.go)
}

// recentChanges bounds zoneRecord.RecentChanges: more than the writers that can come between a
// lost answer and the look that follows it.
const recentChanges = 64

type tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// callerRecord is "<account>.caller.<reference>": the hosted zone that a caller reference made. It
// is written before the zone and deleted after it.
type callerRecord struct {
	Version int    `json:"version"`
	Zone    string `json:"zone"`
	// Deleting is set before the zone is deleted: from then on a missing zone means that it is gone,
	// not that its creation has to be finished.
	Deleting bool `json:"deleting,omitzero"`
}

// changeRecord is "<account>.change.<id>", written before the write of the zone that it describes.
// One whose write never came is known to nobody.
type changeRecord struct {
	Version     int       `json:"version"`
	Zone        string    `json:"zone"`
	Serial      uint32    `json:"serial"`
	SubmittedAt time.Time `json:"submitted_at"`
	Comment     string    `json:"comment,omitzero"`
}

// zoneState is what the realizer has decided about a hosted zone.
type zoneState string

// The states of a hosted zone.
const (
	// stateActive zones are published.
	stateActive zoneState = "ACTIVE"
	// statePendingNameServers zones wait for their parent to delegate to this cluster.
	statePendingNameServers zoneState = "PENDING_NAMESERVERS"
	// statePendingDuplicate zones wait because another hosted zone of the name is active.
	statePendingDuplicate zoneState = "PENDING_DUPLICATE"
	// stateReserved zones have a name that the platform has come to use itself; never published.
	stateReserved zoneState = "RESERVED"
)

// statusRecord is "<account>.status.<zone id>", written by the realizer under its fence.
type statusRecord struct {
	Version int       `json:"version"`
	State   zoneState `json:"state"`
	Since   time.Time `json:"since"`
}

// delegationRecord is "<account>.delegation.<zone id>", written by the verifier under its fence.
type delegationRecord struct {
	Version   int  `json:"version"`
	Delegated bool `json:"delegated"`
	// NameServers that the parent names, sorted; kept for the operator.
	NameServers []string  `json:"name_servers,omitzero"`
	Since       time.Time `json:"since"`
}

// accountRecord is "000000000000.account.<account>": this account has, or had, a hosted zone. It is
// written before the account's first zone and never deleted, so that the loops find every zone by
// lists of single accounts, whatever else the bucket holds.
type accountRecord struct {
	Version int `json:"version"`
}

// systemAccount owns what belongs to no account.
const systemAccount = "000000000000"

// Kinds of keys, the second token of a key.
const (
	kindAccount    = "account"
	kindZone       = "zone"
	kindCaller     = "caller"
	kindChange     = "change"
	kindStatus     = "status"
	kindDelegation = "delegation"
)

func zoneKey(account, id string) string       { return account + "." + kindZone + "." + id }
func changeKey(account, id string) string     { return account + "." + kindChange + "." + id }
func statusKey(account, id string) string     { return account + "." + kindStatus + "." + id }
func delegationKey(account, id string) string { return account + "." + kindDelegation + "." + id }

// callerKey escapes the reference, which may hold any character. One that would make too long a key
// stands as its hash, behind "==", which no escaped name begins with.
func callerKey(account, reference string) string {
	token := kvstore.EscapeToken(reference)
	if len(token) > maxReferenceToken {
		sum := sha256.Sum256([]byte(reference))
		token = "==" + hex.EncodeToString(sum[:])
	}
	return account + "." + kindCaller + "." + token
}

// maxReferenceToken keeps keys readable; 128 plain characters always fit.
const maxReferenceToken = 256

// accountKey is the entry of an account in the index of accounts.
func accountKey(account string) string { return systemAccount + "." + kindAccount + "." + account }

// prefix is the prefix of all keys of a kind of an account.
func prefix(account, kind string) string { return account + "." + kind + "." }

// splitKey takes a key of the bucket apart; ok is false for a key of another shape.
func splitKey(key string) (account, kind, id string, ok bool) {
	parts := strings.SplitN(key, ".", 3)
	if len(parts) != 3 {
		return "", "", "", false
	}
	return parts[0], parts[1], parts[2], true
}

// newZoneID and newChangeID make random ids of 20 characters, with 95 bits of chance: AWS's prefix
// and they keep within the model's 32.
func newZoneID() string   { return "Z" + rand.Text()[:19] }
func newChangeID() string { return "C" + rand.Text()[:19] }

// bareID strips prefix ("/hostedzone/" or "/change/") from an id that a client gave, and reports
// whether the rest can be an id at all, and so be a token of a key.
func bareID(s, prefix string) (string, bool) {
	s = strings.TrimPrefix(s, prefix)
	if s == "" || len(s) > 32 {
		return s, false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return s, false
		}
	}
	return s, true
}

// addRecentChange appends id and forgets the oldest beyond recentChanges.
func (z *zoneRecord) addRecentChange(id string) {
	z.RecentChanges = append(z.RecentChanges, id)
	if n := len(z.RecentChanges) - recentChanges; n > 0 {
		z.RecentChanges = slices.Delete(z.RecentChanges, 0, n)
	}
}

// hasChange reports whether the record holds the change of that id.
func (z *zoneRecord) hasChange(id string) bool { return slices.Contains(z.RecentChanges, id) }
