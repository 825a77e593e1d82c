// Package twonode tests two nodes on one NATS server, each a process of its own: who leads, what is
// left when the leader is killed or stopped, and that the late writes of a stopped leader change
// nothing.
//
// An oracle watches the bucket of the zones on a connection of its own and sees every write that the
// server accepted, in order, with the generation that wrote it.
package twonode
