"""The command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import deepseek_recipe as recipe

DEMO = Path(recipe.__file__).parent / "demo"
REQUEST, OUTPUT = str(DEMO / "request.json"), str(DEMO / "output.txt")


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "deepseek_recipe", *arguments], input=stdin, capture_output=True)


def printed(*arguments: str, stdin: bytes = b"") -> str:
    done = run(*arguments, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_encode_prints_ids_prompt_or_everything() -> None:
    encoded = recipe.encode(Path(REQUEST).read_bytes())
    assert json.loads(printed("encode", REQUEST)) == encoded.token_ids.tolist()
    assert printed("encode", "-", "--prompt", stdin=Path(REQUEST).read_bytes()) == encoded.prompt + "\n"
    everything = json.loads(printed("encode", REQUEST, "--json"))
    assert everything["token_ids"] == encoded.token_ids.tolist()
    assert everything["model_version"] == "DeepseekV41Flash" and everything["stream"] is True
    assert everything["inference_options"]["output_constraint"]["kind"] == "tool_call"


def test_parse_prints_events_chunks_or_the_response() -> None:
    events = [json.loads(line) for line in printed("parse", OUTPUT, "--request", REQUEST).splitlines()]
    assert [event["name"] for event in events if event["type"] == "tool_call_start"] == ["run", "write_file"]
    assert events[-1]["type"] == "finish" and events[-1]["completion_tokens"] > 100
    sent = printed("parse", "-", "--request", REQUEST, "--sse", stdin=Path(OUTPUT).read_bytes())
    assert sent.startswith("data: {") and sent.endswith("data: [DONE]\n\n")
    response = json.loads(printed("parse", OUTPUT, "--request", REQUEST, "--response"))
    assert response["choices"][0]["finish_reason"] == "tool_calls"


def test_the_protocol_is_chosen_where_a_body_could_be_of_two() -> None:
    body = b'{"model": "DeepSeek-V4.1-Flash", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}'
    refused = run("encode", "-", stdin=body)
    assert refused.returncode == 2
    assert (
        b"can be one of Chat Completions and Messages: say which with the argument protocol, chat_completions"
        in refused.stderr
    )
    described = json.loads(printed("encode", "-", "--json", "--protocol", "messages", stdin=body))
    assert described["protocol"] == "messages" and described["inference_options"]["max_tokens"] == 9


def test_demo_plays_the_shipped_output() -> None:
    shown = printed("demo")
    assert "<｜begin▁of▁sentence｜><｜System｜>" in shown
    assert '{"type": "tool_call_start", "index": 1,' in shown and '"finish_reason": "tool_calls"' in shown


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (["encode", "nowhere.json"], b"", "nowhere.json: No such file or directory"),
        (["encode", "-"], b"{", "-: invalid JSON request: EOF while parsing an object at line 1 column 1"),
        (["encode", "-"], b"{}", "-: invalid request body: missing field `messages`"),
        (["encode", "-"], b'{"messages": [], "model": "DeepSeek-V4-Pro"}', "-: Empty input messages"),
        (["parse", "-", "--request", "-"], b"", "the output and the request cannot both be standard input"),
        (["parse", "-", "--request", REQUEST], b"\xff", "-: 'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_what_cannot_be_used_gives_one_line_and_status_2(arguments: list[str], stdin: bytes, said: str) -> None:
    done = run(*arguments, stdin=stdin)
    assert done.returncode == 2 and done.stdout == b""
    error = done.stderr.decode()
    assert error.startswith(f"deepseek-recipe: {said}") and error.count("\n") == 1


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = f'"{sys.executable}" -m deepseek_recipe demo | head -n 1'
    done = subprocess.run(command, shell=True, capture_output=True)
    assert done.stderr == b""
