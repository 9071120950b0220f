# What developers and the continuous integration run. `make` lists it.

# Every directory with a go.mod: the library's module, and the nested ones that keep heavy dependencies away from it,
# of which internal/tools has no code.
modules := $(sort $(patsubst %/go.mod,%,$(shell find . -name go.mod -not -path '*/.*')))

# The tools are built without cgo: sqlc then brings its PostgreSQL parser as WebAssembly instead of compiling it for
# minutes.
tool := CGO_ENABLED=0 go tool -modfile=$(CURDIR)/internal/tools/go.mod
prepare := CGO_ENABLED=0 go run ./internal/prepare

# Runs its argument in every module that has code.
define in_modules
	@set -e; for module in $(filter-out ./internal/tools,$(modules)); do \
		( cd $$module; echo "$$module: $(1)"; $(1) ); done
endef

.PHONY: help
help: ## List what can be made
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: ## See locks, holders and waiters on a throw-away PostgreSQL
	@$(prepare) -optional postgres
	@go run ./cmd/pglock demo

.PHONY: prepare
prepare: ## Look for what the tests need; as root on Debian and Ubuntu install it
	@$(prepare) postgres pgbouncer redis redis-py ps tmux race

# Packages have a server each. On one that they share they take turns, since some tests look at all of it.
.PHONY: test
test: prepare ## Run the whole suite on real servers, with the race detector
	$(call in_modules,go test -race -count=1 -timeout=20m $(if $(PGLOCK_TEST_DATABASE_URL),-p=1 )./...)

.PHONY: test-containers
test-containers: ## Run the suite on a container of $PGLOCK_TEST_POSTGRES_IMAGE
	@cd internal/containers && go run . -- $(MAKE) -C $(CURDIR) test

.PHONY: bench
bench: bench-postgres bench-redis bench-monitor ## Measure pglock beside what else one would use, and the monitor

.PHONY: bench-postgres
bench-postgres: ## Measure pglock beside plain pgx, goose and pgbench
	@$(prepare) postgres
	@cd bench && go run ./postgres

.PHONY: bench-monitor
bench-monitor: ## Measure what a snapshot costs a server with 10,000 and 100,000 locks
	@$(prepare) postgres
	@cd bench && go run ./monitor

.PHONY: bench-redis
bench-redis: ## Measure redisfallback beside rueidislock, redsync and bsm/redislock
	@$(prepare) redis
	@cd bench && go run ./redis

.PHONY: generate
generate: ## Generate the Go code of queries/
	$(tool) sqlc generate

.PHONY: consumer-record
consumer-record: ## Record what a program gets that imports only package pglock
	go run ./internal/consumercheck -record

.PHONY: check
check: check-format check-vet check-static check-generated check-tidy check-consumer ## Check everything but the tests

.PHONY: check-format
check-format:
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:" $$unformatted; exit 1; fi

.PHONY: check-vet
check-vet:
	$(call in_modules,go vet ./...)

.PHONY: check-static
check-static:
	$(call in_modules,$(tool) staticcheck ./...)

.PHONY: check-generated
check-generated:
	@$(tool) sqlc diff || { echo "the generated code is stale: make generate"; exit 1; }

.PHONY: check-tidy
check-tidy:
	@for module in $(modules); do \
		(cd $$module && go mod tidy -diff) || { echo "$$module/go.mod is not tidy: go mod tidy"; exit 1; }; done

.PHONY: check-consumer
check-consumer:
	go run ./internal/consumercheck
