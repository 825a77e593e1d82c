package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGoal(t *testing.T) {
	assert.Equal(t, "pass: pair: 2.40, wanted <= 2.50", Goal{What: "pair", Value: 2.4, Limit: 2.5}.String())
	assert.Equal(t, "short: pair: 2.60, wanted <= 2.50", Goal{What: "pair", Value: 2.6, Limit: 2.5}.String())
	assert.Equal(t, "short: rate: 0.40, wanted >= 0.50", Goal{What: "rate", Value: 0.4, Limit: 0.5, AtLeast: true}.String())
}

func TestWriteIsMarkdown(t *testing.T) {
	r := Report{
		Name: "x", Setup: []string{"a against b"}, Columns: []string{"who", "n"}, Rows: [][]string{{"a", "1"}, {"b", "2"}},
		More:  []Table{{Title: "others", Columns: []string{"m"}, Rows: [][]string{{"3"}}}, {Title: "empty"}},
		Goals: []Goal{{What: "a/b", Value: 0.5, Limit: 1}},
	}
	var out strings.Builder
	require.NoError(t, r.Write(&out, time.Unix(0, 0)))
	assert.Contains(t, out.String(), "# x, 1970-01-01 00:00:00\n")
	assert.Contains(t, out.String(), "- a against b\n\n| who | n |\n|---|---|\n| a | 1 |\n| b | 2 |\n\nothers:\n\n| m |\n|---|\n| 3 |\n\n- pass: a/b: 0.50")
}

func TestPublishKeepsAFileOnlyWhenAsked(t *testing.T) {
	r := Report{Name: "x", Columns: []string{"n"}}
	require.NoError(t, r.Publish(""))

	dir := filepath.Join(t.TempDir(), "results")
	require.NoError(t, r.Publish(dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Regexp(t, `^\d{4}-\d\d-\d\d-x\.md$`, entries[0].Name())
}

func TestQuantile(t *testing.T) {
	times := []time.Duration{5, 1, 4, 2, 3}
	assert.Equal(t, time.Duration(3), Median(times))
	assert.Equal(t, time.Duration(1), Quantile(times, 0))
	assert.Equal(t, time.Duration(5), Quantile(times, 1))
	assert.Equal(t, time.Duration(5), times[0], "the caller's order stays")
	assert.Zero(t, Median(nil))
	assert.InDelta(t, 1.5, Ratio(3, 2), 0)
}
