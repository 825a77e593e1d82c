package dnsserver

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime/debug"

	"github.com/miekg/dns"
)

// maxUDPSize is the largest UDP answer and what the server advertises: it passes every path without
// fragments.
const maxUDPSize = 1232

// worker turns request bytes into response bytes. One goroutine at a time uses it.
type worker struct {
	srv *Server
	rng *rand.Rand
	// counts of this worker alone.
	counts *counts
	query  query
	key    [maxName + 2]byte
	pack   []byte
	msg    dns.Msg
}

func (s *Server) newWorker(c *counts) *worker {
	return &worker{
		srv:    s,
		rng:    rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		counts: c,
		pack:   make([]byte, dns.MaxMsgSize),
	}
}

// handle answers one request into out, whose capacity is at least limit, and returns the answer's
// octets, nil for what is not answered. limit bounds the answer of a stream; a datagram's is smaller.
func (w *worker) handle(req, out []byte, t transport) (reply []byte) {
	q := &w.query
	defer func() {
		if v := recover(); v != nil {
			w.failed("panic", v, "stack", string(debug.Stack()), "query", req[:min(len(req), maxUDPSize)])
			reply = w.short(out, dns.RcodeServerFailure)
		}
	}()
	rcode := parseQuery(req, w.key[:], q)
	if rcode == rcodeDrop {
		w.counts.dropped.Add(1)
		return nil
	}
	if rcode != dns.RcodeSuccess {
		w.counts.add(t, rcode, q)
		return w.short(out, rcode)
	}
	reply, rcode = w.answer(out, t)
	w.counts.add(t, rcode, q)
	return reply
}

// failed counts a query that failed here, and logs it when the worker's count is a power of two: whoever
// can cause one can cause many.
func (w *worker) failed(attrs ...any) {
	if n := w.counts.failures.Add(1); n&(n-1) == 0 {
		w.srv.opts.Log.Error("dns query failed", append(attrs, "failures", n)...)
	}
}

// answer answers the parsed query from the cache or the zones.
func (w *worker) answer(out []byte, t transport) ([]byte, int) {
	q := &w.query
	v := w.srv.view.Load()
	if v == nil {
		return w.short(out, dns.RcodeServerFailure), dns.RcodeServerFailure
	}
	if msg := w.srv.cache.get(v, q.key); msg != nil {
		w.counts.hits.Add(1)
		return w.finish(out, msg, t), int(msg[3] & 0xF)
	}
	resp := answer(v, question{name: string(q.name()), rtype: q.rtype()}, w.rng)
	if resp.rcode == dns.RcodeRefused {
		return w.short(out, resp.rcode), resp.rcode
	}
	msg, err := w.packResponse(&resp)
	if err != nil {
		w.failed("name", textName(string(q.name())), "type", dns.Type(q.rtype()).String(), "error", err)
		return w.short(out, dns.RcodeServerFailure), dns.RcodeServerFailure
	}
	if !resp.drawn {
		w.srv.cache.put(v, q.key, msg, resp.read)
	}
	return w.finish(out, msg, t), resp.rcode
}

// packResponse packs a response with the question's name in lower case, without an ID, the flags of
// the request and EDNS: what is the same for everybody who asks.
func (w *worker) packResponse(resp *response) ([]byte, error) {
	q := &w.query
	w.msg = dns.Msg{
		MsgHdr: dns.MsgHdr{
			Response:      true,
			Authoritative: resp.authoritative,
			Rcode:         resp.rcode,
		},
		Compress: true,
		Question: append(w.msg.Question[:0], dns.Question{
			Name: textName(string(q.name())), Qtype: q.rtype(), Qclass: dns.ClassINET,
		}),
		Answer: resp.answer,
		Ns:     resp.authority,
		Extra:  resp.additional,
	}
	return w.msg.PackBuffer(w.pack)
}

// finish makes the packed answer the one of this query: its ID, flags, spelling of the name, EDNS and
// size. The names of the answer point to the question, and so have the query's spelling too (RFC 4343).
func (w *worker) finish(out, msg []byte, t transport) []byte {
	q := &w.query
	limit := dns.MaxMsgSize
	if t == overUDP {
		limit = min(int(q.size), maxUDPSize)
	}
	size := len(msg)
	if q.edns {
		size += optLen
	}
	fits := size <= limit
	if !fits {
		msg = msg[:headerLen+len(q.question)]
	}
	out = append(out[:0], msg...)
	flags := binary.BigEndian.Uint16(out[2:]) | q.flags&(flagRD|flagCD)
	if !fits {
		flags |= flagTC
		clear(out[6:headerLen])
	}
	binary.BigEndian.PutUint16(out, q.id)
	binary.BigEndian.PutUint16(out[2:], flags)
	copy(out[headerLen:], q.question)
	return w.appendOPT(out, 0)
}

// short is an answer of a header, the question if it was read, and EDNS if it was asked for.
func (w *worker) short(out []byte, rcode int) []byte {
	q := &w.query
	out = append(out[:0], make([]byte, headerLen)...)
	binary.BigEndian.PutUint16(out, q.id)
	binary.BigEndian.PutUint16(out[2:], flagQR|q.flags&(opcodeMask|flagRD|flagCD)|uint16(rcode&0xF))
	if len(q.question) > 0 {
		out[5] = 1
		out = append(out, q.question...)
	}
	return w.appendOPT(out, rcode)
}

// appendOPT adds the OPT record to the answer of a query that had one.
func (w *worker) appendOPT(out []byte, rcode int) []byte {
	if !w.query.edns {
		return out
	}
	binary.BigEndian.PutUint16(out[10:], binary.BigEndian.Uint16(out[10:])+1)
	opt := [optLen]byte{2: byte(dns.TypeOPT & 0xFF), 3: maxUDPSize >> 8, 4: maxUDPSize & 0xFF, 5: byte(rcode >> 4)}
	if w.query.do {
		opt[7] = doBit >> 8
	}
	return append(out, opt[:]...)
}
