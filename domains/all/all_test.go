package all_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/domains/all"
)

func TestOperationsAreCompleteAndUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, op := range all.Operations() {
		name := op.Service + " " + op.Name
		assert.False(t, seen[name], "%s stands there twice", name)
		seen[name] = true
		require.NotNil(t, op.NewInput, name)
		require.NotNil(t, op.NewOutput, name)
		assert.NotNil(t, op.NewInput(), name)
		assert.NotNil(t, op.NewOutput(), name)
	}
	assert.True(t, seen["sts GetCallerIdentity"])
	assert.True(t, seen["route53 ChangeResourceRecordSets"])
}
