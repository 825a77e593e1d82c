//go:build fault && linux

package fault

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// exitCode is what a process that a fault has ended exits with.
const exitCode = 86

// arm is what SPINIFEX_FAULT says.
type arm struct {
	point string
	stop  string // the file to create before stopping; empty ends the process
	after int64
	hits  atomic.Int64
}

// armed reads the environment once: a fault is armed for the life of a process.
var armed = sync.OnceValue(func() *arm {
	spec := os.Getenv("SPINIFEX_FAULT")
	if spec == "" {
		return &arm{}
	}
	a, err := parse(spec)
	if err != nil {
		// A fault test without its fault would pass for the wrong reason.
		fmt.Fprintln(os.Stderr, "fault:", err)
		os.Exit(exitCode)
	}
	return a
})

func parse(spec string) (*arm, error) {
	point, action, ok := strings.Cut(spec, "=")
	if !ok || point == "" {
		return nil, fmt.Errorf("SPINIFEX_FAULT=%q: want <point>=stop:<file>[:after=N] or <point>=exit[:after=N]", spec)
	}
	a := &arm{point: point, after: 1}
	if rest, n, ok := strings.Cut(action, ":after="); ok {
		after, err := strconv.ParseInt(n, 10, 64)
		if err != nil || after < 1 {
			return nil, fmt.Errorf("SPINIFEX_FAULT: after=%q: must be a number of 1 or more", n)
		}
		action, a.after = rest, after
	}
	file, stop := strings.CutPrefix(action, "stop:")
	switch {
	case stop && file != "":
		a.stop = file
	case action == "exit":
	default:
		return nil, fmt.Errorf("SPINIFEX_FAULT: action %q: must be stop:<file> or exit", action)
	}
	return a, nil
}

// Point stops or ends the process when it is the armed point and its turn has come. It returns the
// context to go on with: where the process was stopped, one that does not end any more, since the step
// that follows has by then passed every check.
func Point(ctx context.Context, name string) context.Context {
	a := armed()
	if a.point != name || a.hits.Add(1) != a.after {
		return ctx
	}
	if a.stop == "" {
		os.Exit(exitCode)
	}
	if err := os.WriteFile(a.stop, nil, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "fault:", err)
		os.Exit(exitCode)
	}
	// Sent to this very thread, so that it is stopped before the call returns, and with it all
	// threads of the process; sent to the process, another thread may take it a moment later.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Tgkill(syscall.Getpid(), syscall.Gettid(), syscall.SIGSTOP); err != nil {
		fmt.Fprintln(os.Stderr, "fault:", err)
		os.Exit(exitCode)
	}
	return context.WithoutCancel(ctx)
}
