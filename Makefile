# Two commands for a newcomer: `make demo` and `make test`; both set everything up first.
.PHONY: setup demo test test-all check format bench clean
SHELL := /bin/bash
export PATH := $(CURDIR)/.venv/bin:$(HOME)/.cargo/bin:$(PATH)

setup: .venv/.ready

# System packages, the Python environment from the lock file, and the Rust core.
.venv/.ready: requirements.lock pyproject.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml) scripts/setup
	scripts/setup
	touch .venv/.ready

demo: setup
	headrace run studies/quickstart.toml --results results/quickstart-$$(date +%Y%m%d-%H%M%S)

test: setup
	cargo test --workspace --exclude headrace-python --release -q
	python -m pytest -m "not heavy"

test-all: setup
	cargo test --workspace --exclude headrace-python --release -q
	python -m pytest

check: setup
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --release -q -- -D warnings
	ruff format --check python tests benchmarks
	ruff check python tests benchmarks
	pyright
	python -m pytest tests/unit/test_house.py

format:
	cargo fmt --all
	ruff format python tests benchmarks
	ruff check --fix python tests benchmarks

# Sets up the peers that are measured beside, too.
bench: setup
	scripts/setup-bench
	for each in benchmarks/*.py; do echo "== $$each"; python $$each || exit 1; done

clean:
	rm -rf .venv target results
