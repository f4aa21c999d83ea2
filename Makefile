# Every target sets up what it needs in .venv; stamps keep that quick when nothing changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint bench fuzz clean

demo: $(STAMPS)/base
	$(BIN)/opdiff demo opdiff-demo --force

test: $(STAMPS)/test
	$(BIN)/python -m pytest -n auto

lint: $(STAMPS)/test $(STAMPS)/lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(STAMPS)/base
	$(BIN)/python bench/run.py

fuzz: $(STAMPS)/fuzz
	$(BIN)/python tests/fuzz/run.py

clean:
	rm -rf $(VENV) build dist opdiff-demo .hypothesis .mypy_cache .pytest_cache .ruff_cache

$(STAMPS)/base: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --editable .
	mkdir -p $(STAMPS) && touch $@

$(STAMPS)/test $(STAMPS)/lint $(STAMPS)/fuzz: $(STAMPS)/%: $(STAMPS)/base
	$(BIN)/pip install --quiet --group $*
	touch $@
