package kvsynctest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync/kvsynctest"
)

// TestExploreWithEveryRule finds no violation in any schedule of the small models.
func TestExploreWithEveryRule(t *testing.T) {
	start := time.Now()
	e := kvsynctest.Explore()
	require.Empty(t, e.Violation, e.String())
	t.Logf("%d states in %v", e.States, time.Since(start))
}

// TestExploreWithoutARule finds, for each rule, how ownership goes wrong without it.
func TestExploreWithoutARule(t *testing.T) {
	for _, rule := range kvsynctest.Rules() {
		t.Run(string(rule), func(t *testing.T) {
			e := kvsynctest.Explore(rule)
			require.NotEmpty(t, e.Violation, "nothing goes wrong without this rule")
			t.Logf("without %q: %s", rule, e)
		})
	}
}
