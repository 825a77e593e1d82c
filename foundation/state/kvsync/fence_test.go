package kvsync_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

func TestFenceCheckerRefusesOlderGenerations(t *testing.T) {
	var f kvsync.FenceChecker
	writes := 0
	write := func() error { writes++; return nil }
	older, newer := kvsync.Token{Holder: "a", Generation: 7}, kvsync.Token{Holder: "b", Generation: 9}
	require.NoError(t, f.Write("zone", older, write))
	require.NoError(t, f.Write("zone", older, write), "the same acquisition goes on")
	boom := errors.New("disk full")
	require.ErrorIs(t, f.Write("zone", newer, func() error { return boom }), boom)
	require.ErrorIs(t, f.Write("zone", older, write), kvsync.ErrLost, "refused from the new leader's first try on")
	require.NoError(t, f.Write("other", older, write), "objects are apart")
	f.Seen("restored", 8)
	require.ErrorIs(t, f.Write("restored", older, write), kvsync.ErrLost)
	require.ErrorIs(t, f.Write("new", kvsync.Token{}, write), kvsync.ErrLost, "a zero token names no acquisition")
	require.Equal(t, 3, writes)
}
