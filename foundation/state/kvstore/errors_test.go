package kvstore

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
)

func TestErrorsCarryBothPackagesSentinels(t *testing.T) {
	api := func(code jetstream.ErrorCode) error { return &jetstream.APIError{Code: 400, ErrorCode: code} }
	of := func(cause error, write bool) error {
		return &natskv.Error{Op: "op", Bucket: "b", Key: "k", Kind: natskv.Classify(cause, write), Err: cause}
	}
	all := []error{
		ErrNotFound, ErrConflict, ErrFenced, ErrTooLarge, kvsync.ErrNotFound, kvsync.ErrRevisionMismatch,
		kvsync.ErrLost, kvsync.ErrUnavailable, kvsync.ErrUnknownOutcome, kvsync.ErrStoreRegressed,
	}
	cases := map[string]struct {
		err  error
		want []error
	}{
		"not found":   {of(jetstream.ErrMsgNotFound, false), []error{ErrNotFound, kvsync.ErrNotFound}},
		"10071":       {of(api(10071), true), []error{ErrConflict, kvsync.ErrRevisionMismatch}},
		"10164":       {of(api(10164), true), []error{ErrConflict, kvsync.ErrRevisionMismatch}},
		"key exists":  {of(jetstream.ErrKeyExists, true), []error{ErrConflict, kvsync.ErrRevisionMismatch}},
		"10059":       {of(api(10059), true), []error{kvsync.ErrStoreRegressed}},
		"10008":       {of(api(10008), true), []error{kvsync.ErrUnavailable}},
		"unanswered":  {of(context.DeadlineExceeded, true), []error{kvsync.ErrUnavailable, kvsync.ErrUnknownOutcome}},
		"unread":      {of(context.DeadlineExceeded, false), []error{kvsync.ErrUnavailable}},
		"10054":       {of(api(10054), true), []error{ErrTooLarge}},
		"max payload": {of(nats.ErrMaxPayload, true), []error{ErrTooLarge}},
		"fenced":      {&FencedError{Bucket: "b"}, []error{ErrFenced, kvsync.ErrLost}},
		"stuck open":  {unavailable("b", context.Canceled), []error{kvsync.ErrUnavailable}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []error
			for _, sentinel := range all {
				if errors.Is(translate(c.err), sentinel) {
					got = append(got, sentinel)
				}
			}
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.err.Error(), translate(c.err).Error(), "the text is not repeated")
		})
	}
	assert.NoError(t, translate(nil))
}

func TestAtLeast(t *testing.T) {
	for version, want := range map[string]bool{
		"2.14.4": true, "2.14.10": true, "2.15.3": true, "3.0.0": true, "v2.15.0-RC.1": true,
		"2.14.3": false, "2.9.10": false, "1.99.99": false, "": false, "what": false,
	} {
		assert.Equal(t, want, atLeast(version, MinServerVersion), version)
	}
}
