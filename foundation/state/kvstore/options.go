package kvstore

import (
	"log/slog"

	"github.com/mulgadc/spinifex/foundation/state/clustersize"
	"github.com/mulgadc/spinifex/foundation/state/kvsync"
)

// Option configures a Bucket.
type Option func(*settings)

type settings struct {
	size       clustersize.Size
	recreate   bool
	identity   kvsync.Identity
	recorder   kvsync.Recorder
	log        *slog.Logger
	syncAlways bool
}

// WithSize declares the size of the cluster, which sets the replicas of the bucket when it is
// created and raises them when it has fewer. Without it a bucket is created on a standalone server
// only, with one replica.
func WithSize(size clustersize.Size) Option { return func(s *settings) { s.size = size } }

// WithRecreate lets a bucket that was open and is gone be created again, empty. It is for records
// that are computed anew anyway, and is ignored for the sync bucket.
func WithRecreate() Option { return func(s *settings) { s.recreate = true } }

// WithIdentity says which process this is (see kvsync.Identity). Without it the bucket makes up a
// random incarnation and proves nobody dead.
func WithIdentity(id kvsync.Identity) Option { return func(s *settings) { s.identity = id } }

// WithRecorder is told what happens to the leases and claims on the bucket.
func WithRecorder(r kvsync.Recorder) Option { return func(s *settings) { s.recorder = r } }

// WithLogger logs to l instead of nowhere.
func WithLogger(l *slog.Logger) Option { return func(s *settings) { s.log = l } }

// WithSyncAlways says that the server syncs every acknowledged write to disk, which no client can
// ask it. Without it opening the sync bucket warns: locks that a power cut takes back are not locks.
func WithSyncAlways() Option { return func(s *settings) { s.syncAlways = true } }

func newSettings(opts []Option) settings {
	s := settings{log: slog.New(slog.DiscardHandler)}
	for _, opt := range opts {
		opt(&s)
	}
	return s
}
