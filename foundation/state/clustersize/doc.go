// Package clustersize holds the declared number of nodes of a cluster as a value.
//
// The size is declared once per process, where the configuration is read, and handed to whatever
// places replicas. There is no default: a size that nobody declared is ErrUndeclared, which is
// permanent, because a guessed single replica is lost with its node and nobody notices before.
package clustersize
