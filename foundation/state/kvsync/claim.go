package kvsync

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	claimTries = 3
	claimRetry = 5 * time.Millisecond
)

// Claim is ownership of a key with no expiry: it is held until it is unlocked, taken over with the
// current token, or broken. It survives the process: a successor that may adopt the record does so.
//
// All methods may be called from any goroutine.
type Claim struct {
	store  KVStore
	key    string
	holder string

	mu   sync.Mutex // guards the fields below; never held across a call of the store
	busy bool
	tok  Token  // what this object holds; zero when it holds nothing
	rev  uint64 // last known revision of tok's record
}

// NewClaim makes the claim of key for holder. It does no I/O and panics on the wiring errors of NewLease.
func NewClaim(store KVStore, key, holder string) *Claim {
	mustStore(store)
	mustHolder(holder)
	mustKey(key)
	wired.addKey(store, key)
	return newClaim(store, key, holder)
}

func newClaim(store KVStore, key, holder string) *Claim {
	return &Claim{store: store, key: key, holder: holder}
}

// enter makes this goroutine the only one that works on the claim, unless another one is, and says what
// it holds: in one step, since what was held a moment ago may be another goroutine's now.
func (c *Claim) enter() (mine Token, rev uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ok = !c.busy
	c.busy = true
	return c.tok, c.rev, ok
}

func (c *Claim) leave(tok Token, rev uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy, c.tok, c.rev = false, tok, rev
}

// TryLock acquires the claim, or adopts it where this holder's own incarnation, or one that the store
// proves dead, has it. It is *HeldError when another has it, or another goroutine of this process does.
func (c *Claim) TryLock(ctx context.Context) (Token, error) {
	mine, rev, ok := c.enter()
	if ok && mine != (Token{}) {
		c.leave(mine, rev)
		ok = false
	}
	if !ok {
		return Token{}, &HeldError{Key: c.key, Current: Token{Holder: c.holder, Generation: mine.Generation}}
	}
	tok, rev, err := c.acquire(ctx)
	c.leave(tok, rev)
	if err != nil {
		return Token{}, err
	}
	return tok, nil
}

func (c *Claim) acquire(ctx context.Context) (Token, uint64, error) {
	inc := incarnationOf(c.store)
	var at, generation uint64 // of the record to adopt; 0 to create
	for range claimTries {
		rec := record{Holder: c.holder, Generation: generation, Incarnation: inc, Nonce: newNonce()}
		o := swap(ctx, c.store, c.key, rec, at)
		if o.landed {
			tok := rec.token(o.rev)
			c.record(EventAcquired, tok, map[bool]string{true: "created", false: "adopted"}[at == 0])
			return tok, o.rev, nil
		}
		if o.saw == nil || o.saw.err != nil {
			return Token{}, 0, c.failed("acquire", o)
		}
		saw := o.saw
		at, generation = 0, 0
		switch {
		case saw.absent: // freed, or a write that may land late: a newer one at this revision settles it
			continue
		case saw.bad:
			return Token{}, 0, c.undecodable(saw.rev)
		case saw.rec.Holder == c.holder && (saw.rec.Incarnation == inc || provenDead(c.store, saw.rec.Incarnation)):
			at, generation = saw.rev, saw.rec.token(saw.rev).Generation
		default:
			return Token{}, 0, &HeldError{Key: c.key, Current: saw.rec.token(saw.rev)}
		}
	}
	return Token{}, 0, fmt.Errorf("acquire claim %s: every write was refused: %w", c.key, ErrUnavailable)
}

// Unlock frees the claim if it is still held with tok. ErrLost means that the key is gone or another's;
// after any other error the claim is still held, as far as is known.
func (c *Claim) Unlock(ctx context.Context, tok Token) error {
	mine, held, ok := c.enter()
	if !ok {
		return fmt.Errorf("unlock claim %s: another call is under way: %w", c.key, ErrUnavailable)
	}
	rev := held
	if mine != tok {
		rev = tok.Generation // a claim's record is written once, unless it was adopted
	}
	err := c.free(ctx, tok, rev)
	switch {
	case mine != tok:
		c.leave(mine, held)
	case err == nil || errors.Is(err, ErrLost):
		c.leave(Token{}, 0)
	default:
		c.leave(mine, rev)
	}
	if err == nil {
		c.record(EventReleased, tok, "unlocked")
	}
	return err
}

