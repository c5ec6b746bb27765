# Everything that can be done with this repository: `make help`.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

# Tools, pinned. A new version gets a new directory, so that a bump rebuilds and nothing is installed outside ./.tools.
GOLANGCI_LINT_VERSION := v2.15.0
GOFUMPT_VERSION       := v0.12.0
SQLC_VERSION          := v1.31.1
GOVULNCHECK_VERSION   := v1.9.0
BUF_VERSION           := v1.75.0

# protoc-gen-go is part of the module that its files import, so that go.mod pins it.
PROTOC_GEN_GO_VERSION      := $(shell awk '$$1 == "google.golang.org/protobuf" { print $$2 }' go.mod)
PROTOC_GEN_GO_GRPC_VERSION := v1.6.2

TOOLS         := $(CURDIR)/.tools
GOLANGCI_LINT := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint
GOFUMPT       := $(TOOLS)/gofumpt-$(GOFUMPT_VERSION)/gofumpt
SQLC          := $(TOOLS)/sqlc-$(SQLC_VERSION)/sqlc
GOVULNCHECK   := $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION)/govulncheck
BUF           := $(TOOLS)/buf-$(BUF_VERSION)/buf

PROTOC_GEN_GO      := $(TOOLS)/protoc-gen-go-$(PROTOC_GEN_GO_VERSION)/protoc-gen-go
PROTOC_GEN_GO_GRPC := $(TOOLS)/protoc-gen-go-grpc-$(PROTOC_GEN_GO_GRPC_VERSION)/protoc-gen-go-grpc
PROTOGEN           := PATH="$(dir $(PROTOC_GEN_GO)):$(dir $(PROTOC_GEN_GO_GRPC)):$$PATH" go run ./internal/protogen

MODULE  := github.com/sched-sidecar/sched
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X $(MODULE)/internal/version.stamped=$(VERSION)
BINARIES  := sched sched-sidecar
PLATFORMS := linux/amd64 linux/arm64 darwin/arm64
BIN_DIR   ?= bin
DIST_DIR  ?= dist

# The files that gofumpt checks: what git knows or would add, without what a generator wrote.
GO_FILES = $(shell git ls-files --cached --others --exclude-standard '*.go' ':!sql/dbq/*' ':!*.pb.go' | while read -r f; do [ -e "$$f" ] && echo "$$f"; done)

# River UI's tests are a module of their own: what is shipped doesn't depend on it.
RIVER_UI := test/interop/riverui

# One apt-get at a time, here and in what the tests start (internal/apt has the same lock).
APT_GET := DEBIAN_FRONTEND=noninteractive flock /var/cache/sched-apt.lock apt-get -o DPkg::Lock::Timeout=300

# Tests of whole fleets, in processes of their own: one package at a time, and without the race detector, which sees only
# the test's own process. `make verify` runs the main job's sidecars with it.
FLEETS := ./test/... ./examples/...

TEST_TIMEOUT ?= 20m
TEST_FLAGS   ?=
PKG          ?= ./...
FUZZ_TIME    ?= 30s

.PHONY: help
help: ## List what can be done (this list)
	@awk 'BEGIN { FS = ":.*## " } /^[a-z][a-z-]*:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Close a month of 50,000 orders while half of the fleet is killed (KEEP=1 leaves it running)
	@echo "compiling the demo (a minute or more the first time)"
	@mkdir -p $(TOOLS)
	CGO_ENABLED=0 go build -trimpath -o $(TOOLS)/demo ./examples/carryover/demo
	@exec $(TOOLS)/demo $(if $(KEEP),--keep)

.PHONY: test
test: need-cgo need-postgres ## Run all tests on a real Postgres, with the race detector where it sees something (PKG=./jobs TEST_FLAGS='-run Name')
ifeq ($(PKG),./...)
	go test -race -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) $$(go list ./... | grep -vE '^$(MODULE)/(test|examples)/')
	go test -p 1 -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) $(FLEETS)
	cd $(RIVER_UI) && go test -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) ./...
else
	go test -race -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) $(PKG)
endif

