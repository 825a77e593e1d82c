// Package onenode tests a one-node cloud as a person uses it: the binary, the AWS CLI and dig.
package onenode
