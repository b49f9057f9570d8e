"""Engines over HTTP keep the contract, send the fields that the engines read, and survive what may come back."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from conformance import PROMPT, REQUEST, SEEING, WEBP, check, collect
from deepseek_recipe.adapters import ConstraintSpec, EngineAdapter, EngineUnavailable, RequestError, SamplingSpec
from deepseek_recipe.adapters.select import open_engine
from fakes import CACHED, OUTPUT, Completions, Fake, Sglang, Vllm, loopback

FAKES: dict[str, Callable[[], Fake]] = {
    "vllm": Vllm,
    "sglang": Sglang,
    "sglang-incremental": lambda: Sglang(incremental=True),
    "completions": Completions,
    "completions-text": lambda: Completions("text"),
    "completions-strict": lambda: Completions("text", strict=True),
}

each = pytest.mark.parametrize("kind", FAKES)


def with_engine(fake: Fake, test: Callable[[EngineAdapter], Awaitable[Any]], name: str = "") -> Any:
    """Runs a test with an adapter of a fake, which has nothing running in the end."""

    async def run() -> Any:
        async with loopback(fake.app()) as url:
            engine = await open_engine(name + url)
            try:
                return await test(engine)
            finally:
                await engine.aclose()
                for _ in range(200):
                    if not fake.running:
                        break
                    await asyncio.sleep(0.01)
                assert fake.running == 0

    return asyncio.run(asyncio.wait_for(run(), 60))


@each
def test_contract(kind: str) -> None:
    with_engine(FAKES[kind](), check)


@each
def test_output(kind: str) -> None:
    async def test(engine: EngineAdapter) -> None:
        assert (await engine.capabilities()).name == kind.split("-")[0]
        assert (await engine.capabilities()).model_id == "the-model"
        assert (await engine.capabilities()).max_model_len == 5000
        ids, last = await collect(engine, REQUEST)
        # What is text has no end token.
        assert ids == (OUTPUT[:-1] if fake_returns_text else OUTPUT)
        assert last.finish_reason == "stop"
        assert last.usage is not None
        assert last.usage.prompt == len(PROMPT)
        assert last.usage.cached_prompt == (CACHED if kind.startswith(("vllm", "sglang")) else 0)

    fake_returns_text = kind in ("completions-text", "completions-strict")
    with_engine(FAKES[kind](), test)


def test_many_messages_at_a_time_are_one_delta() -> None:
    async def test(engine: EngineAdapter) -> int:
        return len([delta async for delta in engine.generate(REQUEST)])

    assert with_engine(Vllm(pace=0), test) < len(OUTPUT)


SPEC = SamplingSpec(
    max_tokens=9,
    temperature=0.5,
    top_p=0.25,
    top_k=3,
    min_p=0.125,
    repetition_penalty=1.5,
    seed=7,
    stop_token_ids=(5,),
    logprobs=2,
)
WANTED = replace(
    REQUEST,
    sampling=SPEC,
    constraint=ConstraintSpec("json_schema", '{"type": "object"}'),
    cache_salt="salt",
    metadata={"traceparent": "00-1-2-01"},
)


def test_vllm_fields() -> None:
    fake = Vllm()
    ids, last = with_engine(fake, lambda engine: collect(engine, WANTED))
    assert fake.requests == [
        {
            "model": "the-model",
            "request_id": "request",
            "token_ids": list(PROMPT),
            "sampling_params": {
                "max_tokens": 9,
                "temperature": 0.5,
                "top_p": 0.25,
                "top_k": 3,
                "min_p": 0.125,
                "repetition_penalty": 1.5,
                "stop_token_ids": [5],
                "detokenize": False,
                "skip_special_tokens": False,
                "seed": 7,
                "logprobs": 2,
                "structured_outputs": {"json": '{"type": "object"}'},
            },
            "stream": True,
            "stream_options": {"include_usage": True},
            "reasoning_ended": True,
            "cache_salt": "salt",
        }
    ]
    assert ids == OUTPUT and last.usage is not None and last.usage.completion == len(OUTPUT)


def test_sglang_fields() -> None:
    fake = Sglang()
    with_engine(fake, lambda engine: collect(engine, WANTED))
    assert fake.requests == [
        {
            "rid": "request",
            "input_ids": list(PROMPT),
            "sampling_params": {
                "max_new_tokens": 9,
                "temperature": 0.5,
                "top_p": 0.25,
                "top_k": 3,
                "min_p": 0.125,
                "repetition_penalty": 1.5,
                "stop_token_ids": [5],
                "skip_special_tokens": False,
                "sampling_seed": 7,
                "json_schema": '{"type": "object"}',
            },
            "stream": True,
            "return_logprob": True,
            "top_logprobs_num": 2,
            "return_text_in_logprobs": False,
            "cache_salt": "salt",
        }
    ]


def test_images_are_sent_with_the_ids() -> None:
    url = f"data:image/webp;base64,{base64.b64encode(WEBP).decode()}"
    for kind, field, expected in (
        ("vllm", "content_parts", [{"type": "image_url", "url": url}] * 2),
        ("sglang", "image_data", [url] * 2),
    ):
        fake = FAKES[kind]()
        with_engine(fake, lambda engine: collect(engine, SEEING))
        assert fake.requests[0][field] == expected


@pytest.mark.parametrize(("kind", "sees"), [("vllm", True), ("sglang", True), ("completions", False)])
def test_who_takes_images(kind: str, sees: bool) -> None:
    assert with_engine(FAKES[kind](), lambda engine: engine.capabilities()).images is sees


@pytest.mark.parametrize("kind", ["vllm", "sglang", "sglang-incremental"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_logprobs(kind: str, count: int) -> None:
    async def test(engine: EngineAdapter) -> list[Any]:
        request = replace(REQUEST, sampling=SamplingSpec(max_tokens=9, logprobs=count))
        return [entry async for delta in engine.generate(request) for entry in delta.logprobs or ()]

    entries = with_engine(FAKES[kind](), test)
    assert [logprob for logprob, _ in entries] == [-0.5] * len(OUTPUT)
    top = [(5, -0.25), (OUTPUT[0], -0.5)]
    assert entries[0][1] == (top[:count] if kind == "vllm" else top if count else [])


@each
@pytest.mark.parametrize(("status", "expected"), [(400, "bad_param"), (429, "overloaded"), (500, "engine_dead")])
def test_refusals(kind: str, status: int, expected: str) -> None:
    fake = FAKES[kind]()

    async def test(engine: EngineAdapter) -> None:
        fake.status = status
        with pytest.raises(RequestError) as error:
            await collect(engine, REQUEST)
        assert error.value.kind == expected
        assert error.value.message in ("no good", "the engine is overloaded", "the engine failed")

    with_engine(fake, test)


@each
@pytest.mark.parametrize(
    "message",
    [
        b"{",
        b"3",
        b"{}",
        b'{"choices": 3, "output_ids": 3, "meta_info": 3}',
        b'{"choices": [{"text": 3, "token_ids": ["a"], "finish_reason": null}]}',
        b'{"output_ids": [1], "meta_info": {"completion_tokens": 2, "prompt_tokens": 1}}',
        b'{"error": {"message": "it broke at /secret/path"}}',
        b'{"error": "it broke at /secret/path"}',
    ],
)
def test_garbage(kind: str, message: bytes) -> None:
    fake = FAKES[kind]()

    async def test(engine: EngineAdapter) -> None:
        fake.message = message
        with pytest.raises(RequestError) as error:
            await collect(engine, REQUEST)
        assert error.value.kind == "engine_dead" and "secret" not in error.value.message
        fake.message = None
        assert (await collect(engine, REQUEST))[1].finish_reason == "stop"

    with_engine(fake, test)


@each
def test_stream_that_breaks_off(kind: str) -> None:
    fake = FAKES[kind]()

    async def test(engine: EngineAdapter) -> None:
        fake.breaks = 2
        with pytest.raises(RequestError, match="without a finish reason"):
            await collect(engine, REQUEST)

    with_engine(fake, test)


@each
def test_close_ends_the_request_there(kind: str) -> None:
    fake = FAKES[kind]()
    fake.pace = 0.05

    async def test(engine: EngineAdapter) -> None:
        deltas = engine.generate(REQUEST)
        await anext(deltas)
        assert fake.running == 1
        await deltas.aclose()

    with_engine(fake, test)


def test_engine_that_is_not_there() -> None:
    async def run(name: str) -> None:
        await open_engine(name)

    with pytest.raises(EngineUnavailable, match="no engine answers"):
        asyncio.run(run("http://127.0.0.1:9"))
    for name in ("nothing", "ftp://127.0.0.1", "vllm+http:", "vllm"):
        with pytest.raises(ValueError, match="unknown engine"):
            asyncio.run(run(name))


def test_engine_that_goes_away() -> None:
    async def run() -> None:
        async with loopback(Vllm().app()) as url:
            engine = await open_engine(url)
        assert (await engine.health()).status == "dead"
        with pytest.raises(RequestError, match="cannot be reached") as error:
            await collect(engine, REQUEST)
        assert error.value.kind == "engine_dead"
        await engine.aclose()

    asyncio.run(run())


def test_kind_can_be_said() -> None:
    async def test(engine: EngineAdapter) -> str:
        return (await engine.capabilities()).name

    assert with_engine(Completions(), test, "completions+") == "completions"
    with pytest.raises(ValueError, match="unknown kind of engine 'other'"):
        with_engine(Completions(), test, "other+")
