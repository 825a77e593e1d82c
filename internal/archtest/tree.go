package archtest

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Tree is a Go module, parsed.
type Tree struct {
	// Module is the module's path from go.mod.
	Module string
	// Files are the module's Go files in the order of their paths; those of nested modules,
	// testdata and hidden directories are left out.
	Files []*File
	// Texts are all files that hold text, Go files too, testdata and hidden directories included.
	Texts []Text

	fset *token.FileSet
}

// File is one Go file.
type File struct {
	// Path is slash-separated and relative to the module's root; Dir is its directory, "." for the root.
	Path, Dir string
	// AST is the file with its comments.
	AST *ast.File
	// Test is true for _test.go files.
	Test bool
	// Generated is true when the file says so in the form that Go tools know.
	Generated bool
	// Lines is the number of lines.
	Lines int
	// Imports are the imported paths as written.
	Imports []Import
}

// Import is one import of a file.
type Import struct {
	Path string
	// Name is what the file calls the package.
	Name string
	Line int
}

// Text is one file's content.
type Text struct {
	Path    string
	Content []byte
}

// textLimit bounds the files that are read as text: larger ones are data.
const textLimit = 1 << 20

var moduleLine = regexp.MustCompile(`(?m)^module\s+(\S+)`)

// Load parses the module at the root of fsys. A file that does not parse is an error.
func Load(fsys fs.FS) (*Tree, error) {
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, fmt.Errorf("archtest: read go.mod: %w", err)
	}
	m := moduleLine.FindSubmatch(mod)
	if m == nil {
		return nil, errors.New("archtest: go.mod has no module line")
	}
	t := &Tree{Module: string(m[1]), fset: token.NewFileSet()}
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && outside(name):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		return t.add(fsys, name)
	})
	if err != nil {
		return nil, fmt.Errorf("archtest: load: %w", err)
	}
	t.dropNestedModules()
	return t, nil
}

// outside reports whether a directory holds nothing of ours: version control, built things.
func outside(dir string) bool {
	switch dir {
	case ".git", ".tools", "bin", "coverage":
		return true
	}
	return false
}

func (t *Tree) add(fsys fs.FS, name string) error {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return err
	}
	isGo := strings.HasSuffix(name, ".go") && !hidden(name)
	if !isGo && info.Size() > textLimit {
		return nil
	}
	content, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	if bytes.IndexByte(content, 0) >= 0 {
		return nil
	}
	t.Texts = append(t.Texts, Text{Path: name, Content: content})
	if !isGo {
		return nil
	}
	parsed, err := parser.ParseFile(t.fset, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	f := &File{
		Path: name, Dir: path.Dir(name), AST: parsed,
		Test:      strings.HasSuffix(name, "_test.go"),
		Generated: ast.IsGenerated(parsed),
		Lines:     bytes.Count(content, []byte("\n")),
	}
	for _, spec := range parsed.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		imp := Import{Path: p, Name: importName(p), Line: t.line(spec)}
		if spec.Name != nil {
			imp.Name = spec.Name.Name
		}
		f.Imports = append(f.Imports, imp)
	}
	t.Files = append(t.Files, f)
	return nil
}

// hidden reports whether the go command would not look at the path.
func hidden(name string) bool {
	for dir := range strings.SplitSeq(name, "/") {
		if dir == "testdata" || strings.HasPrefix(dir, ".") || strings.HasPrefix(dir, "_") {
			return true
		}
	}
	return false
}

var majorSuffix = regexp.MustCompile(`^v[0-9]+$`)

// importName is the name that a package has in all likelihood: the last element of its path that is
// not a major version.
func importName(p string) string {
	base := path.Base(p)
	if majorSuffix.MatchString(base) {
		base = path.Base(path.Dir(p))
	}
	return strings.TrimPrefix(base, "go-")
}

// dropNestedModules leaves the Go files of modules below this one to their own tests.
func (t *Tree) dropNestedModules() {
	for _, text := range t.Texts {
		dir, base := path.Split(text.Path)
		if base != "go.mod" || dir == "" {
			continue
		}
		t.Files = slices.DeleteFunc(t.Files, func(f *File) bool { return strings.HasPrefix(f.Path, dir) })
	}
}

func (t *Tree) line(n ast.Node) int { return t.fset.Position(n.Pos()).Line }

// Packages yields the files of each directory, in the order of the directories.
func (t *Tree) Packages() []Package {
	byDir := map[string][]*File{}
	for _, f := range t.Files {
		byDir[f.Dir] = append(byDir[f.Dir], f)
	}
	var out []Package
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		out = append(out, Package{Dir: dir, Files: byDir[dir]})
	}
	return out
}

// Package is the Go files of one directory.
type Package struct {
	Dir   string
	Files []*File
}

// Code returns the files that are not tests.
func (p Package) Code() []*File {
	return slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return f.Test })
}

// Finding is one violation.
type Finding struct {
	Path string
	// Line is 0 when the finding is about the whole file or directory.
	Line    int
	Message string
}

// String formats the finding as compilers do.
func (f Finding) String() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Message
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Message)
}

// Rule is one thing that holds for the whole repository.
type Rule struct {
	Name string
	// Why is the reason, for whoever breaks it.
	Why   string
	Check func(*Tree) []Finding
}

// Rules returns every rule that needs nothing but the tree.
func Rules() []Rule {
	return []Rule{
		{"imports", "what may know what is the architecture; everything else follows from it", checkImports},
		{"external-imports", "a library has one home, so that replacing it touches one place", checkExternalImports},
		{"package-comment", "a package says what it is for before anybody reads its code", checkPackageComments},
		{"package-name", "a package is named by what it provides, not by being useful", checkPackageNames},
		{"no-init", "what happens at start is written in the start sequence", checkNoInit},
		{"no-mutable-globals", "two of anything must be able to live in one process", checkGlobals},
		{"no-context-in-struct", "a context belongs to a call", checkContexts},
		{"bucket-creation", "what a bucket must look like is decided in one place", checkBucketCreation},
		{"no-sleeping-tests", "a test waits for a condition or runs in virtual time", checkSleeps},
		{"no-skipped-tests", "a skip hides a missing install step", checkSkips},
		{"function-length", "a function is read at one look", checkFunctionLength},
		{"file-length", "a long file holds a second idea", checkFileLength},
		{"words", "the project names neither the place it was written in nor work left undone", checkWords},
		{"domain-folder", "who knows one domain finds their way in all of them", checkDomainFolders},
	}
}
