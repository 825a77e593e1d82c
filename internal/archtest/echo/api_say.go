package echo

import (
	"context"

	"github.com/mulgadc/spinifex/foundation/aws"
)

// SayRequest is the input of Say.
type SayRequest struct {
	// required
	Text *string `json:"Text,omitzero"`
}

// SayResponse is the output of Say.
type SayResponse struct {
	Text *string `json:"Text,omitzero"`
	// Account is the caller's.
	Account *string `json:"Account,omitzero"`
}

// Say answers with what it was told.
func (s *Service) Say(_ context.Context, call *aws.Call, in *SayRequest) (*SayResponse, error) {
	if *in.Text == "nothing" {
		return nil, aws.Errorf("NothingToSay", "there is nothing to say to account %s", call.Account)
	}
	return &SayResponse{Text: new(s.greeting + *in.Text), Account: new(call.Account)}, nil
}
