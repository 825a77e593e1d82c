package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/foundation/lifecycle/election"
	"github.com/mulgadc/spinifex/foundation/lifecycle/reconciler"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

const (
	driftDebounce = 500 * time.Millisecond
	driftResync   = 5 * time.Minute
	driftPass     = 2 * time.Minute
	// rewatch is the wait before a watch that broke is made again.
	rewatch = time.Second
)

// NameServer is one of the cluster's DNS servers, as the world knows it.
type NameServer struct {
	// Name is absolute, such as "ns1.cloud.example.".
	Name string
	// Addrs are its addresses; they are published when the name is within the base domain.
	Addrs []netip.Addr
}

// Deps is what a Service needs from the process.
type Deps struct {
	// Zones is the zone store; required.
	Zones *ZoneStore
	// Lease is the process's dns.reconcile lease; required.
	Lease *kvsync.Lease
	// BaseDomain is the platform's own domain; required.
	BaseDomain string
	// Region is the cloud's; it is a label that nobody can have delegated.
	Region string
	// NameServers are the cluster's; the first is the primary of the SOA. Required.
	NameServers []NameServer
	// Sources say which records the platform's zone has, in the order of precedence.
	Sources []dnsapi.Source
	// Log receives what the loop does; nil discards it.
	Log *slog.Logger
	// Observe is told of each pass by the loop's name, for metrics; nil is fine. It must not block.
	Observe func(loop string, err error, took time.Duration)
}

// Service writes the platform's zones. Make one with New.
type Service struct {
	deps Deps
	base string // canonical
	// turn has one element; who has taken it reads, changes and writes platform zones.
	turn chan struct{}

	mu sync.Mutex
	// writer is the one of this process's leadership, nil when it does not lead; protected by mu.
	writer dnsapi.ZoneWriter
	// users are the delegations that write with it. They are added under mu while there is a writer.
	users sync.WaitGroup
}

// New makes a Service. It does no I/O.
func New(deps Deps) (*Service, error) {
	if deps.Zones == nil || deps.Lease == nil {
		return nil, errors.New("dns: Zones and Lease are required")
	}
	base, err := canonicalName(deps.BaseDomain)
	if err != nil || base == "." {
		return nil, fmt.Errorf("dns: base domain %q is no domain name", deps.BaseDomain)
	}
	if len(deps.NameServers) == 0 {
		return nil, errors.New("dns: no NameServers")
	}
	for i, ns := range deps.NameServers {
		if deps.NameServers[i].Name, err = canonicalName(ns.Name); err != nil {
			return nil, fmt.Errorf("dns: name server: %w", err)
		}
	}
	classes := map[string]bool{apexClass: true, "": true}
	for _, src := range deps.Sources {
		if classes[src.Class()] {
			return nil, fmt.Errorf("dns: source class %q is taken", src.Class())
		}
		classes[src.Class()] = true
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Observe == nil {
		deps.Observe = func(string, error, time.Duration) {}
	}
	return &Service{deps: deps, base: base, turn: make(chan struct{}, 1)}, nil
}

// Run keeps the base zone at what the sources want while this process holds the lease, and blocks until
// ctx ends. The lease is kept between passes and released when the work has stopped.
func (s *Service) Run(ctx context.Context) error {
	return election.Lead(ctx, s.deps.Lease, s.deps.Log, s.lead)
}

// lead is one leadership: the fence is stamped, then all is read.
func (s *Service) lead(ctx context.Context, tok kvsync.Token) error {
	writer, err := s.deps.Zones.Writer(ctx, dnsapi.Platform, ReconcileLeaseKey, tok)
	if err != nil {
		return err
	}
	s.setWriter(writer)
	defer s.resign()
	wake, woken := reconciler.NewWake()
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { s.rewatch(ctx, "zone", wake, s.watchZone) })
	for _, src := range s.deps.Sources {
		if w, ok := src.(dnsapi.WatchedSource); ok {
			watching.Go(func() { s.rewatch(ctx, src.Class(), wake, w.Watch) })
		}
	}
	d := &drift{s: s, writer: writer}
	return reconciler.New(reconciler.Options{
		Name: ReconcileLeaseKey, Log: s.deps.Log, Wake: woken, Debounce: driftDebounce,
		Resync: driftResync, PassTimeout: driftPass,
		Observe: func(_ reconciler.Result, err error, took time.Duration) {
			s.deps.Observe(ReconcileLeaseKey, err, took)
		},
	}, d.pass).Run(ctx)
}

// setWriter tells Delegate that this process leads.
func (s *Service) setWriter(w dnsapi.ZoneWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writer = w
}

// useWriter returns the writer of this process's leadership, nil when it does not lead, and the function
// to call when the work with it is done.
func (s *Service) useWriter() (w dnsapi.ZoneWriter, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writer == nil {
		return nil, nil
	}
	s.users.Add(1)
	return s.writer, s.users.Done
}

// resign takes the writer back and waits for a delegation that is being written: the lease is released
// only when all work has stopped.
func (s *Service) resign() {
	s.setWriter(nil)
	s.users.Wait()
}

// rewatch keeps a watch going until ctx ends. What a break may have missed is a reason for a pass.
func (s *Service) rewatch(ctx context.Context, what string, wake func(), watch func(context.Context, func()) error) {
	for ctx.Err() == nil {
		err := watch(ctx, wake)
		if ctx.Err() != nil {
			return
		}
		s.deps.Log.Warn("watch of the platform's records broke", "watch", what, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(rewatch):
		}
		wake()
	}
}

