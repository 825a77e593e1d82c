package dnsserver

import (
	"github.com/miekg/dns"
)

const (
	// maxChain bounds the CNAMEs of one answer.
	maxChain = 12
	// maxAlias bounds how many aliases and CNAMEs one alias leads through.
	maxAlias = 8
	// maxMultiValue is how many values a multivalue answer has at most.
	maxMultiValue = 8
)

// source draws random numbers below n; *rand.Rand is one.
type source interface{ IntN(n int) int }

// question asks for a name in class IN. The name is in wire form, lower case.
type question struct {
	name  string
	rtype uint16
}

// response is what a question is answered with, apart from the header and EDNS.
type response struct {
	rcode         int
	authoritative bool
	answer        []dns.RR
	authority     []dns.RR
	additional    []dns.RR
	// drawn is set when chance had a part, so that the response must not be kept.
	drawn bool
	// read are the zones that the response was made of.
	read []reading
}

// isMeta reports whether a type asks for something other than records of that type: ANY, transfers, keys
// of transactions and the rest of that range (RFC 6895), or OPT.
func isMeta(rtype uint16) bool {
	return rtype == dns.TypeOPT || rtype >= 128 && rtype <= 255
}

// reading is a zone that was in its slot when it was read.
type reading struct {
	slot *slot
	zone *zone
}

// answer answers a question from the zones of a view. The same view, question and draws give the same
// response. The records are shared with the zones and must not be changed.
func answer(v *view, q question, rng source) response {
	r := resolver{view: v, rng: rng}
	if isMeta(q.rtype) {
		r.resp.rcode = dns.RcodeRefused
		return r.resp
	}
	s := v.zoneFor(q.name, q.rtype)
	if s == nil {
		r.resp.rcode = dns.RcodeRefused
		return r.resp
	}
	r.chase(s, q)
	return r.resp
}

// resolver makes one response.
type resolver struct {
	view *view
	rng  source
	resp response
}

// open reads the zone in a slot and notes it.
func (r *resolver) open(s *slot) *zone {
	z := s.zone.Load()
	r.resp.read = append(r.resp.read, reading{slot: s, zone: z})
	return z
}

// chase answers a question from the zone in a slot, and follows CNAMEs into any served zone.
// The response's code and authority are those of the chain's end (RFC 6604).
func (r *resolver) chase(s *slot, q question) {
	r.resp.authoritative = true
	visited := map[string]bool{}
	for range maxChain {
		z := r.open(s)
		m := z.lookup(q.name, q.rtype)
		switch m.kind {
		case matchReferral:
			r.resp.authoritative = len(r.resp.answer) > 0
			r.resp.authority = m.node.cut.plain()
			r.resp.additional = m.node.glue
			return
		case matchNone:
			r.resp.rcode = dns.RcodeNameError
			r.resp.authority = z.soa
			return
		}
		set := m.node.set(q.rtype)
		alias := false
		if set == nil {
			set = m.node.set(dns.TypeCNAME)
			alias = set != nil
		}
		rrs := r.records(set, q.name, m.synthesised, 0)
		if len(rrs) == 0 {
			r.resp.authority = z.soa
			return
		}
		r.resp.answer = append(r.resp.answer, rrs...)
		if q.rtype == dns.TypeNS && !m.synthesised {
			r.resp.additional = m.node.glue
		}
		if !alias {
			return
		}
		visited[q.name] = true
		if q.name, s = r.follow(rrs[0], q.rtype); s == nil || visited[q.name] {
			return
		}
	}
}

// follow returns the target of a CNAME and the slot of the zone that has it, nil when none is served.
func (r *resolver) follow(rr dns.RR, rtype uint16) (string, *slot) {
	cname, ok := rr.(*dns.CNAME)
	if !ok {
		return "", nil
	}
	target, err := wireName(cname.Target)
	if err != nil {
		return "", nil
	}
	return target, r.view.zoneFor(target, rtype)
}

// records draws the records of a set for an owner; depth counts the aliases that led here.
func (r *resolver) records(set *rrset, owner string, rename bool, depth int) []dns.RR {
	if set == nil {
		return nil
	}
	var rrs []dns.RR
	if set.values != nil {
		rrs = r.drawValues(set.values)
	} else {
		ch := r.drawChoice(set)
		rrs = ch.rrs
		if ch.alias != nil {
			rrs = r.aliasTarget(ch.alias, set.rtype, depth+1)
			rename = true
		}
	}
	if !rename {
		return rrs
	}
	name := textName(owner)
	renamed := make([]dns.RR, len(rrs))
	for i, rr := range rrs {
		renamed[i] = dns.Copy(rr)
		renamed[i].Header().Name = name
	}
	return renamed
}

// drawChoice draws one set by weight; when every weight is 0 all are equal.
func (r *resolver) drawChoice(set *rrset) *choice {
	if len(set.choices) == 1 {
		return &set.choices[0]
	}
	r.resp.drawn = true
	if set.weight == 0 {
		return &set.choices[r.rng.IntN(len(set.choices))]
	}
	at := r.rng.IntN(set.weight)
	for i := range set.choices {
		if at -= set.choices[i].weight; at < 0 {
			return &set.choices[i]
		}
	}
	return &set.choices[0] // not reached: at is below the sum of the weights
}

// drawValues draws at most maxMultiValue values without putting one back.
func (r *resolver) drawValues(values []dns.RR) []dns.RR {
	if len(values) <= maxMultiValue {
		return values
	}
	r.resp.drawn = true
	drawn := make([]dns.RR, len(values))
	copy(drawn, values)
	for i := range maxMultiValue {
		j := i + r.rng.IntN(len(drawn)-i)
		drawn[i], drawn[j] = drawn[j], drawn[i]
	}
	return drawn[:maxMultiValue]
}

// aliasTarget returns the records of an alias's target: also through CNAMEs and further aliases, with
// the lowest TTL on the way. No records mean that there is no such target.
func (r *resolver) aliasTarget(a *alias, rtype uint16, depth int) []dns.RR {
	s, name := r.view.byID[a.zone], a.name
	ttl := ^uint32(0)
	for ; depth <= maxAlias && s != nil; depth++ {
		z := r.open(s)
		if !within(name, z.key.name) {
			return nil
		}
		m := z.lookup(name, rtype)
		if m.kind != matchName {
			return nil
		}
		if set := m.node.set(rtype); set != nil {
			return capTTL(r.records(set, name, false, depth), ttl)
		}
		rrs := r.records(m.node.set(dns.TypeCNAME), name, false, depth)
		if len(rrs) == 0 {
			return nil
		}
		ttl = min(ttl, rrs[0].Header().Ttl)
		name, s = r.follow(rrs[0], rtype)
	}
	return nil
}

// capTTL lowers the TTL of records to ttl, in copies.
func capTTL(rrs []dns.RR, ttl uint32) []dns.RR {
	if len(rrs) == 0 || rrs[0].Header().Ttl <= ttl {
		return rrs
	}
	out := make([]dns.RR, len(rrs))
	for i, rr := range rrs {
		out[i] = dns.Copy(rr)
		out[i].Header().Ttl = ttl
	}
	return out
}
