package kvstore_test

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/internal/testkit"
)

type part struct {
	Name string `json:"name"`
	Size int    `json:"size,omitzero"`
}

type common struct {
	Owner string `json:"owner,omitzero"`
}

// thing is a record as this release knows it.
type thing struct {
	common
	Name    string            `json:"name"`
	Count   int               `json:"count"`
	Note    string            `json:"note,omitzero"`
	At      time.Time         `json:"at,omitzero"`
	Inner   *part             `json:"inner,omitzero"`
	Parts   []part            `json:"parts,omitzero"`
	ByName  map[string]part   `json:"by_name,omitzero"`
	Tags    map[string]string `json:"tags,omitzero"`
	private int
}

func newThings(t *testing.T, version int) *kvstore.Store[thing] {
	t.Helper()
	_, _, js := testkit.StartTestJetStream(t)
	return kvstore.NewStore[thing](kvstore.Open(js, "things"), version)
}

func TestStoreRoundTrip(t *testing.T) {
	s := newThings(t, 1)
	ctx := t.Context()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	in := &thing{common: common{"me"}, Name: "n", Count: 1, At: at, Inner: &part{Name: "i"}, Parts: []part{{Name: "p"}}, private: 1}
	rev, err := s.Create(ctx, "a.k", in)
	require.NoError(t, err)
	_, err = s.Create(ctx, "a.k", in)
	require.ErrorIs(t, err, kvstore.ErrConflict)
	out, got, err := s.Get(ctx, "a.k")
	require.NoError(t, err)
	assert.Equal(t, rev, got)
	want := *in
	want.private = 0
	assert.Equal(t, &want, out)
	e, err := s.Bucket().Get(ctx, "a.k")
	require.NoError(t, err)
	assert.JSONEq(t, `{"version":1,"owner":"me","name":"n","count":1,"at":"2026-01-02T03:04:05.000000006Z",
		"inner":{"name":"i"},"parts":[{"name":"p"}]}`, string(e.Value))

	require.ErrorIs(t, s.DeleteAt(ctx, "a.k", rev-1), kvstore.ErrConflict)
	require.NoError(t, s.DeleteAt(ctx, "a.k", rev))
	require.NoError(t, s.Delete(ctx, "a.k"))
	_, _, err = s.Get(ctx, "a.k")
	require.ErrorIs(t, err, kvstore.ErrNotFound)
	_, _, err = s.Update(ctx, "a.k", func(*thing) error { return nil })
	require.ErrorIs(t, err, kvstore.ErrNotFound)
}

