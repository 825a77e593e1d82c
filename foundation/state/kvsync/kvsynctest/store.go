package kvsynctest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// Kind is the kind of a request.
type Kind string

// The kinds of requests.
const (
	Load   Kind = "load"
	Swap   Kind = "swap"
	Delete Kind = "delete"
	Watch  Kind = "watch"
)

// Request is one request of a Client, as its Fault sees it.
type Request struct {
	Kind Kind
	Key  string
	// N counts the client's requests of this kind, from 1.
	N int
}

// Fate is what happens to a request. The zero Fate is that it is carried out at once.
type Fate struct {
	// Delay before the request reaches the store.
	Delay time.Duration
	// Reply delays the answer after the request was carried out.
	Reply time.Duration
	// Lost never reaches the store; the client waits out its timeout.
	Lost bool
	// Unanswered is carried out, but the answer is lost; the client waits out its timeout.
	Unanswered bool
	// Late, when positive, carries the request out so much later than the client was told that it got
	// no answer.
	Late time.Duration
	// Err is answered instead of carrying the request out.
	Err error
	// Stale answers a Load from the value before the last write of the key.
	Stale bool
	// Stuck ignores the context: the call returns only when Release is closed.
	Stuck <-chan struct{}
}

// Server is the store that all clients share. The zero value is not usable; see NewServer.
type Server struct {
	mu       sync.Mutex // guards everything below
	seq      uint64
	entries  map[string][]entry // history, newest last
	watchers map[*watcher]struct{}
}

type entry struct {
	value   []byte
	rev     uint64
	deleted bool
}

type watcher struct {
	match   func(string) bool
	updates chan kvsync.Update
}

// NewServer makes an empty store whose first revision is 1.
func NewServer() *Server {
	return &Server{entries: map[string][]entry{}, watchers: map[*watcher]struct{}{}}
}

// Client makes a process of its own: incarnation is what its Identity answers.
func (s *Server) Client(incarnation string) *Client {
	return &Client{server: s, incarnation: incarnation, timeout: time.Second, counts: map[Kind]int{}, dead: map[string]bool{}}
}

// Set writes a value whatever is there, as an operator or an old release might.
func (s *Server) Set(key string, value []byte) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeLocked(key, value, false)
}

// Value returns what key holds, or nil.
func (s *Server) Value(key string) ([]byte, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.lastLocked(key)
	if e.deleted {
		return nil, e.rev
	}
	return e.value, e.rev
}

// ValueOf returns what key holds, or nil.
func (s *Server) ValueOf(key string) []byte {
	v, _ := s.Value(key)
	return v
}

// Keys returns the keys that hold a value, sorted.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for key, h := range s.entries {
		if !h[len(h)-1].deleted {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Writes returns how many writes the store has taken.
func (s *Server) Writes() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seq
}

// BreakWatches closes every watch.
func (s *Server) BreakWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		close(w.updates)
		delete(s.watchers, w)
	}
}

// Regress sets the next revision back, as a data directory rolled back to an older copy does.
func (s *Server) Regress(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq = seq
	clear(s.entries)
}

func (s *Server) lastLocked(key string) entry {
	h := s.entries[key]
	if len(h) == 0 {
		return entry{deleted: true}
	}
	return h[len(h)-1]
}

func (s *Server) writeLocked(key string, value []byte, deleted bool) uint64 {
	s.seq++
	e := entry{value: append([]byte(nil), value...), rev: s.seq, deleted: deleted}
	const kept = 4
	h := append(s.entries[key], e)
	s.entries[key] = h[max(0, len(h)-kept):]
	for w := range s.watchers {
		if w.match(key) {
			select {
			case w.updates <- kvsync.Update{Key: key, Value: e.value, Rev: e.rev, Deleted: deleted}:
			default: // a watcher that does not drain loses its watch, as with a slow consumer
				close(w.updates)
				delete(s.watchers, w)
			}
		}
	}
	return s.seq
}

func (s *Server) load(key string, stale bool) ([]byte, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.entries[key]
	if stale && len(h) > 0 {
		h = h[:len(h)-1]
	}
	if len(h) == 0 || h[len(h)-1].deleted {
		return nil, 0, fmt.Errorf("load %s: %w", key, kvsync.ErrNotFound)
	}
	e := h[len(h)-1]
	return slices.Clone(e.value), e.rev, nil
}

func (s *Server) swap(key string, value []byte, rev uint64, del bool) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.lastLocked(key)
	ok := e.rev == rev && !e.deleted
	if rev == 0 && !del {
		ok = e.deleted
	}
	if !ok {
		return 0, fmt.Errorf("write %s at %d: it is at %d: %w", key, rev, e.rev, kvsync.ErrRevisionMismatch)
	}
	return s.writeLocked(key, value, del), nil
}

// Client is one process's connection. It implements kvsync.KVStore, Watcher, Identity and Recorder.
type Client struct {
	server      *Server
	incarnation string

	mu      sync.Mutex // guards everything below
	timeout time.Duration
	fault   func(Request) Fate
	counts  map[Kind]int
	dead    map[string]bool
	events  []kvsync.Event
}

