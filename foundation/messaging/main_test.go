package messaging

import (
	"testing"

	"github.com/mulgadc/spinifex/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
