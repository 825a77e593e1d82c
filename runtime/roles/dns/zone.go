package dnsserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
)

// maxSetBytes bounds the records of one set, so that every answer fits into a TCP message.
const maxSetBytes = 60_000

// maxReferralBytes bounds an NS set with the addresses that go with it, for the same reason; it leaves
// room for the CNAMEs that may lead there.
const maxReferralBytes = 56_000

// zoneKey names a zone object.
type zoneKey struct {
	class dnsapi.Class
	name  string // wire form
}

// zone is a compiled zone object. It is immutable.
type zone struct {
	key    zoneKey
	id     string
	serial uint32
	// generation of the writer, to tell a listed object that is known already.
	generation uint64
	// seq is unique among the zones that a server has loaded; it is set before the zone is published.
	seq    uint64
	nodes  map[string]*node
	apex   *node
	labels int // of the apex, the root included
	// soa is the SOA as it stands in the authority section of negative answers.
	soa []dns.RR
}

// node is one owner name: also one without records, an empty non-terminal.
type node struct {
	name string // wire form
	sets []*rrset
	// wild is the child "*", from which names that do not exist are synthesised.
	wild *node
	// cut is the NS set of a delegation: set below the apex only.
	cut *rrset
	// glue are the addresses of the NS set's targets that this zone knows.
	glue []dns.RR
}

func (n *node) set(rtype uint16) *rrset {
	for _, s := range n.sets {
		if s.rtype == rtype {
			return s
		}
	}
	return nil
}

// rrset is all that a name has of one type.
type rrset struct {
	rtype uint16
	// choices has one element for a simple set, else one for each set identifier.
	choices []choice
	// weight is the sum of the choices' weights.
	weight int
	// values of a multivalue set; nil for others.
	values []dns.RR
}

// choice is one of several record sets, or the only one.
type choice struct {
	id     string
	weight int
	rrs    []dns.RR
	alias  *alias
}

// alias points to the records of another name.
type alias struct {
	zone string // id
	name string // wire form
}

// plain returns the records of a simple set that is no alias.
func (s *rrset) plain() []dns.RR {
	if s == nil || s.values != nil || len(s.choices) != 1 {
		return nil
	}
	return s.choices[0].rrs
}

// servedTypes are the types that a zone may have.
func servedTypes() map[string]uint16 {
	types := map[string]uint16{}
	for _, t := range []uint16{
		dns.TypeA, dns.TypeAAAA, dns.TypeCNAME, dns.TypeMX, dns.TypeTXT, dns.TypeNS, dns.TypeSOA, dns.TypeSRV,
		dns.TypeCAA, dns.TypePTR, dns.TypeDS, dns.TypeNAPTR, dns.TypeSVCB, dns.TypeHTTPS, dns.TypeTLSA,
		dns.TypeSSHFP, dns.TypeSPF,
	} {
		types[dns.TypeToString[t]] = t
	}
	return types
}

// compiler builds one zone.
type compiler struct {
	types map[string]uint16
	src   *dnsapi.Zone
	out   *zone
	buf   []byte
}

// compile parses a zone object. Its error names every fault of the object, at most ten.
func compile(src *dnsapi.Zone) (*zone, error) {
	apex, err := wireName(src.Name)
	if err != nil {
		return nil, err
	}
	c := &compiler{
		types: servedTypes(),
		src:   src,
		buf:   make([]byte, dns.MaxMsgSize),
		out: &zone{
			key:        zoneKey{class: src.Class, name: apex},
			id:         src.ID,
			serial:     src.Serial,
			generation: src.Generation,
			nodes:      make(map[string]*node, len(src.RRSets)),
		},
	}
	var offs [maxLabels]uint8
	c.out.labels = labelOffsets(apex, &offs)
	c.out.apex = c.nodeAt(apex)
	var faults []error
	for i := range src.RRSets {
		if err := c.addSet(&src.RRSets[i]); err != nil {
			faults = append(faults, fmt.Errorf("%s %s: %w", src.RRSets[i].Name, src.RRSets[i].Type, err))
		}
		if len(faults) == 10 {
			break
		}
	}
	if len(faults) == 0 {
		faults = append(faults, c.finish())
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("zone %s serial %d: %w", src.Name, src.Serial, err)
	}
	return c.out, nil
}

