# The one list of commands. Needs make and Python 3.11 or newer; everything else goes into .venv, with hashes checked.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
# The files in .venv/.made mark what has been installed, so that nothing is installed twice.
MADE := $(VENV)/.made
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install -qq --require-hashes
PROJECT := $(PIP) install -qq --no-deps --no-build-isolation --editable .
# As many workers as tests/conftest.py says.
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal
# Programs under test start faster where what was compiled is kept.
unexport PYTHONDONTWRITEBYTECODE
LOCK := $(BIN)/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --no-annotate
SOURCES := gateway adapters audit fixtures tests
# make test ARGS="-k lost_answer -x"
ARGS ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test races check fmt cover docs bench soak wheel lock upgrade clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST)

demo: $(MADE)/runtime ## real requests whose answers are lost, cut and delayed, settled by evidence
	@$(BIN)/gateway demo $(ARGS)

test: $(MADE)/dev ## every test, on all cores, in random order
	@$(PYTEST) $(ARGS)

races: $(MADE)/dev ## rounds by the hundred of what must happen once; CI runs these too
	@$(PYTEST) -m races --timeout 1800 $$(grep -rl --include='test_*.py' mark.races tests) $(ARGS)

check: $(MADE)/dev ## lint, format, types, and who may import whom
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/lint-imports

fmt: $(MADE)/dev ## format the code and repair what lint can repair
	@$(BIN)/ruff check --fix --exit-zero --quiet $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)

cover: $(MADE)/dev ## the tests again, with the lines they reach
	@$(PYTEST) --cov --cov-report=term $(ARGS)

docs: $(MADE)/dev ## write the reference pages for settings and catalog anew
	@$(BIN)/python -m tests.house.references

bench: $(MADE)/dev ## ratios to a plain proxy, measured side by side; prints a table, writes JSON
	@$(BIN)/python -m tests.bench $(ARGS)

soak: $(MADE)/dev ## the long tests, many hours
	@$(BIN)/python -m pytest -m soak --timeout 7200 $(ARGS)

wheel: $(MADE)/dev ## build the wheel into dist/
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist

lock: $(MADE)/dev ## resolve the lock files again, keeping the versions they name
	@$(LOCK) --group dev pyproject.toml --output-file requirements-dev.lock $(ARGS)
	@$(LOCK) --constraint requirements-dev.lock pyproject.toml --output-file requirements.lock
	@echo hatchling | $(LOCK) --constraint requirements-dev.lock - --output-file requirements-build.lock

upgrade: ## resolve the lock files again, with the newest versions allowed
	@$(MAKE) lock ARGS=--upgrade

clean: ## remove what these commands made, .venv included
	@rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

# One recipe per step of the set-up. A usable .venv is kept as it is; a broken one is made anew.
$(MADE)/venv:
	@command -v $(PYTHON) >/dev/null || { echo "Python is missing: install Python 3.11 or newer, or say make PYTHON=/path/to/python."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$$($(PYTHON) --version) is too old: Python 3.11 or newer is needed. Say make PYTHON=python3.12 if you have one."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "This Python cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { echo "Setting up $(VENV)"; $(PYTHON) -m venv --clear $(VENV); }
	@mkdir -p $(MADE) && touch $@

$(MADE)/runtime: $(MADE)/venv requirements.lock requirements-build.lock pyproject.toml
	@echo "Installing what the gateway needs"
	@$(INSTALL) -r requirements.lock -r requirements-build.lock
	@$(PROJECT)
	@touch $@

# The lock for development holds the other two, so it stands for them.
$(MADE)/dev: $(MADE)/venv requirements-dev.lock pyproject.toml
	@echo "Installing what the gateway and its tests need"
	@$(INSTALL) -r requirements-dev.lock
	@$(PROJECT)
	@touch $(MADE)/runtime $@
