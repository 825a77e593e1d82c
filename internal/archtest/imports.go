package archtest

import (
	"fmt"
	"path"
	"strings"
)

// importRule says what the packages of a place may import of this module.
type importRule struct {
	// From is the pattern of the packages; the first rule that fits a package is its rule.
	From string
	// Allow are patterns of packages; ownDomain stands for the domain that the package belongs to.
	Allow []string
	// AllowTests are further ones for test files.
	AllowTests []string
	Why        string
}

// ownDomain in a rule stands for the packages of the importing package's domain.
const ownDomain = "<own domain>"

// importRules are tried in order. A package that none of them fits is a finding: a new place in the
// tree is a decision.
var importRules = []importRule{
	{
		From: "foundation/state/kvsync", Allow: nil,
		AllowTests: []string{"foundation/state/kvsync/...", "foundation/state/kvstore", "internal/testkit"},
		Why:        "kvsync is a package that other projects import on its own",
	},
	{
		From: "foundation/state/kvsync/...", Allow: []string{"foundation/state/kvsync/..."},
		AllowTests: []string{"internal/testkit"},
		Why:        "the store adapter and the test suite of kvsync are usable on their own, too",
	},
	{
		From: "foundation/...", Allow: []string{"foundation/..."},
		AllowTests: []string{"internal/testkit"},
		Why:        "foundation knows no service and no process",
	},
	{
		From: "providers/...", Allow: []string{"foundation/...", "providers/..."},
		AllowTests: []string{"internal/testkit"},
		Why:        "the outside world stands behind small interfaces that know no service",
	},
	{
		From: "domains/all", Allow: []string{"foundation/...", "domains/..."},
		Why: "the one list of the operation tables",
	},
	{
		From: "domains/*/*api", Allow: []string{"foundation/...", "domains/*/*api"},
		Why: "a leaf package is what other domains may know of this one",
	},
	{
		From: "domains/*/...", Allow: []string{"foundation/...", "providers/...", "domains/*/*api", ownDomain},
		AllowTests: []string{"internal/testkit", "domains/..."},
		Why:        "domains meet through records and leaf packages, never through each other's code",
	},
	{
		From: "ingress/...", Allow: []string{"foundation/...", "domains/...", "ingress/..."},
		AllowTests: []string{"internal/testkit"},
		Why:        "the gateway's pipeline knows the operation tables and identities, no process",
	},
	{
		From: "runtime/...", Allow: []string{"foundation/...", "providers/...", "domains/...", "ingress/...", "runtime/...", "console/..."},
		AllowTests: []string{"internal/testkit"},
		Why:        "the composition root builds everything",
	},
	{
		From: "console/...", Allow: []string{"foundation/...", "console/..."},
		AllowTests: []string{"internal/testkit"},
		Why:        "the console is a client of the API",
	},
	{
		From: "cmd/...", Allow: []string{"foundation/...", "runtime/...", "cmd/..."},
		AllowTests: []string{"internal/testkit"},
		Why:        "the binary turns flags into configuration and starts roles",
	},
	{
		From: "internal/testkit/...", Allow: []string{"foundation/...", "internal/testkit/..."},
		Why: "test helpers serve every layer, so they may know only the lowest",
	},
	{
		From: "internal/process", AllowTests: []string{"internal/testkit"},
		Why: "it starts programs, whatever they are",
	},
	{From: "internal/cloud", Allow: []string{"internal/process", "internal/testkit"}, Why: "it uses the product from outside"},
	{From: "internal/natsd", Why: "a NATS server is no part of the product"},
	{
		From: "internal/archtest/...", Allow: []string{"foundation/...", "domains/...", "ingress/...", "internal/..."},
		AllowTests: []string{"runtime/..."},
		Why:        "tests on the repository look at tables and serve a made-up service",
	},
	{
		From: "bench/...", Allow: []string{"foundation/...", "domains/...", "runtime/...", "internal/...", "bench/..."},
		Why: "benchmarks measure any layer; nothing imports them",
	},
	{
		From: "tests/...", Allow: []string{"foundation/...", "domains/all", "domains/*/*api", "runtime/node", "internal/...", "tests/..."},
		AllowTests: []string{"domains/..."},
		Why:        "end-to-end tests use the product from outside; nothing imports them",
	},
}

func checkImports(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		rule, ok := ruleFor(f.Dir)
		if !ok {
			out = append(out, Finding{f.Path, 0, "no import rule covers the package " + f.Dir})
			continue
		}
		for _, imp := range f.Imports {
			target, inside := strings.CutPrefix(imp.Path, t.Module+"/")
			if !inside || target == f.Dir || rule.allows(f, target) {
				continue
			}
			out = append(out, Finding{f.Path, imp.Line, fmt.Sprintf("imports %s, which %s may not: %s", target, rule.From, rule.Why)})
		}
	}
	return out
}

