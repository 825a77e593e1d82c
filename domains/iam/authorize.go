package iam

import (
	"net/http"

	"github.com/mulgadc/spinifex/foundation/aws"
)

// Authorize decides whether a caller may perform an operation on resources, which are ARNs or "*".
// There are no policies yet: the administrator of an account may do everything in the account, and
// nobody else anything but ask who they are. A denial is an *aws.Error.
func Authorize(call *aws.Call, op aws.Operation, resources []string) error {
	if op.Service == "sts" && op.Name == "GetCallerIdentity" {
		return nil // AWS lets nothing forbid it
	}
	if len(resources) == 0 { // on nothing in particular is on anything, never on nothing
		resources = []string{"*"}
	}
	administrator := userARN(call.Account, "/", AdministratorName)
	for _, resource := range resources {
		if call.Principal != administrator || !inAccount(resource, call.Account) {
			return &aws.Error{
				Code: "AccessDenied", Status: http.StatusForbidden,
				Message: "User: " + call.Principal + " is not authorized to perform: " + op.Service + ":" + op.Name + " on resource: " + resource,
			}
		}
	}
	return nil
}

// inAccount says whether an ARN is of an account; those of global resources, such as hosted zones,
// name none.
func inAccount(resource, account string) bool {
	if resource == "*" {
		return true
	}
	arn, err := aws.ParseARN(resource)
	return err == nil && (arn.Account == account || arn.Account == "")
}
