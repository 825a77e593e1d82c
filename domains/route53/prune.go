package route53

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mulgadc/spinifex/foundation/state/kvstore"
)

const (
	// changeAge is how long GetChange knows a change.
	changeAge = 30 * 24 * time.Hour
	// pruneEvery is how often old changes are looked for.
	pruneEvery = time.Hour
	// pruneMax bounds what one look deletes.
	pruneMax = 1000
)

// pruneChanges deletes change records older than changeAge. A change record never changes once its
// id is known to a client, so no fence is needed: two that prune at once delete the same.
func (s *Service) pruneChanges(ctx context.Context, accounts []string, log *slog.Logger) error {
	deleted := 0
	for _, account := range accounts {
		for rec, err := range s.changes.List(ctx, prefix(account, kindChange)) {
			if err != nil && rec.Key == "" {
				return fmt.Errorf("list changes of %s: %w", account, err)
			}
			if err != nil || time.Since(rec.Value.SubmittedAt) < changeAge || deleted == pruneMax {
				continue // one that cannot be read is of a newer release, which prunes it itself
			}
			if err := s.changes.DeleteAt(ctx, rec.Key, rec.Rev); err != nil && !errors.Is(err, kvstore.ErrConflict) {
				return fmt.Errorf("delete change %s: %w", rec.Key, err)
			}
			deleted++
		}
	}
	if deleted > 0 {
		log.InfoContext(ctx, "old changes deleted", "count", deleted)
	}
	return nil
}
