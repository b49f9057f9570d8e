"""`deepseek-recipe bench` measures something. What it measures is for no test."""

import json
import subprocess
import sys

BENCH = [sys.executable, "-m", "deepseek_recipe", "bench", "--requests", "4", "--streams", "2", "--tokens", "5"]


def test_numbers_and_a_plot() -> None:
    done = subprocess.run([*BENCH, "--pace", "0.001"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "requests a second" in done.stdout and "█" in done.stdout


def test_json() -> None:
    done = subprocess.run([*BENCH, "--pace", "0.001", "--json"], capture_output=True, text=True)
    measured = json.loads(done.stdout)
    assert measured["request_bytes"]["agent"] > 85_000
    assert measured["requests_per_s"] > 0 and measured["tokens_per_s"] > 0
    for name in ("small", "agent"):
        submitted, answered = measured[f"engine_submit_s_{name}"], measured[f"first_byte_s_{name}"]
        assert 0 < submitted["median"] <= answered["median"] <= answered["p99"]
    assert 0 < measured["token_delay_s"]["median"]
