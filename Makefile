# Every target sets up what it needs in .venv; stamps keep that quick when nothing changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# How long each target is fuzzed.
SECONDS ?= 15
# The kernel is free of these.
WARNINGS := -Wall -Wextra -Wconversion -Wshadow -Werror
# Cases with expected results, and the program `check` that runs them.
CONFORMANCE ?= ../shared/conformance

# What a browser may be called; the tests of reports need one.
BROWSERS := chromium chromium-browser google-chrome
debian = if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		echo "installing $(1) for the tests"; \
		apt-get update -qq > /dev/null && apt-get install -qq --no-install-recommends $(1) > /dev/null 2>&1; \
	fi || echo "$(1): could not be installed; the tests that need it are skipped"

.PHONY: demo test conformance lint bench faults fuzz sanitize cross web screenshots clean

demo: $(STAMPS)/base
	$(BIN)/opdiff demo opdiff-demo --force

test: $(STAMPS)/test $(STAMPS)/browser $(STAMPS)/aarch64
	$(BIN)/python -m pytest -n auto
	@$(MAKE) --no-print-directory conformance

conformance: $(STAMPS)/base
	@if [ -x "$(CONFORMANCE)/check" ]; then \
		"$(CONFORMANCE)/check" --command "'$(CURDIR)/$(BIN)/msprobe'" -j 2; \
	else \
		echo "conformance: there are no cases in $(CONFORMANCE); nothing was run"; \
	fi

lint: $(STAMPS)/test $(STAMPS)/lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	mkdir -p build && for name in warnings.so warnings.abi3.so; do $(BIN)/python native/build.py build/$$name $(WARNINGS) || exit; done

bench: $(STAMPS)/base
	$(BIN)/python bench/run.py
	$(BIN)/python -m bench.compare
	$(BIN)/python bench/torchair.py
	$(BIN)/python bench/report.py

faults: $(STAMPS)/base
	PYTHONPATH=tests $(BIN)/python bench/faults.py

# The page of the HTML report, built from web/ to the one file that the package has.
web: $(STAMPS)/web
	cd web && npm run --silent check && npm run --silent build

screenshots: $(STAMPS)/test $(STAMPS)/browser
	PYTHONPATH=tests $(BIN)/python tests/browser/screenshots.py

fuzz: $(STAMPS)/fuzz
	$(BIN)/python tests/fuzz/run.py --seconds $(SECONDS)

# A copy of the package with other native code. Python itself is not built with the sanitizers, so they are loaded before
# it; what it leaks is not ours.
SANITIZERS := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
sanitize: $(STAMPS)/test
	rm -rf build/sanitized && mkdir -p build/sanitized && cp -r src/opdiff build/sanitized
	for name in measure/kernel/_kernel.so _native.abi3.so; do \
		$(BIN)/python native/build.py build/sanitized/opdiff/$$name $(SANITIZERS) || exit; \
	done
	PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
		LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
		PYTHONPATH=build/sanitized $(BIN)/python -m pytest -q -s -n auto -p no:faulthandler \
		tests/measure/kernel tests/core/test_native.py tests/read/test_protowire.py

# With clang, for this machine and for aarch64; what can be run here is.
cross: $(STAMPS)/test $(STAMPS)/cross
	mkdir -p build
	$(BIN)/python native/cross.py build $(WARNINGS) -Wno-pass-failed
	OPDIFF_KERNEL="$(CURDIR)/build/kernel-$$(uname -m).so" $(BIN)/python -m pytest -q -n auto tests/measure/kernel

clean:
	rm -rf $(VENV) build dist opdiff-demo .hypothesis .mypy_cache .pytest_cache .ruff_cache

$(STAMPS)/base: pyproject.toml hatch_build.py $(wildcard native/* native/python/*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --editable .
	mkdir -p $(STAMPS) && touch $@

$(STAMPS)/test $(STAMPS)/lint $(STAMPS)/fuzz $(STAMPS)/cross: $(STAMPS)/%: $(STAMPS)/base
	$(BIN)/pip install --quiet --group $*
	touch $@

$(STAMPS)/web: web/package-lock.json $(STAMPS)/base
	cd web && npm ci --silent --ignore-scripts
	touch $@

# What some tests need of Debian, where it is missing and can be had; without it they are skipped, and say so.
$(STAMPS)/browser: $(STAMPS)/base
	@for name in $(BROWSERS); do command -v $$name > /dev/null && exit; done; $(call debian,chromium)
	touch $@

$(STAMPS)/aarch64: $(STAMPS)/base
	@command -v aarch64-linux-gnu-g++ > /dev/null && command -v qemu-aarch64 > /dev/null || { $(call debian,g++-aarch64-linux-gnu qemu-user); }
	touch $@
