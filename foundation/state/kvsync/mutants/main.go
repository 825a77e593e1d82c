// Command mutants plants bugs in kvsync, one at a time, and checks that the test named for each fails. It
// changes no file: go test builds with an overlay.
//
//	go run ./foundation/state/kvsync/mutants            all of them
//	go run ./foundation/state/kvsync/mutants -run claim those whose name matches
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// mutant is one planted bug.
type mutant struct {
	name string
	file string // in the package kvsync
	// old stands in file exactly once, so that the list stays true when the code moves on.
	old, new string
	killer   string // the test that must fail
	in       string // the package of the test, below kvsync; empty for kvsync itself
}

const packageDir = "foundation/state/kvsync"

func main() {
	match := flag.String("run", "", "regular expression of the names to plant")
	workers := flag.Int("p", 2, "how many to try at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *match, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, match string, workers int) error {
	re, err := regexp.Compile(match)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return fmt.Errorf("make a directory for overlays: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var chosen []mutant
	for _, m := range mutants() {
		if re.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant matches %q", match)
	}
	start := time.Now()
	verdicts := make([]error, len(chosen))
	var wg sync.WaitGroup
	next := make(chan int)
	for range max(1, workers) {
		wg.Go(func() {
			for i := range next {
				verdicts[i] = plant(ctx, root, dir, i, chosen[i])
				report(chosen[i], verdicts[i])
			}
		})
	}
	for i := range chosen {
		next <- i
	}
	close(next)
	wg.Wait()
	if err := errors.Join(verdicts...); err != nil {
		return err
	}
	fmt.Printf("all %d mutants killed in %v\n", len(chosen), time.Since(start).Round(time.Second))
	return nil
}

func report(m mutant, err error) {
	if err != nil {
		fmt.Printf("ALIVE   %s: %v\n", m.name, err)
		return
	}
	fmt.Printf("killed  %-60s by %s\n", m.name, m.killer)
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// plant returns nil when the mutant was killed by the test that is named for it.
func plant(ctx context.Context, root, dir string, i int, m mutant) error {
	original := filepath.Join(root, packageDir, m.file)
	code, err := os.ReadFile(original)
	if err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	if n := strings.Count(string(code), m.old); n != 1 {
		return fmt.Errorf("%s: the code to change stands in %s %d times, want once", m.name, m.file, n)
	}
	mutated := filepath.Join(dir, fmt.Sprintf("%d.go", i))
	overlay := filepath.Join(dir, fmt.Sprintf("%d.json", i))
	spec, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
	if err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	if err := errors.Join(
		os.WriteFile(mutated, []byte(strings.Replace(string(code), m.old, m.new, 1)), 0o600),
		os.WriteFile(overlay, spec, 0o600),
	); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	const limit = "60s"
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-timeout", limit, "-overlay", overlay,
		"-run", "^"+m.killer+"$", "./"+filepath.Join(packageDir, m.in))
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	text := string(out)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", m.name, ctx.Err())
	case err == nil && strings.Contains(text, "no tests to run"):
		return fmt.Errorf("%s: there is no test %s", m.name, m.killer)
	case err == nil:
		return fmt.Errorf("%s: survived %s", m.name, m.killer)
	case strings.Contains(text, "[build failed]"), strings.Contains(text, "[setup failed]"):
		return fmt.Errorf("%s: does not build:\n%s", m.name, text)
	case !strings.Contains(text, "--- FAIL: "+m.killer) && !strings.Contains(text, "panic: ") && !strings.Contains(text, "fatal error: "):
		return fmt.Errorf("%s: go test failed otherwise: %w\n%s", m.name, err, text)
	}
	return nil
}
