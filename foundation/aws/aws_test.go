package aws_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws"
)

type input struct{ Name *string }

type output struct{ Greeting string }

func greet(_ context.Context, call *aws.Call, in *input) (*output, error) {
	if in.Name == nil {
		return nil, aws.Errorf("MissingName", "A name is needed by %s.", call.Account)
	}
	return &output{Greeting: "hello " + *in.Name}, nil
}

func TestNewOperation(t *testing.T) {
	op := aws.NewOperation("tea", "Greet", true, func(c *aws.Call, in *input) []string { return []string{c.Account + "/" + *in.Name} }, greet)
	assert.Equal(t, "tea", op.Service)
	assert.Equal(t, "Greet", op.Name)
	assert.True(t, op.Mutating)
	in, ok := op.NewInput().(*input)
	require.True(t, ok)
	assert.IsType(t, &output{}, op.NewOutput())
	call := &aws.Call{Account: "000000000001"}

	_, err := op.Handler(t.Context(), call, in)
	require.EqualError(t, err, "MissingName: A name is needed by 000000000001.")
	in.Name = new("Ada")
	out, err := op.Handler(t.Context(), call, in)
	require.NoError(t, err)
	assert.Equal(t, &output{Greeting: "hello Ada"}, out)
	assert.Equal(t, []string{"000000000001/Ada"}, op.Resources(call, in))

	assert.Nil(t, aws.NewOperation("tea", "Greet", false, nil, greet).Resources)
}

func TestErrorKeepsItsCauseFromTheClient(t *testing.T) {
	cause := errors.New("disk is full")
	plain := aws.Errorf("InternalFailure", "Try again.")
	e := plain.WithCause(cause)
	require.ErrorIs(t, e, cause)
	assert.Equal(t, "Try again.", e.Message)
	assert.Equal(t, "InternalFailure: Try again.: disk is full", e.Error())
	require.NotErrorIs(t, plain, cause, "WithCause copies")
}

func TestARN(t *testing.T) {
	for text, want := range map[string]aws.ARN{
		"arn:aws:iam::000000000001:role/path/name":          {Partition: "aws", Service: "iam", Account: "000000000001", Resource: "role/path/name"},
		"arn:aws:route53:::hostedzone/Z1":                   {Partition: "aws", Service: "route53", Resource: "hostedzone/Z1"},
		"arn:aws:rds:local-1:000000000001:db:my-db":         {Partition: "aws", Service: "rds", Region: "local-1", Account: "000000000001", Resource: "db:my-db"},
		"arn:aws-cn:eks:local-1:000000000001:cluster/a:b/c": {Partition: "aws-cn", Service: "eks", Region: "local-1", Account: "000000000001", Resource: "cluster/a:b/c"},
	} {
		got, err := aws.ParseARN(text)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		assert.Equal(t, text, got.String())
	}
	for _, text := range []string{"", "arn", "arn:aws:iam::1", "urn:aws:iam::1:x", "arn::iam::1:x", "arn:aws:::1:x", "arn:aws:iam::1:"} {
		_, err := aws.ParseARN(text)
		require.ErrorIs(t, err, aws.ErrNotARN, text)
	}
	assert.Equal(t, "arn:aws:iam::1:root", aws.ARN{Service: "iam", Account: "1", Resource: "root"}.String())
}
