package dnsserver

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// streams are the open TCP connections, at most max. When all places are taken, a new connection gets
// that of the one whose client has let the server wait for longest, for a request or while it takes an
// answer: clients that hold connections and ask nothing keep nobody out.
type streams struct {
	max  int
	mu   sync.Mutex
	open map[*stream]struct{}
}

// stream is one connection.
type stream struct {
	*net.TCPConn
	// heard is when its client last ended a request, or connected, in nanoseconds since the epoch.
	heard atomic.Int64
}

func newStreams(most int) *streams {
	return &streams{max: most, open: make(map[*stream]struct{}, most)}
}

// add takes a place for a connection, and reports whether it was another's.
func (s *streams) add(conn *net.TCPConn) (added *stream, evicted bool) {
	added = &stream{TCPConn: conn}
	added.hear()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= s.max {
		var quietest *stream
		for o := range s.open {
			if quietest == nil || o.heard.Load() < quietest.heard.Load() {
				quietest = o
			}
		}
		_ = quietest.Close() // its goroutine sees it and ends
		delete(s.open, quietest)
		evicted = true
	}
	s.open[added] = struct{}{}
	return added, evicted
}

// remove gives a place back; one that was evicted has none.
func (s *streams) remove(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, st)
}

func (st *stream) hear() { st.heard.Store(time.Now().UnixNano()) }
