# Every target sets up what it needs in .venv; stamps keep that quick when nothing changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# How long each target is fuzzed.
SECONDS ?= 15
# Cases with expected results, and the program `check` that runs them.
CONFORMANCE ?= ../shared/conformance

.PHONY: demo test conformance lint bench fuzz clean

demo: $(STAMPS)/base
	$(BIN)/opdiff demo opdiff-demo --force

test: $(STAMPS)/test
	$(BIN)/python -m pytest -n auto
	@$(MAKE) --no-print-directory conformance

conformance: $(STAMPS)/base
	@if [ -x "$(CONFORMANCE)/check" ]; then \
		"$(CONFORMANCE)/check" --command "'$(CURDIR)/$(BIN)/msprobe'" -j 2 \
			$$("$(CONFORMANCE)/check" --list | awk '!/torchair/ { print $$1 }'); \
	else \
		echo "conformance: there are no cases in $(CONFORMANCE); nothing was run"; \
	fi

lint: $(STAMPS)/test $(STAMPS)/lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(STAMPS)/base
	$(BIN)/python bench/run.py
	$(BIN)/python -m bench.compare

fuzz: $(STAMPS)/fuzz
	$(BIN)/python tests/fuzz/run.py --seconds $(SECONDS)

clean:
	rm -rf $(VENV) build dist opdiff-demo .hypothesis .mypy_cache .pytest_cache .ruff_cache

$(STAMPS)/base: pyproject.toml hatch_build.py $(wildcard native/*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --editable .
	mkdir -p $(STAMPS) && touch $@

$(STAMPS)/test $(STAMPS)/lint $(STAMPS)/fuzz: $(STAMPS)/%: $(STAMPS)/base
	$(BIN)/pip install --quiet --group $*
	touch $@
