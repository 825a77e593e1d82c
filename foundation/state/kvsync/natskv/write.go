package natskv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// MaxBatch bounds the messages of one atomic batch: 100 writes and what guards them.
const MaxBatch = 101

// Headers of an atomic batch. The client library has no API for one.
const (
	batchIDHeader     = "Nats-Batch-Id"
	batchSeqHeader    = "Nats-Batch-Sequence"
	batchCommitHeader = "Nats-Batch-Commit"
)

// Message is one write. At most one of Expect and Guard may be set: a message carries one condition.
type Message struct {
	Key    string
	Value  []byte
	Delete bool // a delete marker; Value is not sent
	// Expect is the sequence that the key's last message must have, marker included; 0 means that
	// the key was never written. nil expects nothing.
	Expect *uint64
	// Guard is the condition that the last message of another key has a sequence.
	Guard *Guard
}

// Guard is a condition on another key than the one written.
type Guard struct {
	Key string
	Seq uint64
}

// CompareAndSwap implements kvsync.KVStore. It takes one round trip, two when rev is 0 and it is
// not known how the key was last deleted.
func (s *Store) CompareAndSwap(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	if rev != 0 {
		return s.Send(ctx, "swap", Message{Key: key, Value: value, Expect: &rev})
	}
	return s.create(ctx, key, value)
}

// CompareAndDelete implements kvsync.KVStore.
func (s *Store) CompareAndDelete(ctx context.Context, key string, rev uint64) error {
	if rev == 0 {
		return &Error{Op: "delete", Bucket: s.bucket, Key: key, Kind: kvsync.ErrRevisionMismatch,
			Err: errors.New("revision 0 is never a key's")}
	}
	_, err := s.Send(ctx, "delete", Message{Key: key, Delete: true, Expect: &rev})
	return err
}

// Put writes a key whatever it holds.
func (s *Store) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return s.Send(ctx, "put", Message{Key: key, Value: value})
}

// Delete writes a delete marker whatever the key holds and returns its revision.
func (s *Store) Delete(ctx context.Context, key string) (uint64, error) {
	return s.Send(ctx, "delete", Message{Key: key, Delete: true})
}

// create writes a key that is absent or deleted. A memory that turns out old costs one more try.
func (s *Store) create(ctx context.Context, key string, value []byte) (uint64, error) {
	for again := false; ; again = true {
		expect, err := s.Absent(ctx, key, again)
		if err != nil {
			return 0, err
		}
		rev, err := s.Send(ctx, "create", Message{Key: key, Value: value, Expect: &expect})
		// Only a plain refusal says that the memory may be old; one in flight says nothing yet.
		if again || !errors.Is(err, kvsync.ErrRevisionMismatch) || errors.Is(err, ErrInFlight) {
			return rev, err
		}
	}
}

