// Package kvstore keeps the platform's records in JetStream KV buckets: buckets that are opened at
// first use, typed stores, watches, writes guarded by a lease, and the one bucket that all locks
// and elections live in.
//
// # Buckets
//
// Open and OpenSyncBucket do no I/O. The first operation opens the bucket, once for all callers
// that wait; each of them stops waiting when its ctx ends. A bucket that does not exist is created
// then; one that was open and is gone is never created again by itself (WithRecreate is for what
// can be computed anew): an empty store must not pass for the one that held the records.
//
// Keys are dot-separated tokens that begin with the account; free-form names become one token with
// EscapeToken. Keys that begin with "_" are this package's: the schema version (_version), fences
// (_fence.<lease key>) and their witnesses (_witness.<lease key>). Lists and watches leave them out.
//
// # Reads
//
// Get and List are answered by the leader of the stream. A list is complete or an error, so that
// what it does not show may be pruned. A watch may be behind; it wakes loops, it decides nothing.
//
// # Guarded writes
//
// A lease protects nobody from a leader that was paused. Bucket.Fence stamps the bucket with the
// generation of an acquisition; every write through the Fence then carries the condition that the
// stamp is still the last one, so that the store refuses a deposed leader's late write in the same
// round trip. A leader reads what it will write from after it has its Fence. Keys that are written
// under a fence are written by nobody else, or by revision (Fence.Update, Fence.DeleteAt).
//
// # Errors
//
// ErrNotFound, ErrConflict and ErrFenced also match kvsync's ErrNotFound, ErrRevisionMismatch and
// ErrLost. A store that cannot be asked is kvsync.ErrUnavailable, a write whose fate is not known
// kvsync.ErrUnknownOutcome, a stream that is gone or went back in time kvsync.ErrStoreRegressed.
// What is none of these is permanent: clustersize.ErrUndeclared, ErrServerTooOld, ErrNewerVersion,
// ErrUnfit, ErrTooLarge, a bad key.
package kvstore
