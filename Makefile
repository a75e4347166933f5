# make demo   trains A3C on Pendulum       make test   runs the tests
# make lint   ruff and mypy                make check  tests and lint
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYTHONPATH :=

.PHONY: demo test lint check long clean

demo: $(VENV)/installed
	$(BIN)/python demos/pendulum_a3c.py

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n 2

long: $(VENV)/installed-dev
	$(BIN)/python -m pytest -m long

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: test lint

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null || { \
	  echo "TensorFlow has no wheel for $(PYTHON) (`$(PYTHON) --version 2>&1 || :`):" \
	    "use Python 3.10, 3.11, 3.12 or 3.13, as in 'make $(or $(MAKECMDGOALS),demo) PYTHON=python3.12'" >&2; \
	  exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; } # without pip it would look finished next time

$(VENV)/installed: requirements.txt setup.py | $(VENV)/bin/python
	@echo "Installing into $(VENV); TensorFlow is large, so this takes some minutes, once"
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/installed-dev: requirements-dev.txt $(VENV)/installed
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
