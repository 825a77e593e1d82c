package messaging

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/internal/testkit"
)

// serveCounted serves one operation as the daemon of a node and counts what it carries out.
func (b *bench) serveCounted(t *testing.T, node string, mutating bool) (count *atomic.Int32, stop func() error) {
	count = &atomic.Int32{}
	stop = b.serve(t, ServiceOptions{Node: node}, echoOperation("Do", mutating, func(ctx context.Context, c *aws.Call, in *echoIn) (*echoOut, error) {
		count.Add(1)
		return echo(ctx, c, in)
	}))
	return count, stop
}

func TestTheOwnNodesDaemonIsAskedFirst(t *testing.T) {
	for name, mutating := range map[string]bool{"mutating": true, "reading": false} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				b := newBench(t)
				b.client.opts.Node = "n1"
				own, stop := b.serveCounted(t, "n1", mutating)
				other, _ := b.serveCounted(t, "n2", mutating)
				op := echoOperation("Do", mutating, echo)
				calls := 0
				ask := func() {
					t.Helper()
					calls++
					_, err := b.client.Call(t.Context(), testCall(strconv.Itoa(calls)), op, &echoIn{Text: "x"})
					require.NoError(t, err)
				}
				for range 20 {
					ask()
				}
				assert.Equal(t, int32(20), own.Load())
				assert.Zero(t, other.Load(), "another node's daemon may hang: it gets nothing meanwhile")
				require.NoError(t, stop())
				ask()
				assert.Equal(t, int32(1), other.Load(), "once the own daemon is gone any other serves")
			})
		})
	}
}
