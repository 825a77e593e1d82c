// Package aws has what every AWS service of this cloud shares and no protocol knows of: the line of
// an operation table, the call, the error that a client may see, and ARNs.
//
// The packages below it speak the protocols: models (AWS's API models), api (generated types), wire
// (codecs), sigv4 (request signatures), modelcheck (a judge of answers).
package aws
