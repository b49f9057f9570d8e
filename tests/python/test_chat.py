"""`deepseek-recipe chat`: as a program between pipes, on a terminal, and with an engine that keeps what it gets."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from deepseek_recipe import ModelVersion, Tokenizer, cli
from deepseek_recipe.adapters import GenerateRequest, TokenDelta
from deepseek_recipe.adapters.replay import ReplayEngine, ReplayOutput
from deepseek_recipe.cli import chat

CHAT = [sys.executable, "-m", "deepseek_recipe", "chat"]

CALL = (
    "I look.</think>\n\n<｜DSML｜ calls>\n"
    '<｜DSML｜ invoke name="weather">\n'
    '<｜DSML｜ parameter name="city" string="true">Bonn</｜DSML｜ parameter>\n'
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>"
)


def said(stdin: str, *options: str) -> str:
    done = subprocess.run([*CHAT, "--pace", "0", *options], input=stdin.encode(), capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def outputs(folder: Path, *lines: dict[str, str]) -> str:
    file = folder / "outputs.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return f"replay:{file}"


def test_thinking_and_answers_between_pipes(tmp_path: Path) -> None:
    engine = outputs(tmp_path, {"text": "Two and two.</think>Four."}, {"text": "Still.</think>Five."})
    assert said("2 + 2?\n2 + 3?\n", "--engine", engine) == "[thinking] Two and two.\nFour.\n[thinking] Still.\nFive.\n"
    assert said("", "--engine", engine) == ""


def test_tool_calls_get_their_results_from_the_next_lines(tmp_path: Path) -> None:
    engine = outputs(tmp_path, {"text": "Seen.</think>It is sunny.", "match": "sun, 20"}, {"text": CALL})
    tools = tmp_path / "tools.json"
    tools.write_text('[{"type": "function", "function": {"name": "weather"}}]', encoding="utf-8")
    shown = said("Weather?\nsun, 20\n", "--engine", engine, "--tools", str(tools))
    assert shown == '[thinking] I look.\n[call] weather {"city": "Bonn"}\n[thinking] Seen.\nIt is sunny.\n'


def test_an_output_that_ends_early_says_so(tmp_path: Path) -> None:
    long, broken = {"text": "One two three four"}, {"text": "One", "finish_reason": "error"}
    options = ("--no-thinking", "--max-tokens", "2")
    assert said("Count\n", "--engine", outputs(tmp_path, long), *options) == "One two\n[ended: length]\n"
    assert said("Count\n", "--engine", outputs(tmp_path, broken), *options) == "One\n[failed: the engine broke off]\n"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_ctrl_c_stops_an_answer_and_the_chat_goes_on(tmp_path: Path) -> None:
    import pty

    endless = {"text": "on and on " * 500, "match": "Talk"}
    engine = outputs(tmp_path, {"text": "Good \x1b[5m.", "match": "Enough"}, endless)
    ours, theirs = pty.openpty()
    command = [*CHAT, "--pace", "0.01", "--no-thinking", "--engine", engine]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""

        def until(text: bytes) -> None:
            nonlocal shown
            while text not in shown:
                shown += os.read(ours, 4096)
            shown = shown.partition(text)[2]

        until(b"> ")
        os.write(ours, b"Talk\n")
        until(b"on and on")
        process.send_signal(signal.SIGINT)
        until(b"[stopped]")
        until(b"> ")
        os.write(ours, b"Enough\n")
        until("Good ␛[5m.".encode())
        until(b"> ")
        os.write(ours, b"\x04")
        assert process.wait(20) == 0
        os.close(ours)


class _Keeping(ReplayEngine):
    """Keeps the prompts that it gets."""

    def __init__(self, output: list[int]):
        super().__init__([ReplayOutput(output)])
        self.prompts: list[list[int]] = []

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        self.prompts.append(list(request.prompt_token_ids))
        async for delta in super().generate(request):
            yield delta


def test_the_next_prompt_goes_on_from_the_very_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    encode = Tokenizer.builtin(ModelVersion.DeepseekV41Flash).encode
    # An output that the encoder would not give.
    sampled = [*encode("Hel"), *encode("lo"), 1]
    assert sampled[:-1] != encode("Hello")
    engine = _Keeping(sampled)

    async def open_engine(*_: object, **__: object) -> _Keeping:
        return engine

    monkeypatch.setattr(chat, "open_engine", open_engine)
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hi\nAnd?\n"))
    assert cli.main(["chat", "--no-thinking"]) == 0
    first, second = engine.prompts
    assert second[: len(first) + len(sampled)] == [*first, *sampled]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "nonsense"], "unknown engine 'nonsense'"),
        (["--engine", "replay:nowhere.jsonl"], "No such file"),
        (["--tools", "nowhere.json"], "nowhere.json: No such file or directory"),
        (["--tools", os.devnull], f"{os.devnull}: Expecting value"),
        (["--effort", "enormous"], "enormous"),
    ],
)
def test_what_cannot_be_used_gives_one_line_and_status_2(options: list[str], message: str) -> None:
    done = subprocess.run([*CHAT, *options], input=b"Hi\n", capture_output=True)
    assert done.returncode == 2
    error = done.stderr.decode()
    assert error.startswith("deepseek-recipe: ") and message in error and error.count("\n") == 1
