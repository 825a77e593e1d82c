// Package cloud starts nodes of Spinifex as processes of their own and talks to them as users do:
// with the AWS CLI, with dig, and with the binary itself. End-to-end tests and benchmarks use it.
//
// Main builds the binaries, once per package of tests, from TestMain. A Node has a data directory and
// ports of its own, may be killed, stopped, continued and started again on the same directory,
// and is ended with its test. At its end the log is searched for panics and data races.
package cloud
