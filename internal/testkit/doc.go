// Package testkit starts what tests need: a JetStream server in the test's own process, three of
// them as a cluster, and a wait with a deadline that says what it last saw.
//
// # Inside a synctest bubble
//
// A server started with StartTestJetStream listens on nothing and its connections are in-process
// pipes, so it runs inside testing/synctest, where an hour of renewals passes in a fraction of a
// second. The server library keeps one clock goroutine per process; it must start before the first
// bubble and outside of it, so the package's TestMain calls Main:
//
//	func TestMain(m *testing.M) { testkit.Main(m) }
//
// A cluster talks TCP between its servers and works outside of a bubble only.
package testkit
