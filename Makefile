# What a developer types. `make` alone lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run test check nightly lint generate verify schema web clients release bench install

# What generating writes.
GENERATED = docs/schema.md graph/*.generated.go graph/models_gen.go resolvers/*.resolvers.go bench/baselines/gqlgen/{generated,models_gen}.go

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "%-10s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## serve on http://127.0.0.1:8080 with SQLite in ./data; tidings --help lists the flags
	go run -v .

# RACE=1 runs the tests under the race detector, as CI and nightly do. They take two to three times the processor time with it.
# It watches all but SQLite and its C library, which were translated from C, and the interpreter of the embedded Redis:
# it took most of the tests' time there and is not ours to find races in. Of SQLite's driver it watches all but pointers
# into that memory.
RACE =
UNWATCHED = -race=false -d=checkptr=0
DETECTOR = $(if $(filter-out 0,$(RACE)),-race -gcflags='modernc.org/...=$(UNWATCHED)' -gcflags='modernc.org/sqlite=-d=checkptr=0' -gcflags='github.com/yuin/gopher-lua/...=$(UNWATCHED)')

# Test binaries have no tables for debuggers, which take a third of the time of linking them. Stack traces need none.
LINK = -ldflags='-s -w'

# The packages whose tests take longest come first, so that no processor is idle at the end. Four packages at a time keep two
# processors busy, because many tests wait. With five, six packages of services took 1.2 times the processor time of two at a time on a
# virtual machine, where a switch of processes is dear.
LONGEST = ./tests/contract ./tests/model ./tests/nodes ./resolvers ./tests/faults ./services/live ./services/badge ./services/command ./services/notifications ./services/social ./services/fanout ./services/chat ./services/rdb ./web ./tests/engines ./tests/imports ./services/audit ./services/views ./tests/examples

test: install check ## install what is missing, vet, build, run every test; with RACE=1 under the race detector

# Without -shuffle, and with -vet=off after go vet, Go's cache skips the packages that have not changed since they passed.
check:
	go vet ./...
	go build ./...
	tests/in-memory.sh go test $(DETECTOR) $(LINK) -vet=off -p 4 -timeout 45m $(LONGEST) ./...

nightly: RACE = 1
nightly: install ## run every test anew in a random order and under the race detector, with the full set of histories
	TIDINGS_TEST_HISTORIES=full tests/in-memory.sh go test $(DETECTOR) $(LINK) -vet=off -count=1 -shuffle=on -p 3 -timeout 60m $(LONGEST) ./...

lint: ## gofmt, go vet, staticcheck (the version that go.mod pins), a build for another system
	@unformatted=$$(gofmt -l .); if [[ -n $$unformatted ]]; then echo "not formatted (gofmt -w):" $$unformatted; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	CGO_ENABLED=0 GOOS=windows go build -o /dev/null .

generate: ## make Go and docs/schema.md of graph/*.graphqls, and Go of the schema of the bench's baseline
	go run ./graph/generate
	page=$$(mktemp); trap 'rm -f "$$page"' EXIT; go run . schema --markdown > "$$page" && cat "$$page" > docs/schema.md
	cd bench/baselines/gqlgen && go tool gqlgen generate

verify: ## prove that generating again changes nothing, neither Go nor the pages' assets, and that official clients work
	@before=$$(cksum $(GENERATED)); \
	$(MAKE) --no-print-directory generate && \
	if ! diff <(echo "$$before") <(cksum $(GENERATED)); then \
		echo "Generating changed the files above: they were not what the schema says. Look at them and commit them."; exit 1; \
	fi
	web/verify.sh
	web/contract/verify.sh

schema: ## write the golden schema, when graphql-eslint finds nothing and no client would break; CONTRIBUTING says how a part is removed
	new=$$(mktemp --suffix=.graphql); trap 'rm -f "$$new"' EXIT; \
	go run . schema > "$$new"; \
	cd web/contract; \
	npm ci --ignore-scripts --no-audit --no-fund; \
	node lint.mjs "$$new"; \
	node breaking.mjs testdata/schema.graphql "$$new"; \
	cp "$$new" testdata/schema.graphql

web: ## make the pages' assets again from their npm packages (needs node and npm)
	cd web && npm ci --ignore-scripts && (cd demo && npm ci --ignore-scripts) && node build.mjs && node demo/build.mjs

clients: ## build @tidings/client and prove it with Apollo, urql, Relay and React against a real server (needs node and npm)
	cd web/client && npm ci --ignore-scripts && npm test

release: ## build the archives for all systems, with checksums, into dist (VERSION=v1.2.3 stamps another version)
	go run ./deploy/release -version "$(VERSION)" -out dist

bench: ## measure against the baselines and write bench/RESULTS.md and its charts (needs redis-server, node and npm; npm fetches Bun)
	go run ./bench

install: ## install what the tests need (as root on Debian), or say what is missing
	@.ci/install