// watchZone notices that somebody spoilt or removed the base zone.
func (s *Service) watchZone(ctx context.Context, changed func()) error {
	updates, err := s.deps.Zones.bucket.Watch(ctx, zoneKey(dnsapi.Platform, s.base))
	if err != nil {
		return err
	}
	for range updates {
		changed()
	}
	return context.Cause(ctx)
}

// drift is the work of one leadership. Only the reconciler's pass uses it.
type drift struct {
	s      *Service
	writer dnsapi.ZoneWriter
	// lastGood is the zone as this leadership last read or wrote it, to rebuild a spoilt one from.
	lastGood *dnsapi.Zone
	// conflicts are the ones that were logged last.
	conflicts string
}

// pass makes the base zone what the sources want. What a source that failed wants stays as it is, and
// the pass is repeated with back-off.
func (d *drift) pass(ctx context.Context) (reconciler.Result, error) {
	want, faults := d.s.desire(ctx)
	if err := d.s.take(ctx); err != nil {
		return reconciler.Result{}, err
	}
	defer d.s.give()
	if err := d.write(ctx, want); err != nil {
		if errors.Is(err, kvsync.ErrLost) {
			return reconciler.Result{}, reconciler.Terminal(err)
		}
		faults = append(faults, err)
	}
	return reconciler.Result{}, errors.Join(faults...)
}

// write reads the zone, plans, and writes when there is a difference.
func (d *drift) write(ctx context.Context, want desired) error {
	current, intact, err := d.read(ctx)
	if err != nil {
		return err
	}
	p := plan(want, current, intact, time.Now())
	d.logConflicts(p.conflicts)
	next := p.zone
	if next == nil && !intact {
		next = current // the same as before, and yet to be written
		next.Serial = dnsapi.NextSerial(next.Serial, time.Now())
	}
	if next == nil {
		d.lastGood = current
		return nil
	}
	if err := d.writer.Put(ctx, next); err != nil {
		return err
	}
	d.lastGood = next
	d.s.deps.Log.Info("platform zone written", "zone", next.Name, "serial", next.Serial, "record_sets", len(next.RRSets),
		"added", p.added, "replaced", p.replaced, "removed", p.removed, "rebuilt", !intact)
	return nil
}

// read returns the base zone and whether it is the one in the store. One that is gone or cannot be read
// is replaced by what this leadership last knew of it, nil when that is nothing; such a pass prunes
// nothing.
func (d *drift) read(ctx context.Context) (zone *dnsapi.Zone, intact bool, err error) {
	zone, err = d.s.deps.Zones.Get(ctx, dnsapi.Platform, d.s.base)
	bad, isBad := errors.AsType[*dnsapi.BadZoneError](err)
	switch {
	case err == nil:
		return zone, true, nil
	case isBad && errors.Is(err, kvstore.ErrNewerVersion):
		return nil, false, err
	case isBad:
		d.s.deps.Log.Error("platform zone cannot be read, rebuilding it", "zone", d.s.base, "error", bad.Err)
	case errors.Is(err, kvstore.ErrNotFound):
		if d.lastGood != nil {
			d.s.deps.Log.Error("platform zone is gone, rebuilding it", "zone", d.s.base)
		}
	default:
		return nil, false, err
	}
	if d.lastGood == nil {
		return nil, false, nil
	}
	last := *d.lastGood
	return &last, false, nil
}

// logConflicts logs what could not be published, when it differs from the last time.
func (d *drift) logConflicts(conflicts []string) {
	text := strings.Join(conflicts, "; ")
	if text != "" && text != d.conflicts {
		d.s.deps.Log.Warn("records of the platform stand against others", "zone", d.s.base, "conflicts", text)
	}
	d.conflicts = text
}

// desire asks every source. A source that fails, or has a record that is not valid, is not complete.
func (s *Service) desire(ctx context.Context) (desired, []error) {
	apex, faults := normalise(s.base, apexClass, s.apexSets())
	want := desired{zone: s.base, classes: []classSet{{class: apexClass, sets: apex, complete: true}}}
	for _, src := range s.deps.Sources {
		sets, complete, err := src.RRSets(ctx)
		if err != nil {
			faults = append(faults, fmt.Errorf("source %s: %w", src.Class(), err))
			complete = false
		}
		valid, invalid := normalise(s.base, src.Class(), sets)
		if len(invalid) > 0 {
			faults = append(faults, invalid...)
			complete = false
		}
		want.classes = append(want.classes, classSet{class: src.Class(), sets: valid, complete: complete})
	}
	return want, faults
}

// apexSets are the zone's own records: SOA, NS, and the addresses of name servers within it.
func (s *Service) apexSets() []dnsapi.RRSet {
	ttl := uint32(zoneTTL)
	ns := dnsapi.RRSet{Name: s.base, Type: "NS", TTL: &ttl}
	var sets []dnsapi.RRSet
	for _, server := range s.deps.NameServers {
		ns.Values = append(ns.Values, server.Name)
		if below(server.Name, s.base) {
			sets = append(sets, addressSets(server.Name, server.Addrs)...)
		}
	}
	soa := dnsapi.RRSet{Name: s.base, Type: "SOA", TTL: &ttl, Values: []string{fmt.Sprintf(
		"%s hostmaster.%s 1 7200 900 1209600 %d", s.deps.NameServers[0].Name, s.base, managedTTL)}}
	return append(sets, soa, ns)
}

// take waits for the turn to read, change and write platform zones.
func (s *Service) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the turn to write %s: %w", s.base, context.Cause(ctx))
	}
}

func (s *Service) give() { <-s.turn }
