// Package messaging carries AWS calls over NATS: the connection, the services that answer
// operations, the client that asks them, and the signed identity of who asks.
//
// # One call
//
// A gateway that has authenticated a request sends the operation's input as JSON to the subject
// aws.<service>.<Action> (Subject) through a Client. Every daemon runs a Service with a table of
// operations: one endpoint of the NATS micro framework per operation, all daemons in one queue
// group, so that exactly one of them gets the call. While the handler works the daemon sends a
// sign of life every HeartbeatInterval; its answer is one message: the output as JSON, or an
// aws.Error.
//
// # What a caller may be told
//
// Each way in which no answer comes is a different answer, and wraps a different sentinel:
// nobody serves the operation (ErrNoResponder), the daemon works but not fast enough (ErrTimeout),
// the daemon stopped giving signs of life (ErrResponderLost), the answer or the request does not
// fit into a message (ErrTooLarge), this process has no connection to NATS (ErrDisconnected). A
// call that changes nothing is tried once more after ErrNoResponder and ErrResponderLost. A call
// that changes something is sent once: after ErrTimeout and ErrResponderLost it may or may not
// have been carried out, and the message says so.
//
// # Identity
//
// The headers of a call name account, principal, user id, region, request id, source address,
// deadline, attempt and W3C trace context. The gateway signs them together with the subject and the
// SHA-256 of the body with its Ed25519 key (Signer); its public key stands in the bucket
// spinifex-nodes under gateway.<node> (PublishKey). A daemon (Verifier) refuses a call that is
// unsigned, altered, past its deadline or further ahead of it than MaxLifetime, signed by a key
// that no record names, or seen before. Clocks of gateways and daemons must agree to within a few
// seconds.
//
// Seen calls are remembered by each process until their deadline, in bounded memory; when the
// memory is full further calls are refused, never let through unchecked. The memory is not shared
// and not stored: a captured message can be delivered once more to another daemon, or to the same
// one after a restart, as long as its deadline (30 s by default) has not passed. Operations that
// must not happen twice guard themselves with client tokens and compare-and-swap.
//
// # Concurrency
//
// Client, Signer and Verifier may be used by many goroutines. A Service runs at most
// ServiceOptions.MaxConcurrent handlers at once, queues a bounded number and refuses the rest
// at once; a panic in a handler ends only that call, as InternalFailure.
package messaging
