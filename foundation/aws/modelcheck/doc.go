// Package modelcheck judges HTTP answers by the API models: it finds what a client would misread
// without an error, such as a list whose elements have a wrong name, which SDKs read as empty.
//
// It shares no code with the encoder in package wire, so that it notices the encoder's mistakes. It
// cannot see that an optional member should have been there.
package modelcheck
