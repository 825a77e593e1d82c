// Package awsgw is the gateway role: an HTTP server with the pipeline of ingress/aws in it, and the
// node's identity as a gateway.
//
// # Life
//
// New checks the options and reads or makes the gateway's private key, <data>/keys/gateway.ed25519.
// Listen opens the port, so that one in use is an error at start and not of a loop. Run publishes
// the public key in the bucket spinifex-nodes, where daemons look it up, and serves. A store that is
// away does not keep Run from serving: calls are answered ServiceUnavailable, GET /health says so,
// and the key is published once the store is back; it is looked after every minute from then on.
//
// When the context of Run ends, no further connections are taken, the requests under way are
// finished within DrainTimeout, and the rest is cut off. Run may be called again.
//
// # Bounds
//
// Connections, header bytes, and the times of reading a header, a request and writing an answer are
// bounded, so that a client that sends a byte a minute holds one connection for seconds. Requests
// at once, body bytes and failures to authenticate are bounded by the pipeline.
//
// # Client configuration
//
// WriteClientConfig writes the files that AWS clients read, private to their owner, below the data
// directory and never in ~/.aws; ClientConfig.Exports is what a person pastes to use them.
package awsgw
