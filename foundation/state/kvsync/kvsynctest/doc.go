// Package kvsynctest lets code that uses kvsync be tested against a store that fails: Server is the
// store, Client one process's connection to it, and a Client's Fault decides what happens to each of
// its requests. Everything runs in a testing/synctest bubble. Conformance is the suite that every
// kvsync.KVStore passes.
package kvsynctest
