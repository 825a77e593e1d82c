package kvsync

import "time"

// instant is one reading of every clock that matters to a holder.
type instant struct {
	at        time.Time     // Go's wall and monotonic reading
	suspended time.Duration // boot time less monotonic time: grows only while the host is suspended
}

// suspendNoise is what two readings of the boot and monotonic clocks may differ by without a suspend.
const suspendNoise = time.Millisecond

func readClock() instant { return instant{at: time.Now(), suspended: suspendedTime()} }

// heldSince is how much time a holder must count since an earlier reading: the largest of monotonic
// and wall time, plus what the host spent suspended. It may be too long (a wall clock set forward),
// never too short.
func (i instant) heldSince(now instant) time.Duration {
	elapsed := max(now.at.Sub(i.at), now.at.Round(0).Sub(i.at.Round(0)))
	if s := now.suspended - i.suspended; s > suspendNoise {
		elapsed += s
	}
	return elapsed
}
