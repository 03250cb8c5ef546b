# Every target sets up what it needs: `make demo` and `make test` work right after a clone.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
EXTRAS ?= flare,parquet,sql

.PHONY: demo test test-all lint format speed docs wheelhouse install clean

demo: $(INSTALLED)  ## watch ten private silos turn into one causal graph
	$(BIN)/feddag demo

# Processes side by side, each with one thread in JAX (see src/feddag/parallel.py) and in BLAS, whose threads would wait
# for each other in a busy loop. Bytecode is kept, whatever the environment says: the tests start many processes.
test: $(INSTALLED)  ## all tests but the slow ones
	PYTHONDONTWRITEBYTECODE= PJRT_NPROC=1 OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadscope -m "not slow"

test-all: $(INSTALLED)  ## all tests, and which lines they reach
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --cov --cov-report term:skip-covered

lint: $(INSTALLED)  ## style, types, and which package may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

format: $(INSTALLED)  ## let ruff lay out the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

speed: $(INSTALLED)  ## how near the local phase comes to this machine's peak
	$(BIN)/python benchmarks/speed.py

docs: $(INSTALLED)  ## the documentation as a site: site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

wheelhouse: $(INSTALLED)  ## every wheel, lock file and SBOM for an install without internet; EXTRAS=flare,sql,... JAX=no
	$(BIN)/python packaging/wheelhouse.py --out wheelhouse --extras "$(EXTRAS)" $(if $(filter no,$(JAX)),--without-jax)

install: $(INSTALLED)  ## .venv with every extra

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "feddag needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[baselines,docs,experiments,flare,parquet,peers,report,sql,dev]'
	@touch $@

clean:
	rm -rf .venv
