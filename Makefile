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
WORKERS ?= 6

say = @if [ -t 1 ] && [ -z "$$NO_COLOR" ]; then printf '\033[1m▸ %s\033[0m\n' "$(1)"; else printf '▸ %s\n' "$(1)"; fi
# Run a command, and show what it printed only when it fails.
quietly = @output=$$($(1) 2>&1) || { printf '%s\n' "$$output"; exit 1; }

.DEFAULT_GOAL := help
.PHONY: help serve test bench screenshots lint format renew clean

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: $(VENV)/.for-serving ## Run the server on its embedded defaults
	@$(BIN)/holdfast serve $(ARGS)

test: lint ## Check the code, run all tests, and say how many requirement rows are proven
	$(call say,tests)
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadgroup $(ARGS)

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
	$(call quietly,$(BIN)/lint-imports --no-logo)

format: $(VENV)/.for-developing ## Format the code and mend what can be mended
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

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
