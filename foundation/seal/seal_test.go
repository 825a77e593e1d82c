package seal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mulgadc/spinifex/foundation/seal"
)

func newSealer(t require.TestingT, fill byte) *seal.Sealer {
	sealer, err := seal.New(bytes.Repeat([]byte{fill}, seal.KeySize), "keys/sealing.key")
	require.NoError(t, err)
	return sealer
}

func TestOpenReturnsWhatWasSealed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sealer := newSealer(t, 1)
		plain := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "plain")
		context := rapid.String().Draw(t, "context")
		sealed, err := sealer.Seal(plain, context)
		require.NoError(t, err)
		opened, err := sealer.Open(sealed, context)
		require.NoError(t, err)
		require.Equal(t, string(plain), string(opened))
	})
}

func TestOpenRefusesAnythingElse(t *testing.T) {
	sealer := newSealer(t, 1)
	sealed, err := sealer.Seal([]byte("secret"), "bucket/key")
	require.NoError(t, err)
	assert.NotContains(t, sealed, "secret")

	_, err = sealer.Open(sealed, "bucket/other")
	assert.ErrorIs(t, err, seal.ErrAltered, "a text moved to another record")

	for i := range sealed {
		altered := []byte(sealed)
		altered[i] ^= 1
		_, err := sealer.Open(string(altered), "bucket/key")
		assert.Error(t, err, "byte %d altered", i)
	}
	for _, text := range []string{"", "v1", "v1.", "v1..", "v2" + sealed[2:], sealed[:len(sealed)-12], "v1." + sealer.KeyID() + ".AA", "v1." + sealer.KeyID() + ".*"} {
		_, err := sealer.Open(text, "bucket/key")
		assert.Error(t, err, "%q", text)
	}
}

func TestOpenWithAnotherKeySaysWhichFileToCopy(t *testing.T) {
	theirs, mine := newSealer(t, 1), newSealer(t, 2)
	sealed, err := theirs.Seal([]byte("secret"), "c")
	require.NoError(t, err)
	_, err = mine.Open(sealed, "c")
	var other *seal.OtherKeyError
	require.ErrorAs(t, err, &other)
	assert.Equal(t, theirs.KeyID(), other.SealedWith)
	assert.Equal(t, mine.KeyID(), other.Have)
	assert.Contains(t, err.Error(), "copy the file keys/sealing.key of a node that has key "+theirs.KeyID())
}

func TestLoadOrCreateMakesOneKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "sealing.key")
	ids := make([]string, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			if sealer, err := seal.LoadOrCreate(path); assert.NoError(t, err) {
				ids[i] = sealer.KeyID()
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		assert.Equal(t, ids[0], id)
	}
}

func TestLoadRefusesABadFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	good := "spinifex-sealing-key-v1:" + strings.Repeat("A", 43) + "="
	_, err := seal.Load(write("good", good+"\n", 0o600))
	require.NoError(t, err)
	_, err = seal.Load(write("open", good, 0o644))
	assert.ErrorContains(t, err, "mode 0644")
	_, err = seal.Load(write("short", "spinifex-sealing-key-v1:AAAA", 0o600))
	assert.ErrorContains(t, err, "3 bytes, want 32")
	_, err = seal.Load(write("foreign", "hello", 0o600))
	assert.ErrorContains(t, err, "does not begin with")
	_, err = seal.Load(write("broken", "spinifex-sealing-key-v1:s3cret*", 0o600))
	require.ErrorContains(t, err, "no base64")
	assert.NotContains(t, err.Error(), "s3cret")
	_, err = seal.Load(filepath.Join(dir, "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}
