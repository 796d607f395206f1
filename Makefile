# `make serve` and `make test` are all the set-up there is: both create .venv when it is missing, and
# install what is pinned in requirements/ into it.

export PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# Extra arguments for pytest and the benchmarks: make test ARGS="-k history"
ARGS ?=

# Every program that a test starts would compile the package again, if it could not keep the outcome.
unexport PYTHONDONTWRITEBYTECODE

# More than there are processors on a small machine: tests wait for disks, processes and the clock.
WORKERS ?= 4
PYTEST = $(BIN)/pytest -q -n $(WORKERS) --dist loadgroup -o cache_dir=$(CACHE)/pytest

# In the environment, so that a checkout need not be written to.
CACHE = $(VENV)/cache
export RUFF_CACHE_DIR := $(VENV)/cache/ruff
export MYPY_CACHE_DIR := $(VENV)/cache/mypy
export HYPOTHESIS_STORAGE_DIRECTORY := $(VENV)/cache/hypothesis
export GRIMP_CACHE := $(VENV)/cache/imports

# The commit since which changes count, and how long to try, for `make affected` and `make test-long`.
BASE ?= origin/main
affected: SECONDS ?= 60
test-long: SECONDS ?= 600

say = @if [ -t 1 ] && [ -z "$$NO_COLOR" ]; then printf '\033[1m▸ %s\033[0m\n' "$(1)"; else printf '▸ %s\n' "$(1)"; fi
# Run a command, and show what it printed only when it fails.
quietly = @output=$$($(1) 2>&1) || { printf '%s\n' "$$output"; exit 1; }

.DEFAULT_GOAL := help
.PHONY: help serve check affected test test-long bench screenshots lint format audit renew clean

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: $(VENV)/.for-serving ## Run the server on its embedded defaults
	@$(BIN)/holdfast serve $(ARGS)

check: lint ## Check the code, and run the tests that start no program
	$(call say,tests that start no program)
	@$(PYTEST) -m unit $(ARGS)

affected: $(VENV)/.for-developing ## Run the tests that a change can reach, the nearest first, for a minute
	@$(PYTEST) -p tests.affected_plugin --no-loadscope-reorder --affected-since $(BASE) --for-seconds $(SECONDS) $(ARGS)

test: lint ## Check the code, run all tests, and say how many requirement rows are proven
	$(call say,tests)
	@$(PYTEST) $(ARGS)

test-long: $(VENV)/.for-developing ## Try for SECONDS=600 to make something fail, from SEED=...
	@$(BIN)/python -m tests.long --workers $(WORKERS) --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

bench: $(VENV)/.for-developing ## Measure the store and the agents against the floor
	@$(BIN)/python -m benchmarks $(ARGS)

screenshots: $(VENV)/.for-developing ## Take the pictures of the page that the documentation shows
	@$(BIN)/python -m tests.web.screenshots

lint: $(VENV)/.for-developing ## Check style, types and the layers
	$(call say,style)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo 'Run "make format" to mend the formatting.'; exit 1; }
	$(call say,types)
	$(call quietly,$(BIN)/mypy)
	$(call say,layers)
	$(call quietly,$(BIN)/lint-imports --no-logo --cache-dir $(GRIMP_CACHE))

format: $(VENV)/.for-developing ## Format the code and mend what can be mended
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

audit: $(VENV)/.for-developing ## Ask whether the pinned packages have known faults, and list their licences
	@PATH="$$PATH:$(BIN)" uvx pip-audit==2.10.1 --require-hashes --disable-pip -r requirements/develop.txt
	@PATH="$$PATH:$(BIN)" uvx pip-licenses==5.5.5 --python $(BIN)/python --order license

renew: $(VENV)/.for-developing ## Pin the newest versions of all packages
	@requirements/renew $(VENV)

clean: ## Remove the environment, builds and caches
	@rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Installed anew only after one of the pinned files or pyproject.toml has changed.
$(VENV)/.for-serving: requirements/serve.txt requirements/uv.txt requirements/install pyproject.toml
	@requirements/install $(VENV) serve
	@touch $@

$(VENV)/.for-developing: requirements/develop.txt requirements/postgres.txt requirements/uv.txt requirements/install pyproject.toml
	@requirements/install $(VENV) develop
	@touch $@ $(VENV)/.for-serving
