package route53

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/mulgadc/spinifex/foundation/lifecycle/election"
	"github.com/mulgadc/spinifex/foundation/lifecycle/reconciler"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

const (
	verifyEvery = time.Minute
	// verifyLookups is how many parents are asked at once.
	verifyLookups = 8
)

// RunVerifier asks, every minute while this process holds VerifyLease, whether parents delegate the
// hosted zones to this cluster, and forgets old changes. It blocks until ctx ends. The lease is kept
// between passes. With DelegationTrust nobody is asked.
func (s *Service) RunVerifier(ctx context.Context) error {
	log := s.deps.Log.With("loop", VerifyLeaseKey)
	return election.Lead(ctx, s.deps.VerifyLease, log, func(ctx context.Context, tok kvsync.Token) error {
		fence, err := s.deps.Bucket.Fence(ctx, VerifyLeaseKey, tok)
		if err != nil {
			return fmt.Errorf("fence %s: %w", Bucket, err)
		}
		v := &verifier{s: s, fence: fence, log: log}
		return reconciler.New(reconciler.Options{
			Name: VerifyLeaseKey, Log: s.deps.Log, Resync: verifyEvery, Observe: s.observer(VerifyLeaseKey),
		}, v.pass).Run(ctx)
	})
}

// verifier is the work of one leadership.
type verifier struct {
	s      *Service
	fence  *kvstore.Fence
	log    *slog.Logger
	pruned time.Time // when old changes were last looked for
}

func (v *verifier) pass(ctx context.Context) (reconciler.Result, error) {
	accounts, err := v.s.listAccounts(ctx)
	if err != nil {
		return reconciler.Result{}, err
	}
	var errs []error
	if v.s.deps.Delegation != DelegationTrust {
		errs = append(errs, v.verify(ctx, accounts))
	}
	if time.Since(v.pruned) >= pruneEvery {
		if err := v.s.pruneChanges(ctx, accounts, v.log); err != nil {
			errs = append(errs, err)
		} else {
			v.pruned = time.Now()
		}
	}
	return reconciler.Result{}, terminalIfLost(errors.Join(errs...))
}

// verify looks up every name once and writes what has changed.
func (v *verifier) verify(ctx context.Context, accounts []string) error {
	zones, known := map[zoneRef]*zoneRecord{}, map[zoneRef]delegationRecord{}
	exists := map[zoneRef]bool{}
	for _, account := range accounts {
		for rec, err := range v.s.zones.List(ctx, prefix(account, kindZone)) {
			switch {
			case err != nil && rec.Key == "":
				return fmt.Errorf("list hosted zones of %s: %w", account, err)
			case err != nil:
				v.log.ErrorContext(ctx, "hosted zone cannot be read", "key", rec.Key, "error", err)
			default:
				zones[refOf(rec.Key)] = rec.Value
			}
			exists[refOf(rec.Key)] = true
		}
		if err := readRecords(ctx, v.s.delegations, prefix(account, kindDelegation), v.log, known); err != nil {
			return err
		}
	}
	answers, err := v.lookUp(ctx, zones)
	errs := []error{err}
	for ref, z := range zones {
		servers, answered := answers[z.Name]
		if !answered {
			continue // no answer is no evidence: what was known stays
		}
		now := delegationRecord{Delegated: overlap(servers, z.NameServers), NameServers: servers}
		was, ok := known[ref]
		if ok && was.Delegated == now.Delegated && slices.Equal(was.NameServers, now.NameServers) {
			continue
		}
		errs = append(errs, v.write(ctx, ref, z.Name, now))
	}
	for ref := range known {
		if !exists[ref] {
			errs = append(errs, v.fence.Delete(ctx, delegationKey(ref.account, ref.id)))
		}
	}
	return errors.Join(errs...)
}

func (v *verifier) write(ctx context.Context, ref zoneRef, name string, d delegationRecord) error {
	key := delegationKey(ref.account, ref.id)
	d.Since = time.Now().UTC().Truncate(time.Millisecond)
	stored, err := v.s.delegations.Encode(&d)
	if err == nil {
		_, err = v.fence.Put(ctx, key, stored)
	}
	if err != nil {
		return fmt.Errorf("write delegation %s: %w", key, err)
	}
	v.log.InfoContext(ctx, "delegation changed", "zone", ref.id, "account", ref.account, "name", name,
		"delegated", d.Delegated, "name_servers", d.NameServers)
	return nil
}

// lookUp asks for each name of the zones once, several at a time. The answers are the parents' name
// servers, canonical and sorted; a name whose parent could not be asked is missing, and counted in
// the error.
func (v *verifier) lookUp(ctx context.Context, zones map[zoneRef]*zoneRecord) (map[string][]string, error) {
	var (
		mu      sync.Mutex
		answers = map[string][]string{}
		failed  int
		last    error
		wg      sync.WaitGroup
		slots   = make(chan struct{}, verifyLookups)
	)
	names := map[string]bool{}
	for _, z := range zones {
		names[z.Name] = true
	}
	for name := range names {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			servers, err := v.s.delegatedTo(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed, last = failed+1, fmt.Errorf("ask the parent of %s: %w", name, err)
				return
			}
			answers[name] = servers
		})
	}
	wg.Wait()
	if failed > 0 {
		return answers, fmt.Errorf("%d of %d delegations not checked, the last: %w", failed, len(names), last)
	}
	return answers, nil
}

// delegatedTo answers what the parent says about a zone, canonical and sorted.
func (s *Service) delegatedTo(ctx context.Context, zone string) ([]string, error) {
	var servers []string
	var err error
	switch s.deps.Delegation {
	case DelegationBase:
		servers, err = s.deps.PlatformDelegation(ctx, presentationName(zone))
	case DelegationPublic:
		servers, err = s.deps.Parents.NameServers(ctx, presentationName(zone))
	}
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(servers))
	for _, n := range servers {
		if c, p := canonicalName(n); p == nil {
			out = append(out, c)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// overlap reports whether a parent names at least one of the zone's name servers.
func overlap(parent, own []string) bool {
	return slices.ContainsFunc(parent, func(n string) bool { return slices.Contains(own, n) })
}
