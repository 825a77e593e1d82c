package kvstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
)

// LastWrite returns the key that was last written among those that a bucket holds, with its value
// and the server's time of the write. Deleted keys are not held. It opens and creates nothing, and
// takes a bucket of any configuration; one that does not exist holds nothing.
func LastWrite(ctx context.Context, js jetstream.JetStream, bucket string) (key string, value []byte, at time.Time, found bool, err error) {
	if err := natskv.CheckBucket(bucket); err != nil {
		return "", nil, time.Time{}, false, err
	}
	last, err := lastHeld(ctx, js, bucket)
	if err != nil {
		return "", nil, time.Time{}, false, fmt.Errorf("last write of %s: %w", bucket, err)
	}
	if last == nil {
		return "", nil, time.Time{}, false, nil
	}
	return strings.TrimPrefix(last.Subject, "$KV."+bucket+"."), last.Data, last.Time, true, nil
}

// lastHeld returns the newest message of a bucket that is no delete marker, nil when there is none.
func lastHeld(ctx context.Context, js jetstream.JetStream, bucket string) (*jetstream.RawStreamMsg, error) {
	stream, err := js.Stream(ctx, natskv.StreamName(bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter("$KV."+bucket+".>"))
	if err != nil {
		return nil, err
	}
	// A live key is usually the newest message of all; only behind a marker are all looked at.
	if m, err := stream.GetMsg(ctx, info.State.LastSeq); err == nil && !natskv.IsMarker(m.Header) {
		return m, nil
	}
	var last *jetstream.RawStreamMsg
	for subject := range info.State.Subjects {
		m, err := stream.GetLastMsgForSubject(ctx, subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			continue // deleted by its age meanwhile
		case err != nil:
			return nil, err
		}
		if !natskv.IsMarker(m.Header) && (last == nil || m.Sequence > last.Sequence) {
			last = m
		}
	}
	return last, nil
}
