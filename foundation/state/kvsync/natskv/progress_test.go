package natskv

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestProgressJudgesLooks(t *testing.T) {
	t0 := time.Unix(1000, 0)
	fresh := func() *progress { return &progress{created: t0, high: 100, base: 90, reconnects: 1} }
	same := look{mark: 100, created: t0, firstSeq: 10, lastSeq: 100, replicas: 1, reconnects: 2}

	t.Run("the same stream", func(t *testing.T) {
		p := fresh()
		require.True(t, p.stale(2))
		why, replaced := p.looked(same)
		assert.Empty(t, why)
		assert.False(t, replaced)
		assert.False(t, p.stale(2))
		assert.True(t, p.stale(3))
	})
	t.Run("one copy that is short stays refused", func(t *testing.T) {
		p := fresh()
		short := same
		short.lastSeq = 99
		why, _ := p.looked(short)
		assert.Contains(t, why, "last sequence is 99")
		why, _ = p.looked(same)
		assert.NotEmpty(t, why)
		assert.True(t, p.stale(2))
		assert.NotEmpty(t, p.acked(100, 101))
	})
	t.Run("a cut-off server's answer is refused and forgotten", func(t *testing.T) {
		p := fresh()
		short := same
		short.lastSeq, short.replicas = 99, 3
		why, _ := p.looked(short)
		assert.NotEmpty(t, why)
		assert.True(t, p.stale(2), "looked at again")
		why, _ = p.looked(same)
		assert.Empty(t, why)
	})
	t.Run("an older stream", func(t *testing.T) {
		p := fresh()
		older := same
		older.created, older.lastSeq = t0.Add(-time.Second), 500
		why, _ := p.looked(older)
		assert.Contains(t, why, "created")
	})
	t.Run("a later stream that begins above", func(t *testing.T) {
		p := fresh()
		later := same
		later.created, later.firstSeq, later.lastSeq = t0.Add(time.Second), 1000, 999
		why, replaced := p.looked(later)
		assert.Empty(t, why)
		assert.True(t, replaced)
		assert.Empty(t, p.acked(p.mark(), 1000))
	})
	t.Run("a later stream that has grown above", func(t *testing.T) {
		p := fresh()
		later := same
		later.created, later.firstSeq, later.lastSeq = t0.Add(time.Second), 0, 5000
		why, _ := p.looked(later)
		assert.Contains(t, why, "made anew")
	})
	t.Run("a later stream that was written to before it was looked at", func(t *testing.T) {
		p := fresh()
		require.Empty(t, p.acked(100, 1003))
		later := same
		later.created, later.firstSeq, later.lastSeq, later.mark = t0.Add(time.Second), 1000, 1003, 1003
		why, replaced := p.looked(later)
		assert.Empty(t, why)
		assert.True(t, replaced)
	})
	t.Run("an acknowledgement below what had been seen", func(t *testing.T) {
		p := fresh()
		assert.Contains(t, p.acked(100, 100), "sequence 100")
		assert.True(t, p.stale(1))
	})
	t.Run("acknowledgements in any order", func(t *testing.T) {
		p := fresh()
		mark := p.mark()
		assert.Empty(t, p.acked(mark, 102))
		assert.Empty(t, p.acked(mark, 101))
	})
}

func TestRevisionsAreBoundedAndOnlyGrow(t *testing.T) {
	r := newRevisions(4)
	r.see("a", known{rev: 5})
	r.see("a", known{rev: 3, deleted: true})
	k, ok := r.get("a")
	require.True(t, ok)
	assert.Equal(t, known{rev: 5}, k)
	for i := range 100 {
		r.see(string(rune('b'+i%20)), known{rev: uint64(i + 10)})
		_, ok := r.get("a")
		require.True(t, ok, "what is asked for is kept")
		require.LessOrEqual(t, len(r.young)+len(r.old), 8)
	}
	r.forget()
	_, ok = r.get("a")
	assert.False(t, ok)
}

func TestHeartbeatTellsOfLostMessages(t *testing.T) {
	w := &watch{consumer: 3}
	require.NoError(t, w.heartbeat(nats.Header{"Nats-Last-Consumer": {"3"}}))
	require.NoError(t, w.heartbeat(nats.Header{}))
	require.ErrorIs(t, w.heartbeat(nats.Header{"Nats-Last-Consumer": {"4"}}), errGap)
}

func TestMessageOutOfSequenceBreaksTheWatch(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	_, err := js.CreateStream(t.Context(), StreamConfig("b", 1))
	require.NoError(t, err)
	s, err := Open(t.Context(), js, "b")
	require.NoError(t, err)
	w, err := s.startWatch(t.Context(), "")
	require.NoError(t, err)
	for range 2 {
		_, err = s.Put(t.Context(), "k", nil)
		require.NoError(t, err)
	}
	e, err := w.next(t.Context())
	require.NoError(t, err)
	require.Equal(t, "k", e.Key)
	w.consumer-- // as if the first had never come
	_, err = w.next(t.Context())
	require.ErrorIs(t, err, errGap)
}
