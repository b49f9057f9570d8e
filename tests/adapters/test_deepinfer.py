"""DeepInfer in this process: on a stand-in with what is recorded of DeepInfer 0.1.0."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import pytest

from conformance import LIMIT, PROMPT, REQUEST, check, check_refused, collect
from deepseek_recipe.adapters import ConstraintSpec, EngineUnavailable, RequestError, SamplingSpec
from deepseek_recipe.adapters.deepinfer import DeepInferEngine
from fakes import OUTPUT


class SamplingParams:
    def __init__(
        self,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = -1,
        max_tokens: int = 16,
        seq_seed: int | None = None,
        top_logprobs: int | None = None,
        so_args: Any = None,
    ):
        if temperature < 1e-5:
            raise ValueError("no good")
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})


@dataclass
class RequestOutput:
    """From a pool: the engine writes into it again."""

    request_id: str = ""
    token_id: int | None = None
    finish_reason: str | None = None
    num_output_tokens: int = 0
    draft_tok: int = 0
    accept_tok: int = 0
    logprob: float | None = None
    top_logprobs: Any = None


class LLMEngine:
    """As far as the adapter uses it. It says `OUTPUT`, again and again, an id a step, and notes what it is asked.

    `ends_itself`: at its own end token. An aborted request has no last output, and outputs hold until the next call.
    """

    def __init__(self, ends_itself: bool = True) -> None:
        self.ends_itself = ends_itself
        self.calls: list[Any] = []
        self.running: dict[str, tuple[SamplingParams, int]] = {}
        self.aborted: list[str] = []
        self.pool: list[RequestOutput] = []
        self.error: Exception | None = None
        self.reason: str | None = None
        self.flushed = False
        self.threads: set[int] = set()

    def add_request(self, user_id: Any, request_id: str, sampling_params: Any, prompt_token_ids: Any) -> None:
        self._called()
        assert prompt_token_ids.dtype == "int32"
        if len(prompt_token_ids) == 0:
            raise ValueError("no good")
        self.calls.append((user_id, sampling_params, prompt_token_ids.tolist()))
        self.running[request_id] = (sampling_params, 0)

    def abort_request(self, request_id: str) -> int:
        self._called()
        self.aborted.append(request_id)
        return int(self.running.pop(request_id, None) is not None)

    def step(self) -> list[RequestOutput]:
        self._called()
        time.sleep(0.001)
        if self.error is not None:
            raise self.error
        for name, (params, count) in list(self.running.items()):
            id = OUTPUT[count % len(OUTPUT)]
            self.running[name] = (params, count + 1)
            reason = self.reason or ("stop" if id == 1 and self.ends_itself else None)
            reason = reason or ("length" if count + 1 == params.max_tokens else None)
            output = RequestOutput(name, None if self.reason else id, reason, count + 1)
            if params.top_logprobs is not None:
                output.logprob, output.top_logprobs = -0.5, [(5, -0.25), (id, -0.5)][: params.top_logprobs]
            self.pool.append(output)
            if reason:
                del self.running[name]
        return self.pool

    def flush_inflight_reqs(self) -> None:
        self._called()
        self.flushed = True

    def _called(self) -> None:
        self.threads.add(threading.get_ident())
        for output in self.pool:
            output.request_id, output.token_id = "gone", -1
        self.pool = []


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("deepinfer")
    module.__version__, module.SamplingParams = "0.1.0", SamplingParams
    monkeypatch.setitem(sys.modules, "deepinfer", module)


def run(work: Callable[[DeepInferEngine], Any], engine: LLMEngine) -> Any:
    async def all() -> Any:
        adapter = DeepInferEngine(engine, "the-model", 5000)
        try:
            return await work(adapter)
        finally:
            await adapter.aclose()

    return asyncio.run(all())


@pytest.mark.parametrize("ends_itself", [True, False])
def test_contract(ends_itself: bool) -> None:
    engine = LLMEngine(ends_itself)
    run(check, engine)
    assert not engine.running and engine.flushed
    assert len(engine.threads) == 1


def test_output() -> None:
    engine = LLMEngine()
    ids, last = run(lambda adapter: collect(adapter, REQUEST), engine)
    assert ids == OUTPUT and last.finish_reason == "stop"
    assert (last.usage.prompt, last.usage.cached_prompt, last.usage.completion) == (len(PROMPT), 0, len(OUTPUT))
    assert engine.aborted == []


def test_capabilities() -> None:
    capabilities = run(lambda adapter: adapter.capabilities(), LLMEngine())
    assert (capabilities.name, capabilities.version, capabilities.model_id) == ("deepinfer", "0.1.0", "the-model")
    assert capabilities.constraint_trigger and not capabilities.images and "min_p" not in capabilities.sampling


def test_fields() -> None:
    engine = LLMEngine()
    sampling = SamplingSpec(max_tokens=9, temperature=0.0, top_k=4, seed=7, logprobs=2)
    constraint = ConstraintSpec("regex", "a+", (128822,))
    wanted = replace(REQUEST, sampling=sampling, constraint=constraint, cache_salt="salt")
    run(lambda adapter: collect(adapter, wanted), engine)
    ((user_id, params, prompt),) = engine.calls
    assert user_id == "salt" and prompt == list(PROMPT)
    assert vars(params) == {
        "temperature": 1e-5,
        "top_p": 1.0,
        "top_k": 4,
        "max_tokens": 9,
        "seq_seed": 7,
        "top_logprobs": 2,
        "so_args": {"schema_type": "regex", "schema": "a+", "trigger_token_ids": [128822]},
    }


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        (ConstraintSpec("json_schema", "{}"), {"schema_type": "json", "schema": "{}", "trigger_token_ids": []}),
        (
            ConstraintSpec("json_object", ""),
            {"schema_type": "json", "schema": '{"type": "object"}', "trigger_token_ids": []},
        ),
        (ConstraintSpec("tools", "[]", enforce="best_effort"), None),
    ],
)
def test_constraints(constraint: ConstraintSpec, expected: Any) -> None:
    engine = LLMEngine()
    run(lambda adapter: collect(adapter, replace(REQUEST, constraint=constraint)), engine)
    assert engine.calls[0][1].so_args == expected


def test_stop_ids_are_watched_for() -> None:
    """The engine has none: it is aborted behind them, and says no more."""
    engine = LLMEngine(ends_itself=False)
    sampling = SamplingSpec(max_tokens=LIMIT, stop_token_ids=(OUTPUT[2],))
    ids, last = run(lambda adapter: collect(adapter, replace(REQUEST, sampling=sampling)), engine)
    assert ids == OUTPUT[:3] and last.finish_reason == "stop" and last.usage.completion == 3
    assert engine.aborted == ["0"] and not engine.running


def test_gaps_are_refused() -> None:
    async def refused(adapter: DeepInferEngine) -> None:
        for sampling in (SamplingSpec(max_tokens=1, min_p=0.1), SamplingSpec(max_tokens=1, repetition_penalty=1.1)):
            await check_refused(adapter, replace(REQUEST, sampling=sampling), "unsupported")
        await check_refused(adapter, replace(REQUEST, constraint=ConstraintSpec("tools", "[]")), "unsupported")
        await check_refused(adapter, replace(REQUEST, prompt_token_ids=[3] * 5000), "too_long")
        await check_refused(adapter, replace(REQUEST, prompt_token_ids=[]), "bad_param")
        bad = SamplingSpec(max_tokens=1, temperature=1e-9)
        await check_refused(adapter, replace(REQUEST, sampling=bad), "bad_param")
        await collect(adapter, REQUEST)

    run(refused, LLMEngine())


def test_abort_and_close_reach_the_engine() -> None:
    """The last delta of an aborted request is made here."""
    engine = LLMEngine(ends_itself=False)
    endless = replace(REQUEST, sampling=SamplingSpec(max_tokens=4000))

    async def both(adapter: DeepInferEngine) -> None:
        deltas = adapter.generate(endless)
        count = len((await anext(deltas)).token_ids)
        assert await adapter.abort("request") and await adapter.abort("request")
        async for delta in deltas:
            count += len(delta.token_ids)
        assert delta.finish_reason == "abort" and delta.usage is not None and delta.usage.completion == count
        deltas = adapter.generate(replace(endless, request_id="closed"))
        await anext(deltas)
        await deltas.aclose()

    run(both, engine)
    assert engine.aborted == ["0", "1"] and not engine.running


@pytest.mark.parametrize(
    ("reason", "kind"), [("xgrammar compile failed", "constraint_invalid"), ("preempted", "engine_dead")]
)
def test_other_ends_are_errors(reason: str, kind: str) -> None:
    engine = LLMEngine()
    engine.reason = reason
    run(lambda adapter: check_refused(adapter, REQUEST, kind), engine)


def test_a_fault_of_the_engine_ends_its_requests() -> None:
    engine = LLMEngine()
    engine.error = OSError("x")

    async def dead(adapter: DeepInferEngine) -> None:
        for _ in range(2):
            with pytest.raises(RequestError, match="the engine failed"):
                await collect(adapter, REQUEST)
        assert (await adapter.health()).status == "dead"

    run(dead, engine)


def test_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(LLMEngine):
        def add_request(self, request_id: str, prompt: str) -> None:  # type: ignore[override]
            pass

    with pytest.raises(EngineUnavailable, match="has no user_id, sampling_params, prompt_token_ids"):
        run(lambda adapter: adapter.capabilities(), Other())
    compiled: Any = ModuleType("deepinfer")
    compiled.SamplingParams = type
    monkeypatch.setitem(sys.modules, "deepinfer", compiled)
    with pytest.raises(EngineUnavailable, match="does not say what <class 'type'> takes"):
        run(lambda adapter: adapter.capabilities(), LLMEngine())
    monkeypatch.setitem(sys.modules, "deepinfer", None)
    with pytest.raises(EngineUnavailable, match="DeepInfer is not installed"):
        run(lambda adapter: adapter.capabilities(), LLMEngine())
