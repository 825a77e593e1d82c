// Package kvsync is ownership of keys over a compare-and-swap store, in the manner of the standard
// library's sync: claims, leases and elections that many processes on many hosts agree about. It needs
// nothing but the standard library and a KVStore.
//
// # Which one
//
//   - Claim: held until it is unlocked, like a sync.Mutex that outlives its process. For what must
//     not be taken away by the passing of time.
//   - Lease: held while its process renews it. For work that another process must take over.
//   - RunElection: a lease kept by campaigning, with a worker that starts and stops with it.
//   - LeaseGroup, ClaimGroup: one per name, for per-resource locks. A process renews one session for
//     all the members of a LeaseGroup that it holds, be they ten or ten thousand.
//
// # A lease in use
//
//	l := kvsync.NewLease(store, "dns.reconcile", "node1/daemon", 20*time.Second)
//	tok, err := l.TryLock(ctx)
//	var held *kvsync.HeldError
//	switch {
//	case errors.As(err, &held): // somebody else's: held.Current names the holder
//	case err != nil:            // the store cannot be asked: try again later
//	}
//	defer l.Unlock(ctx, tok)
//	work(l.Context(ctx))        // its context ends with cause ErrLost when the lease is lost
//
// # Time
//
// Only T, the time to live, is chosen. The holder renews R = T/6 after the send of its last landed
// write and believes for V = 2T/3 after it, by the largest of its clocks: a process that was stopped or
// suspended does not answer Held past its deadline. A contender takes over only a record that it has
// itself seen unchanged for T on its own monotonic clock. Clocks of different hosts are never compared;
// their rates may differ by less than T/V = 1.5.
//
// # Writes have three outcomes
//
// A write lands, is refused, or stays unknown: then its nonce is looked for at the store's leader, and
// a late landing is adopted, deleted, or made impossible by a newer write. A grant is always a landed
// compare-and-swap, never a read.
//
// # What it does not protect from
//
// A holder may be paused between its last check and its write. Token.Generation grows with every
// acquisition of a key over its whole life; let the store that the leader writes refuse older ones
// (fencing), as kvstore's Fence does for JetStream.
package kvsync
