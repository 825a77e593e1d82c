package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// repository parses this repository.
func repository(t *testing.T) *Tree {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	root := filepath.Dir(filepath.Dir(dir))
	tree, err := Load(os.DirFS(root))
	require.NoError(t, err)
	require.Equal(t, "github.com/mulgadc/spinifex", tree.Module)
	return tree
}

func TestRepositoryKeepsItsRules(t *testing.T) {
	tree := repository(t)
	require.NotEmpty(t, tree.Files)
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			findings := rule.Check(tree)
			for _, f := range findings {
				t.Error(f)
			}
			if len(findings) > 0 {
				t.Log("why:", rule.Why)
			}
		})
	}
}

// TestExceptionsAreStillNeeded keeps the lists of exceptions from outliving what they excuse.
func TestExceptionsAreStillNeeded(t *testing.T) {
	globals := map[string]bool{}
	for _, f := range repository(t).Files {
		for _, d := range f.AST.Decls {
			if gen, ok := d.(*ast.GenDecl); ok && gen.Tok == token.VAR {
				for _, spec := range gen.Specs {
					for _, id := range spec.(*ast.ValueSpec).Names {
						globals[f.Dir+"."+id.Name] = true
					}
				}
			}
		}
	}
	for name := range globalExceptions {
		assert.True(t, globals[name], "the excepted variable %s does not exist", name)
	}
}

// fixture makes a module of the files given as path and content.
func fixture(t *testing.T, files map[string]string) *Tree {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module example.test/m\n")}}
	for name, content := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	tree, err := Load(fsys)
	require.NoError(t, err)
	return tree
}

// violation is a small tree and what a rule says about it; nothing means that it is allowed.
type violation struct {
	name  string
	rule  string
	files map[string]string
	want  []string
}

func TestEachRuleCatchesItsViolation(t *testing.T) {
	covered := map[string]bool{}
	for _, group := range [][]violation{importCases(), packageCases(), codeCases(), globalCases(), lengthCases(), wordCases(), domainCases()} {
		for _, c := range group {
			t.Run(c.rule+"/"+c.name, func(t *testing.T) {
				var got []string
				for _, f := range ruleNamed(t, c.rule).Check(fixture(t, c.files)) {
					got = append(got, f.String())
				}
				require.Len(t, got, len(c.want), "%q", got)
				for i, want := range c.want {
					assert.Contains(t, got[i], want)
				}
			})
			if len(c.want) > 0 {
				covered[c.rule] = true
			}
		}
	}
	for _, rule := range Rules() {
		assert.True(t, covered[rule.Name], "no case shows %s catching anything", rule.Name)
	}
}

func ruleNamed(t *testing.T, name string) Rule {
	t.Helper()
	for _, r := range Rules() {
		if r.Name == name {
			return r
		}
	}
	require.FailNow(t, "no such rule", name)
	return Rule{}
}

func importCases() []violation {
	const m = "example.test/m/"
	return []violation{
		{"a domain imports another", "imports", map[string]string{
			"domains/rds/a.go": `package rds; import _ "` + m + `domains/dns"`,
		}, []string{"domains/rds/a.go:1: imports domains/dns"}},
		{"a domain imports a leaf and itself", "imports", map[string]string{
			"domains/rds/backup/a.go": `package backup; import (_ "` + m + `domains/dns/dnsapi"; _ "` + m + `domains/rds")`,
		}, nil},
		{"foundation imports a domain", "imports", map[string]string{
			"foundation/aws/a.go": `package aws; import _ "` + m + `domains/dns"`,
		}, []string{"imports domains/dns, which foundation/... may not"}},
		{"kvsync imports foundation", "imports", map[string]string{
			"foundation/state/kvsync/a.go": `package kvsync; import _ "` + m + `foundation/aws"`,
		}, []string{"kvsync is a package that other projects import"}},
		{"cmd imports a domain", "imports", map[string]string{
			"cmd/spinifex/main.go": `package main; import _ "` + m + `domains/dns"`,
		}, []string{"imports domains/dns, which cmd/... may not"}},
		{"a test helper outside tests", "imports", map[string]string{
			"foundation/aws/a.go":      `package aws; import _ "` + m + `internal/testkit"`,
			"foundation/aws/a_test.go": `package aws; import _ "` + m + `internal/testkit"`,
		}, []string{"foundation/aws/a.go:1: imports internal/testkit"}},
		{"a place nobody decided on", "imports", map[string]string{
			"plugins/x.go": "package plugins",
		}, []string{"plugins/x.go: no import rule covers the package plugins"}},
		{"a nested module has rules of its own", "imports", map[string]string{
			"plugins/go.mod": "module example.test/m/plugins\n", "plugins/x.go": "package plugins",
		}, nil},
		{"nats in a domain", "external-imports", map[string]string{
			"domains/dns/a.go":      `package dns; import _ "github.com/nats-io/nats.go/jetstream"`,
			"domains/dns/a_test.go": `package dns; import _ "github.com/nats-io/nats.go/jetstream"`,
			"runtime/node/a.go":     `package node; import _ "github.com/nats-io/nats.go"`,
			"runtime/daemon/a.go":   `package daemon; import _ "github.com/nats-io/nats.go"`,
		}, []string{"domains/dns/a.go:1: imports github.com/nats-io/nats.go/jetstream", "runtime/daemon/a.go:1: imports"}},
		{"kvsync beyond the standard library", "external-imports", map[string]string{
			"foundation/state/kvsync/a.go":      `package kvsync; import _ "golang.org/x/sync/errgroup"`,
			"foundation/state/kvsync/a_test.go": `package kvsync; import _ "github.com/stretchr/testify/require"`,
		}, []string{"foundation/state/kvsync/a.go:1: imports golang.org/x/sync/errgroup: kvsync imports the standard library only"}},
		{"the old logger, not its namesakes", "external-imports", map[string]string{
			"foundation/aws/a.go": `package aws; import (_ "log"; _ "log/slog")`,
		}, []string{"imports log, allowed in []"}},
	}
}

