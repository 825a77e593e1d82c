package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

func sources(t *testing.T) map[string]string {
	return map[string]string{
		"botocore/data/tea/2020-01-01/service-2.json": `{"old":true}`,
		"botocore/data/tea/2021-01-01/service-2.json.gz": packed(t, `{"metadata":{"protocol":"query"},"documentation":"<p>long</p>",
			"shapes":{"S":{"type":"structure","documentation":"x","documentationUrl":"y","members":{"documentation":{"shape":"T","documentation":"z"}}},"L":{"type":"long","max":9223372036854775807}}}`),
		"botocore/data/tea/2021-01-01/paginators-1.json": `{"pagination":{"ListTea":{"input_token":"Marker"}}}`,
	}
}

const want = `{"paginators":{"pagination":{"ListTea":{"input_token":"Marker"}}},"service":{"metadata":{"protocol":"query"},` +
	`"shapes":{"L":{"max":9223372036854775807,"type":"long"},"S":{"members":{"documentation":{"shape":"T"}},"type":"structure"}}}}`

func unpack(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	return string(text)
}

func TestFromAWheelAndADirectory(t *testing.T) {
	dir := t.TempDir()
	wheel := filepath.Join(dir, "botocore.whl")
	f, err := os.Create(wheel)
	require.NoError(t, err)
	z := zip.NewWriter(f)
	for name, text := range sources(t) {
		w, err := z.Create(name)
		require.NoError(t, err)
		_, err = w.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "tree", filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tree", name), []byte(text), 0o644))
	}
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
	for _, from := range []string{wheel, filepath.Join(dir, "tree")} {
		out := t.TempDir()
		require.NoError(t, run([]string{"-from", from, "-out", out, "tea"}, io.Discard))
		assert.Equal(t, want, unpack(t, filepath.Join(out, "tea.json.gz")))
	}
	require.Error(t, run([]string{"-from", wheel, "-out", dir, "coffee"}, io.Discard))
	require.Error(t, run([]string{"-from", filepath.Join(dir, "nothing"), "tea"}, io.Discard))
	require.ErrorContains(t, run(nil, io.Discard), "usage")
}
