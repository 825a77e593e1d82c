package dns

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

const (
	// delegateWait is how long Delegate waits for a pass, or for another process that has the zone.
	delegateWait = 10 * time.Second
	// delegateRetry is the wait between two tries to get the lease.
	delegateRetry = 250 * time.Millisecond
	// leaseTimeout bounds one try to get the lease.
	leaseTimeout = 5 * time.Second
	// maxDelegations bounds one call, maxNameServers one delegation.
	maxDelegations = 100
	maxNameServers = 13
)

var (
	// ErrAnotherWriter is a platform zone that a pass, or another process, has had for too long to wait.
	// Nothing was written; ask again, or ask the holder that the error names.
	ErrAnotherWriter = errors.New("another writer has the zone")
	// ErrPlatformName is a name that the platform needs itself, or one outside of the base domain.
	ErrPlatformName = errors.New("name cannot be delegated")
	// ErrNoBaseZone is a base zone that has not been written yet; ask again.
	ErrNoBaseZone = errors.New("the base zone does not exist yet")
)

var (
	// platformLabel matches name servers and regions, also those that this cloud may have later.
	platformLabel = regexp.MustCompile(`^(ns[0-9]*|[a-z]{2,}(-[a-z]+)+-[0-9]+)$`)
	hostLabel     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

// Delegation is a name below the base domain and the servers that it is delegated to.
type Delegation struct {
	Name string
	// NameServers are names; empty are this cluster's own.
	NameServers []string
}

// Delegate writes the NS sets of delegations into the base zone, or withdraws them: all of them, or none.
// It waits for a pass of this process that is going on. Refusals are ErrPlatformName, ErrAnotherWriter and
// ErrNoBaseZone; a deposed writer's is kvsync.ErrLost. What is as asked already is not written again.
func (s *Service) Delegate(ctx context.Context, delegations []Delegation, remove bool) error {
	wanted, err := s.checkDelegations(delegations)
	if err != nil {
		return err
	}
	return s.withWriter(ctx, func(ctx context.Context, w dnsapi.ZoneWriter) error {
		zone, err := s.deps.Zones.Get(ctx, dnsapi.Platform, s.base)
		if errors.Is(err, kvstore.ErrNotFound) {
			return fmt.Errorf("delegate below %s: %w", s.base, ErrNoBaseZone)
		}
		if err != nil {
			return fmt.Errorf("delegate below %s: %w", s.base, err)
		}
		next, err := delegate(zone, wanted, remove, time.Now())
		if err != nil || next == nil {
			return err
		}
		if err := w.Put(ctx, next); err != nil {
			return fmt.Errorf("delegate below %s: %w", s.base, err)
		}
		s.deps.Log.Info("delegations written", "zone", s.base, "serial", next.Serial, "names", namesOf(wanted), "remove", remove)
		return nil
	})
}

// PlatformDelegation returns the names of the servers that the base zone delegates a name to, sorted and
// absolute; none when it does not.
func (s *Service) PlatformDelegation(ctx context.Context, name string) ([]string, error) {
	name, err := canonicalName(name)
	if err != nil {
		return nil, err
	}
	if !below(name, s.base) {
		return nil, nil
	}
	zone, err := s.deps.Zones.Get(ctx, dnsapi.Platform, s.base)
	if errors.Is(err, kvstore.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("delegation of %s: %w", name, err)
	}
	for _, set := range zone.RRSets {
		if set.Name == name && set.Type == "NS" {
			return canonicalServers(set.Values)
		}
	}
	return nil, nil
}

// withWriter runs fn in this process's turn with the writer of its leadership. A process that does not
// lead tries to acquire the same lease for the time of fn.
func (s *Service) withWriter(ctx context.Context, fn func(context.Context, dnsapi.ZoneWriter) error) error {
	waiting, cancel := context.WithTimeoutCause(ctx, delegateWait, ErrAnotherWriter)
	defer cancel()
	if err := s.take(waiting); err != nil {
		return err
	}
	defer s.give()
	var held *kvsync.HeldError
	for {
		if w, done := s.useWriter(); w != nil {
			defer done()
			return s.whileHeld(ctx, w, fn)
		}
		tok, err := s.tryLease(ctx)
		if err == nil {
			defer s.deps.Lease.Unlock(context.WithoutCancel(ctx), tok)
			w, err := s.deps.Zones.Writer(waiting, dnsapi.Platform, ReconcileLeaseKey, tok)
			if err != nil {
				return err
			}
			return s.whileHeld(ctx, w, fn)
		}
		if h, ok := errors.AsType[*kvsync.HeldError](err); ok {
			held = h
		}
		select {
		case <-waiting.Done():
			return refusal(context.Cause(waiting), held, err)
		case <-time.After(delegateRetry):
		}
	}
}

// tryLease tries once. It has a bound of its own: an acquisition that is cut short may still land, and
// then keeps everybody else out until it lapses.
func (s *Service) tryLease(ctx context.Context) (kvsync.Token, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTimeout)
	defer cancel()
	return s.deps.Lease.TryLock(ctx)
}

// whileHeld runs fn with a context that ends with the acquisition, and bounds it.
func (s *Service) whileHeld(ctx context.Context, w dnsapi.ZoneWriter, fn func(context.Context, dnsapi.ZoneWriter) error) error {
	ctx, cancel := context.WithTimeout(s.deps.Lease.Context(ctx), delegateWait)
	defer cancel()
	return fn(ctx, w)
}