func packageCases() []violation {
	return []violation{
		{"none", "package-comment", map[string]string{
			"a/a.go": "package a",
		}, []string{"a: no package comment"}},
		{"two", "package-comment", map[string]string{
			"a/a.go":   "// Package a is.\npackage a",
			"a/doc.go": "// Package a is.\npackage a",
		}, []string{"a/doc.go:1: second package comment"}},
		{"in the wrong file", "package-comment", map[string]string{
			"a/a.go": "// Package a is.\npackage a",
			"a/b.go": "package a",
		}, []string{"a/a.go:1: the package comment stands in doc.go"}},
		{"of another name", "package-comment", map[string]string{
			"a/doc.go": "// This is it.\npackage a",
		}, []string{`does not begin with "Package a "`}},
		{"as wanted", "package-comment", map[string]string{
			"a/a.go":      "// Package a is.\npackage a",
			"b/doc.go":    "// Package b is.\npackage b",
			"b/b.go":      "package b",
			"b/b_test.go": "package b_test",
			"c/main.go":   "// Command c does.\npackage main",
			"c/flags.go":  "package main",
			"d/d_test.go": "// Package d tests.\npackage d_test",
		}, nil},
		{"a name that says nothing", "package-name", map[string]string{
			"a/common/a.go":  "package common",
			"a/netutil/a.go": "package netutil",
			"a/base/a.go":    "package other",
			"a/tags/a.go":    "package tags",
		}, []string{"a/base: the name base", "a/common: the name common", "a/netutil: the name netutil"}},
	}
}

