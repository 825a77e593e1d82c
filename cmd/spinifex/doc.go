// Command spinifex is the whole cloud in one binary: spinifex up runs every role of a node, spinifex
// daemon, awsgw and dns one each, and the other commands look at a cloud that runs.
//
// It reads flags and configuration and hands them to package runtime/daemon. What people ask for goes
// to standard output, logs and errors to standard error. Exit status: 0 done, 1 it failed, 2 the command
// line or the configuration is wrong, 130 ended by a second signal while it was stopping.
package main
