// Package node is what a machine of the cloud has of its own: the data directory with its locks, the
// identity of the process that runs in it, and the embedded NATS server.
//
// # Data directory
//
//	node_id                   random, made once
//	roles/<role>/lock         locked with flock by the process that runs the role
//	roles/<role>/incarnations the random names of the last starts of the role, the newest last
//	nats/client.json          address and credentials of the embedded server, mode 0600
//	nats/jetstream/           the embedded server's store
//	keys/, aws/               secrets of other packages
//
// A role of a node runs in one process at a time. Since the kernel drops a lock only when its process
// has ended, every earlier incarnation in a role's file is certainly dead once the lock is ours: a
// process that was killed and started again adopts its own leases at once instead of waiting until they
// lapse. A directory that was copied, or moved to another machine, proves nothing about the original;
// the file is bound to the machine and to the lock's inode, and begins anew when either differs.
package node
