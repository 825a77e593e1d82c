//go:build !linux

package kvsync

import "time"

// suspendedTime is not known here: the wall clock alone shows a suspend.
func suspendedTime() time.Duration { return 0 }
