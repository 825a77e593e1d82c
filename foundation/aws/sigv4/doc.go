// Package sigv4 verifies AWS Signature Version 4 on requests: in the Authorization header and in
// the query string (presigned), with session tokens, signed and unsigned payloads.
//
// The signature covers method, path, query, the signed headers and the body's hash. A verified
// request is one whose parts all are as its signer made them; what the signer may do is for others
// to decide. The service that a request is for comes from its credential scope (ScopeOf).
//
// Failures are *aws.Error with AWS's codes. A mismatch carries what was compared as its cause, a
// *Mismatch, for debug logs alone.
package sigv4