func codeCases() []violation {
	return []violation{
		{"init", "no-init", map[string]string{
			"a/a.go": "package a\nfunc init() {}\ntype T struct{}\nfunc (T) init() {}",
		}, []string{"a/a.go:2"}},
		{"a context in a struct", "no-context-in-struct", map[string]string{
			"a/a.go":      "package a\nimport \"context\"\ntype T struct{ ctx context.Context }\ntype F func(context.Context)",
			"a/a_test.go": "package a\nimport \"context\"\ntype call struct{ ctx context.Context }",
		}, []string{"a/a.go:3"}},
		{"a context under another name, embedded", "no-context-in-struct", map[string]string{
			"a/a.go": "package a\nimport c \"context\"\ntype T struct{ c.Context }",
		}, []string{"a/a.go:3"}},
		{"a bucket made elsewhere", "bucket-creation", map[string]string{
			"domains/dns/a.go":      "package dns\nfunc f(js interface{ CreateKeyValue() }) { js.CreateKeyValue() }",
			"domains/dns/a_test.go": "package dns\nfunc g(js interface{ CreateKeyValue() }) { js.CreateKeyValue() }",
			bucketFile:              "package kvstore\nfunc f(js interface{ CreateStream() }) { js.CreateStream() }",
		}, []string{"domains/dns/a.go:2: CreateKeyValue is called in"}},
		{"the call that changes a bucket behind its owner's back", "bucket-creation", map[string]string{
			bucketFile:              "package kvstore\nfunc f(js interface{ CreateOrUpdateKeyValue() }) { js.CreateOrUpdateKeyValue() }",
			"domains/dns/a_test.go": "package dns\nfunc g(js interface{ CreateOrUpdateKeyValue() }) { js.CreateOrUpdateKeyValue() }",
		}, []string{"domains/dns/a_test.go:2", bucketFile + ":2"}},
		{"a sleep", "no-sleeping-tests", map[string]string{
			"a/a_test.go":              "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }",
			"a/b.go":                   "package a\nimport \"time\"\nfunc h() { time.Sleep(1) }",
			"a/v_test.go":              "package a\nimport (\n\"testing/synctest\"\n\"time\"\n)\nfunc g() { synctest.Wait(); time.Sleep(1) }",
			"a/w_test.go":              "package a\nimport (\n\"github.com/mulgadc/spinifex/internal/testkit\"\n\"time\"\n)\nfunc k() { testkit.Bubble(nil, nil); time.Sleep(1) }",
			"internal/testkit/wait.go": "package testkit\nimport \"time\"\nfunc f() { time.Sleep(1) }",
		}, []string{"a/a_test.go:3", "internal/testkit/wait.go:3"}},
		{"a skip", "no-skipped-tests", map[string]string{
			"a/a_test.go": "package a\nimport \"testing\"\nfunc TestX(t *testing.T) { t.Skip(\"no docker\") }",
			"a/b_test.go": "package a\nfunc f(r interface{ Skip(int) }) { r.Skip(1) }",
		}, []string{"a/a_test.go:3"}},
	}
}

func globalCases() []violation {
	return []violation{
		{"constants in all but name", "no-mutable-globals", map[string]string{
			"a/a.go": `package a
import ("errors"; "regexp"; "embed"; "time")
var ErrX = errors.New("x")
var ErrY error = &sentinel{"y"}
var re = regexp.MustCompile("x")
//go:embed x
var files embed.FS
var table = map[string]int{"a": 1}
var list = []string{"a"}
var _ = list
var limit = 3 * time.Second
var raw = []byte("x")
var run = func() {}
func f() { table := map[string]int{}; table["a"] = 2; delete(table, "a") }
`,
		}, nil},
		{"made to change", "no-mutable-globals", map[string]string{
			"a/a.go": "package a\nimport (\"sync\"; \"sync/atomic\")\nvar mu sync.Mutex\nvar n = atomic.Int64{}\nvar m = make(map[string]int)\nvar p = &struct{}{}\nvar c = newClient()",
		}, []string{"a/a.go:3", "a/a.go:4", "a/a.go:5", "a/a.go:6", "a/a.go:7"}},
		{"written to in another file", "no-mutable-globals", map[string]string{
			"a/a.go": "package a\nvar table = map[string]int{}\nvar level = 1\nvar count = 0\nvar host = struct{ name string }{}",
			"a/b.go": "package a\nfunc f() { table[\"x\"] = 1; p := &level; *p = 2; count++; host.name = \"x\" }",
		}, []string{"a/a.go:2", "a/a.go:3", "a/a.go:4", "a/a.go:5"}},
		{"written to from another package", "no-mutable-globals", map[string]string{
			"a/a.go": "package a\nvar Replicas = 1",
			"b/b.go": "package b\nimport \"example.test/m/a\"\nfunc f() { a.Replicas = 3 }",
		}, []string{"a/a.go:2"}},
		{"generated code and tests are left alone", "no-mutable-globals", map[string]string{
			"a/a.go":      "// Code generated by x. DO NOT EDIT.\n\npackage a\nvar m = make(map[string]int)",
			"a/a_test.go": "package a\nvar update = newFlag()",
		}, nil},
	}
}

