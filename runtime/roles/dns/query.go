package dnsserver

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

const (
	headerLen = 12
	optLen    = 11 // an OPT record without options

	flagQR = 1 << 15
	flagAA = 1 << 10
	flagTC = 1 << 9
	flagRD = 1 << 8
	flagCD = 1 << 4

	opcodeMask = 0xF << 11
	doBit      = 1 << 15
)

// query is a request as it stands on the wire. Its slices borrow the request and the key buffer.
type query struct {
	id    uint16
	flags uint16
	// key is the question's name in lower case followed by its type: what an answer depends on.
	key []byte
	// question is the question section as it was sent; empty when it could not be read.
	question []byte
	class    uint16
	edns     bool
	version  uint8
	do       bool
	// size is the UDP payload that the client takes; 512 without EDNS.
	size uint16
}

func (q *query) rtype() uint16 { return binary.BigEndian.Uint16(q.key[len(q.key)-2:]) }
func (q *query) name() []byte  { return q.key[:len(q.key)-2] }

// Outcomes of parseQuery beside an RCODE.
const rcodeDrop = -1

// parseQuery reads a request into q. key is scratch of at least maxName+2 octets. It returns
// RcodeSuccess for a question that can be answered, rcodeDrop for what must not be answered at all,
// such as a response, and otherwise the RCODE of the answer.
func parseQuery(msg, key []byte, q *query) int {
	*q = query{size: dns.MinMsgSize}
	if len(msg) < headerLen {
		return rcodeDrop
	}
	q.id = binary.BigEndian.Uint16(msg)
	q.flags = binary.BigEndian.Uint16(msg[2:])
	if q.flags&flagQR != 0 {
		return rcodeDrop
	}
	if q.flags&opcodeMask != dns.OpcodeQuery<<11 {
		return dns.RcodeNotImplemented
	}
	if binary.BigEndian.Uint16(msg[4:]) != 1 {
		return dns.RcodeFormatError
	}
	n := parseName(msg[headerLen:], key)
	off := headerLen + n
	if n == 0 || len(msg) < off+4 {
		return dns.RcodeFormatError
	}
	copy(key[n:], msg[off:off+2])
	class := binary.BigEndian.Uint16(msg[off+2:])
	off += 4
	others := int(binary.BigEndian.Uint16(msg[6:])) + int(binary.BigEndian.Uint16(msg[8:]))
	if !parseRecords(msg, off, others, int(binary.BigEndian.Uint16(msg[10:])), q) {
		return dns.RcodeFormatError
	}
	q.key, q.question, q.class = key[:n+2], msg[headerLen:off], class
	if q.version != 0 {
		return dns.RcodeBadVers
	}
	if class != dns.ClassINET {
		return dns.RcodeRefused
	}
	return dns.RcodeSuccess
}

// parseName copies an uncompressed name in lower case and returns its length, 0 when it is malformed.
func parseName(msg, dst []byte) int {
	off := 0
	for off < len(msg) && off < maxName {
		label := int(msg[off])
		end := off + 1 + label
		if label > 63 || end > len(msg) || end > maxName {
			return 0
		}
		dst[off] = msg[off]
		for i, c := range msg[off+1 : end] {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			dst[off+1+i] = c
		}
		if off = end; label == 0 {
			return off
		}
	}
	return 0
}

// parseRecords walks over the records behind the question, others and then additional in number, and
// takes the OPT record. It reports whether they are well formed and end with the message.
func parseRecords(msg []byte, off, others, additional int, q *query) bool {
	for i := range others + additional {
		start := off
		if off = skipName(msg, off); off == 0 || len(msg) < off+10 {
			return false
		}
		fixed := msg[off : off+10]
		off += 10
		end := off + int(binary.BigEndian.Uint16(fixed[8:]))
		if end > len(msg) {
			return false
		}
		if binary.BigEndian.Uint16(fixed) == dns.TypeOPT {
			if q.edns || i < others || msg[start] != 0 || !wellFormedOptions(msg[off:end]) {
				return false
			}
			q.edns = true
			q.size = max(binary.BigEndian.Uint16(fixed[2:]), dns.MinMsgSize)
			q.version = fixed[5]
			q.do = binary.BigEndian.Uint16(fixed[6:])&doBit != 0
		}
		off = end
	}
	return off == len(msg)
}

// skipName returns the offset behind a name that may end in a compression pointer, 0 when malformed.
func skipName(msg []byte, off int) int {
	for off < len(msg) {
		switch c := int(msg[off]); {
		case c == 0:
			return off + 1
		case c >= 0xC0:
			return off + 2
		case c > 63:
			return 0
		default:
			off += 1 + c
		}
	}
	return 0
}

func wellFormedOptions(opts []byte) bool {
	for len(opts) > 0 {
		if len(opts) < 4 {
			return false
		}
		n := 4 + int(binary.BigEndian.Uint16(opts[2:]))
		if n > len(opts) {
			return false
		}
		opts = opts[n:]
	}
	return true
}
