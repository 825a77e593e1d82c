//go:build !fault || !linux

package fault

import "testing"

func TestPointDoesNothingInAnOrdinaryBuild(t *testing.T) {
	t.Setenv("SPINIFEX_FAULT", "here=exit")
	Point(t.Context(), "here")
}
