package sts

import (
	"context"

	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/api/sts"
)

// GetCallerIdentity answers the account, the ARN and the unique id of the caller. AWS lets everyone
// ask it who has valid credentials, whatever the policies say.
func (s *Service) GetCallerIdentity(_ context.Context, call *aws.Call, _ *sts.GetCallerIdentityRequest) (*sts.GetCallerIdentityResponse, error) {
	return &sts.GetCallerIdentityResponse{
		Account: new(call.Account),
		Arn:     new(call.Principal),
		UserId:  new(call.UserID),
	}, nil
}
