// Package dnsserver is the authoritative DNS server of a node.
//
// It follows the zone objects of the zone store, keeps each compiled in memory, and answers over UDP
// and TCP on one address. The layers, from the inside out:
//
//	zone.go    a zone object compiled once: records parsed, names as keys, glue looked up (pure)
//	view.go    the zones by name and id; one zone is replaced by one atomic store
//	query.go   the wire form of a request, parsed without allocation (pure)
//	answer.go  view + question + random source → response (pure)
//	worker.go  request bytes → response bytes, with the cache of packed answers (cache.go)
//	udp.go     sockets; one worker per UDP socket and per TCP connection (tcp.go, streams.go)
//	follow.go  watch the zone store, poll it as a backstop; report.go says what is served
//
// # What is answered
//
// Opcodes other than QUERY are NOTIMP. Classes other than IN, the types ANY, AXFR, IXFR, MAILA, MAILB,
// and names outside of every zone are REFUSED. Wildcards follow RFC 4592, negative answers RFC 2308,
// aliases and CNAMEs are chased within the served zones. A UDP answer that does not fit has the TC bit
// and only the question, never half a set. Before the first complete look at the zone store every
// answer is SERVFAIL, so that a resolver asks another server.
//
// # Failure
//
// While the zone store is away the server answers with what it has. A zone object that cannot be read
// or compiled leaves the last good one in service, is logged once per version and counted in the gauge
// of bad zones. Nothing is stored on disk: after a crash the zones are read anew. A panic in a query is
// that query's SERVFAIL; it is logged and counted.
//
// # Concurrency
//
// Run owns every goroutine. Only the follower writes the view; workers read it without a lock.
package dnsserver
