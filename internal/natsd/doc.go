// Command natsd runs one NATS server with JetStream as a process of its own, for tests and
// benchmarks: the server of a cloud whose nodes use one that exists.
//
// It prints "ready URL" once JetStream answers, and ends on SIGTERM or when its standard input
// closes, so that it does not outlive the test that started it.
package main
