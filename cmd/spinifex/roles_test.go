package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/testkit"
)

// What a library logs that takes no logger goes where the configuration says, in its format.
func TestLinesOfLibrariesAreInTheLog(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	ctx, end := context.WithCancel(t.Context())
	end()
	var out, errs testkit.Buffer
	dir := filepath.Join(t.TempDir(), "data")
	env := append(environ(t), "SPINIFEX_LOG_FORMAT=json", "SPINIFEX_TELEMETRY_LISTEN=127.0.0.1:0", "SPINIFEX_NATS_LISTEN=127.0.0.1:0")
	require.Equal(t, exitDone, run(ctx, []string{"up", "--data-dir", dir}, env, &out, &errs), errs.String())
	slog.Error("a library's line")
	lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &line))
	assert.Equal(t, "a library's line", line["msg"])
}
