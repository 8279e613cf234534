# Everything here sets itself up: Python >= 3.11 and make are enough.
#
#   make test       checks and tests        make demo   see it work
#
# pip's own settings (PIP_INDEX_URL, PIP_FIND_LINKS, pip.conf ...) are honoured.

VENV    ?= .venv
WORKERS ?= auto
bin     := $(VENV)/bin

# The first interpreter on PATH that is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

# A full run needs the large packages of some examples too. TORCH says where pip has PyTorch for the
# CPU from: its own index, unless it is given (.ci/run).
TORCH  ?= torch --index-url https://download.pytorch.org/whl/cpu
tested := $(VENV)/installed-$(if $(filter-out 0,$(BINREF_SCI_FULL)),full,dev)

.PHONY: help test test-lowest lint demo docs bench format clean
.NOTPARALLEL:
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

test: lint $(tested)  ## checks and tests; BINREF_SCI_FULL=1 adds the long ones and forbids skips
	$(bin)/python -m pytest -n $(WORKERS) --maxprocesses 4 --durations 15 --durations-min 5

lint: $(VENV)/installed-dev
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy
	$(bin)/lint-imports

# Not the contract: it is that of the newest xarray, whose own tests it takes.
test-lowest: $(VENV)/installed-dev  ## the tests with the oldest versions that pyproject.toml admits
	$(bin)/uv pip compile -q --resolution lowest-direct pyproject.toml --extra dev --extra remote \
		--python $(bin)/python --no-header --no-annotate -o $(VENV)/lowest.txt
	$(bin)/python -m venv --clear $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install -q -c $(VENV)/lowest.txt -e ".[dev,remote]"
	$(VENV)-lowest/bin/python -m pytest -n $(WORKERS) --maxprocesses 4 --ignore tests/test_xarray_contract.py

demo: $(VENV)/installed  ## a solver streams 500 MB through a server, a client opens it lazily
	$(bin)/binref-sci demo

docs: $(VENV)/installed-dev  ## the documentation, in docs/_build/html
	$(bin)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(VENV)/installed-dev  ## figures of the product beside peer and limit
	$(bin)/python -m benchmarks

format: $(VENV)/installed-dev  ## put the code into its standard form
	$(bin)/ruff check --fix
	$(bin)/ruff format

clean:  ## remove the environment and everything built
	rm -rf $(VENV) $(VENV)-lowest build dist docs/_build docs/api/generated .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are renewed when pyproject.toml changes. What runs needs less than what tests.
$(VENV)/installed: pyproject.toml | $(bin)/python
	@echo "installing into $(VENV); the first time this takes a minute or more"
	$(bin)/python -m pip install -q -e .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(bin)/python
	@echo "installing into $(VENV); the first time this takes some minutes"
	$(bin)/python -m pip install -q -e ".[dev]"
	@touch $@ $(VENV)/installed

$(VENV)/installed-full: $(VENV)/installed-dev
	@echo "adding JAX, PyTorch and JupyterLab for the full tests"
	$(bin)/python -m pip install -q $(TORCH)
	$(bin)/python -m pip install -q -e ".[dev,examples,browser]"
	@touch $@

$(bin)/python:
	@test -n "$(PYTHON)" || { echo "binref_sci needs Python 3.11 or newer: none found on PATH. Install one, or say PYTHON=/path/to/python." >&2; exit 1; }
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) could not make a virtual environment (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