func TestStoreUpdateCountsEveryone(t *testing.T) {
	s := newThings(t, 1)
	ctx := t.Context()
	_, err := s.Create(ctx, "k", &thing{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				_, _, err := s.Update(ctx, "k", func(v *thing) error { v.Count++; return nil })
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	v, rev, err := s.Get(ctx, "k")
	require.NoError(t, err)
	assert.Equal(t, 40, v.Count)

	boom := errors.New("boom")
	_, _, err = s.Update(ctx, "k", func(v *thing) error { v.Count = 0; return boom })
	require.Equal(t, boom, err)
	_, got, err := s.Update(ctx, "k", func(*thing) error { return nil })
	require.NoError(t, err)
	assert.Equal(t, rev, got, "nothing is written when nothing changed")
}

func TestStoreKeepsWhatItDoesNotKnow(t *testing.T) {
	s := newThings(t, 1)
	ctx := t.Context()
	newer := `{
		"version": 1, "name": "n", "count": 1, "future": {"deep": [1, 2.50, 12345678901234567890]},
		"note": "known", "at": "2026-01-02T03:04:05Z",
		"inner": {"name": "i", "colour": "red"},
		"parts": [{"name": "a", "weight": 1}, {"name": "b", "weight": 2}, {"name": "c", "weight": 3}],
		"by_name": {"x": {"name": "x", "weight": 4}, "y": {"name": "y", "weight": 5}},
		"tags": {"k": "v"}
	}`
	_, err := s.Bucket().Put(ctx, "k", []byte(newer))
	require.NoError(t, err)
	_, _, err = s.Update(ctx, "k", func(v *thing) error {
		v.Count, v.Note = 2, ""
		v.Inner.Size = 9
		// One is changed, one is gone, one is new; the third moves.
		v.Parts = []part{{Name: "new"}, v.Parts[2], {Name: "a", Size: 7}}
		delete(v.ByName, "y")
		v.ByName["z"] = part{Name: "z"}
		v.Tags = map[string]string{"other": "w"}
		return nil
	})
	require.NoError(t, err)
	e, err := s.Bucket().Get(ctx, "k")
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"version": 1, "name": "n", "count": 2, "future": {"deep": [1, 2.50, 12345678901234567890]},
		"at": "2026-01-02T03:04:05Z",
		"inner": {"name": "i", "size": 9, "colour": "red"},
		"parts": [{"name": "new"}, {"name": "c", "weight": 3}, {"name": "a", "size": 7}],
		"by_name": {"x": {"name": "x", "weight": 4}, "z": {"name": "z"}},
		"tags": {"other": "w"}
	}`, string(e.Value))
	assert.Contains(t, string(e.Value), "12345678901234567890", "numbers are not rounded")

	v, _, err := s.Get(ctx, "k")
	require.NoError(t, err)
	fenced, err := s.EncodeOver(e.Value, v)
	require.NoError(t, err)
	assert.Equal(t, string(e.Value), string(fenced), "no change, no difference")
}

func TestStoreRefusesANewerVersion(t *testing.T) {
	s := newThings(t, 2)
	ctx := t.Context()
	for key, value := range map[string]string{
		"a.1": `{"name":"no version"}`, "a.2": `{"version":1,"name":"older"}`, "a.3": `{"version":2,"name":"same"}`,
		"a.4": `{"version":3,"name":"newer"}`, "a.5": `not JSON`, "a.6": `{"version":"two"}`,
	} {
		_, err := s.Bucket().Put(ctx, key, []byte(value))
		require.NoError(t, err)
	}
	for _, key := range []string{"a.1", "a.2", "a.3"} {
		_, _, err := s.Update(ctx, key, func(v *thing) error { v.Count++; return nil })
		require.NoError(t, err, key)
		e, err := s.Bucket().Get(ctx, key)
		require.NoError(t, err)
		assert.Contains(t, string(e.Value), `"version":2`)
	}
	_, _, err := s.Get(ctx, "a.4")
	require.ErrorIs(t, err, kvstore.ErrNewerVersion)
	require.ErrorContains(t, err, "things a.4")
	_, _, err = s.Update(ctx, "a.4", func(*thing) error { t.Error("called"); return nil })
	require.ErrorIs(t, err, kvstore.ErrNewerVersion)
	e, err := s.Bucket().Get(ctx, "a.4")
	require.NoError(t, err)
	assert.JSONEq(t, `{"version":3,"name":"newer"}`, string(e.Value))
	_, _, err = s.Get(ctx, "a.5")
	require.ErrorContains(t, err, "decode record")

	var names, bad []string
	for r, err := range s.List(ctx, "a.") {
		if err != nil {
			bad = append(bad, r.Key)
			continue
		}
		assert.NotZero(t, r.Rev)
		assert.False(t, r.Created.IsZero())
		names = append(names, r.Value.Name)
	}
	assert.Equal(t, []string{"no version", "older", "same"}, names)
	assert.Equal(t, []string{"a.4", "a.5", "a.6"}, bad)
}

func TestStoreOfWhatIsNoObject(t *testing.T) {
	_, _, js := testkit.StartTestJetStream(t)
	s := kvstore.NewStore[[]int](kvstore.Open(js, "b"), 1)
	_, err := s.Create(t.Context(), "k", &[]int{1})
	require.ErrorContains(t, err, "no JSON object")
}

func TestStoreUnderAFence(t *testing.T) {
	s := newThings(t, 1)
	ctx := t.Context()
	f, err := s.Bucket().Fence(ctx, lease, kvsync.Token{Holder: "a", Generation: 1})
	require.NoError(t, err)
	value, err := s.Encode(&thing{Name: "guarded"})
	require.NoError(t, err)
	assert.True(t, json.Valid(value))
	rev, err := f.Put(ctx, "k", value)
	require.NoError(t, err)
	v, got, err := s.Get(ctx, "k")
	require.NoError(t, err)
	assert.Equal(t, rev, got)
	assert.Equal(t, "guarded", v.Name)
}
