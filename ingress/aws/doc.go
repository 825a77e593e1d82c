// Package awsingress is the gateway's pipeline: what happens to an HTTP request of an AWS client
// between its arrival and the answer.
//
// # Stages
//
// A Pipeline is an http.Handler. Each request goes through the stages in their order (Pipeline.run),
// and the first one that fails gives the answer:
//
//	identify      the service, from the credential scope of the signature
//	readBody      the body within its limit
//	admit         room for one more request
//	authenticate  SigV4, in a header or presigned; lockout of addresses that guess
//	find          the operation: in the API model, and served by this release
//	decode        the input, bound to the operation's type
//	authorise     may the caller do this with these resources
//	dispatch      over NATS to a daemon
//	encode        the answer in the protocol of the service
//
// Authorisation comes before the answer to a faulty input, although the input is decoded first
// because the resources stand in it: who may not call an operation learns nothing of its checks.
//
// # What a client gets
//
// Every answer has a request id, and every error is in the protocol's own shape, with a code that
// AWS has and no Go error text. A service that the cloud has not is answered in the form that its
// clients read (foreign.go). GET /health answers without a signature.
//
// # Bounds
//
// Requests at once, large bodies at once, bytes of a body, time of a call; header size and read times are the server's
// (runtime/roles/awsgw). See Options.
//
// # Log and metrics
//
// One line and one measurement per request (observe.go). The line never has a query string, which in
// a presigned request holds the signature, a header or a body.
package awsingress