// SetFault decides the fate of every later request; nil is none.
func (c *Client) SetFault(f func(Request) Fate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

// SetTimeout is how long the client waits for an answer that does not come.
func (c *Client) SetTimeout(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeout = d
}

// Count returns how many requests of a kind were made.
func (c *Client) Count(k Kind) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[k]
}

// Kill proves an incarnation dead to this client.
func (c *Client) Kill(incarnation string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead[incarnation] = true
}

// Incarnation implements kvsync.Identity.
func (c *Client) Incarnation() string { return c.incarnation }

// ProvenDead implements kvsync.Identity.
func (c *Client) ProvenDead(incarnation string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead[incarnation]
}

// Record implements kvsync.Recorder.
func (c *Client) Record(e kvsync.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
}

// Events returns what was recorded so far.
func (c *Client) Events() []kvsync.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]kvsync.Event(nil), c.events...)
}

// Load implements kvsync.KVStore.
func (c *Client) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	type answer struct {
		value []byte
		rev   uint64
	}
	a, err := carry(ctx, c, Request{Kind: Load, Key: key}, func(f Fate) (answer, error) {
		v, rev, err := c.server.load(key, f.Stale)
		return answer{v, rev}, err
	})
	if errors.Is(err, kvsync.ErrUnknownOutcome) {
		err = fmt.Errorf("load %s: %w", key, kvsync.ErrUnavailable)
	}
	return a.value, a.rev, err
}

// CompareAndSwap implements kvsync.KVStore.
func (c *Client) CompareAndSwap(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	return carry(ctx, c, Request{Kind: Swap, Key: key}, func(Fate) (uint64, error) {
		return c.server.swap(key, value, rev, false)
	})
}

// CompareAndDelete implements kvsync.KVStore.
func (c *Client) CompareAndDelete(ctx context.Context, key string, rev uint64) error {
	_, err := carry(ctx, c, Request{Kind: Delete, Key: key}, func(Fate) (uint64, error) {
		return c.server.swap(key, nil, rev, true)
	})
	return err
}

// Watch implements kvsync.Watcher.
func (c *Client) Watch(ctx context.Context, keyOrPrefix string) (<-chan kvsync.Update, error) {
	return carry(ctx, c, Request{Kind: Watch, Key: keyOrPrefix}, func(Fate) (<-chan kvsync.Update, error) {
		const room = 1024
		return c.server.watch(ctx, keyOrPrefix, room), nil
	})
}

// watch opens a watch that breaks when more than room updates wait in it.
func (s *Server) watch(ctx context.Context, keyOrPrefix string, room int) <-chan kvsync.Update {
	w := &watcher{updates: make(chan kvsync.Update, room), match: func(key string) bool {
		return key == keyOrPrefix || strings.HasSuffix(keyOrPrefix, ".") && strings.HasPrefix(key, keyOrPrefix)
	}}
	s.mu.Lock()
	defer s.mu.Unlock()
	var current []kvsync.Update
	for key, h := range s.entries {
		if e := h[len(h)-1]; w.match(key) && !e.deleted {
			current = append(current, kvsync.Update{Key: key, Value: e.value, Rev: e.rev})
		}
	}
	slices.SortFunc(current, func(a, b kvsync.Update) int { return cmp.Compare(a.Rev, b.Rev) })
	for _, u := range current {
		w.updates <- u
	}
	s.watchers[w] = struct{}{}
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, open := s.watchers[w]; open {
			close(w.updates)
			delete(s.watchers, w)
		}
	})
	return w.updates
}

// carry takes a request through its fate.
func carry[T any](ctx context.Context, c *Client, r Request, do func(Fate) (T, error)) (T, error) {
	var zero T
	c.mu.Lock()
	c.counts[r.Kind]++
	r.N = c.counts[r.Kind]
	fault, timeout := c.fault, c.timeout
	c.mu.Unlock()
	var f Fate
	if fault != nil {
		f = fault(r)
	}
	if f.Stuck != nil {
		<-f.Stuck
	}
	if err := sleep(ctx, min(f.Delay, timeout)); err != nil {
		return zero, fmt.Errorf("%s %s: %w: %w", r.Kind, r.Key, kvsync.ErrUnknownOutcome, err)
	}
	silent := f.Lost || f.Late > 0 || f.Unanswered || f.Delay > timeout
	switch {
	case f.Err != nil:
		return zero, f.Err
	case f.Late > 0:
		time.AfterFunc(f.Late, func() { _, _ = do(f) })
	case f.Delay > timeout:
		time.AfterFunc(f.Delay-timeout, func() { _, _ = do(f) })
	case f.Unanswered:
		_, _ = do(f)
	}
	if silent {
		err := sleep(ctx, timeout)
		return zero, fmt.Errorf("%s %s: no answer: %w: %w", r.Kind, r.Key, kvsync.ErrUnknownOutcome, errors.Join(err))
	}
	v, err := do(f)
	if serr := sleep(ctx, f.Reply); serr != nil {
		return zero, fmt.Errorf("%s %s: %w: %w", r.Kind, r.Key, kvsync.ErrUnknownOutcome, serr)
	}
	return v, err
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
