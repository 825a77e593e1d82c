// Package locks tests leases on NATS servers that are processes of their own: what becomes of them when the
// leader of their stream is killed, when their holder is killed or stopped, and when a server comes up on
// an older copy of its data.
//
// The flags -kills and -holders make the tests longer; make soak sets them.
package locks
