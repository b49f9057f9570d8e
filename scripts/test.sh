#!/usr/bin/env bash
# Runs every test: formatting, lints, types, Rust, Python and the engine. Needs cargo and Python 3.11 or later; makes .venv.
# Where npm is, the clients in JavaScript run, too, and with Chromium the playground. With --agents, Claude Code, Codex
# and OpenCode run in the end; with --plugins, the plug-ins in vLLM and SGLang, in an environment of their own (torch with
# CUDA: some 6 GB installed).
set -euo pipefail
cd "$(dirname "$0")/.."
run() {
    printf '\n== %s\n' "$*"
    "$@"
}

agents=false plugins=false
case "${1:-}" in
"") ;;
--agents) agents=true ;;
--plugins) plugins=true ;;
*)
    echo "usage: scripts/test.sh [--agents | --plugins]" >&2
    exit 2
    ;;
esac

python=.venv/bin/python
[ -x "$python" ] || python3 -m venv .venv
run "$python" -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt

run cargo fmt --all --check
run cargo clippy --workspace --all-targets --locked -- -D warnings
run cargo clippy -p recipe-core --no-default-features --locked -- -D warnings
run cargo test --workspace --locked
# The portable way of the encoder gives the same ids.
run env RECIPE_SIMD=off cargo test --workspace --locked --test tokenizer_twins encode

# The module that the Python tests load: the same profile as the Rust tests, so that everything is compiled once.
run .venv/bin/maturin develop --locked --profile dev
run .venv/bin/ruff format --check python engine tests scripts
run .venv/bin/ruff check python engine tests scripts
run .venv/bin/pyright
if command -v npm >/dev/null; then
    run npm ci --prefix tests/clients/node --no-audit --no-fund
fi
run "$python" -m pytest

export CHROMIUM=${CHROMIUM:-/usr/bin/chromium}
if command -v npm >/dev/null && [ -x "$CHROMIUM" ]; then
    run npm ci --prefix tests/playground --no-audit --no-fund
    run npm test --prefix tests/playground
else
    printf '\n== SKIPPED: the playground in a browser. It needs npm and Chromium: apt-get install chromium, or %s\n' \
        'CHROMIUM=/path/to/chromium'
fi

# The engine comes last: nothing above needs torch. Where pip finds no build for CPUs alone, this downloads 2.7 GB.
run "$python" -m pip install --quiet --disable-pip-version-check './engine[test]'
run .venv/bin/pyright --project engine --pythonpath "$python"
run "$python" -m pytest tests/engine

if $plugins; then
    installed=target/plugins
    [ -x "$installed/bin/python" ] || python3 -m venv "$installed"
    run "$installed/bin/python" -m pip install --quiet --disable-pip-version-check -r tests/installed/requirements.txt
    # With all that they ask for they would not fit beside each other, nor, without a GPU, be of more use.
    run "$installed/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps vllm==0.33.0 sglang==0.5.23
    run env VIRTUAL_ENV="$PWD/$installed" .venv/bin/maturin develop --locked --profile dev
    run "$installed/bin/python" -m pytest tests/plugins tests/installed
fi

if $agents; then
    run "$python" -m pip install --quiet --disable-pip-version-check -r tests/agents/requirements.txt
    # Not `npm ci`: it wants OpenCode's packages for other systems in the lock, and not every registry has them.
    run npm install --prefix tests/agents --no-save --no-audit --no-fund
    run "$python" -m pytest tests/agents
fi
