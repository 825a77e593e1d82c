package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "apigen:", err)
		os.Exit(1)
	}
}

// run writes every package below the directory named by -out.
func run(args []string, stderr io.Writer) error {
	fs := flag.NewFlagSet("apigen", flag.ContinueOnError)
	fs.SetOutput(stderr)
	out := fs.String("out", ".", "directory that gets one package for each service")
	if err := fs.Parse(args); err != nil {
		return err
	}
	for _, s := range servedServices() {
		files, err := generate(s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Model, err)
		}
		dir := filepath.Join(*out, s.Model)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for name, body := range files {
			if err := os.WriteFile(filepath.Join(dir, name), body, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
