package natskv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// requestTimeout bounds one operation, however long the caller would wait: an answer that has not
// come by then does not come, and the caller can do better than wait for it.
const requestTimeout = 5 * time.Second

// readTimeouts are the attempts of a read, together requestTimeout. A read is asked again because
// a stream without a leader answers nobody, and a leader elected meanwhile never sees the question
// that was asked before.
var readTimeouts = [...]time.Duration{time.Second, 2 * time.Second, 2 * time.Second}

// goneTimeout bounds the look whether a stream that nobody answers for still exists. Where it is
// gone the server says so at once; where it has no leader nobody says anything, and a lease that is
// to be renewed has no time for that.
const goneTimeout = 250 * time.Millisecond

// A replicated stream that shows less than was seen is looked at so often, with pauses that double, in
// all a third of a second: a replica that applies what is committed takes milliseconds.
const (
	verifyLooks = 6
	verifyPause = 10 * time.Millisecond
)

// rememberedKeys bounds the memory of revisions, per generation (see revisions).
const rememberedKeys = 8192

// The delete marker of JetStream KV, and the marker that the server itself leaves.
const (
	operationHeader = "KV-Operation"
	operationDelete = "DEL"
	operationPurge  = "PURGE"
)

// Store is one bucket. It implements kvsync.KVStore and kvsync.Watcher.
type Store struct {
	js       jetstream.JetStream
	conn     *nats.Conn
	stream   jetstream.Stream
	bucket   string
	subjects string // prefix of the subjects of keys
	revs     *revisions
	seen     progress
}

// Entry is the last message of a key.
type Entry struct {
	Key     string
	Value   []byte
	Rev     uint64
	Created time.Time
	// Deleted is a delete marker; its revision is the key's.
	Deleted bool
}

// Open returns the store on a bucket that exists and is fit. It creates and changes nothing: a
// missing bucket is an error that is jetstream.ErrBucketNotFound, an unfit one names each setting
// that differs from StreamConfig.
func Open(ctx context.Context, js jetstream.JetStream, bucket string) (*Store, error) {
	if err := CheckBucket(bucket); err != nil {
		return nil, err
	}
	s := &Store{
		js: js, conn: js.Conn(), bucket: bucket, subjects: subjectPrefix + bucket + ".",
		revs: newRevisions(rememberedKeys),
	}
	reconnects := s.conn.Stats().Reconnects
	octx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := js.Stream(octx, StreamName(bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("open %s: %w", bucket, jetstream.ErrBucketNotFound)
	}
	if err != nil {
		return nil, s.opError("open", "", err, false)
	}
	info := stream.CachedInfo()
	if diff := Differences(info.Config, bucket); len(diff) > 0 {
		return nil, fmt.Errorf("open %s: unfit configuration: %v", bucket, diff)
	}
	s.stream = stream
	s.seen = progress{created: info.Created, high: info.State.LastSeq, base: info.State.LastSeq, reconnects: reconnects}
	return s, nil
}

// Bucket returns the bucket's name.
func (s *Store) Bucket() string { return s.bucket }

// Seen returns what this store has seen of its stream so far, without asking it.
func (s *Store) Seen() Seen { return s.seen.seen() }

// Bounded implements kvsync.Bounded: every wait of this store ends with its context.
func (s *Store) Bounded() {}

// Load implements kvsync.KVStore.
func (s *Store) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	e, err := s.Get(ctx, key)
	return e.Value, e.Rev, err
}

// Get returns the entry of a key, or an error that is kvsync.ErrNotFound when it is absent or deleted.
func (s *Store) Get(ctx context.Context, key string) (Entry, error) {
	e, err := s.Last(ctx, key)
	if err != nil {
		return Entry{}, err
	}
	if e.Deleted {
		return Entry{}, &Error{Op: "load", Bucket: s.bucket, Key: key, Kind: kvsync.ErrNotFound}
	}
	return e, nil
}

// Last returns the last message of a key as the stream's leader has it, also a delete marker. It is
// kvsync.ErrNotFound only when the key was never written.
func (s *Store) Last(ctx context.Context, key string) (Entry, error) {
	if err := CheckKey(key); err != nil {
		return Entry{}, err
	}
	if err := s.ready(ctx, "load", key); err != nil {
		return Entry{}, err
	}
	e, err := s.read(ctx, key)
	if errors.Is(err, errReplaced) {
		e, err = s.read(ctx, key)
	}
	return e, err
}

// errReplaced is an answer of another stream than the one before, which has taken its place.
var errReplaced = errors.New("natskv: the stream was replaced")