func lengthCases() []violation {
	body := strings.Repeat("\t_ = 1\n", maxFunctionLines)
	table := strings.Repeat("\t1,\n", maxFunctionLines)
	flat := "\tswitch x {\n" + strings.Repeat("\tcase 1:\n\t\treturn\n", maxFunctionLines) + "\t}\n"
	return []violation{
		{"a long function", "function-length", map[string]string{
			"a/a.go":      "package a\nfunc f() {\n" + body + "}",
			"a/a_test.go": "package a\nfunc g() {\n" + body + "}",
		}, []string{"a/a.go:2: f has 82 lines, 80 are allowed", "a/a_test.go:2: g has 82 lines"}},
		{"a test with a table", "function-length", map[string]string{
			"a/a_test.go": "package a\nfunc g() {\n_ = []int{\n" + table + "}\n}",
		}, nil},
		{"a flat switch with its reason", "function-length", map[string]string{
			"a/a.go": "package a\n//archtest:flat one case per type\nfunc f(x int) {\n" + flat + "}",
		}, nil},
		{"a marker without a reason", "function-length", map[string]string{
			"a/a.go": "package a\n//archtest:flat\nfunc f(x int) {\n" + flat + "}",
		}, []string{"without a reason"}},
		{"a marker on something else", "function-length", map[string]string{
			"a/a.go": "package a\n//archtest:flat it is long\nfunc f() {\n" + body + "}",
		}, []string{"no switch or table"}},
		{"a long file", "file-length", map[string]string{
			"a/a.go":   "package a\n" + strings.Repeat("\n", maxFileLines),
			"a/gen.go": "// Code generated by x. DO NOT EDIT.\n\npackage a\n" + strings.Repeat("\n", maxFileLines),
		}, []string{"a/a.go: 701 lines"}},
	}
}

func wordCases() []violation {
	return []violation{
		{"places and unfinished work", "words", map[string]string{
			"README.md":       "see /wor" + "k/main",
			"a/a.go":          "package a // TOD" + "O later",
			"a/testdata/x.md": "from issu" + "e 12",
			".ci/run":         "cat ../share" + "d/x",
		}, []string{".ci/run:1", "README.md:1", "a/a.go:1", "a/testdata/x.md:1"}},
		{"words that only look alike", "words", map[string]string{
			"README.md": "homework/main, the network/x, the issues of today",
			"Makefile":  "cp x /tm" + "p/x",
		}, nil},
	}
}

func domainCases() []violation {
	const sections = "# X\n\n## State\n\n## Limits\n\n## Examples\n"
	return []violation{
		{"as wanted", "domain-folder", map[string]string{
			"domains/sts/doc.go":         "package sts",
			"domains/sts/README.md":      sections,
			"domains/dns/dnsapi/a.go":    "package dnsapi",
			"domains/all/all.go":         "package all",
			"domains/rds/README.md":      sections + "\n## Operations\n",
			"domains/rds/doc.go":         "package rds",
			"domains/rds/service.go":     "package rds\nfunc Operations() {}",
			"domains/rds/lease.go":       "package rds\nvar l = election.NewLeaderLease",
			"domains/rds/lease_test.go":  "package rds\nvar l2 = election.NewLeaderLease",
			"domains/rds/rdsapi/api.go":  "package rdsapi",
			"domains/rds/rdsapi/api2.go": "package rdsapi",
		}, nil},
		{"nothing but code", "domain-folder", map[string]string{
			"domains/sts/a.go": "package sts",
		}, []string{"domains/sts: a domain has a doc.go", "domains/sts: a domain has a README.md"}},
		{"sections missing", "domain-folder", map[string]string{
			"domains/sts/doc.go":    "package sts\nfunc Operations() {}",
			"domains/sts/README.md": "## State\n## Limits\n",
		}, []string{`"## Operations" is missing`, `"## Examples" is missing`}},
		{"a lease made elsewhere", "domain-folder", map[string]string{
			"domains/sts/doc.go":    "package sts",
			"domains/sts/README.md": sections,
			"domains/sts/loop.go":   "package sts\nvar l = kvsync.NewLease",
		}, []string{"domains/sts/loop.go:2: leases of a domain are made in its lease.go"}},
	}
}

func TestLoadRefusesWhatItCannotRead(t *testing.T) {
	_, err := Load(fstest.MapFS{})
	require.ErrorContains(t, err, "go.mod")

	_, err = Load(fstest.MapFS{"go.mod": {Data: []byte("go 1.26\n")}})
	require.ErrorContains(t, err, "no module line")

	_, err = Load(fstest.MapFS{"go.mod": {Data: []byte("module m\n")}, "a.go": {Data: []byte("package")}})
	require.ErrorContains(t, err, "a.go")
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, pkg string
		want         bool
	}{
		{"a/...", "a", true},
		{"a/...", "a/b/c", true},
		{"a/...", "ab", false},
		{"a/*", "a/b", true},
		{"a/*", "a/b/c", false},
		{"a/*", "a", false},
		{"domains/*/*api", "domains/dns/dnsapi", true},
		{"domains/*/*api", "domains/dns/server", false},
		{"a/b", "a", false},
	} {
		assert.Equal(t, c.want, match(c.pattern, c.pkg), "%s against %s", c.pattern, c.pkg)
	}
}
