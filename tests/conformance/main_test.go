package conformance

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/mulgadc/spinifex/internal/cloud"
	"github.com/mulgadc/spinifex/internal/process"
)

// binary is the path of spinifex, built once for the tests of this package.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "conformance")
	if err == nil {
		binary, err = process.Build(context.Background(), dir, "./cmd/spinifex")
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func start(t *testing.T) *cloud.Node {
	t.Helper()
	return cloud.Start(t, cloud.Options{Binary: binary})
}
