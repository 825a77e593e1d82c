package natskv

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	streamPrefix  = "KV_"
	subjectPrefix = "$KV."
)

// duplicateWindow is the server's default; no write here carries a message id.
const duplicateWindow = 2 * time.Minute

// StreamName returns the name of the stream that holds a bucket.
func StreamName(bucket string) string { return streamPrefix + bucket }

// BucketName returns the bucket that a stream holds, and whether it is one of a bucket.
func BucketName(stream string) (string, bool) { return strings.CutPrefix(stream, streamPrefix) }

// StreamConfig returns the stream of a bucket: the layout of JetStream KV with one revision per
// key, reads by the leader only, atomic batches, and nothing that makes a revision disappear. The
// caller sets what is chosen when the stream is made (FirstSeq).
func StreamConfig(bucket string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:               StreamName(bucket),
		Subjects:           []string{subjectPrefix + bucket + ".>"},
		Retention:          jetstream.LimitsPolicy,
		MaxConsumers:       -1,
		MaxMsgs:            -1,
		MaxBytes:           -1,
		MaxMsgsPerSubject:  1,
		MaxMsgSize:         -1,
		Discard:            jetstream.DiscardNew,
		Storage:            jetstream.FileStorage,
		Replicas:           replicas,
		Duplicates:         duplicateWindow,
		DenyDelete:         true,
		DenyPurge:          true,
		AllowRollup:        false,
		AllowDirect:        false,
		AllowAtomicPublish: true,
	}
}

// Difference is one setting of a stored stream that is not what StreamConfig says.
type Difference struct {
	Setting    string // the setting's name in the stream's JSON configuration
	Have, Want string
	// Fixed settings are not put right on an existing stream: they cannot be, or what they have
	// made disappear does not come back.
	Fixed bool
}

// String formats the difference for logs and errors.
func (d Difference) String() string {
	return fmt.Sprintf("%s is %s, want %s", d.Setting, d.Have, d.Want)
}

// Differences lists what makes a stored stream unfit as the bucket's. The number of replicas, the
// first sequence and descriptions are not compared: they are chosen elsewhere and break nothing.
func Differences(have jetstream.StreamConfig, bucket string) []Difference {
	want := StreamConfig(bucket, have.Replicas)
	var out []Difference
	check := func(setting string, same, fixed bool, have, want any) {
		if !same {
			out = append(out, Difference{setting, fmt.Sprint(have), fmt.Sprint(want), fixed})
		}
	}
	check("subjects", slices.Equal(have.Subjects, want.Subjects), true, have.Subjects, want.Subjects)
	check("storage", have.Storage == want.Storage, true, have.Storage, want.Storage)
	check("retention", have.Retention == want.Retention, true, have.Retention, want.Retention)
	check("mirror", have.Mirror == nil, true, have.Mirror != nil, false)
	check("sealed", !have.Sealed, true, have.Sealed, false)
	check("sources", len(have.Sources) == 0, false, len(have.Sources), 0)
	check("no_ack", !have.NoAck, false, have.NoAck, false)
	check("max_age", have.MaxAge == 0, true, have.MaxAge, time.Duration(0))
	check("max_msgs", have.MaxMsgs == want.MaxMsgs, false, have.MaxMsgs, want.MaxMsgs)
	check("max_bytes", have.MaxBytes == want.MaxBytes, false, have.MaxBytes, want.MaxBytes)
	check("max_msgs_per_subject", have.MaxMsgsPerSubject == want.MaxMsgsPerSubject, false,
		have.MaxMsgsPerSubject, want.MaxMsgsPerSubject)
	check("discard", have.Discard == want.Discard, false, have.Discard, want.Discard)
	check("deny_delete", have.DenyDelete, false, have.DenyDelete, true)
	check("deny_purge", have.DenyPurge, false, have.DenyPurge, true)
	check("allow_rollup_hdrs", !have.AllowRollup, false, have.AllowRollup, false)
	check("allow_direct", !have.AllowDirect, false, have.AllowDirect, false)
	check("allow_atomic", have.AllowAtomicPublish, false, have.AllowAtomicPublish, true)
	return out
}

// Repaired returns the stored configuration with the settings that Differences compares put right,
// but for the fixed ones.
func Repaired(have jetstream.StreamConfig, bucket string) jetstream.StreamConfig {
	want := StreamConfig(bucket, have.Replicas)
	have.Sources = nil
	have.NoAck = false
	have.MaxMsgs, have.MaxBytes, have.MaxMsgsPerSubject = want.MaxMsgs, want.MaxBytes, want.MaxMsgsPerSubject
	have.Discard, have.DiscardNewPerSubject = want.Discard, false
	have.DenyDelete, have.DenyPurge, have.AllowRollup = true, true, false
	have.AllowDirect, have.MirrorDirect = false, false
	have.AllowAtomicPublish = true
	return have
}
