# `make serve` and `make test` are all the set-up there is: both create .venv when it is missing and
# install what they need into it. Installing again happens only after pyproject.toml has changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

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
.PHONY: help serve test bench screenshots lint format clean

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

clean: ## Remove the environment, builds and caches
	@rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The newest pip, which finds out what to install in a fraction of the time that the one which comes with
# Python may need. Python's own pip fetches it; where there is none, the new environment's does.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Holdfast needs Python 3.11 or newer. Name one: make PYTHON=python3.12 ..."; exit 1; }
	$(call say,creating $(VENV))
	@{ $(PYTHON) -m venv --without-pip $(VENV) \
			&& $(PYTHON) -m pip -qq --python $(VENV) install pip; } >/dev/null 2>&1 \
		|| $(PYTHON) -m venv --clear --upgrade-deps $(VENV) >/dev/null \
		|| { rm -rf $(VENV); exit 1; }

$(VENV)/.for-serving: pyproject.toml | $(BIN)/python
	$(call say,installing holdfast)
	@$(PIP) install -qq --editable '.[all]'
	@touch $@

# Compiled with all processors, where pip would use one. Some package may carry a file that no Python of
# today can read, and does not need it.
$(VENV)/.for-developing: pyproject.toml | $(BIN)/python
	$(call say,installing holdfast and what its tests need)
	@$(PIP) install -qq --no-compile --editable '.[all,dev]'
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@ $(VENV)/.for-serving
