"""Runs the clients in JavaScript (`node/clients.test.js`) against the gateway. `npm ci` in `node/` installs them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from deepseek_recipe.adapters.replay import ReplayEngine
from gateway import ANSWER, WEATHER, gateway

NODE = Path(__file__).parent / "node"

FILLED = 'So.</think>{"city": "Paris", "degrees": 20}'


@pytest.mark.skipif(not (NODE / "node_modules").is_dir(), reason="not installed: npm ci in tests/clients/node")
def test_clients() -> None:
    made = ReplayEngine()
    outputs = [made.output(FILLED, match="Fill in the form."), made.output(ANSWER, match="result: sunny"), WEATHER]
    with gateway(engine=ReplayEngine(outputs)) as url:
        node = shutil.which("node")
        assert node is not None
        result = subprocess.run(
            [node, "--test", "clients.test.js"],
            cwd=NODE,
            env={**os.environ, "GATEWAY": url},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "# pass 13" in result.stdout and "# skipped 0" in result.stdout, result.stdout
