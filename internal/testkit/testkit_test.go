package testkit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestStartTestJetStreamServesJetStream(t *testing.T) {
	srv, conn, js := testkit.StartTestJetStream(t)
	assert.Equal(t, srv.Name(), conn.ConnectedServerName())
	info, err := js.AccountInfo(t.Context())
	require.NoError(t, err)
	assert.Zero(t, info.Streams)
}

func TestServerRunsInsideABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, js := testkit.StartTestJetStream(t)
		stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "s", Subjects: []string{"s.>"}})
		require.NoError(t, err)
		start := time.Now()
		for range 60 {
			time.Sleep(time.Minute) // virtual: synctest's clock jumps
			_, err := js.Publish(t.Context(), "s.tick", nil)
			require.NoError(t, err)
		}
		assert.Equal(t, time.Hour, time.Since(start).Truncate(time.Minute))
		info, err := stream.Info(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 60, info.State.Msgs)
	})
}

func TestTimersOfABubbleStayInside(t *testing.T) {
	flush := func(t *testing.T) {
		_, conn, _ := testkit.StartTestJetStream(t)
		for range 20 {
			require.NoError(t, conn.Flush())
		}
	}
	for range 5 {
		synctest.Test(t, flush)
		t.Run("outside", flush)
	}
}

func TestClusterPlacesThreeReplicas(t *testing.T) {
	c := testkit.StartTestCluster(t, 3)
	_, js := c.Connect(t, 1)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "s", Subjects: []string{"s.>"}, Replicas: 3})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "s.x", []byte("x"))
	require.NoError(t, err)
	leader := c.StreamLeader("s")
	require.GreaterOrEqual(t, leader, 0)
	c.Restart(leader)
	testkit.Eventually(t, 30*time.Second, func() (bool, string) {
		_, js := c.Connect(t, leader)
		_, err := js.Publish(t.Context(), "s.x", []byte("y"))
		if err != nil {
			return false, err.Error()
		}
		return true, ""
	})
}
