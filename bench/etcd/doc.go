// Command etcd measures the platform's locks beside those of etcd, and judges the ratios that the
// design asks for with "pass" or "short".
//
// It is a module of its own, so that etcd is no dependency of the product. Everything runs on
// loopback, each server as its own process with its data in a temporary directory: NATS alone and as
// three servers that sync each write to disk, etcd alone and as three members, which always do. The
// systems take turns in small rounds, so that a busy moment of the machine hits all alike; only figures
// of one run are compared.
//
// # Parts
//
//   - single: a lease on one replica against a raw compare-and-swap, without sync (package bench/locks)
//   - pairs: uncontended locks of one client, on three servers and, without a promise, on one
//   - crowd: the same of 64 clients at once, each on a connection and a key of its own
//   - handover: how soon a waiting contender has what was released, and what that costs in writes
//   - takeover: when a holder that was killed is replaced
//   - group: a process that holds 10 leases of one group against one that holds 10,000
//   - burst: renewals that are sent together against one after the other
//   - outage: leases held while the server that leads their stream is killed
//
// Each may be run alone with -only. A figure that falls short never fails the run.
package main