func (c *Claim) free(ctx context.Context, tok Token, rev uint64) error {
	var last error
	for range claimTries {
		err := remove(ctx, c.store, c.key, rev)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrNotFound):
			return fmt.Errorf("unlock claim %s: %w", c.key, ErrLost)
		case errors.Is(err, ErrStoreRegressed):
			return fmt.Errorf("unlock claim %s: %w", c.key, err)
		}
		unknown := !errors.Is(err, ErrRevisionMismatch)
		saw := load(ctx, c.store, c.key)
		switch {
		case saw.err != nil:
			if !unknown {
				err = saw.err
			}
			return fmt.Errorf("unlock claim %s: %w", c.key, unavailable(err))
		case saw.absent && unknown:
			return nil // our delete landed
		case saw.absent, saw.bad, saw.rec.token(saw.rev) != tok:
			return fmt.Errorf("unlock claim %s: %w", c.key, ErrLost)
		}
		rev, last = saw.rev, err
		if !pause(ctx, claimRetry) {
			break
		}
	}
	return fmt.Errorf("unlock claim %s: %w", c.key, unavailable(last))
}

// TakeOver moves the claim to this holder only while it is held by exactly from; otherwise it is
// *HeldError that names who has it, with a zero Token when nobody does.
func (c *Claim) TakeOver(ctx context.Context, from Token) (Token, error) {
	mine, rev, ok := c.enter()
	if !ok {
		return Token{}, &HeldError{Key: c.key, Current: Token{Holder: c.holder, Generation: mine.Generation}}
	}
	tok, newRev, err := c.takeOver(ctx, from)
	if err != nil {
		c.leave(mine, rev)
		return Token{}, err
	}
	c.leave(tok, newRev)
	return tok, nil
}

func (c *Claim) takeOver(ctx context.Context, from Token) (Token, uint64, error) {
	saw := load(ctx, c.store, c.key)
	sent := map[string]bool{}
	for range claimTries {
		switch {
		case saw.err != nil:
			return Token{}, 0, fmt.Errorf("take over claim %s: %w", c.key, saw.err)
		case saw.absent:
			return Token{}, 0, &HeldError{Key: c.key}
		case saw.bad:
			return Token{}, 0, c.undecodable(saw.rev)
		case sent[saw.rec.Nonce]: // an earlier try had landed after all
			return saw.rec.token(saw.rev), saw.rev, nil
		case saw.rec.token(saw.rev) != from:
			return Token{}, 0, &HeldError{Key: c.key, Current: saw.rec.token(saw.rev)}
		}
		rec := record{Holder: c.holder, Incarnation: incarnationOf(c.store), Nonce: newNonce()}
		sent[rec.Nonce] = true
		o := swap(ctx, c.store, c.key, rec, saw.rev)
		if o.landed {
			tok := rec.token(o.rev)
			c.record(EventTookOver, tok, "claim")
			return tok, o.rev, nil
		}
		if o.saw == nil || o.saw.err != nil {
			return Token{}, 0, c.failed("take over", o)
		}
		saw = *o.saw
	}
	return Token{}, 0, fmt.Errorf("take over claim %s: every write was refused: %w", c.key, ErrUnavailable)
}

// Holder says who has the claim, or false when nobody does.
func (c *Claim) Holder(ctx context.Context) (Token, bool, error) {
	saw := load(ctx, c.store, c.key)
	switch {
	case saw.err != nil:
		return Token{}, false, fmt.Errorf("look at claim %s: %w", c.key, saw.err)
	case saw.absent:
		return Token{}, false, nil
	case saw.bad:
		return Token{}, false, c.undecodable(saw.rev)
	}
	return saw.rec.token(saw.rev), true, nil
}

func (c *Claim) failed(what string, o outcome) error {
	err := o.err
	if err == nil && o.saw != nil {
		err = o.saw.err
	}
	if o.unknown {
		c.record(EventUnknown, Token{Holder: c.holder}, what)
	}
	return fmt.Errorf("%s claim %s: %w", what, c.key, err)
}

func (c *Claim) undecodable(rev uint64) error {
	return fmt.Errorf("claim %s: %w at revision %d: look at it with `locks show`, free it with `locks break %s --generation %d`",
		c.key, errUndecodable, rev, c.key, rev)
}

func (c *Claim) record(kind EventKind, tok Token, reason string) {
	emit(c.store, Event{Kind: kind, Key: c.key, Token: tok, Reason: reason})
}
