"""`deepseek-recipe bench` measures something. What it measures is for no test."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import deepseek_recipe as recipe
from deepseek_recipe.adapters.replay import ReplayEngine
from deepseek_recipe.cli.bench_request import WIRES, agent_request, short_request
from loopback import listening
from support import run

BENCH = [sys.executable, "-m", "deepseek_recipe", "bench", "--requests", "4", "--streams", "2", "--tokens", "5"]


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*BENCH, "--pace", "0.001", *options], capture_output=True, text=True)


def test_numbers_and_a_plot() -> None:
    done = bench()
    assert (done.returncode, done.stderr) == (0, "")
    assert "requests a second" in done.stdout and "█" in done.stdout


@pytest.mark.parametrize("protocol", WIRES)
def test_json(protocol: str) -> None:
    measured = json.loads(bench("--json", "--protocol", protocol).stdout)
    assert measured["request_bytes"]["agent"] > 85_000
    assert measured["requests_per_s"] > 0 and measured["tokens_per_s"] > 0
    for name in ("small", "agent"):
        submitted, answered = measured[f"engine_submit_s_{name}"], measured[f"first_byte_s_{name}"]
        assert 0 < submitted["median"] <= answered["median"] <= answered["p99"]
        assert measured[f"cpu_s_per_request_{name}"] > 0
    assert 0 < measured["token_delay_s"]["median"]


def test_a_request_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps({**short_request("messages", "m", 1), "system": "x" * 1000}))
    measured = json.loads(bench("--json", "--protocol", "messages", "--request", str(file)).stdout)
    assert measured["request_bytes"]["agent"] == file.stat().st_size


@pytest.mark.parametrize("protocol", WIRES)
def test_a_server_that_runs(protocol: str) -> None:
    async def test() -> None:
        async with listening(ReplayEngine(["word" * 20], pace=0.001), api_keys=("key",)) as (port, _):

            async def measured(*options: str) -> tuple[int | None, str, str]:
                url = f"http://127.0.0.1:{port}/v1"
                process = await asyncio.create_subprocess_exec(
                    *BENCH, "--url", url, "--protocol", protocol, *options, stdout=-1, stderr=-1
                )
                out, err = await process.communicate()
                return process.returncode, out.decode(), err.decode()

            status, out, err = await measured("--api-key", "key", "--json")
            assert (status, err) == (0, "")
            found: dict[str, Any] = json.loads(out)
            assert found["events_per_s"] > 0 and found["read_gap_s"]["median"] > 0 and found["requests_per_s"] > 0
            status, out, err = await measured("--api-key", "key")
            assert (status, err) == (0, "") and "between two reads" in out
            status, out, err = await measured("--api-key", "other")
            assert status == 2 and out == "" and "401" in err and err.count("\n") == 1

    run(test())


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "ftp://127.0.0.1", "http://127.0.0.1:port", "nothing"])
def test_no_server(url: str) -> None:
    done = bench("--url", url)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1


@pytest.mark.parametrize("protocol", WIRES)
def test_the_requests_are_requests(protocol: Any) -> None:
    wire = WIRES[protocol]
    short = recipe.encode({**short_request(protocol, "DeepSeek-V4.1-Flash", 7), **wire.no_thinking}, protocol=protocol)
    assert short.stream and short.inference_options.max_tokens == 7
    assert short.prompt.endswith("</think>")
    agent = recipe.encode(agent_request(protocol, "DeepSeek-V4.1-Flash", 7, 85_000), protocol=protocol)
    assert len(agent.conversation.tools) == 30 and agent.prompt.count("let value_39") > 5