// read is Last without its checks.
func (s *Store) read(ctx context.Context, key string) (Entry, error) {
	before, wasKnown := s.revs.get(key)
	msg, err := s.lastMessage(ctx, key)
	if err != nil {
		err = s.opError("load", key, err, false)
		if wasKnown && errors.Is(err, kvsync.ErrNotFound) {
			return Entry{}, s.staleRead(ctx, key, before.rev, 0)
		}
		return Entry{}, err
	}
	e := Entry{Key: key, Value: msg.Data, Rev: msg.Sequence, Created: msg.Time, Deleted: IsMarker(msg.Header)}
	if wasKnown && e.Rev < before.rev {
		return Entry{}, s.staleRead(ctx, key, before.rev, e.Rev)
	}
	s.seen.saw(e.Rev)
	s.revs.see(key, known{rev: e.Rev, deleted: e.Deleted})
	return e, nil
}

// lastMessage asks the leader for the last message of a key.
func (s *Store) lastMessage(ctx context.Context, key string) (*jetstream.RawStreamMsg, error) {
	return asked(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return s.stream.GetLastMsgForSubject(ctx, s.subjects+key)
	})
}

// asked reads, again when nobody answers.
func asked[T any](ctx context.Context, read func(context.Context) (T, error)) (v T, err error) {
	for _, timeout := range readTimeouts {
		actx, cancel := context.WithTimeout(ctx, timeout)
		v, err = read(actx)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return v, err
		}
	}
	return v, err
}

// staleRead explains an answer that is older than what this store has seen of the key: the stream
// lost something, is another one now, or the one who answered is not its leader any more.
func (s *Store) staleRead(ctx context.Context, key string, seen, got uint64) error {
	if err := s.Verify(ctx); err != nil {
		return err
	}
	if _, wasKnown := s.revs.get(key); !wasKnown {
		return s.unsent("load", key, errReplaced)
	}
	return s.unsent("load", key, fmt.Errorf("stale answer: revision %d, %d had been seen", got, seen))
}

// Verify looks at the stream and returns an error that is kvsync.ErrStoreRegressed when it is gone
// or shows less than was seen before.
//
// The leader of a replicated stream may show less for a moment: a watch that is served by another
// replica has sent what the leader has not applied yet. Only what stays short has regressed.
func (s *Store) Verify(ctx context.Context) error {
	mark := s.seen.mark()
	wait := verifyPause
	for tries := 1; ; tries++ {
		why, replicated, err := s.look(ctx, mark)
		switch {
		case err != nil:
			return err
		case why == "":
			return nil
		case !replicated || tries == verifyLooks:
			return s.regressed("verify", "", why)
		}
		select {
		case <-time.After(wait):
			wait *= 2
		case <-ctx.Done():
			return s.unsent("verify", "", fmt.Errorf("%w while a replicated stream was short: %s", cause(ctx), why))
		}
	}
}

// look looks at the stream once. why says what is wrong with it when mark had been seen before.
func (s *Store) look(ctx context.Context, mark uint64) (why string, replicated bool, err error) {
	l := look{mark: mark, reconnects: s.conn.Stats().Reconnects}
	info, err := asked(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) { return s.stream.Info(ctx) })
	if err != nil {
		return "", false, s.opError("verify", "", err, false)
	}
	l.created, l.lastSeq, l.replicas = info.Created, info.State.LastSeq, info.Config.Replicas
	l.firstSeq = info.Config.FirstSeq
	why, replaced := s.seen.looked(l)
	if replaced {
		s.revs.forget()
	}
	return why, l.replicas > 1, nil
}

func (s *Store) regressed(op, key, why string) error {
	return &Error{Op: op, Bucket: s.bucket, Key: key, Kind: kvsync.ErrStoreRegressed, Err: errors.New(why)}
}

// ready reports why an operation should not be sent now.
func (s *Store) ready(ctx context.Context, op, key string) error {
	if ctx.Err() != nil {
		return s.unsent(op, key, cause(ctx))
	}
	// A request on a broken connection would wait in the reconnect buffer, where there is one, and
	// be sent when nobody waits for it any more.
	if status := s.conn.Status(); status != nats.CONNECTED {
		return s.unsent(op, key, fmt.Errorf("connection %s", status))
	}
	if s.seen.stale(s.conn.Stats().Reconnects) {
		return s.Verify(ctx)
	}
	return nil
}

// IsMarker reports whether a message says that its key is deleted: by a client, or by the server
// when it dropped the last message for its age or a purge.
func IsMarker(h nats.Header) bool {
	switch h.Get(operationHeader) {
	case operationDelete, operationPurge:
		return true
	}
	return h.Get(jetstream.MarkerReasonHeader) != ""
}
