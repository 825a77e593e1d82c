package kvsync

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Why says what a Change was.
type Why string

// The reasons of a Change.
const (
	WhyAcquired    Why = "acquired"
	WhyReleased    Why = "released"
	WhyExpired     Why = "expired" // taken over without having been released
	WhyBroken      Why = "broken"
	WhyTransferred Why = "transferred"
)

// Change is one change of who has a key. After WhyReleased, WhyExpired and WhyBroken, Token is the
// one whose ownership ended; after WhyTransferred it names the holder to be.
type Change struct {
	Key   string
	Token Token
	Why   Why
}

// observePoll is how often a key is looked at where the store cannot be watched.
const observePoll = time.Second

// Observe sends the changes of ownership of a key, or of the keys below a prefix that ends in a dot,
// beginning with who has them now, until ctx ends or the watch breaks; then the channel is closed.
// Renewals are no changes. A store without a Watcher is polled for a key; for a prefix that is
// errors.ErrUnsupported.
func Observe(ctx context.Context, store KVStore, keyOrPrefix string) (<-chan Change, error) {
	var updates <-chan Update
	if w, ok := store.(Watcher); ok {
		var err error
		if updates, err = w.Watch(ctx, keyOrPrefix); err != nil {
			return nil, fmt.Errorf("observe %s: %w", keyOrPrefix, err)
		}
	} else if strings.HasSuffix(keyOrPrefix, ".") {
		return nil, fmt.Errorf("observe the prefix %s on a store that cannot be watched: %w", keyOrPrefix, errors.ErrUnsupported)
	} else {
		updates = polled(ctx, store, keyOrPrefix)
	}
	changes := make(chan Change)
	go func() {
		defer close(changes)
		o := observer{last: map[string]held{}}
		for u := range updates {
			for _, c := range o.changes(u) {
				select {
				case changes <- c:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return changes, nil
}

// polled imitates a watch of one key by looking at it.
func polled(ctx context.Context, store KVStore, key string) <-chan Update {
	updates := make(chan Update)
	go func() {
		defer close(updates)
		var last uint64
		for {
			value, rev, err := store.Load(ctx, key)
			u := Update{Key: key, Value: value, Rev: rev}
			send := err == nil && rev > last
			if errors.Is(err, ErrNotFound) && last > 0 {
				u, send = Update{Key: key, Rev: last, Deleted: true}, true
			}
			if send {
				select {
				case updates <- u:
				case <-ctx.Done():
					return
				}
				last = rev
			}
			if !pause(ctx, observePoll) {
				return
			}
		}
	}()
	return updates
}

type held struct {
	tok    Token
	broken bool
}

// observer turns updates into changes.
type observer struct{ last map[string]held }

func (o *observer) changes(u Update) []Change {
	before, had := o.last[u.Key]
	if u.Deleted {
		delete(o.last, u.Key)
		if !had || before.broken {
			return nil
		}
		return []Change{{u.Key, before.tok, WhyReleased}}
	}
	rec, err := decodeRecord(u.Value)
	if err != nil {
		rec = record{}
	}
	tok := rec.token(u.Rev)
	switch {
	case had && before.tok == tok && !rec.broken():
		return nil // a renewal
	case rec.broken():
		o.last[u.Key] = held{tok: tok, broken: true}
		return []Change{{u.Key, tok, WhyBroken}}
	case rec.transferred():
		delete(o.last, u.Key)
		return []Change{{u.Key, tok, WhyTransferred}}
	}
	o.last[u.Key] = held{tok: tok}
	if had && !before.broken {
		return []Change{{u.Key, before.tok, WhyExpired}, {u.Key, tok, WhyAcquired}}
	}
	return []Change{{u.Key, tok, WhyAcquired}}
}

// Break frees a key that still holds exactly tok, whoever's it is: first it writes the reason, so that
// observers and the holder learn it, then it deletes. Otherwise it is *HeldError with the current token
// (zero when absent). A record that cannot be decoded is named by Token{Generation: its revision}.
func Break(ctx context.Context, store KVStore, key string, tok Token, reason string) error {
	saw := load(ctx, store, key)
	if saw.err != nil {
		return fmt.Errorf("break %s: %w", key, saw.err)
	}
	current := Token{Generation: saw.rev}
	if !saw.bad && !saw.absent {
		current = saw.rec.token(saw.rev)
	}
	if saw.absent || current != tok {
		return &HeldError{Key: key, Current: current}
	}
	holder := tok.Holder
	if holder == "" {
		holder = "unknown"
	}
	const room = 200 // of the record's 512 bytes
	if len(reason) > room {
		reason = strings.ToValidUTF8(reason[:room], "")
	}
	rec := record{Holder: holder, Generation: tok.Generation, Nonce: newNonce(), TTLMillis: saw.rec.TTLMillis, Reason: brokenReason + reason}
	o := swap(ctx, store, key, rec, saw.rev)
	switch {
	case o.landed:
	case o.err != nil:
		return fmt.Errorf("break %s: %w", key, o.err)
	case o.saw.err != nil:
		return fmt.Errorf("break %s: %w", key, o.saw.err)
	case o.saw.absent:
		return &HeldError{Key: key}
	default:
		return &HeldError{Key: key, Current: o.saw.rec.token(o.saw.rev)}
	}
	if err := remove(ctx, store, key, o.rev); err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("break %s: the reason is written, the delete failed, run it again: %w", key, err)
	}
	return nil
}
