package kvstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
	"github.com/mulgadc/spinifex/foundation/state/kvsync/natskv"
)

// MinServerVersion is the oldest NATS server that is served: earlier ones get batches with a
// condition on another key wrong.
const MinServerVersion = "2.14.4"

// lookTimeout bounds one question about the bucket. Asked while nobody leads, it is never answered.
const lookTimeout = 3 * time.Second

// connect opens the bucket: it looks for it, creates it only when there is none, checks its
// configuration, and raises its replicas as well as it can.
func (b *Bucket) connect(ctx context.Context) (*opened, error) {
	if err := natskv.CheckBucket(b.name); err != nil {
		return nil, err
	}
	conn := b.js.Conn()
	if status := conn.Status(); status != nats.CONNECTED {
		return nil, unavailable(b.name, fmt.Errorf("connection %s", status))
	}
	if err := checkServer(conn); err != nil {
		return nil, err
	}
	_, err := b.handle(ctx)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		err = b.create(ctx)
	}
	if err != nil {
		return nil, b.openError(err)
	}
	if err := b.fit(ctx); err != nil {
		return nil, b.openError(err)
	}
	store, err := natskv.Open(ctx, b.js, b.name)
	if err != nil {
		return nil, b.openError(err)
	}
	// After the repair: a handle keeps the configuration that it was made with, direct reads too.
	kv, err := b.handle(ctx)
	if err != nil {
		return nil, b.openError(err)
	}
	if b.sync {
		b.warn(conn)
		if err := ensureVersion(ctx, store); err != nil {
			return nil, err
		}
	}
	return &opened{store: store, kv: kv}, nil
}

// handle looks the bucket up.
func (b *Bucket) handle(ctx context.Context) (jetstream.KeyValue, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return b.js.KeyValue(ctx, b.name)
}

// stored returns the bucket's stored configuration.
func (b *Bucket) stored(ctx context.Context) (jetstream.StreamConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	stream, err := b.js.Stream(ctx, natskv.StreamName(b.name))
	if err != nil {
		return jetstream.StreamConfig{}, err
	}
	return stream.CachedInfo().Config, nil
}

// fit makes the stored configuration what it has to be.
func (b *Bucket) fit(ctx context.Context) error {
	cfg, err := b.stored(ctx)
	if err != nil {
		return err
	}
	repaired, err := b.repair(ctx, cfg)
	if err != nil {
		return err
	}
	if _, err := raise(ctx, b.js, repaired, b.set.size); err != nil {
		// A cluster that is still forming cannot place them yet; what is there works.
		b.set.log.Warn("replicas not raised", "bucket", b.name,
			"have", repaired.Replicas, "want", b.set.size.Replicas(), "error", err)
	}
	return nil
}

// warn says what weakens the sync bucket without making it unusable.
func (b *Bucket) warn(conn *nats.Conn) {
	if conn.Opts.ReconnectBufSize >= 0 {
		b.set.log.Warn("connection of the sync bucket has a reconnect buffer: a write of a lock may be sent after its caller gave up",
			"bucket", b.name, "reconnect_buffer_bytes", conn.Opts.ReconnectBufSize)
	}
	if !b.set.syncAlways {
		b.set.log.Warn("server not known to sync every write: a power cut may take back acknowledged locks",
			"bucket", b.name, "server", conn.ConnectedServerName())
	}
}

// openError tells what is permanent from what is not.
func (b *Bucket) openError(err error) error {
	permanent := []error{clustersize.ErrUndeclared, ErrUnfit, ErrNewerVersion, natskv.ErrKey}
	for _, p := range permanent {
		if errors.Is(err, p) {
			return err
		}
	}
	switch {
	case errors.Is(err, jetstream.ErrBadBucket):
		return fmt.Errorf("%w: %s: the stream is not one of a bucket", ErrUnfit, b.name)
	case errors.Is(err, kvsync.ErrUnavailable), errors.Is(err, kvsync.ErrStoreRegressed):
		return err
	}
	return unavailable(b.name, err)
}

// checkServer refuses a server older than MinServerVersion, by name.
func checkServer(conn *nats.Conn) error {
	version := conn.ConnectedServerVersion()
	if version == "" {
		return nil // not connected at this moment: the next request says so
	}
	if !atLeast(version, MinServerVersion) {
		return fmt.Errorf("%w: nats-server %s (%s), %s or newer is needed",
			ErrServerTooOld, version, conn.ConnectedServerName(), MinServerVersion)
	}
	return nil
}

// atLeast compares versions of the form major.minor.patch, with or without a v before and a
// pre-release after. A part that is no number counts as 0.
func atLeast(version, least string) bool {
	a, b := versionParts(version), versionParts(least)
	for i := range a {
		if a[i] != b[i] {
			return a[i] > b[i]
		}
	}
	return true
}

func versionParts(v string) (parts [3]int) {
	v, _, _ = strings.Cut(strings.TrimPrefix(v, "v"), "-")
	for i, p := range strings.SplitN(v, ".", 3) {
		parts[i], _ = strconv.Atoi(p)
	}
	return parts
}
