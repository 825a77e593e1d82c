package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws/models"
)

// The checked-in packages are exactly what the generator writes from the models of today.
func TestCheckedInOutputIsCurrent(t *testing.T) {
	root := filepath.Join("..", "api")
	for _, s := range servedServices() {
		t.Run(s.Model, func(t *testing.T) {
			files, err := generate(s)
			require.NoError(t, err)
			entries, err := os.ReadDir(filepath.Join(root, s.Model))
			require.NoError(t, err)
			for _, e := range entries {
				assert.Contains(t, files, e.Name(), "no longer generated; remove it")
			}
			for name, want := range files {
				got, err := os.ReadFile(filepath.Join(root, s.Model, name))
				require.NoError(t, err)
				assert.Equal(t, string(want), string(got), "%s is stale: go generate ./foundation/aws/api", name)
			}
		})
	}
}

func TestRunWritesEveryPackage(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, run([]string{"-out", dir}, os.Stderr))
	for _, s := range servedServices() {
		want, err := generate(s)
		require.NoError(t, err)
		for name, body := range want {
			got, err := os.ReadFile(filepath.Join(dir, s.Model, name))
			require.NoError(t, err)
			assert.Equal(t, string(body), string(got))
		}
	}
}

func TestGenerateRefusals(t *testing.T) {
	_, err := generate(served{Model: "nothing"})
	require.ErrorIs(t, err, models.ErrUnknownService)
	_, err = generate(served{Model: "sts", Operations: []string{"MakeCoffee"}})
	require.ErrorContains(t, err, "MakeCoffee")
}

func TestNames(t *testing.T) {
	for in, want := range map[string]string{
		"INSYNC": "Insync", "AAAA": "AAAA", "CNAME": "CNAME", "us-east-1": "UsEast1", "ENABLE_FAILED": "EnableFailed",
		"PrivateHostedZone": "PrivateHostedZone", "hostedzone": "Hostedzone", "": "Empty", "2": "2",
	} {
		assert.Equal(t, want, pascal(in), "%q", in)
	}
	assert.Equal(t, "DurationSecondsType", exported("durationSecondsType"))
}

// Shapes that the served services do not have yet.
func TestTypesOfEveryKind(t *testing.T) {
	var svc models.Service
	require.NoError(t, json.Unmarshal([]byte(`{"shapes":{
		"S":{"type":"structure","members":{"Self":{"shape":"S"}}},"L":{"type":"list","member":{"shape":"S"}},
		"M":{"type":"map","key":{"shape":"Str"},"value":{"shape":"L"}},"Str":{"type":"string"},"B":{"type":"blob"},
		"I":{"type":"integer"},"Lo":{"type":"long"},"F":{"type":"float"},"D":{"type":"double"},"T":{"type":"timestamp"},"Bo":{"type":"boolean"}}}`), &svc))
	require.NoError(t, svc.Resolve())
	g := &generator{svc: &svc}
	for shape, want := range map[string]string{
		"S": "*S", "L": "[]S", "M": "map[string][]S", "Str": "*string", "B": "[]byte",
		"I": "*int32", "Lo": "*int64", "F": "*float32", "D": "*float64", "T": "*time.Time", "Bo": "*bool",
	} {
		assert.Equal(t, want, g.goType(svc.Shapes[shape]), shape)
	}
}
