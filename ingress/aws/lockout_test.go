package awsingress

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	here  = netip.MustParseAddr("192.0.2.1")
	there = netip.MustParseAddr("192.0.2.2")
)

// guess fails n times with different access keys, all at one time, and returns the last result.
func guess(l *lockout, addr netip.Addr, n int, from string, now time.Time) time.Duration {
	var lasts time.Duration
	for i := range n {
		lasts = l.failed(addr, from+strconv.Itoa(i), "InvalidClientTokenId", now)
	}
	return lasts
}

func TestOneBrokenClientIsNeverLockedOut(t *testing.T) {
	l, now := newLockout(), time.Unix(1_000_000, 0)
	for range 10_000 {
		now = now.Add(5 * time.Millisecond)
		require.Zero(t, l.failed(here, "AKIA1", "SignatureDoesNotMatch", now))
		require.Zero(t, l.failed(here, "AKIA1", "RequestExpired", now))
	}
	assert.Zero(t, l.locked(here, "AKIA1", now))
}

func TestTenKeysInAMinuteLockOut(t *testing.T) {
	l, now := newLockout(), time.Unix(1_000_000, 0)
	l.succeeded(here, "AKIAGOOD", now)
	require.Zero(t, guess(l, here, 9, "k", now))
	require.Equal(t, 30*time.Second, l.failed(here, "k9", "InvalidClientTokenId", now.Add(59*time.Second)))
	now = now.Add(59 * time.Second)
	assert.Equal(t, 30*time.Second, l.locked(here, "k1", now))
	assert.Equal(t, 30*time.Second, l.locked(here, "AKIAOTHER", now))
	assert.Zero(t, l.locked(there, "k1", now), "another address")
	assert.Zero(t, l.locked(here, "AKIAGOOD", now), "a key that has verified from there")
	assert.Equal(t, time.Millisecond, l.locked(here, "k1", now.Add(30*time.Second-time.Millisecond)))
	assert.Zero(t, l.locked(here, "k1", now.Add(30*time.Second)))
}

func TestSlowFailuresDoNotLockOut(t *testing.T) {
	l, now := newLockout(), time.Unix(1_000_000, 0)
	for i := range 1000 {
		now = now.Add(7 * time.Second) // nine within a minute
		require.Zero(t, l.failed(here, strconv.Itoa(i), "InvalidClientTokenId", now))
	}
}

func TestLockoutsDoubleAndAreForgotten(t *testing.T) {
	l, now := newLockout(), time.Unix(1_000_000, 0)
	for _, want := range []time.Duration{30, 60, 120, 240, 300, 300} {
		lasts := guess(l, here, 10, "k", now)
		require.Equal(t, want*time.Second, lasts)
		assert.Zero(t, guess(l, here, 50, "more", now), "what comes while locked out prolongs nothing")
		now = now.Add(lasts)
	}
	now = now.Add(lockoutMemory)
	assert.Equal(t, 30*time.Second, guess(l, here, 10, "k", now))
}

func TestOriginIsAHost(t *testing.T) {
	one, two := netip.MustParseAddr("2001:db8:1:2::3%eth0"), netip.MustParseAddr("2001:db8:1:2:ffff::1")
	assert.Equal(t, origin(one), origin(two))
	assert.NotEqual(t, origin(one), origin(netip.MustParseAddr("2001:db8:1:3::3")))
	assert.Equal(t, origin(here), origin(netip.MustParseAddr("::ffff:192.0.2.1")))
	assert.NotEqual(t, origin(here), origin(there))
	assert.Equal(t, netip.Prefix{}, origin(netip.Addr{}))
}

func TestLockoutIsBounded(t *testing.T) {
	l, now := newLockout(), time.Unix(1_000_000, 0)
	guess(l, here, 10, "k", now)
	for i := range lockoutAddresses + 100 {
		addr := netip.MustParseAddr(fmt.Sprintf("10.%d.%d.1", i/256, i%256))
		now = now.Add(time.Millisecond)
		l.failed(addr, "k", "c", now)
	}
	assert.Len(t, l.addresses, lockoutAddresses)
	assert.NotZero(t, l.locked(here, "k", now), "who is locked out is not forgotten for others")

	for i := range 1000 {
		l.succeeded(there, strconv.Itoa(i), now.Add(time.Duration(i)))
	}
	assert.Len(t, l.addresses[origin(there)].good, lockoutKeys)
	assert.Contains(t, l.addresses[origin(there)].good, "999")
}

// TestAGoodKeyIsNeverLockedOut: whatever else happens from its address.
func TestAGoodKeyIsNeverLockedOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, now := newLockout(), time.Unix(1_000_000, 0)
		l.succeeded(here, "AKIAGOOD", now)
		for range rapid.IntRange(0, 200).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond)
			key := rapid.StringMatching("[a-z]{2}").Draw(t, "key")
			if l.locked(here, key, now) == 0 {
				l.failed(here, key, "c", now)
			}
			if len(l.addresses[origin(here)].failures) > lockoutFailures {
				t.Fatalf("%d failures are kept", len(l.addresses[origin(here)].failures))
			}
			if l.locked(here, "AKIAGOOD", now) != 0 {
				t.Fatal("locked out")
			}
		}
	})
}