# The race detector is C code behind cgo.
.PHONY: need-cgo
need-cgo:
	@cc=$$(go env CC); \
	if ! command -v "$${cc%% *}" >/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "make: the race detector needs a C compiler and $$cc is missing: installing gcc and libc6-dev with apt-get"; \
			$(APT_GET) update -qq; \
			$(APT_GET) install -y -qq gcc libc6-dev; \
		else \
			echo "make: the race detector needs a C compiler and $$cc is missing: install it (Debian: apt-get install gcc libc6-dev), or run the tests without it: go test ./..." >&2; \
			exit 1; \
		fi; \
	fi

# internal/devpg finds a server, or downloads or installs one. Test processes start two at a time and apt-get bears only
# one, so where it would come to that it's done here, first. Debian's package would start a server; ours starts its own.
.PHONY: need-postgres
need-postgres:
	@if [ -z "$${SCHED_TEST_DSN:-}$${SCHED_PG_BIN:-}" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& ! command -v postgres >/dev/null && ! compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; then \
		echo "make: the tests need a Postgres server and there is none: installing postgresql with apt-get"; \
		if [ ! -e /etc/postgresql-common/createcluster.conf ]; then \
			mkdir -p /etc/postgresql-common; echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf; fi; \
		$(APT_GET) update -qq; \
		$(APT_GET) install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold postgresql; \
	fi

# What the tests of `make verify` need besides: a pooler, Prometheus, what README.md expects of its readers, npm, which has the other
# versions of Postgres, and a browser for the console. The recipes' libraries, from six languages, are installed by their own test.
VERIFY_PROGRAMS := pgbouncer:pgbouncer psql:postgresql-client node:nodejs npm:npm python3:python3 git:git promtool:prometheus chromium:chromium

.PHONY: need-verify
need-verify:
	@missing=; \
	for pair in $(VERIFY_PROGRAMS); do \
		PATH="$$PATH:/usr/sbin" command -v "$${pair%:*}" >/dev/null || missing="$$missing $${pair#*:}"; \
	done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "make: tests will be skipped for lack of programs (Debian: apt-get install$$missing)" >&2; exit 0; fi; \
	echo "make: installing what make verify needs with apt-get:$$missing"; \
	$(APT_GET) update -qq; \
	$(APT_GET) install -y -qq --no-install-recommends $$missing

.PHONY: check
check: check-format lint vet vuln check-sqlc check-proto check-tidy ## Check format, lint, vet, vulnerabilities, generated code and go.mod

.PHONY: check-format
check-format: $(GOFUMPT)
	@wrong=$$($(GOFUMPT) -l $(GO_FILES)); \
	if [ -n "$$wrong" ]; then echo "$$wrong"; echo "make: not in gofumpt's format: run 'make format'" >&2; exit 1; fi

.PHONY: format
format: $(GOFUMPT) ## Write all Go files in gofumpt's format
	@$(GOFUMPT) -w $(GO_FILES)

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Run the linters of .golangci.yml
	$(GOLANGCI_LINT) run ./...
	cd $(RIVER_UI) && $(GOLANGCI_LINT) run ./...

.PHONY: vet
vet:
	go vet ./...
	cd $(RIVER_UI) && go vet -tags verify ./...

# govulncheck asks a database on the internet (GOVULNDB=file:///… for a copy). It exits 3 on findings; not reaching the
# database says nothing about the code, so that is told and not counted.
.PHONY: vuln
vuln: $(GOVULNCHECK)
	@code=0; out=$$($(GOVULNCHECK) $(if $(GOVULNDB),-db $(GOVULNDB)) ./... 2>&1) || code=$$?; \
	if [ $$code = 0 ]; then echo "$$out" | tail -n 3; exit 0; fi; \
	if [ $$code != 3 ] && grep -q 'fetching vulnerabilities' <<<"$$out"; then \
		echo "make: vulnerabilities NOT checked: their database can't be reached from here ($$(tail -n 1 <<<"$$out"))"; exit 0; fi; \
	echo "$$out" >&2; exit $$code

.PHONY: check-sqlc
check-sqlc: $(SQLC)
	$(SQLC) diff

# buf takes minutes to build, so that it lints where it is there: in .tools (make lint-proto) or on the PATH.
.PHONY: check-proto
check-proto: $(PROTOC_GEN_GO) $(PROTOC_GEN_GO_GRPC)
	@$(PROTOGEN) -check
	@buf='$(BUF)'; [ -x "$$buf" ] || buf=$$(command -v buf) || buf=; \
	if [ -n "$$buf" ]; then "$$buf" lint; else echo "make: proto files compiled and their Go code checked, but not linted: buf isn't here ('make lint-proto' builds it)"; fi

.PHONY: lint-proto
lint-proto: $(BUF) ## Lint the proto files with buf (builds it first, which takes minutes)
	$(BUF) lint

.PHONY: check-tidy
check-tidy:
	go mod tidy -diff
	cd $(RIVER_UI) && go mod tidy -diff

.PHONY: proto
proto: $(PROTOC_GEN_GO) $(PROTOC_GEN_GO_GRPC) ## Write the Go code of the proto files
	$(PROTOGEN)

.PHONY: generate
generate: proto $(SQLC) ## Write what is generated: Go code of the proto files, the schema's dump, SQL code from it, docs/config.md
	go run ./internal/schemadump -o sql/schema.sql
	$(SQLC) generate
	go generate ./...

.PHONY: build
build: bin dist ## Build static binaries: for this machine into ./bin, for every supported platform into ./dist

.PHONY: bin
bin: ## Build static binaries for this machine alone into ./bin
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o '$(BIN_DIR)/' $(BINARIES:%=./cmd/%)

.PHONY: dist
dist:
	@for p in $(PLATFORMS); do \
		echo "$(DIST_DIR)/$${p/\//-}"; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} go build -trimpath -ldflags '$(LDFLAGS)' -o "$(DIST_DIR)/$${p/\//-}/" $(BINARIES:%=./cmd/%); \
	done

