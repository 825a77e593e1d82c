package kvsync

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHeldSinceCountsTheLargestClock(t *testing.T) {
	base := instant{at: time.Now(), suspended: time.Hour}
	shift := func(mono, wall, suspended time.Duration) instant {
		// A time whose wall reading moved apart from its monotonic one: the difference of the two sums.
		at := base.at.Add(mono)
		if wall != mono {
			at = base.at.Round(0).Add(wall) // no monotonic reading: Sub falls back to the wall
		}
		return instant{at: at, suspended: base.suspended + suspended}
	}
	require.Equal(t, time.Second, base.heldSince(shift(time.Second, time.Second, 0)))
	require.Equal(t, time.Hour, base.heldSince(shift(time.Second, time.Hour, 0)), "a wall clock set forward is believed")
	require.Equal(t, time.Minute+time.Second, base.heldSince(shift(time.Second, time.Second, time.Minute)), "time suspended counts")
	require.Equal(t, time.Second, base.heldSince(shift(time.Second, time.Second, suspendNoise)), "noise of the readings does not")
	require.Equal(t, time.Second, base.heldSince(shift(time.Second, time.Second, -time.Minute)))
}

func TestSuspendedTimeIsSteady(t *testing.T) {
	a := readClock()
	for range 1000 {
		if d := readClock().suspended - a.suspended; d > suspendNoise || d < -suspendNoise {
			t.Fatalf("boot time less monotonic time moved by %v without a suspend", d)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		a := readClock()
		time.Sleep(time.Hour)
		require.Equal(t, time.Hour, a.heldSince(readClock()), "a bubble's clock is the only one")
	})
}

func TestRecordBounds(t *testing.T) {
	_, err := record{Holder: string(make([]byte, maxRecord))}.encode()
	require.ErrorContains(t, err, "at most 512")
	r, err := decodeRecord([]byte(`{"holder":"h","generation":0,"ttl_ms":9223372036854775807}`))
	require.NoError(t, err)
	require.Equal(t, 1000*time.Hour, r.ttl(), "a hostile time to live must not block a key for ever")
	_, err = decodeRecord([]byte(`{"generation":3}`))
	require.ErrorIs(t, err, errUndecodable)
}
