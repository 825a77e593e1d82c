package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/miekg/dns"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
)

// transport carried a query.
type transport uint8

const (
	overUDP transport = iota
	overTCP
	transports
)

func (t transport) String() string { return [...]string{overUDP: "udp", overTCP: "tcp"}[t] }

const (
	// Response codes up to maxRcode are counted each; BADVERS takes the place behind them.
	maxRcode = 10
	rcodes   = maxRcode + 2
	// otherType counts the types that no zone has.
	otherType = 0
)

// counts are one worker's. A worker adds to its own, so that no two processors share a cache line for
// long; the meter adds them up.
type counts struct {
	queries  [transports][rcodes][typeSlots]atomic.Uint64
	hits     atomic.Uint64
	dropped  atomic.Uint64
	failures atomic.Uint64
}

func (c *counts) add(t transport, rcode int, q *query) {
	slot := otherType
	if len(q.key) > 0 {
		slot = typeSlot(q.rtype())
	}
	c.queries[t][min(rcode, maxRcode+1)][slot].Add(1)
}

// typeSlots is the number of values of typeSlot.
const typeSlots = 19

// typeSlot numbers the types that are counted each.
func typeSlot(rtype uint16) int {
	for i, t := range countedTypes() {
		if t == rtype {
			return i + 1
		}
	}
	return otherType
}

// countedTypes are in the order of how often they are asked for.
func countedTypes() [typeSlots - 1]uint16 {
	return [...]uint16{
		dns.TypeA, dns.TypeAAAA, dns.TypeHTTPS, dns.TypeNS, dns.TypeSOA, dns.TypeCNAME, dns.TypeMX, dns.TypeTXT,
		dns.TypeSRV, dns.TypeDS, dns.TypePTR, dns.TypeCAA, dns.TypeSVCB, dns.TypeNAPTR, dns.TypeTLSA,
		dns.TypeSSHFP, dns.TypeSPF, dns.TypeANY,
	}
}

func typeLabel(slot int) string {
	if slot == otherType {
		return "other"
	}
	return dns.TypeToString[countedTypes()[slot-1]]
}

func rcodeLabel(rcode int) string {
	if rcode > maxRcode {
		return "BADVERS"
	}
	if text, ok := dns.RcodeToString[rcode]; ok {
		return text
	}
	return strconv.Itoa(rcode)
}

// instruments are what the server reports to its meter.
type instruments struct {
	queries  metric.Int64ObservableCounter
	hits     metric.Int64ObservableCounter
	dropped  metric.Int64ObservableCounter
	failures metric.Int64ObservableCounter
	evicted  metric.Int64ObservableCounter
	zones    metric.Int64ObservableGauge
	badZones metric.Int64ObservableGauge
}

// observe registers the server's instruments and returns the function that withdraws them.
func (s *Server) observe() (func() error, error) {
	var in instruments
	var errs [7]error
	m := s.opts.Meter
	in.queries, errs[0] = m.Int64ObservableCounter("spinifex.dns.queries",
		metric.WithDescription("Queries answered, by transport, response code and type."))
	in.hits, errs[1] = m.Int64ObservableCounter("spinifex.dns.cache.hits",
		metric.WithDescription("Queries answered with a packed answer made before."))
	in.dropped, errs[2] = m.Int64ObservableCounter("spinifex.dns.dropped",
		metric.WithDescription("Datagrams and messages that were not answered: too short, or responses."))
	in.failures, errs[3] = m.Int64ObservableCounter("spinifex.dns.failures",
		metric.WithDescription("Queries that failed inside the server and were answered SERVFAIL."))
	in.evicted, errs[4] = m.Int64ObservableCounter("spinifex.dns.tcp.evicted",
		metric.WithDescription("TCP connections closed because too many were open."))
	in.zones, errs[5] = m.Int64ObservableGauge("spinifex.dns.zones",
		metric.WithDescription("Zones served, by class."))
	in.badZones, errs[6] = m.Int64ObservableGauge("spinifex.dns.zones.bad",
		metric.WithDescription("Zone objects that cannot be read or compiled; the last good one is served."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make DNS instruments: %w", err)
	}
	reg, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s.collect(o, &in)
		return nil
	}, in.queries, in.hits, in.dropped, in.failures, in.evicted, in.zones, in.badZones)
	if err != nil {
		return nil, fmt.Errorf("register DNS instruments: %w", err)
	}
	return reg.Unregister, nil
}

func (s *Server) collect(o metric.Observer, in *instruments) {
	var hits, dropped, failures uint64
	var queries [transports][rcodes][typeSlots]uint64
	for _, c := range s.counts {
		hits += c.hits.Load()
		dropped += c.dropped.Load()
		failures += c.failures.Load()
		for t := range c.queries {
			for r := range c.queries[t] {
				for slot := range c.queries[t][r] {
					queries[t][r][slot] += c.queries[t][r][slot].Load()
				}
			}
		}
	}
	for t := range queries {
		for r := range queries[t] {
			for slot, n := range queries[t][r] {
				if n > 0 {
					o.ObserveInt64(in.queries, int64(n), metric.WithAttributes(
						attribute.String("transport", transport(t).String()),
						attribute.String("rcode", rcodeLabel(r)),
						attribute.String("type", typeLabel(slot))))
				}
			}
		}
	}
	o.ObserveInt64(in.hits, int64(hits))
	o.ObserveInt64(in.dropped, int64(dropped))
	o.ObserveInt64(in.failures, int64(failures))
	o.ObserveInt64(in.evicted, int64(s.tcpEvicted.Load()))
	o.ObserveInt64(in.badZones, s.badZones.Load())
	classes := map[dnsapi.Class]int64{dnsapi.Platform: 0, dnsapi.Hosted: 0}
	if v := s.view.Load(); v != nil {
		for key := range v.slots {
			classes[key.class]++
		}
	}
	for class, n := range classes {
		o.ObserveInt64(in.zones, n, metric.WithAttributes(attribute.String("class", string(class))))
	}
}
