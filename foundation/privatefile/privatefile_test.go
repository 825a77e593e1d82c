package privatefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/privatefile"
)

func TestReadOrCreateIsWrittenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "key")
	got := make([]string, 16)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			content, err := privatefile.ReadOrCreate(path, func() ([]byte, error) { return []byte(strconv.Itoa(i)), nil })
			if assert.NoError(t, err) {
				got[i] = string(content)
			}
		})
	}
	wg.Wait()
	for _, content := range got {
		assert.Equal(t, got[0], content)
	}
	onlyFile(t, path, got[0])
}

func onlyFile(t *testing.T, path, content string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	dir, err := os.Stat(filepath.Dir(path))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o700), dir.Mode().Perm())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "no temporary file is left")
	got, err := privatefile.Read(path)
	require.NoError(t, err)
	assert.Equal(t, content, string(got))
}

func TestWriteReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "aws", "credentials")
	require.NoError(t, privatefile.Write(path, []byte("one, and longer")))
	require.NoError(t, privatefile.Write(path, []byte("two")))
	onlyFile(t, path, "two")
	require.NoError(t, privatefile.Write(path, nil))
	onlyFile(t, path, "")
}

func TestReadRefusesWhatOthersMayUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	require.NoError(t, os.Chmod(path, 0o640))
	_, err := privatefile.Read(path)
	require.ErrorContains(t, err, "has mode 0640")
	_, err = privatefile.ReadOrCreate(path, func() ([]byte, error) { return nil, errors.New("not called") })
	require.ErrorContains(t, err, "has mode 0640")

	_, err = privatefile.Read(path + "2")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = privatefile.ReadOrCreate(path+"2", func() ([]byte, error) { return nil, errors.New("no entropy") })
	require.ErrorContains(t, err, "no entropy")
	assert.NoFileExists(t, path+"2")
}
