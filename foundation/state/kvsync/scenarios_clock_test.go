package kvsync

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// setForward moves the wall reading of a time and leaves its monotonic one, as when a clock is set. It
// knows how package time keeps the two: the first word has the wall seconds above 30 bits of nanoseconds.
func setForward(at time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&at)) += uint64(int64(by/time.Second)) << 30
	return at
}

// TestL03WallClockJumps: a clock set forward by an hour let the standby take over at once, while the
// leader learned of it 2 s later.
func TestL03WallClockJumps(t *testing.T) {
	const ttl = 24 * time.Second
	base := time.Now()
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		moved := setForward(base.Add(time.Second), jump)
		require.Equal(t, time.Second, moved.Sub(base), "the monotonic reading stays")
		require.Equal(t, time.Second+jump, moved.Round(0).Sub(base.Round(0)))

		// The contender counts by its monotonic clock alone.
		c := contender{holder: "b", incarnation: "b1", ttl: ttl, dead: func(string) bool { return false }}
		saw := reading{rec: record{Holder: "a", Nonce: "n", TTLMillis: ttl.Milliseconds()}, rev: 7}
		v, obs := judge(c, observation{}, saw, base)
		require.False(t, v.take)
		v, obs = judge(c, obs, saw, setForward(base.Add(ttl-time.Nanosecond), jump))
		require.False(t, v.take, "not early, by a jump of %v", jump)
		v, _ = judge(c, obs, saw, setForward(base.Add(ttl), jump))
		require.True(t, v.take, "nor late")

		// The holder may step down early, never late.
		sent, now := instant{at: base}, instant{at: setForward(base.Add(validity(ttl)), jump)}
		require.GreaterOrEqual(t, sent.heldSince(now), validity(ttl))
		now = instant{at: setForward(base.Add(validity(ttl)-time.Second), jump)}
		require.Equal(t, jump > 0, sent.heldSince(now) >= validity(ttl))
	}
}

// TestL03SuspendedHost: time that the host spent suspended counts, though no monotonic clock shows it.
func TestL03SuspendedHost(t *testing.T) {
	l := newLease(nowhere{}, "k", "h", 24*time.Second)
	now := readClock()
	l.acq = &acquisition{tok: Token{Holder: "h", Generation: 1}, rev: 1, sent: now, lost: make(chan struct{})}
	require.True(t, l.Held())
	l.acq.sent.suspended -= 20 * time.Second // resumed: the first question finds it out
	require.False(t, l.Held())
	require.Zero(t, l.ValidFor())
	_, ok := l.Token()
	require.False(t, ok)
	require.Error(t, l.Context(t.Context()).Err())
}

// nowhere is a store that is not asked anything.
type nowhere struct{ KVStore }
