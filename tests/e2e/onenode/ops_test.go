package onenode

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/process"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// metricName matches a metric of this product in a query.
var metricName = regexp.MustCompile(`\bspinifex_[a-z_]+`)

func opsFile(t *testing.T, name string) string {
	t.Helper()
	root, err := process.Root()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "ops", name))
	require.NoError(t, err)
	return string(text)
}

// dashboardQueries are the queries of the dashboard's panels.
func dashboardQueries(t *testing.T) []string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(opsFile(t, "grafana-dashboard.json")), &dashboard))
	require.NotEmpty(t, dashboard.Panels)
	var queries []string
	for _, panel := range dashboard.Panels {
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			require.Regexp(t, metricName, target.Expr, panel.Title)
			queries = append(queries, target.Expr)
		}
	}
	return queries
}

// alertQueries are the expressions of the alerts, each of which has everything that an alert needs.
func alertQueries(t *testing.T) []string {
	t.Helper()
	text := opsFile(t, "alerts.yml")
	require.NotContains(t, text, "\t", "YAML is indented with spaces")
	var queries []string
	for _, alert := range strings.Split(text, "- alert: ")[1:] {
		for _, part := range []string{"labels:\n", "severity: ", "annotations:\n", `summary: "`, `action: "`} {
			require.Contains(t, alert, part)
		}
		expr := regexp.MustCompile(`(?m)^        expr: (.*)$`).FindStringSubmatch(alert)
		require.NotNil(t, expr, alert)
		require.Regexp(t, metricName, expr[1])
		require.Equal(t, strings.Count(expr[1], "("), strings.Count(expr[1], ")"), expr[1])
		queries = append(queries, expr[1])
	}
	require.NotEmpty(t, queries)
	return queries
}

// TestDashboardAndAlertsUseMetricsThatExist looks for each metric among those of a process.
func TestDashboardAndAlertsUseMetricsThatExist(t *testing.T) {
	var names []string
	for _, query := range slices.Concat(dashboardQueries(t), alertQueries(t)) {
		names = append(names, metricName.FindAllString(query, -1)...)
	}
	slices.Sort(names)
	names = slices.Compact(names)

	node := start(t)
	node.Decode(nil, "sts", "get-caller-identity")
	node.Dig("spinifex.local", "SOA")
	client := &http.Client{Timeout: 10 * time.Second}
	testkit.Eventually(t, time.Minute, func() (bool, string) { // a renewal comes after T/6
		resp, err := client.Get("http://" + node.Telemetry + "/metrics")
		if err != nil {
			return false, err.Error()
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		var missing []string
		for _, name := range names {
			if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).Match(text) {
				missing = append(missing, name)
			}
		}
		return len(missing) == 0, "missing: " + strings.Join(missing, " ") + "\n" + string(text)
	})
	assert.GreaterOrEqual(t, len(names), 15)
	t.Logf("%d metrics are used and exist", len(names))
}
