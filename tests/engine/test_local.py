"""The engine behind the codec's protocol of engines, and behind the gateway for the SDK of OpenAI. Needs the codec."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import openai
import pytest

from conformance import LIMIT, PROMPT, REQUEST, check, check_refused, collect
from deepseek_engine import Engine, EngineConfig
from deepseek_engine.config import PRESETS
from deepseek_engine.weights import MODEL_PARTS, export, random
from deepseek_recipe.adapters import (
    ConstraintSpec,
    EngineAdapter,
    EngineUnavailable,
    GenerateRequest,
    RequestError,
    SamplingSpec,
    TokenDelta,
)
from deepseek_recipe.adapters.local import LocalEngine
from deepseek_recipe.adapters.owned import _Output
from deepseek_recipe.adapters.select import open_engine
from gateway import gateway

LIMITS = EngineConfig(page_size=16, num_pages=65, max_num_seqs=4, max_num_batched_tokens=64, max_model_len=512)
SEEDED = SamplingSpec(max_tokens=LIMIT, seed=7)


def engine(limits: EngineConfig = LIMITS) -> LocalEngine:
    return LocalEngine(Engine.random("tiny-tok", limits), "tiny-tok")


def test_contract() -> None:
    """The checks that every adapter passes; afterwards nothing is held."""

    async def run() -> None:
        local = engine()
        await check(local)
        await local.aclose()
        assert local._engine.idle and local._engine.stats().pages_taken == 0

    asyncio.run(run())


def test_the_same_seed_gives_the_same_ids_alone_and_in_a_full_batch() -> None:
    """Requests that run together, more than the batch has places, give the ids that each gives alone."""

    async def run() -> None:
        local = engine()
        requests = [
            replace(
                REQUEST, request_id=str(n), prompt_token_ids=list(PROMPT) * (n + 1), sampling=replace(SEEDED, seed=n)
            )
            for n in range(8)
        ]
        alone = [(await collect(local, request))[0] for request in requests]
        together = await asyncio.gather(*(collect(local, request) for request in requests))
        assert [ids for ids, _ in together] == alone
        assert len({tuple(ids) for ids in alone}) == 8
        await local.aclose()

    asyncio.run(run())


def test_what_the_engine_lacks_is_refused() -> None:
    """Constraints that are required, ids and parameters out of range, prompts that leave no room, names in use."""

    async def run() -> None:
        local = engine()
        constraint = ConstraintSpec("json_object", "")
        await check_refused(local, replace(REQUEST, constraint=constraint), "unsupported")
        await collect(local, replace(REQUEST, constraint=replace(constraint, enforce="best_effort")))
        await check_refused(local, replace(REQUEST, prompt_token_ids=[129280]), "bad_param")
        await check_refused(local, replace(REQUEST, prompt_token_ids=[]), "bad_param")
        await check_refused(local, replace(REQUEST, sampling=replace(SEEDED, top_p=2.0)), "bad_param")
        await check_refused(local, replace(REQUEST, prompt_token_ids=[3] * 512), "too_long")
        ids, last = await collect(local, replace(REQUEST, prompt_token_ids=[3] * 511))
        assert len(ids) == 1 and last.finish_reason == "length"
        first = local.generate(replace(REQUEST, sampling=SamplingSpec(max_tokens=400)))
        await anext(first)
        await check_refused(local, REQUEST, "bad_param")
        await first.aclose()
        await collect(local, REQUEST)
        await local.aclose()

    asyncio.run(run())


def test_closing_ends_what_runs() -> None:
    """A request that runs when the engine is closed ends as aborted, with what was made."""

    async def run() -> None:
        local = engine()
        deltas = local.generate(replace(REQUEST, sampling=SamplingSpec(max_tokens=400)))
        first = await anext(deltas)
        await local.aclose()
        rest = [delta async for delta in deltas]
        assert rest[-1].finish_reason == "abort" and rest[-1].usage is not None
        made = len(first.token_ids) + sum(len(delta.token_ids) for delta in rest)
        assert rest[-1].usage.completion == made < 400

    asyncio.run(run())


def test_a_fault_of_the_engine_ends_its_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in a step is the end of every request, now and later, and the engine says that it is dead."""

    async def run() -> None:
        local = engine()
        deltas = local.generate(replace(REQUEST, sampling=SamplingSpec(max_tokens=400)))
        made = list((await anext(deltas)).token_ids)
        monkeypatch.setattr(local._engine, "model", None)
        with pytest.raises(RequestError, match="the engine failed"):
            async for delta in deltas:
                made += delta.token_ids
        assert made
        for _ in range(2):
            with pytest.raises(RequestError) as error:
                await collect(local, REQUEST)
            assert error.value.kind == "engine_dead"
        assert (await local.health()).status == "dead"
        await local.aclose()

    asyncio.run(run())


