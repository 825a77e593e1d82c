// Package conformance tests the gateway with the clients that people use: every served operation
// through AWS's own SDK, each answer checked against AWS's API models, and the calls that Terraform
// made against AWS's API when it managed such resources, replayed.
package conformance
