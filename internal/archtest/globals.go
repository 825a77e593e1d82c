package archtest

import (
	"errors"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
)

// globalExceptions are package variables that may change, with their reason.
var globalExceptions = map[string]string{
	"foundation/state/kvsync.wired": "finds two constructions of one key that do not know each other; holds stores weakly",
}

// constantCalls make values that nobody can change, or that are computed once.
var constantCalls = []string{
	"errors.New", "fmt.Errorf", "regexp.MustCompile",
	"sync.OnceValue", "sync.OnceValues", "strings.NewReplacer",
	"netip.MustParseAddr", "netip.MustParsePrefix", "netip.MustParseAddrPrefix",
	"time.Date", "time.Unix", "time.Duration", "slices.Concat", "reflect.TypeFor", "reflect.TypeOf",
}

// checkGlobals allows package variables that are constants in all but name: errors, patterns,
// embedded files and tables that no statement writes to.
func checkGlobals(t *Tree) []Finding {
	var out []Finding
	outer := t.writesAcrossPackages()
	for _, p := range t.Packages() {
		files := p.Code()
		if len(files) == 0 {
			continue
		}
		written := writtenGlobals(t.fset, files)
		for _, f := range files {
			if f.Generated {
				continue
			}
			for _, d := range f.AST.Decls {
				gen, ok := d.(*ast.GenDecl)
				if !ok || gen.Tok != token.VAR {
					continue
				}
				for _, spec := range gen.Specs {
					out = append(out, t.checkGlobal(f, gen, spec.(*ast.ValueSpec), written, outer)...)
				}
			}
		}
	}
	return out
}

func (t *Tree) checkGlobal(f *File, gen *ast.GenDecl, spec *ast.ValueSpec, written, outer map[string]bool) []Finding {
	var out []Finding
	for i, id := range spec.Names {
		full := f.Dir + "." + id.Name
		if _, excepted := globalExceptions[full]; id.Name == "_" || excepted || embedded(gen, spec) {
			continue
		}
		var value ast.Expr
		if i < len(spec.Values) {
			value = spec.Values[i]
		}
		switch {
		case written[id.Name] || outer[full]:
			out = append(out, Finding{f.Path, t.line(id), "package variable " + id.Name + " is written to; give its owner a field"})
		case value == nil && !sharedValues(spec):
			out = append(out, Finding{f.Path, t.line(id), "package variable " + id.Name + " has no value, so something must change it; give its owner a field"})
		case value != nil && !constantValue(value) && !isErrorType(spec.Type):
			out = append(out, Finding{f.Path, t.line(id), "package variable " + id.Name + " holds something that can change; give its owner a field"})
		}
	}
	return out
}

// isErrorType reports whether a variable is declared as an error: a sentinel, whatever it is made of.
func isErrorType(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "error"
}

// sharedValues reports whether one call gives all the names their values.
func sharedValues(spec *ast.ValueSpec) bool {
	return len(spec.Values) == 1 && len(spec.Names) > 1 && constantValue(spec.Values[0])
}

func embedded(gen *ast.GenDecl, spec *ast.ValueSpec) bool {
	for _, doc := range []*ast.CommentGroup{gen.Doc, spec.Doc} {
		if doc == nil {
			continue
		}
		if slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") }) {
			return true
		}
	}
	return false
}

// constantValue reports whether an expression gives a value that is a constant in all but name, as
// far as its form tells.
func constantValue(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CompositeLit:
		return !stateful(e.Type)
	case *ast.CallExpr:
		return constantCall(e)
	case *ast.UnaryExpr:
		return e.Op != token.AND && e.Op != token.ARROW && constantValue(e.X)
	case *ast.BinaryExpr:
		return constantValue(e.X) && constantValue(e.Y)
	case *ast.ParenExpr:
		return constantValue(e.X)
	}
	return true // a literal, a function, another name
}

// constantCall accepts the known constructors and conversions to a type written out.
func constantCall(call *ast.CallExpr) bool {
	switch fun := call.Fun.(type) {
	case *ast.ArrayType:
		return true
	case *ast.SelectorExpr:
		return slices.Contains(constantCalls, types.ExprString(fun))
	case *ast.IndexExpr:
		return slices.Contains(constantCalls, types.ExprString(fun.X))
	}
	return false
}

// stateful reports whether a type is made to change.
func stateful(e ast.Expr) bool {
	if e == nil {
		return false
	}
	name := types.ExprString(e)
	return strings.HasPrefix(name, "sync.") || strings.HasPrefix(name, "atomic.")
}

// writtenGlobals returns the package variables that a statement of the package writes to, or takes
// the address of. Names are resolved by the type checker with every import empty: the scopes come
// out right and no other package has to be loaded.
func writtenGlobals(fset *token.FileSet, files []*File) map[string]bool {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: emptyImporter{}, Error: func(error) {}}
	var parsed []*ast.File
	for _, f := range files {
		parsed = append(parsed, f.AST)
	}
	pkg, err := conf.Check(files[0].Dir, fset, parsed, info)
	if pkg == nil {
		panic(err) // the checker always makes a package
	}
	written := map[string]bool{}
	for _, f := range parsed {
		ast.Inspect(f, func(n ast.Node) bool {
			for _, target := range writes(n) {
				id := root(target)
				if v, ok := info.Uses[id].(*types.Var); ok && v.Parent() == pkg.Scope() {
					written[v.Name()] = true
				}
			}
			return true
		})
	}
	return written
}

// writesAcrossPackages returns the variables, as directory and name, that are written from another
// package of the module.
func (t *Tree) writesAcrossPackages() map[string]bool {
	out := map[string]bool{}
	for _, f := range t.Files {
		dirs := map[string]string{}
		for _, imp := range f.Imports {
			if dir, ok := strings.CutPrefix(imp.Path, t.Module+"/"); ok {
				dirs[imp.Name] = dir
			}
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			for _, target := range writes(n) {
				if sel := rootSelector(target); sel != nil {
					if dir := dirs[sel.X.(*ast.Ident).Name]; dir != "" {
						out[dir+"."+sel.Sel.Name] = true
					}
				}
			}
			return true
		})
	}
	return out
}

// writes returns what a node writes to.
func writes(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			return []ast.Expr{n.Key, n.Value}
		}
	case *ast.UnaryExpr:
		if _, literal := n.X.(*ast.CompositeLit); n.Op == token.AND && !literal {
			return []ast.Expr{n.X}
		}
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && slices.Contains([]string{"delete", "clear", "copy"}, id.Name) && len(n.Args) > 0 {
			return n.Args[:1]
		}
	}
	return nil
}

// root is the variable that an expression such as a.b[i] is part of.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// rootSelector is the pkg.Name that an expression such as pkg.Name.b[i] begins with.
func rootSelector(e ast.Expr) *ast.SelectorExpr {
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			if _, ok := x.X.(*ast.Ident); ok {
				return x
			}
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// emptyImporter answers every import with a package that has no names.
type emptyImporter struct{}

// Import implements types.Importer.
func (emptyImporter) Import(importPath string) (*types.Package, error) {
	if importPath == "C" {
		return nil, errors.New("archtest: no cgo")
	}
	pkg := types.NewPackage(importPath, importName(path.Clean(importPath)))
	pkg.MarkComplete()
	return pkg, nil
}
