package cloud

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/mulgadc/spinifex/internal/process"
)

// Main runs the tests of a package after building what they start, into a directory that is removed
// at the end. It ends the process.
func Main(m *testing.M, build func(ctx context.Context, dir string) error) {
	dir, err := os.MkdirTemp("", "spinifex-test-")
	if err == nil {
		err = build(context.Background(), dir)
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

// BuildInto is a build for Main that compiles spinifex and stores its path.
func BuildInto(binary *string) func(ctx context.Context, dir string) error {
	return func(ctx context.Context, dir string) (err error) {
		*binary, err = process.Build(ctx, dir, "./cmd/spinifex")
		return err
	}
}
