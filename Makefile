# make demo   trains A3C on Pendulum       make test   runs the tests
# make lint   ruff and mypy                make check  tests and lint
# make smoke  uses the wheel in clean environments, one for each of PYTHONS
# make fast   the tests but for the slow programs and the docs: for another Python, with a VENV of its own
# make results   the runs and figures of docs/results.md
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYTHONPATH :=

.PHONY: results demo test fast lint check long smoke clean

demo: $(VENV)/installed
	$(BIN)/python demos/pendulum_a3c.py

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n 2

SLOW := tests/faults/test_programs.py tests/distributed/test_processes.py tests/distributed/test_machines.py tests/test_docs.py
fast: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n 2 $(SLOW:%=--ignore=%)

long: $(VENV)/installed-dev
	$(BIN)/python -m pytest -m long

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: test lint

PYTHONS ?= $(PYTHON)
smoke:
	$(PYTHON) tests/smoke.py $(PYTHONS)

# The tables and pictures of docs/results.md: some hours on two cores; stopped and called again, it goes on.
LEARN := $(BIN)/python benchmarks/learning.py --jobs 2 --report docs/results.md
DATA := tests/data
IMAGES := docs/images

results: $(VENV)/installed-dev # Box2D is among its packages
	$(LEARN) classic --preset classic --workers 2 8 --over $(DATA)/original_curves.csv \
	  --figure $(IMAGES)/classic_over_original.png --out runs/classic
	$(LEARN) classic-adam --preset classic-adam --seeds 0-4 --workers 2 --over $(DATA)/original_adam_curves.csv \
	  --figure $(IMAGES)/classic_adam_over_original.png --out runs/classic-adam
	$(LEARN) classic-adam-processes --jobs 1 --preset classic-adam --set processes=2 --seeds 0-4 \
	  --over $(DATA)/original_adam_curves.csv --out runs/classic-adam-processes
	$(LEARN) tuned --preset tuned --workers 1 2 4 --figure $(IMAGES)/tuned.png --out runs/tuned
	$(LEARN) tuned-200k --preset tuned --steps 200000 --out runs/tuned-200k
	$(LEARN) ablation --preset tuned --seeds 0-2 --ablate --out runs/ablation
	$(LEARN) car --preset tuned --env MountainCarContinuous-v0 --seeds 0-4 --plays 100 --out runs/car
	$(LEARN) lander --preset tuned --env gymnasium:LunarLanderContinuous-v3 --seeds 0-4 --plays 100 --out runs/lander
	$(LEARN) walker --preset tuned --env gymnasium:BipedalWalker-v3 --seeds 0-4 --plays 100 --out runs/walker

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
	rm -rf $(VENV) .venv-* build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
