// Package kvsynctest lets code that uses kvsync be tested against a store that fails: Server is the
// store, Client one process's connection to it, and a Client's Fault decides what happens to each of
// its requests. Everything runs in a testing/synctest bubble. Conformance is the suite that every
// kvsync.KVStore passes.
//
// It also holds the proofs of kvsync itself. A Simulation runs the real code on a few hosts whose clocks,
// networks and processes misbehave as drawn from a seed, and checks every invariant after every step.
// Explore searches all schedules of small models of the protocol, and shows for each Rule what
// goes wrong without it.
package kvsynctest
