package messaging

import (
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

func TestGatewayKeyIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "gateway.ed25519")
	first, err := LoadOrCreateKey(path)
	require.NoError(t, err)
	second, err := LoadOrCreateKey(path)
	require.NoError(t, err)
	assert.True(t, first.Equal(second))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestGatewayKeyThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"no PEM":   "hello",
		"no PKCS8": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := LoadOrCreateKey(path)
		assert.ErrorContains(t, err, path)
	}
	path := filepath.Join(dir, "open")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Chmod(path, 0o604))
	_, err := LoadOrCreateKey(path)
	assert.ErrorContains(t, err, "0604")
}

// memoryBucket is a bucket that counts its reads and can be broken.
type memoryBucket struct {
	values map[string][]byte
	reads  int
	broken error
}

func (b *memoryBucket) Get(_ context.Context, key string) (kvstore.Entry, error) {
	b.reads++
	if b.broken != nil {
		return kvstore.Entry{}, b.broken
	}
	value, ok := b.values[key]
	if !ok {
		return kvstore.Entry{}, kvstore.ErrNotFound
	}
	return kvstore.Entry{Key: key, Value: value, Rev: 1}, nil
}

func (b *memoryBucket) Put(_ context.Context, key string, value []byte) (uint64, error) {
	b.values[key] = value
	return 1, nil
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

func TestPublishedKeyIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := &memoryBucket{values: map[string][]byte{}}
		directory := NewKeyDirectory(bucket)
		node := "node-1.example"
		key, next := public(testKey(1)), public(testKey(2))

		_, err := directory.PublicKey(t.Context(), node, KeyID(key))
		require.ErrorIs(t, err, ErrUnknownGateway)
		require.NoError(t, PublishKey(t.Context(), bucket, node, key))
		require.Len(t, bucket.values, 1)
		require.Contains(t, bucket.values, "gateway."+kvstore.EscapeToken(node))
		_, err = directory.PublicKey(t.Context(), node, KeyID(key))
		require.ErrorIs(t, err, ErrUnknownGateway, "believed for a second")
		time.Sleep(missTTL)
		got, err := directory.PublicKey(t.Context(), node, KeyID(key))
		require.NoError(t, err)
		assert.True(t, got.Equal(key))

		bucket.reads = 0
		for range 100 {
			_, err := directory.PublicKey(t.Context(), node, KeyID(key))
			require.NoError(t, err)
		}
		assert.Zero(t, bucket.reads)

		before := string(bucket.values["gateway."+kvstore.EscapeToken(node)])
		require.NoError(t, PublishKey(t.Context(), bucket, node, key))
		assert.Equal(t, before, string(bucket.values["gateway."+kvstore.EscapeToken(node)]), "published again it stays as it is")

		// A gateway that lost its key is believed with the new one at once, and no more with the old.
		time.Sleep(missTTL)
		require.NoError(t, PublishKey(t.Context(), bucket, node, next))
		_, err = directory.PublicKey(t.Context(), node, KeyID(next))
		require.NoError(t, err)
		_, err = directory.PublicKey(t.Context(), node, KeyID(key))
		require.ErrorIs(t, err, ErrUnknownGateway)

		delete(bucket.values, "gateway."+kvstore.EscapeToken(node))
		time.Sleep(keyTTL)
		_, err = directory.PublicKey(t.Context(), node, KeyID(next))
		require.ErrorIs(t, err, ErrUnknownGateway, "a removed record counts after keyTTL")
	})
}

func TestKeyDirectoryTellsBrokenFromUnknown(t *testing.T) {
	bucket := &memoryBucket{values: map[string][]byte{}}
	directory := NewKeyDirectory(bucket)
	key := public(testKey(1))
	require.NoError(t, PublishKey(t.Context(), bucket, "a", key))

	// The record of one gateway is of no use under the name of another one.
	bucket.values["gateway.b"] = bucket.values["gateway.a"]
	for name, value := range map[string]string{
		"c": "{", "d": `{"version":2}`, "e": `{"version":1,"node":"e","public_key":"AAAA"}`,
		"f": `{"version":1,"node":"f","public_key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","key_id":"1"}`,
	} {
		bucket.values["gateway."+name] = []byte(value)
	}
	for _, name := range []string{"b", "c", "d", "e", "f"} {
		_, err := directory.PublicKey(t.Context(), name, KeyID(key))
		require.ErrorContains(t, err, "gateway."+name)
		assert.NotErrorIs(t, err, ErrUnknownGateway)
	}
	bucket.broken = errors.New("no leader")
	_, err := directory.PublicKey(t.Context(), "a", KeyID(key))
	require.ErrorIs(t, err, bucket.broken)
	assert.NotErrorIs(t, err, ErrUnknownGateway)
	require.ErrorIs(t, PublishKey(t.Context(), bucket, "a", key), bucket.broken)
}

func TestKeyDirectoryIsBounded(t *testing.T) {
	bucket := &memoryBucket{values: map[string][]byte{}}
	directory := NewKeyDirectory(bucket)
	for i := range 3 * maxCachedKeys {
		_, err := directory.PublicKey(t.Context(), "gw"+string(rune('a'+i%26))+time.Duration(i).String(), "k")
		require.ErrorIs(t, err, ErrUnknownGateway)
	}
	assert.LessOrEqual(t, len(directory.cache), maxCachedKeys)
}
