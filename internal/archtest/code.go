package archtest

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

func checkNoInit(t *Tree) []Finding {
	var out []Finding
	for f, fn := range t.functions() {
		if fn.Recv == nil && fn.Name.Name == "init" {
			out = append(out, Finding{f.Path, t.line(fn), "init runs behind the reader's back; call a function from the start sequence"})
		}
	}
	return out
}

// functions yields each function declaration with its file.
func (t *Tree) functions() func(yield func(*File, *ast.FuncDecl) bool) {
	return func(yield func(*File, *ast.FuncDecl) bool) {
		for _, f := range t.Files {
			for _, d := range f.AST.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && !yield(f, fn) {
					return
				}
			}
		}
	}
}

func checkContexts(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		name := f.importedAs("context")
		if f.Test || name == "" {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			st, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range st.Fields.List {
				if isSelector(field.Type, name, "Context") {
					out = append(out, Finding{f.Path, t.line(field), "a context in a struct outlives its call; pass it as the first parameter"})
				}
			}
			return true
		})
	}
	return out
}

// importedAs is the name under which the file knows a package, "" when it does not import it.
func (f *File) importedAs(importPath string) string {
	i := slices.IndexFunc(f.Imports, func(i Import) bool { return i.Path == importPath })
	if i < 0 {
		return ""
	}
	return f.Imports[i].Name
}

func isSelector(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg
}

// bucketFile is the one file that creates buckets and streams.
const bucketFile = "foundation/state/kvstore/create.go"

// creators are the calls that make a bucket or stream.
var creators = []string{"CreateKeyValue", "CreateStream", "CreateOrUpdateStream", "AddStream", "CreateObjectStore", "CreateOrUpdateObjectStore"}

func checkBucketCreation(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		// This package's own rules name the calls, they do not make them.
		ast.Inspect(f.AST, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch {
			case sel.Sel.Name == "CreateOrUpdateKeyValue":
				out = append(out, Finding{f.Path, t.line(sel), "CreateOrUpdateKeyValue silently turns direct reads on again; never use it"})
			case slices.Contains(creators, sel.Sel.Name) && f.Path != bucketFile && !f.Test:
				out = append(out, Finding{f.Path, t.line(sel), sel.Sel.Name + " is called in " + bucketFile + " only"})
			}
			return true
		})
	}
	return out
}

// testCode reports whether a file only runs in tests.
func (f *File) testCode() bool {
	return f.Test || matchAny([]string{"internal/testkit/...", "internal/cloud", "tests/..."}, f.Dir)
}

// virtualTime reports whether a file runs tests in virtual time.
func (f *File) virtualTime() bool {
	if f.importedAs("testing/synctest") != "" {
		return true
	}
	found := false
	ast.Inspect(f.AST, func(n ast.Node) bool {
		e, ok := n.(*ast.SelectorExpr)
		found = found || ok && isSelector(e, "testkit", "Bubble")
		return !found
	})
	return found
}

// checkSleeps allows time.Sleep only where time is virtual.
func checkSleeps(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		name := f.importedAs("time")
		if !f.testCode() || name == "" || f.virtualTime() {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if e, ok := n.(*ast.SelectorExpr); ok && isSelector(e, name, "Sleep") {
				out = append(out, Finding{f.Path, t.line(e), "wait for a condition (testkit.Eventually), or run in a synctest bubble"})
			}
			return true
		})
	}
	return out
}

func checkSkips(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		if !f.testCode() {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) && isTestHandle(sel.X) {
				out = append(out, Finding{f.Path, t.line(call), "install what is missing (scripts/apt-install) and fail without it"})
			}
			return true
		})
	}
	return out
}

func isTestHandle(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && slices.Contains([]string{"t", "b", "f", "tb"}, id.Name)
}

const (
	maxFunctionLines = 80
	maxFileLines     = 700
	flatMarker       = "//archtest:flat "
)

// checkFunctionLength allows a longer function that is one flat switch or table, when its comment
// has a line "//archtest:flat REASON". In a test, the table of the cases does not count.
func checkFunctionLength(t *Tree) []Finding {
	var out []Finding
	for f, fn := range t.functions() {
		lines := t.lines(fn)
		if f.Test {
			lines -= t.longest(fn, isTable)
		}
		if f.Generated || lines <= maxFunctionLines {
			continue
		}
		switch reason, marked := flatReason(fn); {
		case !marked:
			out = append(out, Finding{f.Path, t.line(fn), fmt.Sprintf("%s has %d lines, %d are allowed", fn.Name.Name, lines, maxFunctionLines)})
		case reason == "":
			out = append(out, Finding{f.Path, t.line(fn), fn.Name.Name + " is marked as flat without a reason"})
		case !t.isFlat(fn, lines):
			out = append(out, Finding{f.Path, t.line(fn), fn.Name.Name + " is marked as flat, but no switch or table makes up most of it"})
		}
	}
	return out
}

