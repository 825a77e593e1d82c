package sts

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/api/sts"
)

func TestGetCallerIdentity(t *testing.T) {
	table := Operations(New())
	require.Len(t, table, 1)
	op := table[0]
	assert.Equal(t, "sts", op.Service)
	assert.False(t, op.Mutating)
	out, err := op.Handler(t.Context(), &aws.Call{
		Account: "000000000001", Principal: "arn:aws:iam::000000000001:user/admin", UserID: "AIDAEXAMPLE",
	}, op.NewInput())
	require.NoError(t, err)
	assert.Equal(t, &sts.GetCallerIdentityResponse{
		Account: new("000000000001"), Arn: new("arn:aws:iam::000000000001:user/admin"), UserId: new("AIDAEXAMPLE"),
	}, out)
}

func TestTheTypesAreThoseOfTheTable(t *testing.T) {
	var names []string
	for _, op := range Operations(nil) {
		names = append(names, op.Name)
	}
	assert.ElementsMatch(t, sts.Operations(), names)
}

func TestReadmeNamesWhatIsServed(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var served []string
	for line := range strings.Lines(string(text)) {
		if m := regexp.MustCompile(`^\| (\w+) \| served`).FindStringSubmatch(line); m != nil {
			served = append(served, m[1])
		}
	}
	assert.ElementsMatch(t, sts.Operations(), served)
}
