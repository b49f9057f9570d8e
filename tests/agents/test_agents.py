"""Claude Code, Codex and OpenCode complete a tool loop against the gateway: they run a command and read what it says.

`scripts/test.sh --agents` installs and runs them; each comes from its registry as its users get it, and talks to
nothing but the gateway. What they send is the test of `unsupported="refuse"`: nothing of it may be refused.
"""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deepseek_recipe.adapters.replay import ReplayEngine
from gateway import call, gateway

BIN = Path(__file__).parent / "node_modules" / ".bin"
QUESTION = "What is 40 + 2? Use the shell."
COMMAND = "echo the sum is $((40 + 2))"
ANSWER = "The answer is 42."


@contextmanager
def model(tool: str, parameter: str) -> Iterator[str]:
    """The URL of a gateway whose model runs the command with this tool, then answers."""
    made = ReplayEngine()
    arguments = {parameter: COMMAND, "description": "Adds"} if parameter == "command" else {parameter: COMMAND}
    outputs = [
        made.output(f"I see.</think>{ANSWER}", match="the sum is 42"),
        made.output(call(tool, arguments, "I add.</think>"), match=QUESTION),
    ]
    with gateway(engine=ReplayEngine(outputs)) as url:
        yield url


def run(home: Path, command: list[str], **variables: str) -> str:
    """The standard output of a program that ends well."""
    program = shutil.which(command[0], path=str(BIN))
    assert program is not None, f"{command[0]} is not installed: npm install in tests/agents"
    result = subprocess.run(
        [program, *command[1:]],
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home), **variables},
        capture_output=True,
        text=True,
        timeout=180,
        stdin=subprocess.DEVNULL,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_claude_code(tmp_path: Path) -> None:
    import claude_agent_sdk as sdk

    variables = {
        "HOME": str(tmp_path),
        "ANTHROPIC_API_KEY": "key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # It takes no bypass of permissions from root elsewhere.
        "IS_SANDBOX": "1",
    }

    async def ask(url: str) -> list[Any]:
        options = sdk.ClaudeAgentOptions(
            cwd=tmp_path,
            env={**variables, "ANTHROPIC_BASE_URL": url},
            model="deepseek-flash",
            permission_mode="bypassPermissions",
            max_turns=4,
        )
        return [message async for message in sdk.query(prompt=QUESTION, options=options)]

    with model("Bash", "command") as url:
        *_, last = asyncio.run(asyncio.wait_for(ask(url), 180))
    assert isinstance(last, sdk.ResultMessage)
    assert not last.is_error and last.num_turns == 2 and last.result == ANSWER


def test_codex(tmp_path: Path) -> None:
    with model("exec_command", "cmd") as url:
        (tmp_path / "config.toml").write_text(
            f"""
model = "deepseek-flash"
model_provider = "gateway"

[model_providers.gateway]
name = "gateway"
base_url = "{url}/v1"
env_key = "GATEWAY_KEY"
wire_api = "responses"
""",
            encoding="utf-8",
        )
        command = ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json"]
        printed = run(tmp_path, [*command, QUESTION], CODEX_HOME=str(tmp_path), GATEWAY_KEY="key")
    items = [event["item"] for event in map(json.loads, printed.splitlines()) if event["type"] == "item.completed"]
    kinds = {item["type"]: item for item in items}
    assert kinds["reasoning"]["text"] == "I see."
    assert kinds["command_execution"]["aggregated_output"] == "the sum is 42\n"
    assert kinds["agent_message"]["text"] == ANSWER


def test_opencode(tmp_path: Path) -> None:
    with model("bash", "command") as url:
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "gateway",
            "options": {"baseURL": f"{url}/v1", "apiKey": "key"},
            "models": {"deepseek-flash": {"limit": {"context": 1_000_000, "output": 65_536}}},
        }
        settings = {
            "autoupdate": False,
            "share": "disabled",
            "model": "gateway/deepseek-flash",
            "small_model": "gateway/deepseek-flash",
            "permission": {"bash": "allow"},
            "provider": {"gateway": provider},
        }
        (tmp_path / "opencode.json").write_text(json.dumps(settings), encoding="utf-8")
        printed = run(tmp_path, ["opencode", "run", "--format", "json", QUESTION], OPENCODE_DISABLE_MODELS_FETCH="1")
    parts = [event["part"] for event in map(json.loads, printed.splitlines())]
    (used,) = (part for part in parts if part["type"] == "tool")
    assert used["state"]["output"] == "the sum is 42\n"
    assert [part["text"] for part in parts if part["type"] == "text"] == [ANSWER]
