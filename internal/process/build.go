package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Root returns the directory of the module that the working directory lies in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("process: no go.mod above the working directory")
		}
		dir = parent
	}
}

// Build compiles the command pkg (such as "./cmd/spinifex") of this module into the directory dir
// and returns the path of the binary, named after the package. It has the race detector when the
// caller has.
func Build(ctx context.Context, dir, pkg string, tags ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	if err := noteSources(root); err != nil {
		return "", fmt.Errorf("process: build %s: %w", pkg, err)
	}
	binary := filepath.Join(dir, filepath.Base(pkg))
	args := []string{"build", "-o", binary, "-tags", strings.Join(tags, ",")}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("process: build %s: %w\n%s", pkg, err, out)
	}
	return binary, nil
}

// noteSources looks at every file that a build can depend on, so that the test cache knows them.
func noteSources(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		_, err = os.Stat(path)
		return err
	})
}
