package natskv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

const (
	// heartbeat is how often the server says that a watch without changes lives.
	heartbeat = 3 * time.Second
	// silence breaks a watch: three heartbeats and the time they take.
	silence = 10 * time.Second
	// abandoned is how long the server keeps the consumer of a watch that has ended: long enough
	// for the subscription to be known on another server, short enough that a client whose
	// connection flaps does not leave a crowd of them behind.
	abandoned = 2 * time.Second
	// watchBuffer is how many changes wait for a slow receiver outside of the client library.
	watchBuffer = 64
)

// errGap is a watch that lost a message.
var errGap = errors.New("natskv: watch lost messages")

// Change is one step of a watch.
type Change struct {
	Entry
	// Ready is set, alone, once the entries that existed when the watch began have all been sent.
	Ready bool
}

// Watch implements kvsync.Watcher. "" watches all keys.
func (s *Store) Watch(ctx context.Context, keyOrPrefix string) (<-chan kvsync.Update, error) {
	return watchAs(ctx, s, keyOrPrefix, func(c Change) (kvsync.Update, bool) {
		return kvsync.Update{Key: c.Key, Value: c.Value, Rev: c.Rev, Deleted: c.Deleted}, !c.Ready
	})
}

// Follow is Watch with the time of each entry and a step that says when the current ones are
// through. The channel closes when ctx ends or the watch breaks: nothing is resumed behind the
// receiver's back, who watches again and gets the current entries anew.
func (s *Store) Follow(ctx context.Context, keyOrPrefix string) (<-chan Change, error) {
	return watchAs(ctx, s, keyOrPrefix, func(c Change) (Change, bool) { return c, true })
}

// watchAs starts a watch that sends what convert makes of each change, and wants sent.
func watchAs[T any](ctx context.Context, s *Store, keyOrPrefix string, convert func(Change) (T, bool)) (<-chan T, error) {
	wctx, cancel := context.WithCancelCause(ctx)
	w, err := s.startWatch(wctx, keyOrPrefix)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	out := make(chan T, watchBuffer)
	go func() {
		defer close(out)
		w.run(wctx, cancel, func(c Change) bool {
			v, wanted := convert(c)
			if !wanted {
				return true
			}
			select {
			case out <- v:
				return true
			case <-wctx.Done():
				return false
			}
		})
	}()
	return out, nil
}

// watch is a running push consumer.
type watch struct {
	s        *Store
	exact    string // the key, when one key is watched
	sub      *nats.Subscription
	status   chan nats.Status
	pending  uint64 // entries that existed at the start and have not been received
	consumer uint64 // the last sequence of the consumer that was received
}

// startWatch makes the consumer. The subscription is there before the consumer is, so nothing is
// pushed to nobody; the status listener before either, so no break goes unseen.
func (s *Store) startWatch(ctx context.Context, keyOrPrefix string) (*watch, error) {
	filter, err := s.filter(keyOrPrefix)
	if err != nil {
		return nil, err
	}
	if err := s.ready(ctx, "watch", keyOrPrefix); err != nil {
		return nil, err
	}
	status := s.conn.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	inbox := s.conn.NewInbox()
	sub, err := s.conn.SubscribeSync(inbox)
	if err != nil {
		s.conn.RemoveStatusListener(status)
		return nil, s.opError("watch", keyOrPrefix, err, false)
	}
	cctx, done := context.WithTimeout(ctx, requestTimeout)
	defer done()
	consumer, err := s.js.CreatePushConsumer(cctx, StreamName(s.bucket), jetstream.ConsumerConfig{
		DeliverSubject:    inbox,
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy:         jetstream.AckNonePolicy,
		FilterSubject:     filter,
		IdleHeartbeat:     heartbeat,
		InactiveThreshold: abandoned,
		MemoryStorage:     true,
		Replicas:          1,
	})
	if err != nil {
		_ = sub.Unsubscribe()
		s.conn.RemoveStatusListener(status)
		return nil, s.opError("watch", keyOrPrefix, err, false)
	}
	w := &watch{s: s, exact: keyOrPrefix, sub: sub, status: status}
	info := consumer.CachedInfo()
	w.pending = info.NumPending + info.Delivered.Consumer
	return w, nil
}

// run sends the changes until ctx ends, the watch breaks or send says so.
func (w *watch) run(ctx context.Context, cancel context.CancelCauseFunc, send func(Change) bool) {
	defer cancel(nil)
	defer func() {
		// The server drops the consumer when nobody is subscribed any more.
		_ = w.sub.Unsubscribe()
		w.s.conn.RemoveStatusListener(w.status)
	}()
	// A consumer in memory does not survive its server, and what was pushed into a broken
	// connection is lost: the watch ends with the connection.
	go func() {
		select {
		case <-w.status:
			cancel(nats.ErrDisconnected)
		case <-ctx.Done():
		}
	}()
	ready := w.pending == 0
	if ready && !send(Change{Ready: true}) {
		return
	}
	for {
		c, err := w.next(ctx)
		if err != nil {
			return
		}
		if c == nil {
			continue
		}
		if (!Reserved(c.Key) || c.Key == w.exact) && !send(Change{Entry: c.Entry}) {
			return
		}
		if !ready && (c.last || w.consumer >= w.pending) {
			ready = true
			if !send(Change{Ready: true}) {
				return
			}
		}
	}
}

// received is an entry and whether nothing was pending behind it.
type received struct {
	Entry
	last bool
}

// next waits for one message. A heartbeat is nil without an error.
func (w *watch) next(ctx context.Context) (*received, error) {
	rctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	msg, err := w.sub.NextMsgWithContext(rctx)
	if err != nil {
		return nil, err
	}
	if len(msg.Data) == 0 && msg.Header.Get("Status") != "" {
		return nil, w.heartbeat(msg.Header)
	}
	meta, err := msg.Metadata()
	if err != nil {
		return nil, err
	}
	if meta.Sequence.Consumer != w.consumer+1 {
		return nil, fmt.Errorf("%w: message %d follows %d", errGap, meta.Sequence.Consumer, w.consumer)
	}
	w.consumer++
	e := Entry{
		Key: msg.Subject[len(w.s.subjects):], Value: msg.Data, Rev: meta.Sequence.Stream,
		Created: meta.Timestamp, Deleted: IsMarker(msg.Header),
	}
	w.s.seen.saw(e.Rev)
	w.s.revs.see(e.Key, known{rev: e.Rev, deleted: e.Deleted})
	return &received{Entry: e, last: meta.NumPending == 0}, nil
}

// heartbeat checks that nothing was lost before a silence.
func (w *watch) heartbeat(h nats.Header) error {
	last, err := strconv.ParseUint(h.Get("Nats-Last-Consumer"), 10, 64)
	if err == nil && last > w.consumer {
		return fmt.Errorf("%w: %d of %d received", errGap, w.consumer, last)
	}
	return nil
}