func ruleFor(dir string) (importRule, bool) {
	for _, r := range importRules {
		if match(r.From, dir) {
			return r, true
		}
	}
	return importRule{}, false
}

func (r importRule) allows(f *File, target string) bool {
	for _, pattern := range r.Allow {
		if pattern == ownDomain {
			pattern = path.Join(strings.Join(strings.SplitN(f.Dir, "/", 3)[:2], "/"), "...")
		}
		if match(pattern, target) {
			return true
		}
	}
	return f.Test && matchAny(r.AllowTests, target)
}

// externalRule says where a package from outside this module may be imported.
type externalRule struct {
	// Path is an import path; everything below it is meant, too.
	Path string
	// Only are patterns of the packages that may import it; none means nobody.
	Only []string
	// Tests allows it in every test file.
	Tests bool
	Why   string
}

var externalRules = []externalRule{
	{
		Path: "github.com/nats-io/nats.go", Tests: true,
		Only: []string{"foundation/state/...", "foundation/messaging/...", "runtime/node", "internal/testkit/...", "bench/...", "tests/..."},
		Why:  "connections and JetStream handles come from foundation/messaging",
	},
	{
		Path: "github.com/nats-io/nats-server", Tests: true,
		Only: []string{"runtime/node", "internal/testkit/...", "internal/natsd", "bench/...", "tests/..."},
		Why:  "the embedded server is the node's",
	},
	{
		Path: "github.com/stretchr/testify", Tests: true,
		Only: []string{"internal/testkit/...", "internal/cloud", "foundation/state/kvsync/kvsynctest", "tests/..."},
		Why:  "assertions are for tests",
	},
	{Path: "go.uber.org/goleak", Tests: true, Only: []string{"internal/testkit/..."}, Why: "leak checks are for tests"},
	{Path: "pgregory.net/rapid", Tests: true, Only: []string{"foundation/state/kvsync/kvsynctest"}, Why: "generated cases are for tests"},
	{Path: "github.com/anishathalye/porcupine", Tests: true, Only: []string{"foundation/state/kvsync/kvsynctest"}, Why: "histories are for tests"},
	{
		Path: "github.com/aws/aws-sdk-go", Tests: true, Only: []string{"providers/objectstore/...", "internal/cloud", "bench/...", "tests/..."},
		Why: "we answer AWS's clients; only the S3 driver is one",
	},
	{Path: "github.com/spf13/cobra", Only: []string{"cmd/..."}, Why: "commands are built in cmd"},
	{Path: "github.com/pelletier/go-toml", Only: []string{"foundation/config"}, Tests: true, Why: "configuration is read in one place"},
	{
		Path: "github.com/prometheus", Only: []string{"foundation/telemetry"}, Tests: true,
		Why: "metrics are recorded with OpenTelemetry; only their export is Prometheus",
	},
	{Path: "go.opentelemetry.io/otel/sdk", Only: []string{"foundation/telemetry"}, Tests: true, Why: "the SDK is set up in one place, the API used everywhere"},
	{Path: "log", Why: "logs are structured: log/slog, injected"},
	{Path: "io/ioutil", Why: "replaced by io and os"},
	{Path: "github.com/pkg/errors", Why: "errors are wrapped with %w"},
	{Path: "golang.org/x/exp", Why: "experiments are not built upon"},
}

func checkExternalImports(t *Tree) []Finding {
	var out []Finding
	for _, f := range t.Files {
		for _, imp := range f.Imports {
			if f.Dir == "foundation/state/kvsync" && !f.Test && !standard(imp.Path) && !strings.HasPrefix(imp.Path, t.Module) {
				out = append(out, Finding{f.Path, imp.Line, "imports " + imp.Path + ": kvsync imports the standard library only"})
			}
			for _, r := range externalRules {
				if imp.Path != r.Path && (!strings.HasPrefix(imp.Path, r.Path+"/") || standard(r.Path)) {
					continue
				}
				if !matchAny(r.Only, f.Dir) && !(r.Tests && f.Test) {
					out = append(out, Finding{f.Path, imp.Line, fmt.Sprintf("imports %s, allowed in %v: %s", imp.Path, r.Only, r.Why)})
				}
			}
		}
	}
	return out
}

// standard reports whether the path is the standard library's: its first element has no dot.
func standard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}
