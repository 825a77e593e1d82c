// Command kvsync measures what a lease costs against one raw compare-and-swap of JetStream.
//
// A NATS server runs as its own process with one replica. In one run and alternating in small
// rounds, so that a busy moment of the machine hits all of them alike, it times
//
//   - one raw compare-and-swap with a known revision, one raw delete marker, one raw read;
//   - TryLock and Unlock of a lease whose marker's revision is known ("warm");
//   - the same on a key that this process has never seen ("cold");
//   - renewals of a held lease, against raw compare-and-swaps sent at the same pace.
//
// It prints the medians and the ratios that the design limits: a pair at most 2.5 times one
// compare-and-swap warm and 3 times cold, at most 10 % above the two writes that it consists of, and
// a renewal that is one write. The benchmark in bench/etcd measures the same beside etcd, and more.
package main