// nodeAt returns the node of a name within the zone, made with its ancestors when missing.
func (c *compiler) nodeAt(name string) *node {
	if n := c.out.nodes[name]; n != nil {
		return n
	}
	n := &node{name: name}
	c.out.nodes[name] = n
	if name != c.out.key.name {
		up, _ := parent(name)
		above := c.nodeAt(up)
		if strings.HasPrefix(name, "\x01*") {
			above.wild = n
		}
	}
	return n
}

func (c *compiler) addSet(src *dnsapi.RRSet) error {
	name, err := wireName(src.Name)
	if err != nil {
		return err
	}
	if !within(name, c.out.key.name) {
		return errors.New("name is not within the zone")
	}
	rtype, ok := c.types[src.Type]
	if !ok {
		return errors.New("type is not served")
	}
	ch, err := c.choice(src, name, rtype)
	if err != nil {
		return err
	}
	n := c.nodeAt(name)
	set := n.set(rtype)
	if set == nil {
		set = &rrset{rtype: rtype}
		n.sets = append(n.sets, set)
	} else if err := c.joins(set, src); err != nil {
		return err
	}
	set.choices = append(set.choices, ch)
	set.weight += ch.weight
	if src.MultiValue {
		set.values = append(set.values, ch.rrs...)
	}
	return nil
}

// joins checks that src may stand beside the sets of the same name and type.
func (c *compiler) joins(set *rrset, src *dnsapi.RRSet) error {
	switch {
	case src.SetID == "" || set.choices[0].id == "":
		return errors.New("several sets without an identifier each")
	case slices.ContainsFunc(set.choices, func(o choice) bool { return o.id == src.SetID }):
		return fmt.Errorf("set identifier %q occurs twice", src.SetID)
	case src.MultiValue != (set.values != nil):
		return errors.New("multivalue beside another routing")
	}
	return nil
}

func (c *compiler) choice(src *dnsapi.RRSet, name string, rtype uint16) (choice, error) {
	ch := choice{id: src.SetID}
	if src.Weight != nil {
		if *src.Weight < 0 || *src.Weight > 255 {
			return ch, fmt.Errorf("weight %d is not within 0..255", *src.Weight)
		}
		ch.weight = int(*src.Weight)
	}
	if src.Alias != nil {
		switch {
		case len(src.Values) > 0:
			return ch, errors.New("alias with values")
		case src.MultiValue:
			return ch, errors.New("alias in a multivalue answer")
		case rtype == dns.TypeSOA || rtype == dns.TypeNS:
			return ch, errors.New("alias of a type that cannot be one")
		}
		target, err := wireName(src.Alias.Name)
		if err != nil {
			return ch, fmt.Errorf("alias: %w", err)
		}
		ch.alias = &alias{zone: src.Alias.Zone, name: target}
		return ch, nil
	}
	if len(src.Values) == 0 {
		return ch, errors.New("no values")
	}
	ttl := c.src.TTL
	if src.TTL != nil {
		ttl = *src.TTL
	}
	total := 0
	owner := textName(name)
	for _, value := range src.Values {
		rr, size, err := c.record(owner, ttl, src.Type, value)
		if err != nil {
			return ch, err
		}
		total += size
		ch.rrs = append(ch.rrs, rr)
	}
	if total > maxSetBytes {
		return ch, fmt.Errorf("%d octets of records, more than the %d that a set may have", total, maxSetBytes)
	}
	if rtype == dns.TypeCNAME && len(ch.rrs) != 1 {
		return ch, errors.New("more than one CNAME")
	}
	return ch, nil
}

// record parses one value, and proves that it packs, so that no answer fails later for it.
func (c *compiler) record(owner string, ttl uint32, rtype, value string) (dns.RR, int, error) {
	rr, err := dnsapi.ParseValue(rtype, value)
	if err != nil {
		return nil, 0, err
	}
	rr.Header().Name, rr.Header().Ttl = owner, ttl
	size, err := dns.PackRR(rr, c.buf, 0, nil, false)
	if err != nil {
		return nil, 0, fmt.Errorf("value %q: %w", value, err)
	}
	return rr, size, nil
}

