// Package route53 is Amazon Route 53's API for hosted zones and their record sets, and the two loops
// behind it: the realizer publishes active zones to the DNS servers, the verifier asks whether a
// zone's parent delegates to this cluster.
//
// # Records
//
// All are in the bucket spinifex-route53, JSON with a version:
//
//	<account>.zone.<id>           a hosted zone whole: name, comment, tags, serial, all record sets  handlers
//	<account>.caller.<reference>  the zone that a caller reference made                              handlers
//	<account>.change.<id>         zone, serial and time of a change                                  handlers; old ones the verifier
//	000000000000.account.<id>     an account that has, or had, hosted zones                          handlers
//	<account>.status.<zone id>    the zone's state                                                   realizer, fenced
//	<account>.delegation.<id>     what the parent says                                               verifier, fenced
//
// The realizer writes zone objects of class Hosted under its fence of their bucket, through
// dnsapi.ZoneWriter, and nobody else does. GetChange reads the reports of the DNS servers
// (dnsapi.ServersBucket).
//
// # Invariants
//
//   - A change batch is one compare-and-swap of the zone's record: all of it or nothing, and a writer
//     that loses a race starts again from what the winner wrote.
//   - A zone's serial grows by one at least with every change, and follows the clock.
//   - A change's record is written before the zone. Its id is in the zone's record (recent_changes),
//     so a writer whose answer was lost finds that its batch is there and does not apply it twice.
//   - At most one zone of a name is published, and what is active stays so as long as it may.
//   - The realizer decides on complete reads from the buckets' leaders, made after its fence stamps.
//     The watch only says which keys to read again. A record that cannot be read withdraws nothing.
//
// # Leases
//
// route53.realize and route53.verify are held across passes, so that a change is published within
// milliseconds and the lock list shows who does it, and are released when the work has stopped. The
// end of a leadership is the end of its context; a write that comes later all the same is refused by
// the store.
//
// # What survives a crash
//
// Everything that was acknowledged. A creation that crashed after its caller reference was claimed is
// finished by the retry, under the same id. One that crashed before leaves at most an index entry or a
// change that nobody knows, which is forgotten after 30 days. A deletion that crashed in the middle
// leaves a caller reference that the next creation under it frees. A leader that crashed leaves no
// half-written object; the next one compares everything that should be published with what is.
package route53