.PHONY: bench
bench: ## Run every benchmark and print its figures (tens of minutes)
	go run ./cmd/sched bench all

.PHONY: fuzz
fuzz: ## Fuzz whatever reads what others send, each for FUZZ_TIME (30s): a crasher becomes a seed in testdata
	@git grep -l '^func Fuzz' -- '*_test.go' | while read -r file; do \
		for name in $$(sed -n 's/^func \(Fuzz[A-Za-z]*\)(.*/\1/p' "$$file"); do \
			echo "$$file $$name"; \
			go test "./$$(dirname "$$file")" -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZ_TIME) </dev/null; \
		done; \
	done

.PHONY: bench-peers
bench-peers: ## Drain by graphile-worker and pg-boss beside River and sched (needs node and npm)
	go run ./cmd/sched bench peers

.PHONY: verify
verify: need-postgres need-verify build ## Hold every figure of docs/verify.md to its bound; fails when one falls short
	go test -tags verify -run Verify -count 1 -timeout 120m ./...
	go test -race -tags verify -skip Verify -count 1 -timeout 30m ./test/mainjob
	cd $(RIVER_UI) && go test -tags verify -run Verify -count 1 -timeout 30m ./...
	./bin/sched bench all

.PHONY: tools
tools: $(GOLANGCI_LINT) $(GOFUMPT) $(SQLC) $(GOVULNCHECK) $(PROTOC_GEN_GO) $(PROTOC_GEN_GO_GRPC) ## Build the pinned tools into ./.tools (check and generate do it when needed)

$(GOLANGCI_LINT):
	$(call install-tool,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION))

$(GOFUMPT):
	$(call install-tool,gofumpt,mvdan.cc/gofumpt@$(GOFUMPT_VERSION))

$(SQLC):
	$(call install-tool,sqlc,github.com/sqlc-dev/sqlc/cmd/sqlc@$(SQLC_VERSION))

$(GOVULNCHECK):
	$(call install-tool,govulncheck,golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION))

$(BUF):
	$(call install-tool,buf,github.com/bufbuild/buf/cmd/buf@$(BUF_VERSION))

$(PROTOC_GEN_GO):
	$(call install-tool,protoc-gen-go,google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GEN_GO_VERSION))

$(PROTOC_GEN_GO_GRPC):
	$(call install-tool,protoc-gen-go-grpc,google.golang.org/grpc/cmd/protoc-gen-go-grpc@$(PROTOC_GEN_GO_GRPC_VERSION))

# The tools are pure Go, and none of the flags that a user set for this module is for them. Older versions go.
define install-tool
	@echo "make: building $(2) into .tools"
	@rm -rf $(TOOLS)/$(1)-v*
	@GOFLAGS= CGO_ENABLED=0 GOBIN=$(@D) go install $(2)
endef

.PHONY: clean
clean: ## Remove what was built (make clean-all: the tools too)
	rm -rf bin dist coverage.out

.PHONY: clean-all
clean-all: clean
	rm -rf .tools