// finish checks the zone as a whole and prepares what answers need of it.
func (c *compiler) finish() error {
	z := c.out
	soaSet := z.apex.set(dns.TypeSOA).plain()
	if len(soaSet) != 1 {
		return errors.New("the apex needs one SOA")
	}
	if len(z.apex.set(dns.TypeNS).plain()) == 0 {
		return errors.New("the apex needs NS records")
	}
	soa := soaSet[0].(*dns.SOA)
	soa.Serial = z.serial
	negative := dns.Copy(soa).(*dns.SOA)
	negative.Hdr.Ttl = min(soa.Hdr.Ttl, soa.Minttl)
	if c.src.NegativeTTL > 0 {
		negative.Hdr.Ttl = min(negative.Hdr.Ttl, c.src.NegativeTTL)
	}
	z.soa = []dns.RR{negative}
	for _, n := range z.nodes {
		if err := c.finishNode(n); err != nil {
			return fmt.Errorf("%s: %w", textName(n.name), err)
		}
	}
	return nil
}

func (c *compiler) finishNode(n *node) error {
	if n.set(dns.TypeCNAME) != nil && len(n.sets) > 1 {
		return errors.New("CNAME beside other types")
	}
	if n != c.out.apex && n.set(dns.TypeSOA) != nil {
		return errors.New("SOA below the apex")
	}
	for _, set := range n.sets {
		set.levelTTL()
	}
	ns := n.set(dns.TypeNS)
	if ns == nil {
		return nil
	}
	if ns.plain() == nil {
		return errors.New("NS set with a routing policy")
	}
	// RFC 4592 leaves a delegation at "*" undefined: it is data here.
	if n != c.out.apex && !strings.HasPrefix(n.name, "\x01*") {
		n.cut = ns
	}
	n.glue = c.glue(ns.plain())
	return nil
}

// levelTTL gives the records of one multivalue answer one TTL, as RFC 2181 wants it.
func (s *rrset) levelTTL() {
	if len(s.values) == 0 {
		return
	}
	lowest := s.values[0].Header().Ttl
	for _, rr := range s.values {
		lowest = min(lowest, rr.Header().Ttl)
	}
	for _, rr := range s.values {
		rr.Header().Ttl = lowest
	}
}

// glue returns the zone's own addresses of the servers named by NS records: the first of each server,
// then the second of each, until maxReferralBytes are full.
func (c *compiler) glue(ns []dns.RR) []dns.RR {
	var addresses [][]dns.RR
	size := 0
	for _, rr := range ns {
		size += dns.Len(rr)
		target, err := wireName(rr.(*dns.NS).Ns)
		if err != nil {
			continue // not reached: the record has been packed
		}
		if n := c.out.nodes[target]; n != nil {
			addresses = append(addresses, n.set(dns.TypeA).plain(), n.set(dns.TypeAAAA).plain())
		}
	}
	var glue []dns.RR
	for i, more := 0, true; more; i++ {
		more = false
		for _, set := range addresses {
			if i >= len(set) {
				continue
			}
			if size += dns.Len(set[i]); size > maxReferralBytes {
				return glue
			}
			glue, more = append(glue, set[i]), true
		}
	}
	return glue
}

// matchKind says what a zone has for a name.
type matchKind uint8

const (
	matchName     matchKind = iota // the name exists, or a wildcard stands for it
	matchReferral                  // the name is at or below a delegation
	matchNone                      // the name does not exist
)

type match struct {
	kind matchKind
	node *node
	// synthesised is set when node is a wildcard that stands for the name.
	synthesised bool
}

// lookup finds what the zone has for a name within it.
func (z *zone) lookup(name string, rtype uint16) match {
	var offs [maxLabels]uint8
	below := labelOffsets(name, &offs) - z.labels
	encloser := z.apex
	for i := below - 1; i >= 0; i-- {
		n := z.nodes[name[offs[i]:]]
		if n == nil {
			if encloser.wild == nil {
				return match{kind: matchNone}
			}
			return match{node: encloser.wild, synthesised: true}
		}
		// The parent's side of a cut answers for DS.
		if n.cut != nil && (rtype != dns.TypeDS || i > 0) {
			return match{kind: matchReferral, node: n}
		}
		encloser = n
	}
	return match{node: encloser}
}
