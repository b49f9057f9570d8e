"""The replay engine keeps the contract, takes the right output, and reads what the recorder writes."""

import asyncio
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

import deepseek_recipe as d
from conformance import LIMIT, PROMPT, REQUEST, check, check_refused, collect
from deepseek_recipe.adapters import RequestError, SamplingSpec
from deepseek_recipe.adapters.replay import Recorder, ReplayEngine, ReplayOutput, prompt_digest

LONG = replace(REQUEST, sampling=SamplingSpec(max_tokens=1000))


def text_of(engine: ReplayEngine, ids: list[int]) -> str:
    tokens = [engine.tokenizer.token(id) for id in ids]
    return b"".join(token.encode() if isinstance(token, str) else token or b"" for token in tokens).decode()


@pytest.mark.parametrize("tokens_per_delta", [1, 3, 100])
def test_contract(tokens_per_delta: int) -> None:
    engine = ReplayEngine(["one two three four five six seven"], pace=0.001, tokens_per_delta=tokens_per_delta)
    asyncio.run(check(engine))
    assert engine.running == 0


def test_recorder_keeps_the_contract() -> None:
    asyncio.run(check(Recorder(ReplayEngine(["one two three four five"]), io.StringIO())))


def test_demonstration_says_the_last_message_as_it_was_sent() -> None:
    engine = ReplayEngine()
    encoded = d.encode({"model": "DeepSeek-V4.1-Flash", "input": "Say </think> and 中"})
    ids, last = asyncio.run(collect(engine, replace(LONG, prompt_token_ids=encoded.token_ids)))
    reply = encoded.reply()
    reply.push(ids)
    reply.finish()
    reasoning, message = reply.response()["output"]
    assert reasoning["content"][0]["text"] == "The replay engine has no model, so I say what I am."
    assert message["content"][0]["text"].endswith("Its last message: Say </think> and 中")
    assert f"has {len(encoded.token_ids)} tokens" in message["content"][0]["text"]
    assert last.finish_reason == "stop" and ids[-1] == 1


def test_choice() -> None:
    engine = ReplayEngine(
        [
            "first",
            ReplayOutput([5, 6], "length", prompt_sha256=prompt_digest([0, 7])),
            ReplayEngine().output("matched", match="Hi"),
            "second",
        ]
    )

    def played(prompt: list[int] | memoryview) -> str:
        return text_of(engine, asyncio.run(collect(engine, replace(LONG, prompt_token_ids=prompt)))[0])

    assert played(PROMPT) == "matched<｜end▁of▁sentence｜>"
    assert played([0, 7]) == text_of(engine, [5, 6])
    assert [played([0])[:6] for _ in range(3)] == ["first<", "second", "first<"]


def test_stop_ids_and_limits() -> None:
    engine = ReplayEngine([ReplayOutput(range(100, 140))], max_model_len=100)
    sampling = SamplingSpec(max_tokens=50, stop_token_ids=(103,))
    ids, last = asyncio.run(collect(engine, replace(REQUEST, sampling=sampling)))
    assert ids == [100, 101, 102, 103] and last.finish_reason == "stop"
    ids, last = asyncio.run(collect(engine, replace(LONG, prompt_token_ids=[0] * 90)))
    assert len(ids) == 10 and last.finish_reason == "length"
    asyncio.run(check_refused(engine, replace(REQUEST, prompt_token_ids=[0] * 100), "too_long"))


def test_breaking_off() -> None:
    engine = ReplayEngine([ReplayOutput([1, 2], "error")])

    async def run() -> list[int]:
        ids: list[int] = []
        with pytest.raises(RequestError, match="broke off") as error:
            async for delta in engine.generate(REQUEST):
                ids += delta.token_ids
        assert error.value.kind == "engine_dead"
        return ids

    assert asyncio.run(run()) == [1, 2]
    assert engine.running == 0


def test_recording_is_played_back(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    with path.open("w", encoding="utf-8") as file:
        recorded = asyncio.run(collect(Recorder(ReplayEngine(["said"]), file), REQUEST))
    assert "Hi" not in path.read_text(encoding="utf-8")
    engine = ReplayEngine.from_file(path)
    assert asyncio.run(collect(engine, REQUEST))[0] == recorded[0]
    other = asyncio.run(collect(engine, replace(REQUEST, prompt_token_ids=[0, 1])))[0]
    assert other[:4] == ReplayEngine().tokenizer.encode("This is the replay engine")[:4]
    assert len(other) == LIMIT


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: "),
        ("[]", "line 2: expected an object"),
        ("{}", "line 2: expected either 'text' or 'ids'"),
        ('{"text": "a", "ids": [1]}', "line 2: expected either 'text' or 'ids'"),
        ('{"text": "a", "finish": "stop"}', "line 2: unknown field 'finish'"),
        ('{"text": "a", "finish_reason": "done"}', "line 2: invalid finish_reason 'done'; expected stop, length"),
        ('{"ids": [-1]}', "line 2: "),
        ('{"ids": ["a"]}', "line 2: "),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "outputs.jsonl"
    path.write_text(json.dumps({"text": "fine"}) + "\n" + line, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        ReplayEngine.from_file(path)
