package iam

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mulgadc/spinifex/foundation/aws"
)

func TestAuthorize(t *testing.T) {
	const admin = "arn:aws:iam::000000000001:user/admin"
	create := aws.Operation{Service: "route53", Name: "CreateHostedZone"}
	identity := aws.Operation{Service: "sts", Name: "GetCallerIdentity"}
	for _, c := range []struct {
		name      string
		principal string
		op        aws.Operation
		resources []string
		denied    string
	}{
		{"the administrator", admin, create, []string{"*"}, ""},
		{"a resource of the account", admin, create, []string{"arn:aws:rds:us-east-1:000000000001:db:a"}, ""},
		{"a resource without account", admin, create, []string{"arn:aws:route53:::hostedzone/Z1"}, ""},
		{"a resource of another account", admin, create, []string{"*", "arn:aws:rds:us-east-1:000000000002:db:a"}, "arn:aws:rds:us-east-1:000000000002:db:a"},
		{"a resource that is no ARN", admin, create, []string{"Z1"}, "Z1"},
		{"another user", "arn:aws:iam::000000000001:user/eve", create, []string{"*"}, "*"},
		{"another user, on nothing in particular", "arn:aws:iam::000000000001:user/eve", create, nil, "*"},
		{"the administrator of another account", "arn:aws:iam::000000000002:user/admin", create, []string{"*"}, "*"},
		{"a user in a path", "arn:aws:iam::000000000001:user/x/admin", create, []string{"*"}, "*"},
		{"anybody may ask who they are", "arn:aws:iam::000000000001:user/eve", identity, []string{"*"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Authorize(&aws.Call{Account: "000000000001", Principal: c.principal}, c.op, c.resources)
			if c.denied == "" {
				require.NoError(t, err)
				return
			}
			denial, ok := errors.AsType[*aws.Error](err)
			require.True(t, ok)
			assert.Equal(t, "AccessDenied", denial.Code)
			assert.Equal(t, 403, denial.Status)
			assert.Equal(t, "User: "+c.principal+" is not authorized to perform: route53:CreateHostedZone on resource: "+c.denied, denial.Message)
		})
	}
}
