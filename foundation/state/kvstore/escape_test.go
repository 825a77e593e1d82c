package kvstore_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
)

func TestEscapeToken(t *testing.T) {
	for name, token := range map[string]string{
		"":              "=",
		"plain-Name_9":  "plain-Name_9",
		"a.b":           "a=2Eb",
		"=":             "=3D",
		"é":             "=C3=A9",
		"2024-01 order": "2024-01=20order",
		"*.>":           "=2A=2E=3E",
	} {
		assert.Equal(t, token, kvstore.EscapeToken(name))
		back, err := kvstore.UnescapeToken(token)
		require.NoError(t, err)
		assert.Equal(t, name, back)
	}
	for _, token := range []string{"", "a.b", "=2", "=2e", "=41", "a=", "==", "=G0", " "} {
		_, err := kvstore.UnescapeToken(token)
		assert.Error(t, err, token)
	}
}

func TestEscapeTokenIsAOneToOneToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := string(rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "name"))
		token := kvstore.EscapeToken(name)
		require.NoError(t, natskv.CheckKey(token))
		require.NotContains(t, token, ".")
		back, err := kvstore.UnescapeToken(token)
		require.NoError(t, err)
		require.Equal(t, name, back)
	})
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.StringMatching(`[=A-Fa-f0-9_.-]{0,12}`).Draw(t, "token")
		name, err := kvstore.UnescapeToken(token)
		if err == nil {
			require.Equal(t, token, kvstore.EscapeToken(name), "only what EscapeToken yields")
		}
	})
}
