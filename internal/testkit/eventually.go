package testkit

import (
	"testing"
	"time"
)

// pollInterval is how often Eventually looks.
const pollInterval = 10 * time.Millisecond

// Eventually calls look until it is done, and fails the test when that takes longer than within,
// with the state that look reported last. It is for what only the outside world can show, such as
// an election of real servers; inside a bubble synctest.Wait needs no deadline.
func Eventually(t testing.TB, within time.Duration, look func() (done bool, state string)) {
	t.Helper()
	deadline := time.Now().Add(within)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		done, state := look()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s; last seen: %s", within, state)
		}
		<-ticker.C
	}
}
