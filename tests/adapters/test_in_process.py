"""vLLM and SGLang in this process: on stand-ins with the signatures and shapes of vLLM 0.33.0 and SGLang 0.5.23."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from conformance import PROMPT, REQUEST, SEEING, check, collect
from deepseek_recipe.adapters import ConstraintSpec, EngineUnavailable, RequestError, SamplingSpec
from deepseek_recipe.adapters.in_process import InProcess
from deepseek_recipe.adapters.sglang import SglangEngine
from deepseek_recipe.adapters.vllm import VllmEngine
from fakes import CACHED, OUTPUT, Sglang, Vllm


@dataclass
class SamplingParams:
    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    stop_token_ids: list[int]
    detokenize: bool
    skip_special_tokens: bool
    output_kind: str
    seed: int | None = None
    logprobs: int | None = None
    structured_outputs: Any = None


@dataclass
class StructuredOutputsParams:
    json: str | None = None
    regex: str | None = None
    json_object: bool | None = None


class AsyncLLM:
    """As far as the adapter uses it."""

    def __init__(self) -> None:
        self.model_config = SimpleNamespace(
            model="the-model", max_model_len=5000, is_multimodal_model=True, get_vocab_size=lambda: 129_280
        )
        self.calls: list[Any] = []
        self.running: set[str] = set()
        self.aborted: list[str] = []
        self.error: Exception | None = None
        self.pace = 0.001
        self.down = False

    async def generate(
        self,
        prompt: Any,
        sampling_params: SamplingParams,
        request_id: str,
        *,
        prompt_text: str | None = None,
        trace_headers: Mapping[str, str] | None = None,
        priority: int = 0,
        data_parallel_rank: int | None = None,
        reasoning_ended: bool | None = None,
    ) -> AsyncIterator[Any]:
        self.calls.append((prompt, sampling_params, trace_headers, priority, reasoning_ended))
        self.running.add(request_id)
        body = {"token_ids": prompt["prompt_token_ids"], "sampling_params": vars(sampling_params)}
        if sampling_params.logprobs is None:
            body["sampling_params"] = {key: value for key, value in vars(sampling_params).items() if key != "logprobs"}
        try:
            for message in Vllm().messages(body):
                await asyncio.sleep(self.pace)
                if self.error is not None:
                    raise self.error
                for choice in message["choices"]:
                    if choice["logprobs"]:
                        (entry,) = choice["logprobs"]["content"]
                        table = {other["token_id"]: SimpleNamespace(**other) for other in entry["top_logprobs"]}
                        choice = {**choice, "logprobs": [table]}
                    yield SimpleNamespace(outputs=[SimpleNamespace(**choice)], num_cached_tokens=CACHED)
        finally:
            self.running.discard(request_id)

    async def abort(self, request_id: str, internal: bool = False) -> None:
        self.aborted.append(request_id)

    def shutdown(self) -> None:
        self.down = True


class Engine:
    """SGLang's, as far as the adapter uses it."""

    def __init__(self, incremental: bool = False) -> None:
        self.fake = Sglang(incremental)
        self.tokenizer_manager = SimpleNamespace(
            served_model_name="the-model",
            model_config=SimpleNamespace(context_len=5000, is_image_understandable_model=True),
            abort_request=lambda rid: self.aborted.append(rid),
        )
        self.calls: list[Any] = []
        self.running: set[str] = set()
        self.aborted: list[str] = []
        self.error: Exception | None = None
        self.pace = 0.001
        self.down = False

    async def async_generate(
        self,
        prompt: str | None = None,
        sampling_params: dict[str, Any] | None = None,
        input_ids: list[int] | None = None,
        image_data: list[str] | None = None,
        return_logprob: bool = False,
        top_logprobs_num: int | None = None,
        stream: bool = False,
        rid: str | None = None,
        priority: int | None = None,
        *,
        cache_salt: str | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        body = {
            "rid": rid,
            "input_ids": input_ids,
            "sampling_params": sampling_params,
            "return_logprob": return_logprob,
        }
        self.calls.append({**body, "image_data": image_data, "cache_salt": cache_salt, "priority": priority})
        assert stream and rid is not None

        async def messages(rid: str) -> AsyncIterator[dict[str, Any]]:
            self.running.add(rid)
            try:
                for message in self.fake.messages(body):
                    await asyncio.sleep(self.pace)
                    if self.error is not None:
                        raise self.error
                    yield message
            finally:
                self.running.discard(rid)

        return messages(rid)

    def shutdown(self) -> None:
        self.down = True


@dataclass
class Case:
    adapter: Callable[[Any], InProcess]
    engine: Callable[[], Any]
    name: str = field(default="")


CASES = {
    "vllm": Case(VllmEngine, AsyncLLM),
    "sglang": Case(SglangEngine, Engine),
    "sglang-incremental": Case(SglangEngine, lambda: Engine(incremental=True)),
}


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the adapters import of the two packages."""
    params: Any = ModuleType("vllm.sampling_params")
    params.SamplingParams, params.StructuredOutputsParams = SamplingParams, StructuredOutputsParams
    params.RequestOutputKind = SimpleNamespace(DELTA="delta")
    for name in ("vllm", "sglang"):
        module: Any = ModuleType(name)
        module.__version__ = "1.2.3"
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", params)


each = pytest.mark.parametrize("kind", CASES)


@each
def test_contract(kind: str) -> None:
    engine = CASES[kind].engine()
    adapter = CASES[kind].adapter(engine)
    asyncio.run(check(adapter))
    assert not engine.running
    asyncio.run(adapter.aclose())
    assert engine.down


@each
def test_output(kind: str) -> None:
    engine = CASES[kind].engine()
    adapter = CASES[kind].adapter(engine)
    ids, last = asyncio.run(collect(adapter, REQUEST))
    assert ids == OUTPUT and last.finish_reason == "stop"
    assert last.usage is not None
    assert (last.usage.prompt, last.usage.cached_prompt, last.usage.completion) == (len(PROMPT), CACHED, len(OUTPUT))
    capabilities = asyncio.run(adapter.capabilities())
    assert (capabilities.name, capabilities.version, capabilities.model_id, capabilities.max_model_len) == (
        kind.split("-")[0], "1.2.3", "the-model", 5000,
    )  # fmt: skip
    assert engine.aborted == []


WANTED = replace(
    REQUEST,
    sampling=SamplingSpec(max_tokens=9, seed=7, stop_token_ids=(5,)),
    constraint=ConstraintSpec("regex", "a+"),
    cache_salt="salt",
    priority=3,
    metadata={"traceparent": "00-1-2-01"},
)


def test_vllm_fields() -> None:
    engine = AsyncLLM()
    asyncio.run(collect(VllmEngine(engine), WANTED))
    ((prompt, params, trace_headers, priority, reasoning_ended),) = engine.calls
    assert prompt == {"prompt_token_ids": list(PROMPT), "cache_salt": "salt"}
    assert params == SamplingParams(
        9, 1.0, 1.0, -1, 0.0, 1.0, [5], False, False, "delta", 7, None, StructuredOutputsParams(regex="a+")
    )
    assert (trace_headers, priority, reasoning_ended) == ({"traceparent": "00-1-2-01"}, 3, True)


def test_sglang_fields() -> None:
    engine = Engine()
    asyncio.run(collect(SglangEngine(engine), WANTED))
    (call,) = engine.calls
    assert call["sampling_params"]["regex"] == "a+" and call["sampling_params"]["sampling_seed"] == 7
    assert (call["rid"], call["input_ids"], call["cache_salt"], call["priority"]) == (
        "request", list(PROMPT), "salt", 3,
    )  # fmt: skip


def test_images() -> None:
    vllm, sglang = AsyncLLM(), Engine()
    _, last = asyncio.run(collect(VllmEngine(vllm), SEEING))
    images = vllm.calls[0][0]["multi_modal_data"]["image"]
    assert [image.convert("RGB").getpixel((0, 0)) for image in images] == [(255, 255, 255)] * 2
    # Each of the two stands for one id in the prompt, and for 184 in the engine.
    assert last.usage is not None and last.usage.prompt == len(PROMPT) + 2 * 183
    asyncio.run(collect(SglangEngine(sglang), SEEING))
    assert sglang.calls[0]["image_data"] == SEEING.image_urls()


@each
@pytest.mark.parametrize(("error", "expected"), [(ValueError("no good"), "bad_param"), (OSError("x"), "engine_dead")])
def test_errors(kind: str, error: Exception, expected: str) -> None:
    engine = CASES[kind].engine()
    engine.error = error
    with pytest.raises(RequestError) as raised:
        asyncio.run(collect(CASES[kind].adapter(engine), REQUEST))
    assert raised.value.kind == expected
    assert raised.value.message == ("no good" if expected == "bad_param" else "the engine failed")


def test_other_versions_are_refused() -> None:
    class Older(AsyncLLM):
        async def generate(self, prompt: Any, sampling_params: Any, request_id: str) -> Any:  # type: ignore[override]
            yield None

    with pytest.raises(EngineUnavailable, match=r"has no trace_headers, priority, reasoning_ended in .*generate"):
        asyncio.run(VllmEngine(Older()).capabilities())


@each
def test_abort_and_close_reach_the_engine(kind: str) -> None:
    engine = CASES[kind].engine()
    engine.pace = 0.05
    adapter = CASES[kind].adapter(engine)

    async def run() -> None:
        deltas = adapter.generate(REQUEST)
        first = await anext(deltas)
        assert await adapter.abort("request")
        last = [delta async for delta in deltas][-1]
        assert last.finish_reason == "abort" and last.usage is not None
        assert last.usage.completion == len(first.token_ids)
        assert engine.aborted == ["request"]
        deltas = adapter.generate(replace(REQUEST, request_id="closed"))
        await anext(deltas)
        await deltas.aclose()
        assert engine.aborted == ["request", "closed"]
        assert not engine.running

    asyncio.run(run())
