package natskv_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"

	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
)

func api(code int) error {
	return fmt.Errorf("nats: %w", &jetstream.APIError{Code: 400, ErrorCode: jetstream.ErrorCode(code), Description: "said the server"})
}

// TestClassify names every shape of failure. read and write are the sentinel of each; nil is a
// mistake of the caller.
func TestClassify(t *testing.T) {
	type sentinels struct{ read, write error }
	both := func(err error) sentinels { return sentinels{err, err} }
	unavailable := both(kvsync.ErrUnavailable)
	unknown := sentinels{kvsync.ErrUnavailable, kvsync.ErrUnknownOutcome}
	cases := map[string]struct {
		err  error
		want sentinels
	}{
		"10037 no message":          {api(10037), both(kvsync.ErrNotFound)},
		"message not found":         {jetstream.ErrMsgNotFound, both(kvsync.ErrNotFound)},
		"key not found":             {jetstream.ErrKeyNotFound, both(kvsync.ErrNotFound)},
		"key deleted":               {jetstream.ErrKeyDeleted, both(kvsync.ErrNotFound)},
		"10071 wrong last sequence": {api(10071), both(kvsync.ErrRevisionMismatch)},
		"10164 in flight":           {api(10164), both(natskv.ErrInFlight)},
		"key exists":                {jetstream.ErrKeyExists, both(kvsync.ErrRevisionMismatch)},
		"10059 stream not found":    {api(10059), both(kvsync.ErrStoreRegressed)},
		"stream not found":          {jetstream.ErrStreamNotFound, both(kvsync.ErrStoreRegressed)},
		"bucket not found":          {jetstream.ErrBucketNotFound, both(kvsync.ErrStoreRegressed)},

		"no responders":           {nats.ErrNoResponders, unavailable},
		"no stream response":      {jetstream.ErrNoStreamResponse, unavailable},
		"draining":                {nats.ErrConnectionDraining, unavailable},
		"reconnecting":            {nats.ErrConnectionReconnecting, unavailable},
		"buffer exceeded":         {nats.ErrReconnectBufExceeded, unavailable},
		"no servers":              {nats.ErrNoServers, unavailable},
		"no connection":           {nats.ErrInvalidConnection, unavailable},
		"10002 account resources": {api(10002), unavailable},
		"10005 no peers":          {api(10005), unavailable},
		"10007 not assigned":      {api(10007), unavailable},
		"10008 not available":     {api(10008), unavailable},
		"10009 not leader":        {api(10009), unavailable},
		"10023 insufficient":      {api(10023), unavailable},
		"10028 memory":            {api(10028), unavailable},
		"10039 account disabled":  {api(10039), unavailable},
		"10047 storage":           {api(10047), unavailable},
		"10076 not enabled":       {api(10076), unavailable},
		"10109 sealed":            {api(10109), unavailable},
		"10118 stream offline":    {api(10118), unavailable},
		"10163 not ready":         {api(10163), unavailable},
		"10167 too many requests": {api(10167), unavailable},
		"10174 batches disabled":  {api(10174), unavailable},
		"10176 incomplete batch":  {api(10176), unavailable},
		"10210 too many batches":  {api(10210), unavailable},

		"deadline":             {context.DeadlineExceeded, unknown},
		"cancelled":            {context.Canceled, unknown},
		"timeout":              {nats.ErrTimeout, unknown},
		"closed":               {nats.ErrConnectionClosed, unknown},
		"disconnected":         {nats.ErrDisconnected, unknown},
		"not an answer":        {jetstream.ErrInvalidJSAck, unknown},
		"10041 raft":           {api(10041), unknown},
		"10077 store failed":   {api(10077), unknown},
		"a code of the future": {api(19999), unknown},
		"anything else":        {errors.New("surprise"), unknown},

		"10054 too large":  {api(10054), both(nil)},
		"10097 header":     {api(10097), both(nil)},
		"payload too long": {nats.ErrMaxPayload, both(nil)},
		"bad subject":      {nats.ErrBadSubject, both(nil)},
		"bad key":          {jetstream.ErrInvalidKey, both(nil)},
		"nothing":          {nil, both(nil)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want.read, natskv.Classify(c.err, false), "read")
			assert.Equal(t, c.want.write, natskv.Classify(c.err, true), "write")
		})
	}
	assert.ErrorIs(t, natskv.ErrInFlight, kvsync.ErrRevisionMismatch)
}

func TestRetryableIsWhatHasNotHappened(t *testing.T) {
	for _, code := range []int{10163, 10167, 10176, 10210} {
		assert.True(t, natskv.Retryable(api(code)), code)
	}
	assert.True(t, natskv.Retryable(natskv.ErrInFlight))
	for _, code := range []int{10071, 10059, 10077, 10008} {
		assert.False(t, natskv.Retryable(api(code)), code)
	}
	assert.False(t, natskv.Retryable(kvsync.ErrUnknownOutcome))
}
