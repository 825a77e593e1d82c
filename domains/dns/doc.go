// Package dns keeps the zones that the DNS servers of the cloud answer with, and writes those of the
// platform: the base zone with its name servers and service endpoints, and delegations below it.
//
//	zonestore.go   zone objects in the bucket spinifex-dns-zones: reader and fenced writer
//	reconcile.go   Service: the drift reconcile, led under the lease dns.reconcile
//	plan.go        desired set + current zone → next zone (pure)
//	delegate.go    Delegate and PlatformDelegation, through the same lease
//	endpoints.go   the source of the service endpoints
//
// # Buckets and keys
//
// spinifex-dns-zones holds one object per zone under "<class>.<escaped name>"; spinifex-dns-servers
// holds "server.<node>", what each DNS server answers with, written by the servers themselves.
//
// # Invariants
//
//   - A zone object has one writer: platform zones the holder of dns.reconcile, hosted zones the holder
//     of route53.realize. Every write carries the fence of its acquisition, so a deposed writer's is
//     refused by the store and changes nothing.
//   - Records that are not managed are never touched by the reconcile; managed ones are removed only when
//     their class was enumerated completely.
//   - A serial only grows, and a pass that changes nothing writes nothing.
//   - A read-modify-write of a platform zone is one turn of one process: a pass or a delegation.
//
// # What survives a crash
//
// The zone objects, with every delegation. The base zone's managed records are computed anew by the next
// leader's first pass. A write whose answer was lost has landed or not, as a whole; the next pass sees.
package dns
