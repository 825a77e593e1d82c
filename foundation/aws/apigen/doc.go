// Command apigen writes the Go types of the served operations of each AWS service, one package
// below foundation/aws/api for each, from the API models in foundation/aws/models.
//
// served.go lists the operations. Run it with go generate ./foundation/aws/api; its output is
// checked in and a test compares it with what the generator would write now.
package main
