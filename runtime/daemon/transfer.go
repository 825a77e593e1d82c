package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/mulgadc/spinifex/foundation/messaging"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

const (
	// transferSubject is where the process that holds a key is asked to give it away.
	transferSubject = "spinifex.locks.transfer"
	// transferSlack is what a transfer takes beyond the time that work has to stop.
	transferSlack = 10 * time.Second
	// confirmPoll is how often it is looked whether the new holder has confirmed.
	confirmPoll = 20 * time.Millisecond
)

// transferRequest asks for a key. Only the process that holds it at the generation answers.
type transferRequest struct {
	Key        string `json:"key"`
	Generation uint64 `json:"generation"`
	To         string `json:"to"`
}

// transferAnswer has an error unless the key is the other's to take.
type transferAnswer struct {
	Error string `json:"error,omitempty"`
}

// answerTransfers gives leases away when asked, until ctx ends.
func answerTransfers(ctx context.Context, conn *messaging.Conn, leases []*kvsync.Lease, log *slog.Logger) error {
	return conn.AnswerOwn(ctx, transferSubject, func(question []byte) ([]byte, error) {
		var request transferRequest
		if err := json.Unmarshal(question, &request); err != nil {
			return nil, fmt.Errorf("transfer request: %w", err)
		}
		lease := heldAt(leases, request.Key, request.Generation)
		if lease == nil {
			return nil, nil // another process's
		}
		log.Info("lease is to be handed over", "lease", request.Key, "generation", request.Generation, "to", request.To)
		var answer transferAnswer
		if err := lease.HandOver(ctx, request.To); err != nil {
			log.Warn("lease not handed over", "lease", request.Key, "generation", request.Generation, "to", request.To, "error", err)
			answer.Error = err.Error()
		}
		return json.Marshal(answer)
	})
}

// heldAt finds the lease of a key that is held at a generation, nil when this process does not hold it.
func heldAt(leases []*kvsync.Lease, key string, generation uint64) *kvsync.Lease {
	for _, lease := range leases {
		if tok, held := lease.Token(); held && lease.Key() == key && tok.Generation == generation {
			return lease
		}
	}
	return nil
}

// Transfer moves a lease to the same role of another node, which must want it: its holder stops its work,
// gives the key away, and the other confirms. It returns the lock as it is then.
func (b *LockBook) Transfer(ctx context.Context, key, toNode string) (Lock, error) {
	lock, err := b.Show(ctx, key)
	if err != nil {
		return Lock{}, err
	}
	_, role, _ := strings.Cut(lock.Holder, "/")
	to := toNode + "/" + role
	switch {
	case !lock.Answered:
		return lock, fmt.Errorf("transfer %s: its holder %s does not answer: see spinifex locks break", key, lock.Holder)
	case to == lock.Holder:
		return lock, fmt.Errorf("transfer %s: %s holds it already", key, to)
	case !slices.Contains(lock.Contenders, to):
		return lock, fmt.Errorf("transfer %s: %s does not want it, those who do: %s", key, to, strings.Join(lock.Contenders, ", "))
	}
	question, err := json.Marshal(transferRequest{Key: key, Generation: lock.Generation, To: to})
	if err != nil {
		return lock, err
	}
	bound := millis(lock.TTLMS)/3 + transferSlack // T-V is what work has to stop
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("not done within %v", bound))
	defer cancel()
	body, err := b.conn.AskOwner(ctx, transferSubject, question)
	if err != nil {
		return lock, fmt.Errorf("transfer %s: %w", key, err)
	}
	var answer transferAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return lock, fmt.Errorf("transfer %s: the answer: %w", key, err)
	}
	if answer.Error != "" {
		return lock, errors.New(answer.Error)
	}
	return b.confirmed(ctx, lock, to)
}

// confirmed waits until the new holder has written the record itself.
func (b *LockBook) confirmed(ctx context.Context, before Lock, to string) (Lock, error) {
	for {
		entry, err := b.bucket.Get(ctx, before.Key)
		if err == nil {
			lock := newLock(entry, nil, time.Now())
			if lock.Holder == to && lock.Reason == "" && lock.Generation > before.Generation {
				return lock, nil
			}
		}
		select {
		case <-ctx.Done():
			return before, fmt.Errorf("transfer %s: given to %s, which has not confirmed: %w", before.Key, to, context.Cause(ctx))
		case <-time.After(confirmPoll):
		}
	}
}
