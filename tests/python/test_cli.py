"""The command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import deepseek_recipe as recipe
from deepseek_recipe.cli.plot import bar, histogram

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


def test_count_prints_the_tokens_of_requests_and_texts(tmp_path: Path) -> None:
    encoded = recipe.encode(Path(REQUEST).read_bytes())
    assert printed("count", REQUEST) == f"{len(encoded.token_ids)}\n"
    assert printed("count", REQUEST, "--text") == f"{len(encoded.tokenizer.encode(Path(REQUEST).read_text()))}\n"
    older = recipe.Recipe(model="DeepSeek-V4-Pro").count_tokens(Path(REQUEST).read_bytes())
    shown = printed("count", REQUEST, "-", "--model", "DeepSeek-V4-Pro", stdin=Path(REQUEST).read_bytes())
    assert shown == f"{older}\t{REQUEST}\n{older}\t-\n"
    assert printed("count", "-", "--text", stdin="<｜User｜>".encode()) == "1\n"


def test_names_of_the_hosted_api_are_known() -> None:
    body = b'{"model": "deepseek-flash", "messages": [{"role": "user", "content": "Hi"}]}'
    ids = json.loads(printed("encode", "-", stdin=body))
    assert printed("count", "-", stdin=body) == f"{len(ids)}\n"


def test_a_histogram_counts_every_value() -> None:
    lines = histogram([1.0, 1.1, 1.5, 3.9, 64.0]).splitlines()
    assert [int(line.split()[3]) for line in lines] == [2, 1, 0, 1, *[0] * 8, 1]
    assert lines[0].endswith("█" * 40) and lines[1].endswith(" " + "█" * 20)
    assert histogram([]) == "no values"
    assert bar(0.5, 3) == "█▌" and bar(0, 3) == "" and bar(2, 3) == "███"


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
        (["count", "nowhere.json"], b"", "nowhere.json: No such file or directory"),
        (["count", "-"], b"{}", "-: invalid request body: missing field `messages`"),
        (["count", "-", "--text"], b"\xff", "-: 'utf-8' codec can't decode byte 0xff"),
        (["bench", "--requests", "0"], b"", "--requests, --streams and --tokens have to be at least 1"),
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
