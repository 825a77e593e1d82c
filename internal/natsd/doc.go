// Command natsd runs one NATS server with JetStream as a process of its own, for tests and
// benchmarks: the server of a cloud whose nodes use one that exists, or one of a cluster of servers.
//
// It prints "ready URL" once it takes connections, and ends on SIGTERM or when its standard input
// closes, so that it does not outlive the test that started it. The JetStream of a cluster answers
// only once most of its servers run.
package main