// refusal says why the zone could not be had, and who has it.
func refusal(cause error, held *kvsync.HeldError, err error) error {
	if held != nil && errors.Is(cause, ErrAnotherWriter) {
		return fmt.Errorf("%w: %s", ErrAnotherWriter, held.Current)
	}
	return errors.Join(cause, err)
}

// checkDelegations brings delegations to their canonical form. The error names every fault.
func (s *Service) checkDelegations(delegations []Delegation) ([]Delegation, error) {
	if len(delegations) == 0 || len(delegations) > maxDelegations {
		return nil, fmt.Errorf("%d delegations, want 1 to %d", len(delegations), maxDelegations)
	}
	var faults []error
	out := make([]Delegation, 0, len(delegations))
	for _, d := range delegations {
		c, err := s.checkDelegation(d)
		if err == nil && slices.ContainsFunc(out, func(o Delegation) bool { return o.Name == c.Name }) {
			err = fmt.Errorf("%s occurs twice", c.Name)
		}
		if err != nil {
			faults = append(faults, err)
		}
		out = append(out, c)
	}
	return out, errors.Join(faults...)
}

func (s *Service) checkDelegation(d Delegation) (Delegation, error) {
	name, err := canonicalName(d.Name)
	if err != nil {
		return d, fmt.Errorf("%w: %w", ErrPlatformName, err)
	}
	if !below(name, s.base) {
		return d, fmt.Errorf("%w: %s is not below %s", ErrPlatformName, name, s.base)
	}
	labels := strings.Split(strings.TrimSuffix(name, "."+s.base), ".")
	if top := labels[len(labels)-1]; s.isPlatformLabel(top) {
		return d, fmt.Errorf("%w: %s is the platform's: label %q", ErrPlatformName, name, top)
	}
	for _, label := range labels {
		if !hostLabel.MatchString(label) {
			return d, fmt.Errorf("%w: %s: label %q is not of letters, digits and dashes", ErrPlatformName, name, label)
		}
	}
	servers := d.NameServers
	if len(servers) == 0 {
		for _, ns := range s.deps.NameServers {
			servers = append(servers, ns.Name)
		}
	}
	if len(servers) > maxNameServers {
		return d, fmt.Errorf("%s: %d name servers, at most %d", name, len(servers), maxNameServers)
	}
	if servers, err = canonicalServers(servers); err != nil {
		return d, fmt.Errorf("%s: name server: %w", name, err)
	}
	for _, server := range servers {
		if server == name || below(server, name) {
			return d, fmt.Errorf("%s: name server %s is within the delegated name and would need its address here", name, server)
		}
	}
	return Delegation{Name: name, NameServers: servers}, nil
}

// isPlatformLabel reports whether a label directly below the base domain is the platform's: a region,
// the root of a family of managed names, or a name server.
func (s *Service) isPlatformLabel(label string) bool {
	switch label {
	case "compute", "elb", "eks", "rds", "internal", "hostmaster", "console", "api", strings.ToLower(s.deps.Region):
		return true
	}
	for _, ns := range s.deps.NameServers {
		if ns.Name == label+"."+s.base {
			return true
		}
	}
	return platformLabel.MatchString(label)
}

// delegate computes the base zone with the delegations, or without them; nil when it is so already.
func delegate(zone *dnsapi.Zone, delegations []Delegation, remove bool, now time.Time) (*dnsapi.Zone, error) {
	sets := slices.Clone(zone.RRSets)
	for _, d := range delegations {
		mine := func(s dnsapi.RRSet) bool { return s.Name == d.Name && s.Type == "NS" && !s.Managed }
		if remove {
			sets = slices.DeleteFunc(sets, mine)
			continue
		}
		for _, s := range sets {
			if s.Managed && (s.Name == d.Name || below(s.Name, d.Name)) {
				return nil, fmt.Errorf("%w: %s would hide the platform's %s", ErrPlatformName, d.Name, s.Name)
			}
			if s.Name == d.Name && s.Type != "NS" && s.Type != "DS" {
				return nil, fmt.Errorf("%w: %s has a %s record", ErrPlatformName, d.Name, s.Type)
			}
		}
		set := dnsapi.RRSet{Name: d.Name, Type: "NS", Values: d.NameServers}
		if i := slices.IndexFunc(sets, mine); i >= 0 {
			sets[i] = set
		} else {
			sets = append(sets, set)
		}
	}
	sortSets(sets)
	next := *zone
	next.RRSets = sets
	was := *zone
	was.RRSets = slices.Clone(zone.RRSets)
	sortSets(was.RRSets)
	if sameZone(&was, &next) {
		return nil, nil
	}
	next.Serial = dnsapi.NextSerial(zone.Serial, now)
	return &next, nil
}

// canonicalServers returns names in their canonical form, sorted, each once.
func canonicalServers(names []string) ([]string, error) {
	out := make([]string, 0, len(names))
	for _, n := range names {
		c, err := canonicalName(n)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func namesOf(delegations []Delegation) []string {
	names := make([]string, len(delegations))
	for i, d := range delegations {
		names[i] = d.Name
	}
	return names
}
