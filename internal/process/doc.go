// Package process builds and runs programs of this repository as processes of their own, for
// end-to-end tests and benchmarks.
//
// A Process is ended by its own process id only, and does not outlive the one that started it: the
// kernel kills it then, also when a test runs into its time limit and no cleanup happens.
//
// # The test cache
//
// The go command knows which files a test read, not which a child process read. Build looks at every
// source file of the module itself, so that a test that runs a stale binary's result from the cache
// cannot happen.
package process