// lines is the number of lines from the func keyword, or the statement's first, to the last brace.
func (t *Tree) lines(n ast.Node) int {
	return t.fset.Position(n.End()).Line - t.line(n) + 1
}

func flatReason(fn *ast.FuncDecl) (reason string, marked bool) {
	if fn.Doc == nil {
		return "", false
	}
	for _, c := range fn.Doc.List {
		if rest, ok := strings.CutPrefix(c.Text+" ", flatMarker); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

func (t *Tree) isFlat(fn *ast.FuncDecl, lines int) bool {
	return t.longest(fn, isTableOrSwitch)*2 > lines
}

// longest is the number of lines of the longest node of a kind in a function.
func (t *Tree) longest(fn *ast.FuncDecl, kind func(ast.Node) bool) int {
	longest := 0
	ast.Inspect(fn, func(n ast.Node) bool {
		if n != nil && kind(n) {
			longest = max(longest, t.lines(n))
		}
		return true
	})
	return longest
}

func isTable(n ast.Node) bool {
	_, ok := n.(*ast.CompositeLit)
	return ok
}

func isTableOrSwitch(n ast.Node) bool {
	switch n.(type) {
	case *ast.SwitchStmt, *ast.TypeSwitchStmt:
		return true
	}
	return isTable(n)
}

func checkFileLength(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		if !f.Generated && f.Lines > maxFileLines {
			out = append(out, Finding{f.Path, 0, fmt.Sprintf("%d lines, %d are allowed: is there a second idea in it?", f.Lines, maxFileLines)})
		}
	}
	return out
}

// checkDomainFolders wants the files that every domain has.
func checkDomainFolders(t *Tree) []Finding {
	var out []Finding
	for _, p := range t.Packages() {
		if !isDomain(p) {
			continue
		}
		if !slices.ContainsFunc(p.Files, func(f *File) bool { return path.Base(f.Path) == "doc.go" }) {
			out = append(out, Finding{p.Dir, 0, "a domain has a doc.go: what it does, buckets and keys it owns, what survives a crash"})
		}
		out = append(out, checkDomainReadme(t, p)...)
		out = append(out, checkDomainLeases(t, p)...)
	}
	return out
}

// isDomain reports whether the package is a service's: not the list of them, not a leaf package.
func isDomain(p Package) bool {
	name := p.Files[0].AST.Name.Name
	return match("domains/*/...", p.Dir) && !match("domains/all", p.Dir) && !match("domains/*/*api", p.Dir) &&
		len(p.Code()) > 0 && name != "main" && !strings.HasSuffix(name, "test")
}

// domainHeadings are the sections of a domain's README; Operations only where the domain has some.
var domainHeadings = []string{"State", "Limits", "Examples"}

func checkDomainReadme(t *Tree, p Package) []Finding {
	readme := path.Join(p.Dir, "README.md")
	i := slices.IndexFunc(t.Texts, func(x Text) bool { return x.Path == readme })
	if i < 0 {
		return []Finding{{p.Dir, 0, "a domain has a README.md"}}
	}
	wanted := domainHeadings
	if p.hasFunction("Operations") {
		wanted = append([]string{"Operations"}, wanted...)
	}
	var out []Finding
	for _, heading := range wanted {
		if !strings.Contains("\n"+string(t.Texts[i].Content), "\n## "+heading+"\n") {
			out = append(out, Finding{readme, 0, "the section \"## " + heading + "\" is missing"})
		}
	}
	return out
}

func (p Package) hasFunction(name string) bool {
	for _, f := range p.Code() {
		for _, d := range f.AST.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == name {
				return true
			}
		}
	}
	return false
}

// leaseConstructors are the calls that make a lease.
var leaseConstructors = []string{"NewLeaderLease", "NewLease", "NewLeaseGroup"}

// checkDomainLeases wants every lease of a domain, key and constructor, in its lease.go.
func checkDomainLeases(t *Tree, p Package) []Finding {
	var out []Finding
	for _, f := range p.Code() {
		if path.Base(f.Path) == "lease.go" {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains(leaseConstructors, sel.Sel.Name) {
				out = append(out, Finding{f.Path, t.line(sel), "leases of a domain are made in its lease.go, with their keys"})
			}
			return true
		})
	}
	return out
}
