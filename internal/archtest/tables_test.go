package archtest

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/domains/all"
)

// served returns the names of the operations of each service, in order.
func served() map[string][]string {
	out := map[string][]string{}
	for _, op := range all.Operations() {
		out[op.Service] = append(out[op.Service], op.Name)
	}
	for _, names := range out {
		slices.Sort(names)
	}
	return out
}

// rows returns the cells of the table below a heading of a page, without its two head lines.
func rows(t *testing.T, page, heading string) [][]string {
	t.Helper()
	_, section, ok := strings.Cut("\n"+page, "\n## "+heading+"\n")
	require.True(t, ok, "no section %q", heading)
	section, _, _ = strings.Cut(section, "\n## ")
	var out [][]string
	for line := range strings.SplitSeq(section, "\n") {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		out = append(out, cells)
	}
	require.Greater(t, len(out), 2, "no table below %q", heading)
	return out[2:]
}

func readPage(t *testing.T, elements ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, elements...)...))
	require.NoError(t, err)
	return string(content)
}

// TestReadmeNamesWhatIsServed compares the README's table of services with the code.
func TestReadmeNamesWhatIsServed(t *testing.T) {
	claimed := map[string][]string{}
	for _, row := range rows(t, readPage(t, "README.md"), "Services") {
		require.Len(t, row, 3, "%q", row)
		service := strings.ToLower(strings.ReplaceAll(row[0], " ", ""))
		if names := strings.Fields(row[2]); len(names) > 0 {
			claimed[service] = slices.Sorted(slices.Values(names))
		}
	}
	assert.Equal(t, served(), claimed)
}

var operationName = regexp.MustCompile(`\b[A-Z][A-Za-z0-9]+\b`)

// TestDomainReadmesNameWhatIsServed compares the Operations table of each domain with the code: a row
// whose second cell begins with "served" is served, and no other.
func TestDomainReadmesNameWhatIsServed(t *testing.T) {
	for _, service := range slices.Sorted(maps.Keys(served())) {
		var claimed []string
		for _, row := range rows(t, readPage(t, "domains", service, "README.md"), "Operations") {
			if len(row) > 1 && strings.HasPrefix(row[1], "served") {
				claimed = append(claimed, operationName.FindAllString(row[0], -1)...)
			}
		}
		slices.Sort(claimed)
		assert.Equal(t, served()[service], claimed, "domains/%s/README.md", service)
	}
}
