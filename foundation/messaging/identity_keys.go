package messaging

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mulgadc/spinifex/foundation/privatefile"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

// NodesBucket holds what the nodes of the cloud say about themselves.
const NodesBucket = "spinifex-nodes"

// gatewayKeyVersion is the major version of a gateway's record.
const gatewayKeyVersion = 1

// GatewayKey is the record gateway.<node> in NodesBucket.
type GatewayKey struct {
	Version   int       `json:"version"`
	Node      string    `json:"node"`
	PublicKey []byte    `json:"public_key"` // Ed25519, 32 bytes
	KeyID     string    `json:"key_id"`
	Since     time.Time `json:"since"`
}

func gatewayKeyName(node string) string { return "gateway." + kvstore.EscapeToken(node) }

// LoadOrCreateKey reads a gateway's private key (PEM, PKCS #8) or makes one. Of two processes that
// make it at once both get the same key. A file that others than its owner may read, or that holds
// no Ed25519 key, is an error.
func LoadOrCreateKey(path string) (ed25519.PrivateKey, error) {
	text, err := privatefile.ReadOrCreate(path, newKeyFile)
	if err != nil {
		return nil, fmt.Errorf("the gateway key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("the gateway key %s holds no PEM block", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the gateway key %s: %w", path, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the gateway key %s is a %T, want an Ed25519 key", path, parsed)
	}
	return key, nil
}

func newKeyFile() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// keyBucket is what this package needs of kvstore.Bucket.
type keyBucket interface {
	Get(ctx context.Context, key string) (kvstore.Entry, error)
	Put(ctx context.Context, key string, value []byte) (uint64, error)
}

// PublishKey makes the gateway of a node known to the daemons. A key that is there already stays as
// it is; another one is replaced, from when on calls signed with it are refused within keyTTL.
func PublishKey(ctx context.Context, nodes keyBucket, node string, public ed25519.PublicKey) error {
	name := gatewayKeyName(node)
	entry, err := nodes.Get(ctx, name)
	if err != nil && !errors.Is(err, kvstore.ErrNotFound) {
		return fmt.Errorf("publish the gateway key %s: %w", name, err)
	}
	if err == nil {
		if have, err := parseGatewayKey(entry.Value); err == nil && have.KeyID == KeyID(public) {
			return nil
		}
	}
	value, err := json.Marshal(GatewayKey{
		Version: gatewayKeyVersion, Node: node, PublicKey: public, KeyID: KeyID(public), Since: time.Now().UTC(),
	})
	if err != nil {
		return fmt.Errorf("publish the gateway key %s: %w", name, err)
	}
	if _, err := nodes.Put(ctx, name, value); err != nil {
		return fmt.Errorf("publish the gateway key %s: %w", name, err)
	}
	return nil
}

func parseGatewayKey(value []byte) (GatewayKey, error) {
	var record GatewayKey
	if err := json.Unmarshal(value, &record); err != nil {
		return record, err
	}
	switch {
	case record.Version != gatewayKeyVersion:
		return record, fmt.Errorf("record version %d, this release reads %d", record.Version, gatewayKeyVersion)
	case len(record.PublicKey) != ed25519.PublicKeySize:
		return record, fmt.Errorf("the public key has %d bytes, want %d", len(record.PublicKey), ed25519.PublicKeySize)
	case record.KeyID != KeyID(record.PublicKey):
		return record, errors.New("the key id is not that of the public key")
	}
	return record, nil
}

const (
	// keyTTL is how long a gateway's record is believed before it is read again.
	keyTTL = 30 * time.Second
	// missTTL is how long it is believed that a gateway has no record, or another key.
	missTTL = time.Second
	// maxCachedKeys bounds the cache; beyond it, everything is read anew.
	maxCachedKeys = 1024
)

// KeyDirectory is the KeySource over NodesBucket, with a cache.
type KeyDirectory struct {
	nodes keyBucket

	mu    sync.Mutex
	cache map[string]cachedKey
}

type cachedKey struct {
	record GatewayKey // zero when there was none
	read   time.Time
}

var _ keyBucket = (*kvstore.Bucket)(nil)

// NewKeyDirectory reads gateways' keys from the bucket NodesBucket.
func NewKeyDirectory(nodes keyBucket) *KeyDirectory {
	return &KeyDirectory{nodes: nodes, cache: map[string]cachedKey{}}
}

// PublicKey returns the key of a gateway; see KeySource.
func (d *KeyDirectory) PublicKey(ctx context.Context, gateway, keyID string) (ed25519.PublicKey, error) {
	cached, ok := d.cached(gateway)
	age := time.Since(cached.read)
	// A gateway that has just got another key must not wait for keyTTL.
	fresh := ok && age < keyTTL && (cached.record.KeyID == keyID || age < missTTL)
	if !fresh {
		record, err := d.read(ctx, gateway)
		if err != nil {
			return nil, err
		}
		cached = cachedKey{record: record, read: time.Now()}
		d.remember(gateway, cached)
	}
	if cached.record.KeyID == "" || cached.record.KeyID != keyID {
		return nil, fmt.Errorf("%w: %s with key %s", ErrUnknownGateway, gateway, keyID)
	}
	return cached.record.PublicKey, nil
}

func (d *KeyDirectory) read(ctx context.Context, gateway string) (GatewayKey, error) {
	name := gatewayKeyName(gateway)
	entry, err := d.nodes.Get(ctx, name)
	if errors.Is(err, kvstore.ErrNotFound) {
		return GatewayKey{}, nil
	}
	if err != nil {
		return GatewayKey{}, fmt.Errorf("read the gateway key %s: %w", name, err)
	}
	record, err := parseGatewayKey(entry.Value)
	if err != nil {
		return GatewayKey{}, fmt.Errorf("read the gateway key %s: %w", name, err)
	}
	if record.Node != gateway {
		return GatewayKey{}, fmt.Errorf("read the gateway key %s: it is the record of %s", name, record.Node)
	}
	return record, nil
}

func (d *KeyDirectory) cached(gateway string) (cachedKey, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	cached, ok := d.cache[gateway]
	return cached, ok
}

func (d *KeyDirectory) remember(gateway string, cached cachedKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.cache) >= maxCachedKeys {
		clear(d.cache)
	}
	d.cache[gateway] = cached
}
