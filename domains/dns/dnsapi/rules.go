package dnsapi

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// NextSerial is the serial of a zone that changes now: greater than last, and not below Unix time, so
// that a zone that is made anew does not fall behind the one that it replaces. It does not wrap around.
func NextSerial(last uint32, now time.Time) uint32 {
	serial := max(int64(last)+1, now.Unix())
	return uint32(min(serial, math.MaxUint32)) // seconds fit until 2106
}

// ParseValue reads a value of an RRSet as the DNS servers do: RDATA of the type, in presentation
// format. The record has the root for its name and a TTL of 0. What a writer of zones cannot parse it
// must not write: one such value keeps the servers from loading the whole zone.
func ParseValue(rtype, value string) (dns.RR, error) {
	if strings.TrimSpace(value) == "" || strings.ContainsAny(value, "\r\n") {
		return nil, fmt.Errorf("value %q is empty or has a line break", value)
	}
	// Not dns.NewRR: that one would follow $INCLUDE.
	zp := dns.NewZoneParser(strings.NewReader(". 0 IN "+rtype+" "+value+"\n"), ".", "")
	rr, ok := zp.Next()
	err := zp.Err()
	if err == nil && (!ok || dns.TypeToString[rr.Header().Rrtype] != rtype) {
		err = errors.New("it is no record")
	}
	if err != nil {
		return nil, fmt.Errorf("value %q: %w", value, err)
	}
	return rr, nil
}
