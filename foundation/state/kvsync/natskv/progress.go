package natskv

import (
	"fmt"
	"sync"
	"time"
)

// progress is what a store has seen of its stream, which must never show less again.
type progress struct {
	mu sync.Mutex
	// Everything below is protected by mu.
	created    time.Time
	high       uint64 // the highest sequence seen
	base       uint64 // the last sequence when the stream was last looked at
	regressed  string // why the stream made at created is not obeyed any more
	reconnects uint64 // of the connection when the stream was last looked at
}

// Seen is what a store has seen of its stream.
type Seen struct {
	// Created is when the stream was made that is obeyed.
	Created time.Time
	// High is the highest sequence seen in any answer, of this stream or one before it.
	High uint64
	// Regressed says why the stream is refused for good, empty while it is not.
	Regressed string
}

func (p *progress) seen() Seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Seen{Created: p.created, High: p.high, Regressed: p.regressed}
}

// mark returns the highest sequence seen so far, to be compared with an answer to what is sent next.
func (p *progress) mark() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.high
}

// saw notes a sequence of the stream.
func (p *progress) saw(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.high = max(p.high, seq)
}

// acked judges the sequence of a write that was sent when the highest sequence seen was mark: it
// comes after all of those in any stream that has lost nothing. It returns why not, or "".
func (p *progress) acked(mark, seq uint64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if seq <= mark && p.regressed == "" {
		p.regressed = fmt.Sprintf("a write got sequence %d when %d had been seen", seq, mark)
	}
	p.high = max(p.high, seq)
	return p.regressed
}

// look is what a look at the stream showed.
type look struct {
	mark       uint64 // the highest sequence seen when the look was sent
	created    time.Time
	firstSeq   uint64 // that the stream was made to begin with
	lastSeq    uint64
	replicas   int
	reconnects uint64 // of the connection before the look was sent
}

// looked judges a look at the stream. It returns why the stream is not to be obeyed, or "", and
// whether it is another stream than before.
//
// A single copy once found short stays refused when its sequence has grown past the mark again:
// the writes in between are lost all the same. A short answer about a replicated stream may also
// come from a server that is cut off and still believes that it leads, so it is refused only for
// as long as it is short. A stream made later that starts above the mark is a new life.
func (p *progress) looked(l look) (why string, replaced bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case l.created.Before(p.created):
		why = fmt.Sprintf("the stream was created %s, the one seen before %s",
			l.created.Format(time.RFC3339Nano), p.created.Format(time.RFC3339Nano))
	case l.lastSeq < l.mark:
		why = fmt.Sprintf("the last sequence is %d, %d had been seen", l.lastSeq, l.mark)
	case l.created.After(p.created) && l.firstSeq <= p.base:
		why = fmt.Sprintf("the stream was made anew at sequence %d, %d had been seen", l.firstSeq, p.base)
	case l.created.After(p.created):
		replaced = true
		p.created, p.regressed = l.created, ""
	}
	if why != "" {
		if l.replicas <= 1 {
			p.regressed = why
		}
		return why, false
	}
	p.high = max(p.high, l.lastSeq)
	if p.regressed == "" {
		p.base = l.lastSeq
		p.reconnects = l.reconnects
	}
	return p.regressed, replaced
}

// stale reports whether the stream must be looked at before it is believed: the connection was
// made anew since, perhaps to a server with an older copy, or the stream was found short.
func (p *progress) stale(reconnects uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.regressed != "" || p.reconnects != reconnects
}
