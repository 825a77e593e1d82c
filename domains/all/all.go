package all

import (
	"slices"

	"github.com/mulgadc/spinifex/domains/route53"
	"github.com/mulgadc/spinifex/domains/sts"
	"github.com/mulgadc/spinifex/foundation/aws"
)

// Operations returns the metadata of every operation that this release serves. The handlers in it
// must not be called.
func Operations() []aws.Operation {
	return slices.Concat(
		route53.Operations(nil),
		sts.Operations(nil),
	)
}
