package sts

import (
	"github.com/mulgadc/spinifex/foundation/aws"
	"github.com/mulgadc/spinifex/foundation/aws/api/sts"
)

// Service carries out the operations of STS.
type Service struct{}

// New makes a Service.
func New() *Service { return &Service{} }

// Operations is the table of the operations. With a nil Service it is the metadata alone.
func Operations(s *Service) []aws.Operation {
	return []aws.Operation{
		aws.NewOperation(sts.Service, sts.OpGetCallerIdentity, false, nil, s.GetCallerIdentity),
	}
}
