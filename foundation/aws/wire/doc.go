// Package wire speaks AWS's protocols from the server's side, driven by the API models: it finds
// the operation that an HTTP request asks for, decodes and validates its input into the API type,
// and writes outputs and errors as AWS does.
//
// A Service is one service's model with its protocol. Between the wire and the Go types stands a
// tree of plain values:
//
//	structure, map   map[string]any by member name or key
//	list             []any
//	string, blob     string, []byte
//	boolean          bool
//	integer, long    int64
//	float, double    float64
//	timestamp        time.Time
//
// A codec (one for each protocol) turns requests into trees and trees into answers; validation and
// the binding to Go types work on trees and are the same for all. Query and REST-XML are here; the
// REST parts (path templates, members in headers and query strings) are apart from the XML parts,
// so that the JSON protocols and EC2's are further codecs.
//
// Everything that comes from outside is bounded (Limits). Every error that a caller of this package
// may show to a client is a *aws.Error; none has the text of a Go error in it.
package wire
