package conformance

import (
	"testing"

	"github.com/mulgadc/spinifex/internal/cloud"
)

// binary is the path of spinifex, built once for the tests of this package.
var binary string

func TestMain(m *testing.M) { cloud.Main(m, cloud.BuildInto(&binary)) }

func start(t *testing.T) *cloud.Node {
	t.Helper()
	return cloud.Start(t, cloud.Options{Binary: binary})
}
