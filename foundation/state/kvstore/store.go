package kvstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"
)

// updateTries bounds how often Update computes a record anew because another writer came first.
const updateTries = 32

// versionMember is the member of every record that holds its major version.
const versionMember = "version"

// Store keeps records of one type as JSON objects in a bucket.
//
// Members that T does not know, written by a newer release, survive a rewrite: of the record, of
// objects in it, and of the elements of a list that the rewrite leaves as they were. A record whose
// member "version" is higher than the store's is ErrNewerVersion, to readers and writers alike.
type Store[T any] struct {
	bucket  *Bucket
	version int
}

// Record is one record of a list.
type Record[T any] struct {
	Key   string
	Value *T
	// Rev is the revision, Created the server's time of its write.
	Rev     uint64
	Created time.Time
}

// NewStore returns the store of records of type T, a struct, at that major version. It does no I/O.
func NewStore[T any](b *Bucket, version int) *Store[T] {
	return &Store[T]{bucket: b, version: version}
}

// Bucket returns the bucket of the records.
func (s *Store[T]) Bucket() *Bucket { return s.bucket }

// Get returns the record of a key and its revision, or ErrNotFound.
func (s *Store[T]) Get(ctx context.Context, key string) (*T, uint64, error) {
	e, err := s.bucket.Get(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	v, err := s.decode(key, e.Value)
	return v, e.Rev, err
}

// Create writes the record of a key that is absent or deleted, else it is ErrConflict.
func (s *Store[T]) Create(ctx context.Context, key string, v *T) (uint64, error) {
	value, err := s.Encode(v)
	if err != nil {
		return 0, fmt.Errorf("create %s %s: %w", s.bucket.name, key, err)
	}
	return s.bucket.Create(ctx, key, value)
}

// Update changes a record: it calls change with the current one and writes the outcome when nobody
// else has written meanwhile, else it starts again. It returns the record and its revision. An
// error of change is returned as it is and nothing is written; neither is a record that change
// leaves as it was. change may be called several times and must do nothing else.
func (s *Store[T]) Update(ctx context.Context, key string, change func(*T) error) (*T, uint64, error) {
	var err error
	for range updateTries {
		var e Entry
		if e, err = s.bucket.Get(ctx, key); err != nil {
			return nil, 0, err
		}
		v, derr := s.decode(key, e.Value)
		if derr != nil {
			return nil, 0, derr
		}
		if err := change(v); err != nil {
			return nil, 0, err
		}
		value, eerr := s.EncodeOver(e.Value, v)
		if eerr != nil {
			return nil, 0, fmt.Errorf("update %s %s: %w", s.bucket.name, key, eerr)
		}
		if bytes.Equal(value, e.Value) {
			return v, e.Rev, nil
		}
		var rev uint64
		if rev, err = s.bucket.Update(ctx, key, value, e.Rev); err == nil {
			return v, rev, nil
		}
		if !errors.Is(err, ErrConflict) {
			return nil, 0, err
		}
		if perr := pause(ctx); perr != nil {
			return nil, 0, err
		}
	}
	return nil, 0, fmt.Errorf("update %s %s: %d tries: %w", s.bucket.name, key, updateTries, err)
}

// Delete deletes a record whatever it holds; one that is absent is no error.
func (s *Store[T]) Delete(ctx context.Context, key string) error { return s.bucket.Delete(ctx, key) }

// DeleteAt deletes a record that is at revision rev, else it is ErrConflict.
func (s *Store[T]) DeleteAt(ctx context.Context, key string, rev uint64) error {
	return s.bucket.DeleteAt(ctx, key, rev)
}

// List yields the records below a prefix that ends in a dot, or all for "", in the order of their
// keys. A record that cannot be read is yielded with its key and an error, and the list goes on; an
// error without a key ends it, and then the list is not complete.
func (s *Store[T]) List(ctx context.Context, prefix string) iter.Seq2[Record[T], error] {
	return func(yield func(Record[T], error) bool) {
		for e, err := range s.bucket.List(ctx, prefix) {
			if err != nil {
				yield(Record[T]{}, err)
				return
			}
			v, err := s.decode(e.Key, e.Value)
			if !yield(Record[T]{Key: e.Key, Value: v, Rev: e.Rev, Created: e.Created}, err) {
				return
			}
		}
	}
}

// Encode returns the stored form of a new record, for a guarded write.
func (s *Store[T]) Encode(v *T) ([]byte, error) { return s.EncodeOver(nil, v) }

// EncodeOver returns the stored form of a record that replaces old, with the members of old that T
// does not know. old may be nil.
func (s *Store[T]) EncodeOver(old []byte, v *T) ([]byte, error) {
	value, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if old != nil && s.hasUnknown(old) {
		value = mergeUnknown(old, value, reflect.TypeFor[T]())
	}
	return s.stamped(value)
}

// Decode returns the record of a stored form, or ErrNewerVersion.
func (s *Store[T]) Decode(value []byte) (*T, error) {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(value, &head); err != nil {
		return nil, fmt.Errorf("decode record: %w", err)
	}
	if head.Version > s.version {
		return nil, fmt.Errorf("%w: record version %d, this release knows %d", ErrNewerVersion, head.Version, s.version)
	}
	v := new(T)
	if err := json.Unmarshal(value, v); err != nil {
		return nil, fmt.Errorf("decode record: %w", err)
	}
	return v, nil
}

func (s *Store[T]) decode(key string, value []byte) (*T, error) {
	v, err := s.Decode(value)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", s.bucket.name, key, err)
	}
	return v, nil
}

// hasUnknown reports whether a stored record has anything that T would drop: whatever was stored
// from T alone is stored from it again in the same form.
func (s *Store[T]) hasUnknown(old []byte) bool {
	v := new(T)
	if json.Unmarshal(old, v) != nil {
		return true
	}
	same, err := json.Marshal(v)
	if err != nil {
		return true
	}
	same, err = s.stamped(same)
	return err != nil || !bytes.Equal(same, old)
}

// stamped sets the version of an encoded record; its members come out sorted.
func (s *Store[T]) stamped(value []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(value, &members); err != nil || members == nil {
		return nil, fmt.Errorf("record of type %s is no JSON object", reflect.TypeFor[T]())
	}
	members[versionMember] = json.RawMessage(fmt.Sprint(s.version))
	return json.Marshal(members)
}
