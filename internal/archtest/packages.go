package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// checkPackageComments wants one package comment per package: in doc.go, or in the only file, or in
// main.go of a command.
func checkPackageComments(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Packages() {
		files := p.Code()
		if len(files) == 0 {
			files = p.Files // a directory of tests only
		}
		var with []*File
		for _, f := range files {
			if f.AST.Doc != nil {
				with = append(with, f)
			}
		}
		switch {
		case len(with) == 0:
			out = append(out, Finding{p.Dir, 0, "no package comment: write it in doc.go"})
		case len(with) > 1:
			out = append(out, Finding{with[1].Path, t.line(with[1].AST.Doc), "second package comment, the first is in " + with[0].Path})
		default:
			out = append(out, checkPackageComment(t, with[0], len(files))...)
		}
	}
	return out
}

func checkPackageComment(t *Tree, f *File, files int) []Finding {
	name := f.AST.Name.Name
	want := "Package " + strings.TrimSuffix(name, "_test") + " "
	home := []string{"doc.go"}
	if name == "main" {
		want = "Command "
		home = append(home, "main.go")
	}
	var out []Finding
	if !strings.HasPrefix(f.AST.Doc.Text(), want) {
		out = append(out, Finding{f.Path, t.line(f.AST.Doc), fmt.Sprintf("the package comment does not begin with %q", want)})
	}
	if files > 1 && !f.Test && !f.Generated && !slices.Contains(home, path.Base(f.Path)) {
		out = append(out, Finding{f.Path, t.line(f.AST.Doc), "the package comment stands in " + home[0]})
	}
	return out
}

// bannedNames say that something is used, not what it is.
var bannedNames = []string{"util", "utils", "common", "helper", "helpers", "base", "misc", "shared", "lib"}

func checkPackageNames(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Packages() {
		name := p.Files[0].AST.Name.Name
		for _, candidate := range []string{name, path.Base(p.Dir)} {
			if slices.Contains(bannedNames, candidate) || strings.HasSuffix(candidate, "util") || strings.HasSuffix(candidate, "utils") {
				out = append(out, Finding{p.Dir, 0, "the name " + candidate + " says nothing about what the package provides"})
				break
			}
		}
	}
	return out
}
