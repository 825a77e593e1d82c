// Package natskv is a compare-and-swap store on one NATS JetStream bucket, for package kvsync and
// for anything else that needs revisions it can trust.
//
// The bucket is a stream in the layout of JetStream KV (StreamConfig), so that every KV tool reads
// it. This package differs from the KV client in what leases need:
//
//   - Every read is answered by the stream's leader. The KV client turns direct reads on, and on a
//     replicated stream a direct read after one's own acknowledged write is stale every sixth time.
//   - A delete is a marker written here, so that its revision is known: the next create of the key
//     is one round trip, where the KV client needs three.
//   - A write is sent once. Its outcome is landed, refused or unknown, never guessed.
//
// # Errors
//
// An error names the operation, the bucket and the key, and matches one of kvsync's sentinels:
// ErrNotFound, ErrRevisionMismatch, ErrUnavailable, ErrUnknownOutcome, ErrStoreRegressed. A refusal
// that only says that another write of the key is in flight is ErrInFlight too. An error that
// matches none of them is the caller's mistake, such as a bad key or too large a value.
//
// # Revisions that went backwards
//
// A Store remembers the highest sequence and the creation time that it has seen. A stream that is
// gone, or that shows less than that, was restored from an older copy: ErrStoreRegressed, until a
// stream made later and numbered above everything seen has taken its place.
//
// # Concurrency
//
// A Store is safe for concurrent use and holds no lock over a network call.
package natskv
