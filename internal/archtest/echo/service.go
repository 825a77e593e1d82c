package echo

import "github.com/mulgadc/spinifex/foundation/aws"

// Service carries out the operations.
type Service struct{ greeting string }

// Deps is what the service needs.
type Deps struct {
	// Greeting goes in front of each answer.
	Greeting string
}

// New makes a Service.
func New(deps Deps) *Service { return &Service{greeting: deps.Greeting} }

// Operations is the table of the operations. With a nil Service it is the metadata alone.
func Operations(s *Service) []aws.Operation {
	return []aws.Operation{
		aws.NewOperation("echo", "Say", false, nil, s.Say),
	}
}
