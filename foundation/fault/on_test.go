//go:build fault && linux

package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// childVariable makes the test binary the process that the fault hits.
const childVariable = "FAULT_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	for i := range 5 {
		ctx, cancel := context.WithCancel(context.Background())
		Point(ctx, "elsewhere")
		after := Point(ctx, "here")
		cancel()
		fmt.Println("passed", i+1, after.Err())
	}
}

func child(t *testing.T, spec string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1", "SPINIFEX_FAULT="+spec)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	return cmd, &out
}

func TestParse(t *testing.T) {
	for spec, want := range map[string]*arm{
		"p=exit":              {point: "p", after: 1},
		"p=exit:after=3":      {point: "p", after: 3},
		"p=stop:/f":           {point: "p", stop: "/f", after: 1},
		"p=stop:/a=b:after=2": {point: "p", stop: "/a=b", after: 2},
	} {
		got, err := parse(spec)
		require.NoError(t, err, spec)
		assert.Equal(t, want.point+want.stop, got.point+got.stop)
		assert.Equal(t, want.after, got.after)
	}
	for _, spec := range []string{"p", "=exit", "p=", "p=stop:", "p=jump", "p=exit:after=0", "p=exit:after=x"} {
		_, err := parse(spec)
		assert.Error(t, err, spec)
	}
}

func TestExitEndsTheProcessAtItsPoint(t *testing.T) {
	cmd, out := child(t, "here=exit:after=3")
	exit, ok := errors.AsType[*exec.ExitError](cmd.Wait())
	require.True(t, ok)
	assert.Equal(t, exitCode, exit.ExitCode())
	assert.Equal(t, "passed 1 context canceled\npassed 2 context canceled\n", out.String())
}

func TestStopStopsTheProcessOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stopped")
	cmd, out := child(t, "here=stop:"+file+":after=2")
	var status syscall.WaitStatus
	_, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped(), "status %v", status)
	require.FileExists(t, file)
	require.NoError(t, syscall.Kill(cmd.Process.Pid, syscall.SIGCONT))
	require.NoError(t, cmd.Wait())
	assert.Equal(t, "passed 1 context canceled\npassed 2 <nil>\npassed 3 context canceled\npassed 4 context canceled\npassed 5 context canceled\n", out.String(),
		"what follows the stop has passed every check")
}

func TestBadSpecStartsNothing(t *testing.T) {
	cmd, out := child(t, "nonsense")
	require.Error(t, cmd.Wait())
	assert.Contains(t, out.String(), `SPINIFEX_FAULT="nonsense"`)
	assert.NotContains(t, out.String(), "passed 5")
}
