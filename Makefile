# Everything a clone needs. `make demo` and `make test` create what they use; only Python 3.11+, git and make are assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One pinned torch, so that a machine without a GPU takes the small build where it is at hand.
TORCH ?= torch==2.13.0
INSTALL := UV_FIND_LINKS="$$PIP_FIND_LINKS" $(BIN)/uv pip install --quiet --python $(BIN)/python

.PHONY: help demo test check format figures accuracy calibrations clean

help: ## Show this list.
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 15

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check uv

$(VENV)/.run: pyproject.toml | $(BIN)/uv
	$(INSTALL) -e '.[report]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/uv
	$(INSTALL) $(TORCH) -e '.[dev]'
	@touch $@ $(VENV)/.run

demo: $(VENV)/.run ## Predict five ways of fine-tuning BERT-base; fit a law to a measured sweep and compare with what it left out.
	@$(BIN)/python scripts/demo.py

test: $(VENV)/.dev ## Run the whole suite.
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --cov --cov-report=term:skip-covered
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/measure/slurm

check: $(VENV)/.dev ## Lint, format, types, import layers.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## Put the code in its form.
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

figures: $(VENV)/.dev ## Recompute every figure that is claimed, into build/figures.json.
	$(BIN)/python scripts/figures.py

accuracy: $(VENV)/.dev ## Write docs/accuracy.md from build/figures.json and the measured tables.
	$(BIN)/python scripts/accuracy.py

calibrations: $(VENV)/.dev ## Refit the calibrations that are shipped, from the measured tables.
	$(BIN)/python scripts/fit_calibrations.py

clean: ## Remove what was built.
	rm -rf build $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage*
