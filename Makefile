# The commands that people and CI run. `make help` lists them.

SHELL       := bash
.SHELLFLAGS := -e -u -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run build test check lint e2e soak mutants bench generate fmt go-present

GO         ?= go
ARGS       ?=
OUT        ?=
# With -race the linters read the packages as the tests of "make test" compile them, so that a machine
# with an empty cache compiles everything once.
LINTFLAGS  ?=
# The .tools directory holds what this Makefile builds or installs for itself; it is not committed.
STATICCHECK := .tools/staticcheck
export PATH := $(CURDIR)/.tools/aws/bin:$(PATH)

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## Build and start a one-node cloud (ARGS="--config my.toml" are passed on)
	@exec bin/spinifex up $(ARGS)

build: go-present ## Build bin/spinifex, one static binary
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/spinifex ./cmd/spinifex

test: go-present ## Everything CI runs: lint, then all tests with the race detector (about 10 minutes cold)
	@scripts/apt-install test
	@$(MAKE) --no-print-directory lint LINTFLAGS=-race
	GOFLAGS="$${GOFLAGS-} -race" $(GO) vet -tags fault ./foundation/... ./cmd/...
	$(GO) test -race -vet=off -timeout 9m ./...

check: go-present ## Format, vet, staticcheck, repository rules, unit tests (under 3 minutes when warm)
	@$(MAKE) --no-print-directory lint
	$(GO) test -vet=off -timeout 3m $$($(GO) list ./... | grep -v -e '/tests/' -e '/bench/')

lint: go-present $(STATICCHECK) ## Format check, go vet, staticcheck
	@unformatted=$$(find . -name '*.go' -not -path './.tools/*' -print0 | xargs -0 gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi
	GOFLAGS="$${GOFLAGS-} $(LINTFLAGS)" $(GO) vet ./...
	@# The one finding that is dropped: AWS has ended the support of the SDK that the tests use as a client.
	@findings=$$(GOFLAGS="$${GOFLAGS-} $(LINTFLAGS)" $(STATICCHECK) ./... | grep -v 'aws-sdk-go is deprecated' || true); \
	if [ -n "$$findings" ]; then echo "staticcheck:"; echo "$$findings"; exit 1; fi

e2e: go-present ## Only the tests that start real processes and real clients
	@scripts/apt-install test
	$(GO) test -count=1 -timeout 9m ./tests/...

soak: go-present ## The long forms of the tests of locks with real processes (about 30 minutes)
	@scripts/apt-install test
	$(GO) test -count=1 -timeout 2h -v -run 'Leases|Holder' ./tests/e2e/locks -args -kills=100 -holders=96

mutants: go-present ## Plant each known bug in the locks and see the named test kill it (about 6 minutes)
	$(GO) run ./foundation/state/kvsync/mutants

bench: go-present ## Measure locks against a raw CAS and etcd, DNS against nsd (OUT=bench/results keeps the pages)
	@scripts/apt-install test
	@scripts/apt-install bench
	@# In a module of its own, so that etcd is no dependency of the product.
	$(GO) run -C bench/etcd . -out "$(if $(OUT),$(abspath $(OUT)))"
	$(GO) test -run '^$$' -bench . -benchtime 1x ./bench/dns -args -out "$(if $(OUT),$(abspath $(OUT)))"

generate: go-present ## Write the generated code anew
	$(GO) generate ./...

fmt: ## Format the code
	gofmt -w $$(find . -name '*.go' -not -path './.tools/*')

go-present:
	@scripts/require-go $(GO)

# Pinned in a module of its own, so that a linter's dependencies are not the product's.
$(STATICCHECK): tools/go.mod tools/go.sum
	@mkdir -p .tools
	$(GO) -C tools build -o ../$(STATICCHECK) honnef.co/go/tools/cmd/staticcheck
