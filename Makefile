# Two commands for a newcomer: `make demo` and `make test`; each sets up what it needs first.
.PHONY: setup setup-all demo test test-fast test-all check schema docs format bench accuracy wheel clean
SHELL := /bin/bash
# Also where Python is told not to keep what it compiles: tests start it hundreds of times, and
# pytest rewrites every test file.
export PYTHONDONTWRITEBYTECODE :=
export PATH := $(CURDIR)/.venv/bin:$(HOME)/.cargo/bin:$(PATH)
# Where it differs, Cargo builds the core anew.
export PYO3_PYTHON := $(CURDIR)/.venv/bin/python
SOURCES := requirements.lock pyproject.toml Cargo.toml Cargo.lock scripts/setup \
	$(shell find crates -name '*.rs' -o -name Cargo.toml)

# What runs studies on this machine's own storage, simulations, emulated drives and the recorder.
setup: .venv/.ready

.venv/.ready: $(SOURCES)
	scripts/setup demo

# Further file systems, real servers, and what the tests need.
setup-all: .venv/.ready-all

.venv/.ready-all: $(SOURCES)
	scripts/setup

demo: setup
	headrace run studies/quickstart.toml --results results/quickstart-$$(date +%Y%m%d-%H%M%S) || \
		{ code=$$?; [ $$code = 5 ] || exit $$code; echo "Other work on this machine spoilt some trials."; }
	@printf 'Headrace can be run from any folder as: %q\n' "$(CURDIR)/bin/headrace"

# Tests run side by side, one for each CPU. Those of tests/system and tests/e2e wait more than they
# compute: two for each CPU, and those of one file in one process, which starts what they share
# once. The others run meanwhile, and beside those of Rust, with the CPU time that these leave; what
# they say is shown at their end. Those marked `quiet` mostly sleep, and are dealt one by one (`loadgroup`, without
# groups), when what the others wrote is on the drive; those marked `machine` run alone
# (tests/conftest.py).
CPUS := $(shell nproc)
COMPUTE := -n $(shell echo $$(($(CPUS) < 4 ? $(CPUS) : 4))) --dist worksteal
WAIT := -n $(shell echo $$(($(CPUS) < 4 ? 2 * $(CPUS) : 8))) --dist loadfile --no-loadscope-reorder
OWN := tests/system tests/e2e
QUIET := -n 5 --dist loadgroup --no-loadscope-reorder
# Files with tests of a mark: collecting all takes each process seconds.
marked = $(shell grep -rlE --include='*.py' 'mark\.$(1)\b' $(OWN))

# Every part runs, whatever failed before it. Cargo is given all packages, so that it takes what
# scripts/setup has built: with fewer, dependencies have other features. $(1): tests by their marks.
define run-tests
	@failed=; said=$$(mktemp); \
	nice -n 5 python -m pytest $(COMPUTE) -m "$(1)" --ignore tests/system --ignore tests/e2e \
		>$$said 2>&1 & computing=$$!; \
	cargo test --workspace --release -q --tests || failed="$$failed Rust"; \
	cargo test --workspace --release -q --doc || failed="$$failed documentation"; \
	python -m pytest $(WAIT) -m "($(1)) and not machine and not quiet" $(OWN) || \
		failed="$$failed waiting"; \
	wait $$computing || failed="$$failed computing"; \
	cat $$said; rm $$said; \
	sync; \
	python -m pytest $(QUIET) -m "($(1)) and quiet" $(call marked,quiet) || \
		failed="$$failed quiet"; \
	python -m pytest -m "($(1)) and machine" $(call marked,machine) || \
		failed="$$failed machine"; \
	if [ -n "$$failed" ]; then echo "tests failed:$$failed" >&2; exit 1; fi
endef

test: setup-all
	$(call run-tests,not heavy)

# For the edit loop: no server, no root, nothing that takes long.
test-fast: setup-all
	python -m pytest -m "not heavy and not slow" $(COMPUTE) tests/unit tests/property

test-all: setup-all
	$(call run-tests,heavy or not heavy)

check: setup-all
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --release -q -- -D warnings
	ruff format --check python tests benchmarks
	ruff check python tests benchmarks
	pyright
	python -m pytest tests/unit/test_house.py

# The JSON Schema of study files, for editors: from the models that check them.
schema:
	headrace validate --schema > docs/study.schema.json

# The documentation as a site, with search and the reference of the library: site/index.html.
docs: setup-all
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet
	@echo "written: $(CURDIR)/site/index.html; its search needs a server: mkdocs serve"

format:
	cargo fmt --all
	ruff format python tests benchmarks
	ruff check --fix python tests benchmarks

# Sets up the peers that are measured beside, too, and ends with the table of all figures, which
# docs/performance.md keeps. ONLY="sweep report_scale" runs some.
bench: setup-all
	scripts/setup-bench
	python benchmarks $(ONLY) $(if $(ONLY),,--write)

# Models beside measurements: docs/accuracy.md. ONLY="disks depth" runs some; DATA=FOLDER has the
# measurements that are too large for the repository.
accuracy: setup-all
	python benchmarks/accuracy $(ONLY) $(if $(DATA),--data "$(DATA)")

# One wheel with everything in it, for machines without Rust (docs/install.md); it lies in dist/.
wheel: setup-all
	scripts/wheel dist

clean:
	rm -rf .venv target results dist site
