package natskv

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// listChunk is how many keys a list reads at a time.
const listChunk = 64

// Keys returns the keys that match (see kvsync.Watcher; "" is all keys) as the stream's leader has
// them, sorted, with deleted ones and without reserved ones. It is complete or an error.
func (s *Store) Keys(ctx context.Context, keyOrPrefix string) ([]string, error) {
	filter, err := s.filter(keyOrPrefix)
	if err != nil {
		return nil, err
	}
	if err := s.ready(ctx, "list", keyOrPrefix); err != nil {
		return nil, err
	}
	info, err := asked(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		return s.stream.Info(ctx, jetstream.WithSubjectFilter(filter))
	})
	if err != nil {
		return nil, s.opError("list", keyOrPrefix, err, false)
	}
	keys := make([]string, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		key := strings.TrimPrefix(subject, s.subjects)
		if !Reserved(key) || key == keyOrPrefix {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// List yields the entries that match in the order of their keys, without deleted and reserved ones.
// Each entry is read from the stream's leader, not through a consumer: the server may put one on a
// replica that lags, and what a list does not show must not be there. A key that exists all through
// the list is in it; one written or deleted meanwhile may be. An error ends the list.
func (s *Store) List(ctx context.Context, keyOrPrefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		keys, err := s.Keys(ctx, keyOrPrefix)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for chunk := range slices.Chunk(keys, listChunk) {
			entries, err := s.getAll(ctx, chunk)
			for _, e := range entries {
				if e.Rev != 0 && !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
		}
	}
}

// getAll reads keys at once. The entry of a deleted key, or of one behind an error, is zero.
func (s *Store) getAll(ctx context.Context, keys []string) ([]Entry, error) {
	entries := make([]Entry, len(keys))
	errs := make([]error, len(keys))
	var wg sync.WaitGroup
	for i, key := range keys {
		wg.Go(func() { entries[i], errs[i] = s.Get(ctx, key) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil && !errors.Is(err, kvsync.ErrNotFound) {
			return entries[:i], err
		}
	}
	return entries, nil
}
