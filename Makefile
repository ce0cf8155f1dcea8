# Everything a person or CI does here. `make` alone lists it.

.DEFAULT_GOAL := help
# Quick ones first, so that a small fault is told early.
CHECKS := fmt-check rules-check proto-lint deny scripts-check chart-check sql-check clippy
.PHONY: help setup demo run test test-nightly check list-checks fmt advisories clean-tools $(CHECKS)

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Check cargo and the C compiler; install or unpack PostgreSQL where it is missing
	@scripts/setup.sh

demo: setup ## Route sample webhooks, run them, trace, skip, reroute; stop (PROCESSES=5: five processes)
	@cargo build --workspace --bins
	@scripts/demo.sh

run: setup ## Start everything on http://localhost:7070 and print the first calls to try
	@cargo build --workspace --bins
	@scripts/run.sh

test: setup ## Run every test
	@scripts/test.sh

test-nightly: setup ## Run 10,000 generated histories against the model of the rules
	@WEIR_MODEL_CASES=10000 WEIR_MODEL_SEED="$${WEIR_MODEL_SEED:-$$(date +%Y%m%d)0000}" \
		scripts/test.sh r01_to_r31_the_service_agrees_with_the_model

check: setup $(CHECKS) ## Check everything that is not a test

list-checks: ## Print what `check` consists of
	@echo $(CHECKS)

fmt: ## Format the code
	cargo fmt --all

fmt-check: ## Check the formatting
	cargo fmt --all --check

clippy: ## Lint all code, warnings being errors
	cargo clippy --workspace --all-targets --locked -- -D warnings

deny: ## Check what dependencies are, under which licence, from where
	@scripts/deny.sh bans licenses sources

advisories: ## Ask the advisory database about the dependencies (needs the network)
	@scripts/deny.sh advisories

proto-lint: ## Lint the contracts and compare them with the previous release's
	@scripts/proto-check.sh

rules-check: ## Check that each rule is named by a test or listed as open
	@scripts/rules-check.sh

sql-check: setup ## Prepare every statement against the migrated schema
	@scripts/sql-check.sh

scripts-check: ## Check the shell scripts
	@scripts/shell-check.sh

chart-check: ## Lint, render and validate the Helm chart
	@scripts/chart-check.sh

clean-tools: ## Remove the fetched tools
	rm -rf "$${WEIR_TOOLS:-.tools}"
