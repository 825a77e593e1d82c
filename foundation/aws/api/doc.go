// Package api is the root of the generated API types: one package for each AWS service that is
// served, with a struct for each input, output and exception of its served operations.
//
// The members carry AWS's names. Scalars and structures are pointers, nil where absent; lists and
// maps are Go's, nil where absent. The JSON form, with AWS's member names, is what the gateway and
// the daemons exchange.
package api

//go:generate go run github.com/mulgadc/spinifex/foundation/aws/apigen -out .
