# `make demo` shows what ftprof does, `make test` checks that it works; both start from a bare clone.
# Needed: Python 3.11 or newer with pip, and gcc. On Windows install the wheel instead.
#
#   make demo PYTHON=python3.13       the interpreter that .venv is made with (used once, when .venv is made)
#   make demo TORCH_INDEX=<address>   one more package index, for another build of torch (see README)
#   make demo ARGS="--budget 120s"    further arguments for ftprof demo, or for pytest in `make test`

VENV := .venv
PYTHON ?=
TORCH_INDEX ?=
ARGS :=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --constraint constraints.txt $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

# Each stamp is newer than what it was made from, so a second run starts at once.
READY := $(VENV)/.ftprof-ready
TEST_READY := $(VENV)/.ftprof-test-ready

.DEFAULT_GOAL := help
.NOTPARALLEL:
# An interrupted or failed step leaves nothing behind that looks finished.
.DELETE_ON_ERROR:
.PHONY: help demo test lint format docs screenshots build bench-truth bench-truth-quick bench-engines gpu-check bench-trace clean distclean

help:
	@echo "make demo       diagnose a small real fine-tune and say where the report lies"
	@echo "make test       run the tests"
	@echo "make lint       ruff, mypy, import-linter, and whether docs/ is current"
	@echo "make format     let ruff rewrite what it can"
	@echo "make docs       write docs/ again from the code"
	@echo "make screenshots DIR=<out directory of a run>   pictures of its report, and the one in README"
	@echo "make build      sdist and wheel in dist/"
	@echo "make bench-truth       how often ftprof is right, on planted bottlenecks: up to 90 minutes, goes on where it stopped"
	@echo "make bench-truth-quick the same in under ten minutes; both take SEED= and ARGS=\"--only verdicts\""
	@echo "make bench-engines     every engine and precision on both samples; ARGS=\"--only minilm-tickets\""
	@echo "make gpu-check  every CUDA part once, on a machine with an NVIDIA GPU (ARGS=--rehearse: the script alone, on the CPU)"
	@echo "make bench-trace       reading traces against HTA and gunzip, time and memory; ARGS=\"--rounds 5\""
	@echo "make clean      remove what builds and tools left (distclean: .venv as well)"

demo: $(READY)
	$(BIN)/ftprof demo $(ARGS)

test: $(TEST_READY)
	$(BIN)/python -m pytest $(ARGS)

lint: $(TEST_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

format: $(TEST_READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)
	$(BIN)/python docs/generate.py

screenshots: $(TEST_READY)
	$(BIN)/python docs/screenshots.py $(DIR)

build: $(TEST_READY)
	$(BIN)/python -m build

# Debian's Python has venv without ensurepip: there pip fills the new environment from outside.
$(BIN)/python:
	@set -e; found=; \
	for python in $(or $(PYTHON),python3.11 python3.12 python3.13 python3.14 python3 python); do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "error: no Python 3.11 or newer among: $(or $(PYTHON),python3.11 to python3.14, python3, python)" >&2; \
	  echo "hint: install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	echo "making $(VENV) with $$found"; \
	if $$found -c 'import ensurepip' 2>/dev/null; then $$found -m venv $(VENV); \
	else $$found -m venv --without-pip $(VENV) && $$found -m pip --python $(VENV)/bin/python install --quiet pip; fi

$(READY): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable .
	@touch $@

$(TEST_READY): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[test]'
	@touch $(READY) $@

SEED ?= 0
bench-truth: $(READY)
	$(BIN)/python -m benchmarks.truth --seed $(SEED) --docs $(ARGS)

bench-truth-quick: $(READY)
	$(BIN)/python -m benchmarks.truth --quick --minutes 9 --seed $(SEED) $(ARGS)

# Its own stack, whatever that machine has: nothing is installed.
bench-engines: $(READY)
	$(BIN)/python -m benchmarks.engines $(ARGS)

gpu-check:
	$(or $(PYTHON),$(if $(wildcard $(BIN)/python),$(BIN)/python,python3)) -m benchmarks.gpu_check $(ARGS)

bench-trace: $(READY)
	$(INSTALL) --editable '.[bench]'
	$(BIN)/python -m benchmarks.bench_trace $(ARGS)

clean:
	rm -rf build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache .coverage
	find . -path ./$(VENV) -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
