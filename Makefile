# Every target installs what it needs in .venv; stamps make repeated runs fast.
PYTHON ?= python3
# The newest Python on this machine; empty if none is newer than 3.11.
NEWEST ?= $(shell for minor in 16 15 14 13 12; do \
		for python in python3.$$minor "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.$$minor.*/bin/python; do \
			"$$python" -c pass 2> /dev/null && echo "$$python" && exit; \
		done; \
	done)
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Duration of each fuzz target, and of an attack.
SECONDS ?= 15
# Warnings that native code must be free of.
WARNINGS := -Wall -Wextra -Wconversion -Wshadow -Werror
# Cases with expected results, and the program `check` that runs them.
CONFORMANCE ?= ../shared/conformance
# Networks as real compilers wrote them, whose right pairs are known, and the program `check` that runs them.
REAL ?= ../shared/real

# Names of a browser, which the tests of reports need.
BROWSERS := chromium chromium-browser google-chrome
# Install Debian packages as root; otherwise, and if that fails, name the command. The exit status tells whether they are there.
debian = { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && \
		echo "installing $(1) for the tests" && apt-get update -qq > /dev/null && \
		apt-get install -qq --no-install-recommends $(1) > /dev/null 2>&1; } || \
	{ echo "not installed: $(1); tests that need it are skipped. As root: apt-get install --no-install-recommends $(1)"; false; }
# Touch a stamp if a command succeeded; otherwise it is tried again next time.
stamped = && touch $@ || true

# Machines that wheels are built for.
MACHINES := x86_64 aarch64

.PHONY: demo test check conformance real lint wheels test-wheels test-newest bench faults deceptions attack system-faults requirements fuzz sanitize cross web screenshots docs clean

demo: $(STAMPS)/demo
	$(BIN)/opdiff demo opdiff-demo --force

# The tests start thousands of processes: modules are compiled once, outside of the sources.
test test-newest conformance real: export PYTHONPYCACHEPREFIX := $(CURDIR)/build/bytecode
test test-newest conformance real: export PYTHONDONTWRITEBYTECODE :=

# The last lines sum up what was skipped, and name the packages that would bring it.
test: export OPDIFF_SKIPPED := $(CURDIR)/build/skipped.txt
test: $(STAMPS)/test $(STAMPS)/browser $(STAMPS)/aarch64 $(STAMPS)/ssh
	$(BIN)/python -m pytest -n auto
	@$(MAKE) --no-print-directory conformance real
	@cat "$(OPDIFF_SKIPPED)"

# Together with `make test`, all that CI runs.
check: lint test-wheels test-newest

conformance: $(STAMPS)/base
	@if [ -x "$(CONFORMANCE)/check" ]; then \
		"$(CONFORMANCE)/check" --command "'$(CURDIR)/$(BIN)/msprobe'" -j 2; \
	else \
		echo "conformance: there are no cases in $(CONFORMANCE); nothing was run"; \
	fi

real: $(STAMPS)/base
	@if [ -x "$(REAL)/check" ] && "$(BIN)/opdiff" compare --help | grep -q -- --json; then \
		"$(REAL)/check" "$(CURDIR)/$(BIN)/opdiff"; \
	else \
		echo "real: there are no cases in $(REAL); nothing was run"; \
	fi

lint: $(STAMPS)/test $(STAMPS)/lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	mkdir -p build && for name in warnings.so warnings.abi3.so; do $(BIN)/python native/build.py build/$$name $(WARNINGS) || exit; done

# The source distribution, and from it a manylinux wheel for each machine. auditwheel checks and tags them.
wheels: $(STAMPS)/wheels
	rm -rf dist build/wheels
	$(BIN)/python -m hatchling build --target sdist
	for machine in $(MACHINES); do \
		OPDIFF_MANYLINUX=$$machine $(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheels dist/*.tar.gz && \
		PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/wheels/*_$$machine.whl || exit; \
	done

# The wheels by themselves: contents, tags, and the command line in an empty environment.
test-wheels: wheels $(STAMPS)/test $(STAMPS)/aarch64
	$(BIN)/python -m pytest tests/release/wheels.py

# Every test, with the newest Python and the package as its wheel installs it.
test-newest: wheels $(STAMPS)/browser $(STAMPS)/aarch64 $(STAMPS)/ssh
ifeq ($(NEWEST),)
	@echo "test-newest: no Python newer than 3.11 was found; nothing was run (NEWEST may name one)"
else
	$(NEWEST) -m venv --clear build/newest
	build/newest/bin/pip install --quiet --upgrade "pip>=25.1"
	build/newest/bin/pip install --quiet "$$(ls dist/*_$$(uname -m).whl)[all]" --group test
	build/newest/bin/python -m pytest -n auto
endif

bench: $(STAMPS)/base
	$(BIN)/python bench/run.py
	$(BIN)/python -m bench.compare
	$(BIN)/python bench/torchair.py
	$(BIN)/python bench/report.py
	$(BIN)/python -m bench.golden
	$(BIN)/python -m bench.cluster
	$(BIN)/python -m bench.scale
	$(BIN)/python -m bench.replay

faults: $(STAMPS)/test
	PYTHONPATH=tests $(BIN)/python bench/faults.py
	PYTHONPATH=tests $(BIN)/python bench/faults.py --model
	PYTHONPATH=tests $(BIN)/python bench/faults.py --model --setting "missing dump" --seeds 1
	PYTHONPATH=tests $(BIN)/python bench/faults.py --model --setting "two faults" --seeds 1

deceptions: $(STAMPS)/base
	PYTHONPATH=tests $(BIN)/python bench/deceptions.py

# The page of the HTML report: web/ bundled to the one file in the package.
web: $(STAMPS)/web
	cd web && npm run --silent check && npm test --silent && npm run --silent build

# The documents as a site in build/site; a broken link is an error.
docs: $(STAMPS)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# Pages in Chinese need a font that has its characters.
screenshots: $(STAMPS)/test $(STAMPS)/browser
	@fc-list :lang=zh 2> /dev/null | grep -q . || $(call debian,fontconfig fonts-noto-cjk)
	PYTHONPATH=tests $(BIN)/python tests/browser/screenshots.py

# Whole runs on mutated files, with disturbances and signals. SECONDS is their duration. Then every bit of every header.
attack: $(STAMPS)/test
	PYTHONPATH=tests $(BIN)/python -m attack.run --seconds $(SECONDS)
	PYTHONPATH=tests $(BIN)/python -m attack.flips
	PYTHONPATH=tests $(BIN)/python -m attack.signals

# Every command, with the n-th call of each kind failing, for every n. Needs a C compiler.
system-faults: $(STAMPS)/test
	PYTHONPATH=tests $(BIN)/python -m system_faults.run

# The table of requirements, from the tests that execute them.
requirements: $(STAMPS)/test
	PYTHONPATH=tests $(BIN)/python -m requirements.requirement
	$(BIN)/python -m pytest -n auto tests/requirements

fuzz: $(STAMPS)/test $(STAMPS)/fuzz
	PYTHONPATH=tests $(BIN)/python tests/fuzz/run.py --seconds $(SECONDS)

# A copy of the package whose native code has sanitizers. Python itself is built without, so they are preloaded, and leaks
# of Python are not reported.
SANITIZERS := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
sanitize: $(STAMPS)/test
	rm -rf build/sanitized && mkdir -p build/sanitized && cp -r src/opdiff build/sanitized
	for name in measure/kernel/_kernel.so _native.abi3.so; do \
		$(BIN)/python native/build.py build/sanitized/opdiff/$$name $(SANITIZERS) || exit; \
	done
	PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
		LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
		PYTHONPATH=build/sanitized $(BIN)/python -m pytest -q -s -n auto -p no:faulthandler \
		tests/measure/kernel tests/read/test_native.py tests/read/test_protowire.py

# The kernel compiled by clang for x86-64 and aarch64, and run where this machine can.
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

# The package is installed already; these add the libraries of its extras.
$(STAMPS)/demo: $(STAMPS)/base
	$(BIN)/pip install --quiet "opdiff[xlsx]"
	touch $@

$(STAMPS)/test: $(STAMPS)/base
	$(BIN)/pip install --quiet "opdiff[all]" --group test
	touch $@

$(STAMPS)/lint $(STAMPS)/fuzz $(STAMPS)/cross $(STAMPS)/wheels $(STAMPS)/docs: $(STAMPS)/%: $(STAMPS)/base
	$(BIN)/pip install --quiet --group $*
	touch $@

$(STAMPS)/web: web/package-lock.json $(STAMPS)/base
	cd web && npm ci --silent --ignore-scripts
	touch $@

# Debian packages that some tests need.
$(STAMPS)/browser: $(STAMPS)/base
	@{ (for name in $(BROWSERS); do command -v $$name && exit; done; exit 1) > /dev/null || \
		$(call debian,chromium); } $(stamped)

$(STAMPS)/aarch64: $(STAMPS)/base
	@{ { command -v aarch64-linux-gnu-g++ && command -v qemu-aarch64; } > /dev/null || \
		$(call debian,g++-aarch64-linux-gnu qemu-user); } $(stamped)

$(STAMPS)/ssh: $(STAMPS)/base
	@{ test -x /usr/sbin/sshd || $(call debian,openssh-server); } $(stamped)
