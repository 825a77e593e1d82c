// Package daemon starts and stops a process of the cloud, whatever roles it runs: it is the composition
// root. Nothing else knows all domains.
//
//	daemon.go    Run: the start sequence, each step a named function with a bound, and the way back
//	locks.go     daemonLocks: every lease of the process, built once
//	obsolete.go  the buckets in which earlier releases elected, waited for and removed
//	wire.go      one short function per domain: from dependencies to loops and operations
//	status.go    who holds which lease, for spinifex locks
//
// # Locks
//
// A process has one connection for the sync bucket, one handle of that bucket and one daemonLocks, and
// hands its leases to the domains as arguments. The connection does not buffer while it is away.
//
// # Failure
//
// A step that fails ends the start with an error that names it; what was started before is stopped.
// After the start every loop runs under the supervisor, and an outage of NATS ends nothing: leases lapse,
// and are won again by whoever can. What is lost in a crash: nothing that was acknowledged.
package daemon
