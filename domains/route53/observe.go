package route53

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/mulgadc/spinifex/domains/dns/dnsapi"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

// readAll reads every hosted zone, status and delegation of every account and every published zone.
// It is complete, or an error: what it does not show is not there.
func (s *Service) readAll(ctx context.Context, log *slog.Logger) (observed, error) {
	o := observed{
		zones: map[zoneRef]zoneView{}, statuses: map[zoneRef]statusRecord{},
		delegations: map[zoneRef]delegationRecord{}, published: map[string]publishedZone{},
	}
	// Published zones come first: one that is published is never older than its record.
	if err := s.readPublished(ctx, log, o.published); err != nil {
		return o, err
	}
	accounts, err := s.listAccounts(ctx)
	if err != nil {
		return o, err
	}
	for _, account := range accounts {
		for e, err := range s.deps.Bucket.List(ctx, prefix(account, kindZone)) {
			if err != nil {
				return o, fmt.Errorf("list hosted zones of %s: %w", account, err)
			}
			o.zones[refOf(e.Key)] = s.viewOf(e.Key, e.Value, log)
		}
		if err := readRecords(ctx, s.statuses, prefix(account, kindStatus), log, o.statuses); err != nil {
			return o, err
		}
		if err := readRecords(ctx, s.delegations, prefix(account, kindDelegation), log, o.delegations); err != nil {
			return o, err
		}
	}
	return o, nil
}

// listAccounts returns the accounts that have, or had, hosted zones.
func (s *Service) listAccounts(ctx context.Context) ([]string, error) {
	var out []string
	for e, err := range s.deps.Bucket.List(ctx, prefix(systemAccount, kindAccount)) {
		if err != nil {
			return nil, fmt.Errorf("list accounts: %w", err)
		}
		_, _, account, _ := splitKey(e.Key)
		out = append(out, account)
	}
	return out, nil
}

func refOf(key string) zoneRef {
	account, _, id, _ := splitKey(key)
	return zoneRef{account, id}
}

// readRecords reads the records below a prefix. One that cannot be read is logged and left out: a
// status is then written anew, and a zone without a delegation record waits.
func readRecords[T any](ctx context.Context, store *kvstore.Store[T], prefix string, log *slog.Logger, into map[zoneRef]T) error {
	for rec, err := range store.List(ctx, prefix) {
		switch {
		case err != nil && rec.Key == "":
			return fmt.Errorf("list %s: %w", prefix, err)
		case err != nil:
			log.ErrorContext(ctx, "record cannot be read", "key", rec.Key, "error", err)
		default:
			into[refOf(rec.Key)] = *rec.Value
		}
	}
	return nil
}

// viewOf is a stored zone as the realizer uses it.
func (s *Service) viewOf(key string, stored []byte, log *slog.Logger) zoneView {
	z, err := s.zones.Decode(stored)
	var object *dnsapi.Zone
	if err == nil {
		object, err = render(z)
	}
	if err != nil {
		log.Error("hosted zone cannot be read, what is published of it stays", "key", key, "error", err)
		return zoneView{unreadable: true}
	}
	return zoneView{rec: z, name: object.Name, digest: digest(object)}
}

// readPublished reads the zone objects. One that cannot be read is known by its name alone, so that
// it is written anew or withdrawn.
func (s *Service) readPublished(ctx context.Context, log *slog.Logger, into map[string]publishedZone) error {
	for z, err := range s.deps.Zones.All(ctx, dnsapi.Hosted) {
		bad, isBad := errors.AsType[*dnsapi.BadZoneError](err)
		switch {
		case isBad:
			log.ErrorContext(ctx, "zone object cannot be read, it will be replaced", "name", bad.Name, "error", err)
			into[bad.Name] = publishedZone{}
		case err != nil:
			return fmt.Errorf("list zone objects: %w", err)
		default:
			into[z.Name] = publishedZone{id: z.ID, digest: digest(z)}
		}
	}
	return nil
}

// digest identifies what a zone object says, whoever wrote it.
func digest(z *dnsapi.Zone) string {
	plain := *z
	plain.Version, plain.Class, plain.Generation = 0, "", 0
	text, err := json.Marshal(&plain)
	if err != nil {
		return "" // a zone of strings and numbers always encodes
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// hints gathers the keys that a watch has named between two passes.
type hints struct {
	wake func()
	mu   sync.Mutex
	// Everything below is protected by mu.
	keys map[string]bool
	all  bool
}

func newHints(wake func()) *hints { return &hints{wake: wake, keys: map[string]bool{}} }

func (h *hints) add(key string) {
	h.mu.Lock()
	h.keys[key] = true
	h.mu.Unlock()
	h.wake()
}

// addAll asks for everything to be read again.
func (h *hints) addAll() {
	h.mu.Lock()
	h.all = true
	h.mu.Unlock()
	h.wake()
}

func (h *hints) take() (keys []string, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.keys {
		keys = append(keys, key)
	}
	all = h.all
	h.keys, h.all = map[string]bool{}, false
	return keys, all
}

// giveBack returns keys that could not be read.
func (h *hints) giveBack(keys []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range keys {
		h.keys[key] = true
	}
}

// follow watches the bucket until ctx ends and hints at the zones and delegations that change.
// Whenever a watch breaks, what it may have missed is everything.
func (s *Service) follow(ctx context.Context, log *slog.Logger, h *hints) {
	for ctx.Err() == nil {
		changes, err := s.deps.Bucket.Follow(ctx, "")
		if err == nil {
			drain(changes, h)
		}
		if ctx.Err() != nil {
			return
		}
		log.WarnContext(ctx, "watch of the hosted zones broke", "error", err)
		if sleep(ctx, rewatch) != nil {
			return
		}
		h.addAll()
	}
}

// drain hints at what a watch sends once its first entries, which a complete read covers, are through.
func drain(changes <-chan kvstore.Change, h *hints) {
	ready := false
	for c := range changes {
		_, kind, _, ok := splitKey(c.Key)
		switch {
		case c.Ready:
			// What changed between the complete read and this moment may have been among the first.
			ready = true
			h.addAll()
		case ready && ok && (kind == kindZone || kind == kindDelegation):
			h.add(c.Key)
		}
	}
}
