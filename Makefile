# Each target sets up what it needs; only Python 3.10 and make have to be installed before.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo quick test faults test-slurm lint fmt docs bench clean

BIN := .venv/bin
# One process more than there are cores: tests of the lab spend half of their time waiting.
WORKERS = $$(( $$(getconf _NPROCESSORS_ONLN) + 1 ))
PYTEST_ARGS ?=
BENCH_ARGS ?=
export PYTHON

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: ## train a small GPT on a two-node Slurm cluster on this machine
	@! command -v python3 >/dev/null || python3 -m clusterjobs.lab.tools # before a long download
	@tools/setup.sh train
	@PATH="$$PWD/$(BIN):$$PATH" bash tools/demo.sh

quick: ## the tests that need no lab and no ParallelCluster, in under a minute on four cores
	@tools/setup.sh dev
	@$(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal \
	    -m "not lab and not aws and not slow and not frameworks" $(PYTEST_ARGS)

test: ## lint, types, layers and all tests
	@tools/setup.sh dev train aws frameworks docs
	@$(MAKE) --no-print-directory lint
	@$(BIN)/python -m pytest --numprocesses=$(WORKERS) --maxprocesses=4 --dist=loadfile \
	    --no-loadscope-reorder $(PYTEST_ARGS) # tests/conftest.py has the order

faults: ## the whole fault suite with its long forms, and a table of what came out
	@tools/setup.sh dev train aws frameworks
	@$(BIN)/python -m pytest --numprocesses=$(WORKERS) --maxprocesses=4 --dist=loadfile --faults $(PYTEST_ARGS)

test-slurm: ## the tests of the lab and of jobs on Slurm 22.05, 24.11 and 26.05, with a table
	@tools/setup.sh dev train frameworks
	@$(BIN)/python tools/slurm_versions.py $(PYTEST_ARGS)

lint: ## ruff, mypy, import-linter, shellcheck
	@tools/setup.sh dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/shellcheck --shell=bash tools/*.sh clusterjobs/node/*/*.sh clusterjobs/admin/*.sh .ci/run

fmt: ## format the code and fix what ruff can fix
	@tools/setup.sh dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: ## build the documentation site into site/; a warning or a broken link is an error
	@tools/setup.sh docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo 'site/index.html; with the search: $(BIN)/python -m http.server --directory site'

bench: ## measure speed, compared with baselines (BENCH_ARGS="launch --json")
	@tools/setup.sh dev
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

clean: ## remove everything that make has created
	@[[ ! -x $(BIN)/clusterjobs || ! -d .demo/state/clusterjobs/labs/demo ]] || \
	    XDG_STATE_HOME="$$PWD/.demo/state" $(BIN)/clusterjobs lab down --name demo
	rm -rf .demo .venv .venv.old.* .venv.lock build dist site .pytest_cache .mypy_cache .ruff_cache \
	    .import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
