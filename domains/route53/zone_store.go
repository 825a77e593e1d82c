package route53

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mulgadc/spinifex/foundation/aws"
	api "github.com/mulgadc/spinifex/foundation/aws/api/route53"
	"github.com/mulgadc/spinifex/foundation/state/kvstore"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

const (
	// contention is how long a writer keeps trying to get its change past those of others.
	contention = 5 * time.Second
	// contentionPause is the mean pause before the next try; it doubles up to maxContentionPause.
	contentionPause    = 2 * time.Millisecond
	maxContentionPause = 50 * time.Millisecond
)

// errUnchanged is returned by an edit that has nothing to write.
var errUnchanged = errors.New("route53: nothing to change")

// storeError makes the answer to a failed store operation: a store that cannot be asked is
// ServiceUnavailable, which clients retry; anything else is internal.
func storeError(op, key string, err error) error {
	err = fmt.Errorf("%s %s: %w", op, key, err)
	if errors.Is(err, kvsync.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		return aws.Unavailable("The service is unavailable. Please try again shortly.").WithCause(err)
	}
	return err
}

// getZone returns the hosted zone of an id as a client gives it.
func (s *Service) getZone(ctx context.Context, account, givenID string) (*zoneRecord, error) {
	id, ok := bareID(givenID, zonePrefix)
	if !ok {
		return nil, noSuchZone(givenID)
	}
	z, _, err := s.zones.Get(ctx, zoneKey(account, id))
	switch {
	case errors.Is(err, kvstore.ErrNotFound):
		return nil, noSuchZone(id)
	case err != nil:
		return nil, storeError("read hosted zone", zoneKey(account, id), err)
	}
	return z, nil
}

// listZones returns the account's hosted zones in the order of their ids.
func (s *Service) listZones(ctx context.Context, account string) ([]*zoneRecord, error) {
	var out []*zoneRecord
	for rec, err := range s.zones.List(ctx, prefix(account, kindZone)) {
		if err != nil {
			return nil, storeError("list hosted zones", prefix(account, kindZone), err)
		}
		out = append(out, rec.Value)
	}
	return out, nil
}

// editZone changes a hosted zone by compare-and-swap: it calls edit with the current record and
// writes the outcome, again from the start whenever somebody else was first. A lost race loses
// nothing; only when others win for all of contention is it PriorRequestNotComplete. edit may be
// called several times, also after a write of its own whose answer was lost, so it has to be
// harmless to repeat, or to find its own traces. Its errors end the edit; errUnchanged succeeds.
func (s *Service) editZone(ctx context.Context, account, givenID string, edit func(*zoneRecord) error) (*zoneRecord, error) {
	id, ok := bareID(givenID, zonePrefix)
	if !ok {
		return nil, noSuchZone(givenID)
	}
	key := zoneKey(account, id)
	release, err := s.turns.take(ctx, key)
	if err != nil {
		return nil, storeError("wait to write hosted zone", key, err)
	}
	defer release()
	pause := contentionPause
	for start := time.Now(); time.Since(start) < contention; {
		var z *zoneRecord
		z, err = s.tryEdit(ctx, key, edit)
		switch {
		case err == nil:
			return z, nil
		case errors.Is(err, kvstore.ErrNotFound):
			return nil, noSuchZone(id)
		case !errors.Is(err, kvstore.ErrConflict) && !errors.Is(err, kvsync.ErrUnknownOutcome):
			return nil, err
		}
		if err := sleep(ctx, pause/2+rand.N(pause)); err != nil {
			return nil, storeError("write hosted zone", key, err)
		}
		pause = min(2*pause, maxContentionPause)
	}
	if errors.Is(err, kvsync.ErrUnknownOutcome) {
		return nil, storeError("write hosted zone", key, err)
	}
	return nil, aws.Errorf(api.CodePriorRequestNotComplete,
		"The request was rejected because Route 53 was still processing a prior request.")
}

// tryEdit reads, edits and writes once.
func (s *Service) tryEdit(ctx context.Context, key string, edit func(*zoneRecord) error) (*zoneRecord, error) {
	entry, err := s.deps.Bucket.Get(ctx, key)
	if err != nil {
		return nil, storeError("read hosted zone", key, err)
	}
	z, err := s.zones.Decode(entry.Value)
	if err != nil {
		return nil, fmt.Errorf("read hosted zone %s: %w", key, err)
	}
	if err := edit(z); errors.Is(err, errUnchanged) {
		return z, nil
	} else if err != nil {
		return nil, err
	}
	stored, err := s.zones.EncodeOver(entry.Value, z)
	if err != nil {
		return nil, fmt.Errorf("write hosted zone %s: %w", key, err)
	}
	if len(stored) > s.deps.MaxZoneBytes {
		return nil, tooLarge(s.deps.MaxZoneBytes)
	}
	if _, err = s.deps.Bucket.Update(ctx, key, stored, entry.Rev); err == nil {
		return z, nil
	}
	switch {
	case errors.Is(err, kvstore.ErrTooLarge):
		return nil, tooLarge(s.deps.MaxZoneBytes).WithCause(err)
	case errors.Is(err, kvstore.ErrConflict), errors.Is(err, kvsync.ErrUnknownOutcome):
		return nil, err
	}
	return nil, storeError("write hosted zone", key, err)
}

func tooLarge(limit int) *aws.Error {
	return invalidChangeBatch(fmt.Sprintf("The hosted zone would be larger than the limit of %d bytes.", limit))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
