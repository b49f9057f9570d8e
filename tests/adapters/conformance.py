"""The contract of `EngineAdapter` as checks that every adapter runs. Knows no engine.

An engine under check ends every output by itself within `LIMIT` ids, or goes on for ever; both are fine.
"""

import asyncio
import base64
from dataclasses import replace

import deepseek_recipe as d
from deepseek_recipe.adapters import EngineAdapter, GenerateRequest, RequestError, SamplingSpec, TokenDelta

LIMIT = 16
PROMPT = d.encode({"model": "DeepSeek-V4.1-Flash", "input": "Hi"}).token_ids
REQUEST = GenerateRequest("request", PROMPT, SamplingSpec(max_tokens=LIMIT))
# Lossless WebP of one white pixel.
WEBP = base64.b64decode("UklGRh4AAABXRUJQVlA4TBEAAAAvAAAAAAfQ//73v/+BiOh/AAA=")
SEEING = replace(REQUEST, images=d.MultiModalData([d.ImageInfo(WEBP, 546, 546), d.ImageInfo(WEBP, 546, 546)]))


async def collect(engine: EngineAdapter, request: GenerateRequest) -> tuple[list[int], TokenDelta]:
    """The ids of an output and its last delta."""
    ids: list[int] = []
    last = None
    async for delta in engine.generate(request):
        assert last is None or last.finish_reason is None, "a delta behind the finish"
        assert delta.logprobs is None or len(delta.logprobs) == len(delta.token_ids)
        ids += delta.token_ids
        last = delta
    assert last is not None and last.finish_reason is not None, "no finish"
    return ids, last


async def check(engine: EngineAdapter) -> None:
    """Runs all checks; the engine is left running."""
    capabilities = await engine.capabilities()
    assert capabilities.max_model_len > len(PROMPT) + LIMIT
    assert (await engine.health()).status == "ready"
    await check_output(engine)
    await check_length(engine)
    await check_abort(engine)
    await check_close(engine)
    await check_independence(engine)
    if capabilities.logprobs is not None:
        await check_logprobs(engine)
    assert await engine.abort("unknown") is False
    assert (await engine.health()).status == "ready"


async def check_output(engine: EngineAdapter) -> None:
    ids, last = await collect(engine, REQUEST)
    assert 0 < len(ids) <= LIMIT
    assert last.finish_reason in ("stop", "length")
    assert last.usage is not None
    assert last.usage.prompt in (None, len(PROMPT)) and last.usage.cached_prompt <= len(PROMPT)
    assert last.usage.completion in (None, len(ids))


async def check_length(engine: EngineAdapter) -> None:
    ids, last = await collect(engine, replace(REQUEST, sampling=SamplingSpec(max_tokens=1)))
    assert len(ids) == 1 and last.finish_reason == "length"


async def check_abort(engine: EngineAdapter) -> None:
    """What was made before is part of a normal end; the request is gone behind it."""
    deltas = engine.generate(replace(REQUEST, request_id="aborted"))
    async for delta in deltas:
        if delta.token_ids:
            break
    assert await engine.abort("aborted") is True
    last = [delta async for delta in deltas][-1]
    assert last.finish_reason in ("abort", "stop", "length")
    assert await engine.abort("aborted") is False


async def check_close(engine: EngineAdapter) -> None:
    """An iterator that is closed frees its request, before its first delta and behind it."""
    for deltas_wanted in (0, 1):
        deltas = engine.generate(replace(REQUEST, request_id="closed"))
        for _ in range(deltas_wanted):
            await anext(deltas)
        await deltas.aclose()
        assert await engine.abort("closed") is False


async def check_independence(engine: EngineAdapter) -> None:
    """A consumer that takes nothing does not stop another."""
    slow = engine.generate(replace(REQUEST, request_id="slow"))
    await anext(slow)
    await asyncio.wait_for(collect(engine, replace(REQUEST, request_id="fast")), 30)
    await slow.aclose()


async def check_logprobs(engine: EngineAdapter) -> None:
    sampling = SamplingSpec(max_tokens=2, logprobs=1)
    async for delta in engine.generate(replace(REQUEST, request_id="logprobs", sampling=sampling)):
        if delta.token_ids:
            assert delta.logprobs is not None
            for id, (logprob, top) in zip(delta.token_ids, delta.logprobs, strict=True):
                assert logprob <= 0 and len(top) <= 2 and 0 <= id < 2**32


async def check_refused(engine: EngineAdapter, request: GenerateRequest, kind: str) -> None:
    """The request fails before its first delta."""
    try:
        delta = await anext(engine.generate(request))
    except RequestError as error:
        assert error.kind == kind, error
    else:
        raise AssertionError(f"not refused: {delta}")
