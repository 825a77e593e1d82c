// Package locks is what the benchmarks of locks share: NATS servers as processes of their own, clients
// of the sync bucket, raw writes to compare a lease with, and the costs on one replica.
package locks
