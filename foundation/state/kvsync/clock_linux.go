package kvsync

import (
	"syscall"
	"time"
	"unsafe"
)

const (
	clockMonotonic = 1
	clockBoottime  = 7
	// readTries bounds the readings taken to find one that was not interrupted by the scheduler.
	readTries  = 5
	readWindow = 100 * time.Microsecond
)

// suspendedTime is CLOCK_BOOTTIME less CLOCK_MONOTONIC. Both are read by system call, so it is the
// host's even where time.Now is virtual; there only its growth, 0, matters.
func suspendedTime() time.Duration {
	var best, bestWindow time.Duration = 0, -1
	for range readTries {
		before, ok := clockGettime(clockMonotonic)
		if !ok {
			return 0
		}
		boot, ok := clockGettime(clockBoottime)
		if !ok {
			return 0
		}
		after, _ := clockGettime(clockMonotonic)
		if window := after - before; bestWindow < 0 || window < bestWindow {
			best, bestWindow = boot-before, window
		}
		if bestWindow < readWindow {
			break
		}
	}
	return best
}

// clockGettime never blocks, so the scheduler need not hear of it.
func clockGettime(id uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}
