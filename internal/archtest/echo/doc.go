// Package echo is a service that exists to prove a promise: a new service is a folder such as this
// one, one line in domains/all and one short function in runtime/daemon/wire.go. It is no part of the
// product; the tests of archtest look at it as if it stood at domains/echo, and serve it.
//
// It owns no bucket and no key, runs no loop, and a crash loses nothing.
package echo