// Absent returns the sequence that a write of an absent or deleted key has to expect: that of its
// delete marker, 0 for a key never written. It is known or else asked of the leader, always when
// fresh. A key that exists is kvsync.ErrRevisionMismatch.
func (s *Store) Absent(ctx context.Context, key string, fresh bool) (uint64, error) {
	if k, ok := s.revs.get(key); ok && k.deleted && !fresh {
		return k.rev, nil
	}
	e, err := s.Last(ctx, key)
	switch {
	case errors.Is(err, kvsync.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case !e.Deleted:
		return 0, &Error{Op: "create", Bucket: s.bucket, Key: key, Kind: kvsync.ErrRevisionMismatch,
			Err: fmt.Errorf("revision is %d", e.Rev)}
	}
	return e.Rev, nil
}

// Send sends one write and returns its sequence. It is sent at most once.
func (s *Store) Send(ctx context.Context, op string, m Message) (uint64, error) {
	msg, err := s.message(m)
	if err != nil {
		return 0, &Error{Op: op, Bucket: s.bucket, Key: m.Key, Err: err}
	}
	if err := s.ready(ctx, op, m.Key); err != nil {
		return 0, err
	}
	mark := s.seen.mark()
	wctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ack, err := s.js.PublishMsg(wctx, msg, jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, s.writeError(ctx, op, m.Key, err)
	}
	if why := s.seen.acked(mark, ack.Sequence); why != "" {
		return 0, s.regressed(op, m.Key, why)
	}
	s.revs.see(m.Key, known{rev: ack.Sequence, deleted: m.Delete})
	return ack.Sequence, nil
}

// SendBatch sends writes that land all or not at all, and returns the sequence of the last. Their
// keys must differ, and a key that a message expects or guards must not be written before it.
func (s *Store) SendBatch(ctx context.Context, op string, batch []Message) (uint64, error) {
	if len(batch) == 0 || len(batch) > MaxBatch {
		return 0, fmt.Errorf("%s %s: batch of %d messages, must be 1 to %d", op, s.bucket, len(batch), MaxBatch)
	}
	id := nuid.Next()
	msgs := make([]*nats.Msg, len(batch))
	keys := make([]string, len(batch))
	for i, m := range batch {
		msg, err := s.message(m)
		if err != nil {
			return 0, &Error{Op: op, Bucket: s.bucket, Key: m.Key, Err: err}
		}
		msg.Header.Set(batchIDHeader, id)
		msg.Header.Set(batchSeqHeader, strconv.Itoa(i+1))
		msgs[i], keys[i] = msg, m.Key
	}
	slices.Sort(keys)
	if len(slices.Compact(keys)) != len(batch) {
		return 0, fmt.Errorf("%s %s: a key is written twice in one batch", op, s.bucket)
	}
	last := len(batch) - 1
	msgs[last].Header.Set(batchCommitHeader, "1")
	key := batch[last].Key
	if err := s.ready(ctx, op, key); err != nil {
		return 0, err
	}
	mark := s.seen.mark()
	for _, msg := range msgs[:last] {
		// Without an answer asked for: whatever is wrong with one, the commit says so.
		if err := s.conn.PublishMsg(msg); err != nil {
			// Without its commit the batch is abandoned by the server.
			return 0, s.unsent(op, key, err)
		}
	}
	seq, err := s.commit(ctx, msgs[last])
	if err != nil {
		return 0, s.writeError(ctx, op, key, err)
	}
	if why := s.seen.acked(mark, seq); why != "" {
		return 0, s.regressed(op, key, why)
	}
	for i, m := range batch {
		s.revs.see(m.Key, known{rev: seq - uint64(last-i), deleted: m.Delete})
	}
	return seq, nil
}

// commit sends the last message of a batch and reads the answer, which the client library's
// publish would take too, were its acknowledgement not for one message.
func (s *Store) commit(ctx context.Context, msg *nats.Msg) (uint64, error) {
	wctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := s.conn.RequestMsgWithContext(wctx, msg)
	if err != nil {
		return 0, err
	}
	var ack struct {
		Error    *jetstream.APIError `json:"error"`
		Stream   string              `json:"stream"`
		Sequence uint64              `json:"seq"`
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return 0, fmt.Errorf("%w: %w", jetstream.ErrInvalidJSAck, err)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	if ack.Stream == "" || ack.Sequence == 0 {
		return 0, jetstream.ErrInvalidJSAck
	}
	return ack.Sequence, nil
}

// writeError builds the error of a write that was sent. Nobody there to receive it is what a
// deleted stream looks like to a publisher, so then the stream is looked for.
func (s *Store) writeError(ctx context.Context, op, key string, err error) error {
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		gctx, cancel := context.WithTimeout(ctx, goneTimeout)
		defer cancel()
		if gone := s.Verify(gctx); errors.Is(gone, kvsync.ErrStoreRegressed) {
			return &Error{Op: op, Bucket: s.bucket, Key: key, Kind: kvsync.ErrStoreRegressed, Err: gone}
		}
	}
	return s.opError(op, key, err, true)
}

// message builds the message of a write.
func (s *Store) message(m Message) (*nats.Msg, error) {
	if err := CheckKey(m.Key); err != nil {
		return nil, err
	}
	msg := nats.NewMsg(s.subjects + m.Key)
	if m.Delete {
		msg.Header.Set(operationHeader, operationDelete)
	} else {
		msg.Data = m.Value
	}
	switch {
	case m.Expect != nil && m.Guard != nil:
		return nil, errors.New("a message carries one condition, not two")
	case m.Expect != nil:
		msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(*m.Expect, 10))
	case m.Guard != nil:
		if err := CheckKey(m.Guard.Key); err != nil {
			return nil, err
		}
		msg.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, s.subjects+m.Guard.Key)
		msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(m.Guard.Seq, 10))
	}
	return msg, nil
}
