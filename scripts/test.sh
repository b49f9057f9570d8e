#!/usr/bin/env bash
# Runs every test: formatting, lints, types, Rust and Python. Needs cargo and Python 3.10 or later; makes .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
run() {
    printf '\n== %s\n' "$*"
    "$@"
}

python=.venv/bin/python
[ -x "$python" ] || python3 -m venv .venv
run "$python" -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt

run cargo fmt --all --check
run cargo clippy --workspace --all-targets --locked -- -D warnings
run cargo test --workspace --locked
# The portable way of the encoder gives the same ids.
run env RECIPE_SIMD=off cargo test -p recipe-core --locked --test tokenizer_twins encode

# The module that the Python tests load: the same profile as the Rust tests, so that everything is compiled once.
run .venv/bin/maturin develop --locked --profile dev
run .venv/bin/ruff format --check python tests scripts
run .venv/bin/ruff check python tests scripts
run .venv/bin/pyright
run "$python" -m pytest