def test_names_on_the_command_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`local` has random weights and says so; `local:FOLDER` reads a checkpoint or says what is wrong with it."""

    async def run() -> None:
        local = await open_engine("local")
        capabilities = await local.capabilities()
        assert "random" in capabilities.model_id and "random weights" in caplog.text
        assert (capabilities.vocab_size, capabilities.max_model_len) == (129280, 1024)
        await local.aclose()
        with pytest.raises(EngineUnavailable, match=r"config\.json"):
            await open_engine(f"local:{tmp_path}")
        config = PRESETS["tiny-tok"]
        export(random(config, 3, parts=(*MODEL_PARTS, "draft")), config, tmp_path / "model")
        local = await open_engine(f"local:{tmp_path / 'model'}")
        assert (await local.capabilities()).model_id == "model"
        ids, _ = await collect(local, replace(REQUEST, sampling=SEEDED))
        assert len(ids) == LIMIT
        await local.aclose()

    asyncio.run(run())


def test_deltas_that_wait_come_before_an_error() -> None:
    """A consumer that was slow gets what was made, then the fault."""

    async def run() -> None:
        output = _Output(asyncio.get_running_loop())
        delta = TokenDelta((5,))
        for item in (delta, delta, RequestError("engine_dead", "the engine failed")):
            output.give(item)
        assert await output.take() == [delta, delta]
        with pytest.raises(RequestError):
            await output.take()

    asyncio.run(run())


class Noted:
    """An engine that keeps the ids of every request."""

    def __init__(self, local: LocalEngine) -> None:
        self.local = local
        self.ids: list[list[int]] = []
        self.capabilities, self.abort = local.capabilities, local.abort
        self.health, self.aclose = local.health, local.aclose

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        """Those of the local engine."""
        mine: list[int] = []
        self.ids.append(mine)
        async for delta in self.local.generate(request):
            mine += delta.token_ids
            yield delta


def test_the_sdk_of_openai_streams_from_the_gateway() -> None:
    """Streams of one request alone and of eight at a time, with the same seeds, give the same ids and texts."""
    noted = Noted(engine())
    served: EngineAdapter = noted

    async def ask(client: openai.AsyncOpenAI, seed: int) -> tuple[str, str | None]:
        text, reason = "", None
        stream = await client.chat.completions.create(
            model="deepseek-flash",
            messages=[{"role": "user", "content": "The weather in Paris?"}],
            seed=seed,
            max_tokens=12,
            stream=True,
        )
        async for chunk in stream:
            delta = chunk.choices[0].delta
            text += (delta.content or "") + (getattr(delta, "reasoning_content", None) or "")
            reason = chunk.choices[0].finish_reason or reason
        return text, reason

    async def run(url: str) -> None:
        async with openai.AsyncOpenAI(api_key="key", base_url=f"{url}/v1", max_retries=0) as client:
            alone = [await ask(client, seed) for seed in range(8)]
            together = await asyncio.gather(*(ask(client, seed) for seed in range(8)))
        assert together == alone
        assert all(text and reason == "length" for text, reason in alone)
        assert sorted(noted.ids[:8]) == sorted(noted.ids[8:])
        assert all(len(ids) == 12 for ids in noted.ids)

    with gateway(engine=served) as url:
        asyncio.run(run(url))
