package messaging

import (
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// bubble runs a test in virtual time. nats.go keeps used timers in a sync.Pool, among others those of
// draining a subscription, and a timer of one bubble must not be used in another one: two
// collections empty the pool.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	runtime.GC()
	runtime.GC()
	synctest.Test(t, test)
}
