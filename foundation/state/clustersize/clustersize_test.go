package clustersize_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/state/clustersize"
)

func TestReplicasIsTheLargestOddNumberUpToFive(t *testing.T) {
	want := map[int]int{1: 1, 2: 1, 3: 3, 4: 3, 5: 5, 6: 5, 7: 5, 48: 5, clustersize.MaxNodes: 5}
	for nodes, replicas := range want {
		size, err := clustersize.Declare(nodes)
		require.NoError(t, err)
		assert.True(t, size.Declared())
		assert.Equal(t, nodes, size.Nodes())
		assert.Equal(t, replicas, size.Replicas(), "%d nodes", nodes)
	}
}

func TestZeroSizeIsUndeclared(t *testing.T) {
	var size clustersize.Size
	assert.False(t, size.Declared())
	assert.Zero(t, size.Replicas())
	assert.Zero(t, size.Nodes())
}

func TestDeclareRefusesNonsense(t *testing.T) {
	for _, nodes := range []int{0, -1, clustersize.MaxNodes + 1} {
		size, err := clustersize.Declare(nodes)
		require.ErrorContains(t, err, "nodes")
		assert.False(t, size.Declared())
	}
}
