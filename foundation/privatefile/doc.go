// Package privatefile reads and writes small files that only their owner may read: keys and
// credentials.
//
// A file appears whole or not at all, also when the process is killed or two processes write at
// once; it has mode 0600, and its directory is made with mode 0700 where it is missing.
package privatefile
