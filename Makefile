# Each target works on a fresh machine with Python 3.11 or newer; everything goes into .venv.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= --numprocesses 2 --dist worksteal
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: setup designs demo lies test test-slow test-page test-engines test-flower test-flower-1.42 test-flower-1.42-short test-nvflare engine-environments check bench coverage faults fuzz clean

.venv/made:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	touch $@

.venv/demo-installed: .venv/made pyproject.toml constraints.txt
	$(PIP) --editable '.[demo]'
	touch $@

.venv/dev-installed: .venv/made pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	touch $@ .venv/demo-installed

## setup: the development environment with every extra
setup: .venv/dev-installed

## demo: the whole story on handwritten digits, into the folder demo/
demo: .venv/demo-installed
	$(BIN)/fedcert demo --out demo

## test: the tests, without the slow ones
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not browser" $(WORKERS)

## test-slow: the guarantees, by many replications
test-slow: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow --numprocesses 3 --dist worksteal

.engines/%/installed: pyproject.toml constraints-%.txt
	$(PYTHON) -m venv .engines/$*
	.engines/$*/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-$*.txt \
	  --editable '.[$*,parquet,plot]' scikit-learn pytest
	touch $@

# Flower 1.42 in the environment of 1.41: what it requires cannot all be had yet, see the file.
.engines/flower-1.42/installed: pyproject.toml constraints-flower.txt constraints-flower-1.42.txt
	$(PYTHON) -m venv .engines/flower-1.42
	.engines/flower-1.42/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-flower.txt \
	  --editable '.[flower,parquet,plot]' scikit-learn pytest
	.engines/flower-1.42/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  --requirement constraints-flower-1.42.txt
	touch $@

## engine-environments: an environment for each engine
engine-environments: .engines/flower/installed .engines/flower-1.42/installed .engines/nvflare/installed

## test-engines: certification rounds on real engines, each in an environment of its own: their requirements clash
test-engines: test-flower test-flower-1.42 test-nvflare

test-flower: .engines/flower/installed
	OMP_NUM_THREADS=1 .engines/flower/bin/python -m pytest -W default -m engine tests/engines/flower

test-flower-1.42: .engines/flower-1.42/installed
	OMP_NUM_THREADS=1 .engines/flower-1.42/bin/python -m pytest -W default -m engine tests/engines/flower

## test-flower-1.42-short: one round in simulation and one in deployment, compared with one process
test-flower-1.42-short: .engines/flower-1.42/installed
	OMP_NUM_THREADS=1 .engines/flower-1.42/bin/python -m pytest -W default -m engine tests/engines/flower -k report_what_one_process_does

test-nvflare: .engines/nvflare/installed
	OMP_NUM_THREADS=1 .engines/nvflare/bin/python -m pytest -W default -m engine tests/engines/nvflare

## test-page: the page and the documentation in a real Chromium, which is installed if there is none (Debian; else see FEDCERT_CHROMIUM)
test-page: setup
	test -n "$$FEDCERT_CHROMIUM" || command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m browser tests/page tests/docs $(WORKERS)

## check: style, types, the docs build
check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

## designs: the tables of population certificates that come with the package, half a minute
designs: setup
	$(BIN)/python -c 'from pathlib import Path; from fedcert.population.tables import write_shipped; write_shipped(Path("src/fedcert/population/designs.npz"))'

## bench: timings, printed with the hardware they were taken on
bench: setup
	$(BIN)/python benchmarks/solver.py

## coverage: intervals from noisy sums by 4,000 replications of each setting, some ten minutes
coverage: setup
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/coverage.py --out benchmarks/results/coverage.json

## faults: an error, a full disk and a kill at every system call, and every way of dropping out, some twenty minutes
faults: setup
	OMP_NUM_THREADS=1 FEDCERT_FAULTS=benchmarks/results/faults.json $(BIN)/python -m pytest tests/faults

.engines/fuzz/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .engines/fuzz
	.engines/fuzz/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	  --editable '.[parquet,images,private,dp]' 'atheris==3.0.0'
	touch $@

## fuzz: every parser, and what is done with what was read, SECONDS each (600); not in CI. Failing inputs: fuzz/crashes
SECONDS ?= 600
fuzz: .engines/fuzz/installed
	OMP_NUM_THREADS=1 .engines/fuzz/bin/python fuzz/everything.py --seconds $(SECONDS)

## lies: what lies of some clients do to estimates, with and without screening; half an hour
lies: setup
	cd benchmarks && OMP_NUM_THREADS=1 ../$(BIN)/python lies.py --runs 12 --out results/lies.json

clean:
	rm -rf .venv .engines site build dist
