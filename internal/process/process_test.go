package process

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/testkit"
)

func start(t *testing.T, script string, env ...string) *Process {
	t.Helper()
	p, err := Start(Options{Path: "/bin/sh", Args: []string{"-c", script}, Env: env})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

func TestOutputAndStatus(t *testing.T) {
	t.Setenv("AWS_PROFILE", "mine")
	t.Setenv("SPINIFEX_NODE_NAME", "mine")
	p := start(t, `echo "[$AWS_PROFILE$SPINIFEX_NODE_NAME$GIVEN]"; echo bad >&2; exit 3`, "GIVEN=x")
	status, err := p.Wait(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, status)
	assert.Equal(t, "[x]\nbad\n", p.Output())
	assert.False(t, p.Running())
	require.NoError(t, p.Kill(), "killing what has ended is fine")
}

func TestStopLetsTheProcessFinish(t *testing.T) {
	p := start(t, `trap 'echo bye; exit 0' TERM; echo up; while :; do read x || sleep 0.01; done`)
	testkit.Eventually(t, 10*time.Second, func() (bool, string) { return p.Output() == "up\n", p.Output() })
	require.NoError(t, p.Stop(t.Context()))
	assert.Equal(t, "up\nbye\n", p.Output())
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	p := start(t, `trap '' TERM; echo up; while :; do read x || sleep 0.01; done`)
	testkit.Eventually(t, 10*time.Second, func() (bool, string) { return p.Output() == "up\n", p.Output() })
	patience := errors.New("patience is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(patience)
	require.ErrorIs(t, p.Stop(ctx), patience)
	assert.False(t, p.Running())
	require.ErrorIs(t, syscall.Kill(p.PID(), 0), syscall.ESRCH)
}

func TestStartSaysWhatItCouldNotStart(t *testing.T) {
	_, err := Start(Options{Path: "/does/not/exist"})
	require.ErrorContains(t, err, "/does/not/exist")
}

func TestBuildNamesTheBinaryAndReportsCompilerErrors(t *testing.T) {
	_, err := Build(t.Context(), t.TempDir(), "./internal/nothing")
	require.ErrorContains(t, err, "./internal/nothing")
}
