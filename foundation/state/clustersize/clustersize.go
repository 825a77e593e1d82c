package clustersize

import (
	"errors"
	"fmt"
)

// MaxReplicas bounds the copies of a bucket: more cost a write without surviving a likelier fault.
const MaxReplicas = 5

// MaxNodes bounds a declaration: a number above it is a typing error.
const MaxNodes = 1000

// ErrUndeclared is a cluster whose size nobody declared. It is permanent: retrying does not help.
var ErrUndeclared = errors.New("clustersize: cluster size not declared")

// Size is a declared number of nodes. The zero Size is undeclared.
type Size struct{ nodes int }

// Declare returns the Size of a cluster of that many nodes, or an error that names the bad value.
func Declare(nodes int) (Size, error) {
	if nodes < 1 || nodes > MaxNodes {
		return Size{}, fmt.Errorf("clustersize: %d nodes: must be 1 to %d", nodes, MaxNodes)
	}
	return Size{nodes: nodes}, nil
}

// Declared reports whether s came from Declare.
func (s Size) Declared() bool { return s.nodes > 0 }

// Nodes returns the declared number of nodes, 0 when undeclared.
func (s Size) Nodes() int { return s.nodes }

// Replicas returns the copies that each bucket shall have, the largest odd number that is at most
// min(nodes, MaxReplicas): an even one costs a copy and survives no more. It is 0 when undeclared.
func (s Size) Replicas() int {
	n := min(s.nodes, MaxReplicas)
	if n > 0 && n%2 == 0 {
		n--
	}
	return n
}
