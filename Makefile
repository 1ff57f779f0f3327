# Every target sets up what it needs on first use: a virtual environment in .venv from the lock
# file, by uv where there is one, else by venv and pip.
# By its name, as Windows has it elsewhere.
SHELL := bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PY := $(BIN)/python
STAMP := $(VENV)/.stamp
PYTEST_ARGS ?=
# Processes of the tests, each with whole files; 0 runs all in one, as a debugger needs.
PYTEST_WORKERS ?= auto
# Whole files, in the order of tests/conftest.py: the longest first.
DISTRIBUTED := --dist loadgroup --no-loadscope-reorder
# Names of benchmarks, --quick.
BENCH_ARGS ?=

# An environment whose interpreter is gone, as after an upgrade of the system, is made again.
GONE := $(shell for one in $(VENV) .venv-bench .venv-docs; do \
	[ -x $$one/$(notdir $(BIN))/python ] || rm -f $$one/.stamp $$one/.ready; done)

.PHONY: setup demo test test-long check bench bench-growth bench-page docs reference man lock clean bench-spark spark-dist screenshots snapshots audit

setup: $(STAMP)

$(STAMP): pyproject.toml requirements.lock
	@scripts/setup-venv "$(VENV)" "$(PYTHON)"
	@touch $@ $(VENV)/.ready

# What only tests need (a JVM, other relays, servers) is left out: a first look is quick.
demo: $(VENV)/.ready
	@$(PY) -m agent demo

$(VENV)/.ready: pyproject.toml requirements.lock
	@scripts/setup-venv "$(VENV)" "$(PYTHON)" agent,tui no-lock
	@touch $@

test: setup
	$(PY) -m pytest -m "not long" -n $(PYTEST_WORKERS) $(DISTRIBUTED) $(PYTEST_ARGS)

test-long: setup
	$(PY) -m pytest -m "long" -n $(PYTEST_WORKERS) $(DISTRIBUTED) $(PYTEST_ARGS)

# What must not change by accident (tests/frozen, the screens): written again as it is now.
snapshots: setup
	$(PY) -m pytest -q -n 0 tests/frozen tests/tui/test_pages.py tests/tui/test_states.py \
		tests/tui/test_results.py --snapshot-update

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(PY) scripts/words.py
	$(BIN)/mypy
	$(BIN)/lint-imports

# The speed peers have an environment of their own: one of them needs a C compiler.
bench: .venv-bench/.stamp
	@.venv-bench/bin/python -m bench $(BENCH_ARGS)

# One store that grows to ten million events: some ten minutes, and ten gigabytes of disk.
bench-growth: .venv-bench/.stamp
	@.venv-bench/bin/python -m bench.growth $(BENCH_ARGS)

# The bulk rebuild beside DuckDB and polars: a million events, some ten minutes.
bench-spark: .venv-bench/.stamp
	@.venv-bench/bin/python -m bench.reindex $(BENCH_ARGS)

# Known vulnerabilities of what is pinned (needs uv, and PyPI's advisories).
audit: setup
	@$(PY) scripts/audit.py

# What the workers of a cluster need, packed (docs/how-to/reindex.md).
spark-dist: setup
	@scripts/spark-dist dist/spark-env.tar.gz $(PY)

# docs/benchmarks.md, of the results that `make bench` left.
bench-page: setup
	@PYTHONPATH=. $(PY) scripts/bench_page.py

.venv-bench/.stamp: pyproject.toml requirements.lock
	@scripts/setup-venv .venv-bench "$(PYTHON)" bench
	@touch $@

# The site in site/, built strictly: a broken link or a docstring that cannot be read is an error.
docs: .venv-docs/.stamp
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build

# The pages of docs/reference/ that are made from the code.
reference: setup
	PYTHONPATH=. $(PY) scripts/reference.py
	$(BIN)/nostr-agent init --reference > docs/reference/configuration.md

# Manual pages of the programs, from the same text as --help, in dist/man.
man: setup
	@PYTHONPATH=. $(PY) scripts/manpages.py dist/man

# Pictures of the terminal application for the documents, of the demonstration as it runs.
screenshots: setup
	@PYTHONPATH=. $(PY) scripts/screenshots.py

.venv-docs/.stamp: pyproject.toml requirements.lock
	@scripts/setup-venv .venv-docs "$(PYTHON)" docs
	@touch $@

lock:
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
		--no-emit-index-url --no-emit-find-links --no-header --no-annotate -q -o requirements.lock

clean:
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis dist site
