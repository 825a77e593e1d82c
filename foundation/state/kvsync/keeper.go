package kvsync

import (
	"context"
	"errors"
	"time"
)

const (
	maxInFlight  = 4 // renewals under way at once: R / (T/24), so that a stuck one never delays the next
	quickRetries = 5 // after a refusal that proves nothing, such as another write in flight
	quickRetry   = 8 * time.Millisecond
	confirmLoss  = 2 // looks that must agree that the key is gone
)

// renewal is what became of one renewing write.
type renewal struct {
	outcome
	nonce string
	at    uint64 // the revision that it expected
}

// keep renews a, from when the first renewal is due until a ends. It owns a's renewal goroutines, which end with a or, where the store is
// stuck, when the store lets go.
func (l *Lease) keep(a *acquisition) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(ErrLost)
	k := &keeper{Lease: l, acq: a, results: make(chan renewal, 2*maxInFlight)}
	k.due = time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		valid, ended := k.validFor()
		if ended {
			return
		}
		if valid <= 0 {
			l.lose(a, "expired")
			return
		}
		timer.Reset(min(valid, max(0, time.Until(k.due))))
		select {
		case <-a.lost:
			return
		case r := <-k.results:
			k.inFlight--
			k.settle(r)
		case <-timer.C:
			if time.Until(k.due) <= 0 {
				k.send(ctx)
			}
		}
	}
}

// keeper is the state of one acquisition's renewal loop; only the loop touches it.
type keeper struct {
	*Lease
	acq      *acquisition
	results  chan renewal
	due      time.Time // of the next renewal
	inFlight int
	quick    int // quick retries since the last renewal that landed
	gone     int // looks in a row that did not find the key
}

func (k *keeper) validFor() (valid time.Duration, ended bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.acq.ended {
		return 0, true
	}
	return validity(k.ttl) - k.acq.sent.heldSince(readClock()), false
}

// send starts a renewal, unless too many are stuck, and sets when the next try is due if this one
// is not answered.
func (k *keeper) send(ctx context.Context) {
	// The nearer the end the sooner: an outage that is over before the end must not cost the lease.
	valid, _ := k.validFor()
	k.due = time.Now().Add(max(minRetry, min(retryAfter(k.ttl), valid/2)))
	if k.inFlight >= maxInFlight {
		return
	}
	nonce := newNonce()
	k.mu.Lock()
	if k.acq.ended {
		k.mu.Unlock()
		return
	}
	rev := k.acq.rev
	if k.acq.pending == nil {
		k.acq.pending = map[string]instant{}
	}
	k.acq.pending[nonce] = readClock() // before the request leaves: a late reader must find it
	k.mu.Unlock()
	k.inFlight++
	rec := record{
		Holder: k.holder, Generation: k.acq.tok.Generation, Incarnation: incarnationOf(k.store),
		Nonce: nonce, TTLMillis: millisUp(k.ttl),
	}
	results := k.results
	go func() {
		// Left behind just before its place is needed: the try that is due R after this one.
		ctx, cancel := context.WithTimeout(ctx, max(k.ttl/renewPart-minRetry, minRetry))
		defer cancel()
		results <- renewal{outcome: swap(ctx, k.store, k.key, rec, rev), nonce: nonce, at: rev}
	}()
}

// settle takes in the fate of one renewal.
func (k *keeper) settle(r renewal) {
	if r.landed {
		k.extend(r.nonce, r.rev)
		return
	}
	if errors.Is(r.err, ErrStoreRegressed) {
		k.lose(k.acq, "regressed")
		return
	}
	if r.unknown {
		emit(k.store, Event{Kind: EventUnknown, Key: k.key, Token: k.acq.tok, Reason: "renew"})
	} else if r.err != nil {
		k.drop(r.nonce) // it certainly did not happen
	}
	if r.saw == nil || r.saw.err != nil {
		if r.saw != nil && errors.Is(r.saw.err, ErrStoreRegressed) {
			k.lose(k.acq, "regressed")
		}
		return // the next try is due already
	}
	k.mu.Lock()
	rev := k.acq.rev
	_, ours := k.acq.pending[r.saw.rec.Nonce]
	k.mu.Unlock()
	switch saw := r.saw; {
	case saw.absent:
		if r.at == rev {
			k.gone++
		}
		if k.gone >= confirmLoss {
			k.lose(k.acq, "deleted")
			return
		}
		k.again()
	case saw.rev <= rev: // unchanged, or an old answer: the refusal was about something else
		if r.at == rev {
			k.again()
		}
	case ours && !saw.bad:
		k.extend(saw.rec.Nonce, saw.rev) // an earlier renewal had landed after all
	case saw.rec.broken():
		k.lose(k.acq, "broken")
	default:
		k.lose(k.acq, "replaced")
	}
}

// again retries soon, and after some tries at the ordinary pace.
func (k *keeper) again() {
	if k.quick >= quickRetries {
		return
	}
	k.quick++
	k.due = time.Now().Add(min(quickRetry/2+k.jitter(quickRetry), retryAfter(k.ttl)))
}

// extend counts a landed renewal from its own send. One that belongs to an ended acquisition, or whose
// send is older than what is counted already, changes nothing.
func (k *keeper) extend(nonce string, rev uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.acq
	sent, known := a.pending[nonce]
	now := readClock()
	if !known || a.ended || rev <= a.rev || validity(k.ttl) <= a.sent.heldSince(now) {
		return
	}
	a.rev, a.nonce, a.sent = rev, nonce, sent
	clear(a.pending)
	k.quick, k.gone = 0, 0
	k.due = now.at.Add(k.ttl/renewPart - sent.heldSince(now))
	emit(k.store, Event{
		Kind: EventRenewed, Key: k.key, Token: a.tok,
		Latency: sent.heldSince(now), Margin: validity(k.ttl) - sent.heldSince(now),
	})
}

func (k *keeper) drop(nonce string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.acq.pending, nonce)
}
