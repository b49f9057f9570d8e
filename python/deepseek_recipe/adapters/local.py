"""The engine of this project, `deepseek_engine`, in a thread of this process."""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from .base import (
    Capabilities,
    EngineUnavailable,
    FinishReason,
    GenerateRequest,
    Health,
    RequestError,
    TokenDelta,
    TokenLogprob,
    Usage,
)

if TYPE_CHECKING:
    import deepseek_engine

_log = logging.getLogger("deepseek_recipe.adapters")

_RANDOM = "tiny-tok"
"""The engine's small model with the vocabulary of DeepSeek-V4.1."""


async def open_local(folder: str = "") -> LocalEngine:
    """The engine with the checkpoint of a folder or, without one, with a small model of random weights.

    Raises `EngineUnavailable` where the engine is not installed or the folder holds no checkpoint of the model.
    """
    try:
        import deepseek_engine
    except ImportError as error:
        raise EngineUnavailable(f"the local engine needs: pip install 'deepseek-recipe[engine]' ({error})") from error
    if not folder:
        _log.warning("the local engine has no checkpoint: a small model with random weights answers, and means nothing")
        return LocalEngine(
            await asyncio.to_thread(deepseek_engine.Engine.random, _RANDOM), f"{_RANDOM} (random weights)"
        )
    try:
        engine = await asyncio.to_thread(deepseek_engine.Engine.from_folder, Path(folder))
    except (deepseek_engine.ConfigError, deepseek_engine.WeightsError) as error:
        raise EngineUnavailable(str(error)) from error
    return LocalEngine(engine, Path(folder).resolve().name)


class LocalEngine:
    """Calls the engine from one thread, which computes while there is something to compute.

    Constraints are not enforced: one that is required is refused.
    """

    def __init__(self, engine: deepseek_engine.Engine, model_id: str):
        self._engine = engine
        self._model_id = model_id
        self._names = itertools.count()
        self._running: dict[str, str] = {}
        """The engine's names of the requests. They are used once, so that the end of a request never meets the next."""
        self._outputs: dict[str, _Output] = {}
        """By the engine's names; of the thread."""
        self._commands: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._failure = ""
        self._thread = threading.Thread(target=self._work, name="deepseek-engine", daemon=True)
        self._thread.start()

    async def capabilities(self) -> Capabilities:
        """Never raises: the engine is here."""
        import deepseek_engine

        engine = self._engine.capabilities()
        return Capabilities(
            name="local",
            version=deepseek_engine.__version__,
            model_id=self._model_id,
            max_model_len=engine.max_model_len,
            vocab_size=engine.vocab_size,
            logprobs=engine.logprobs,
            sampling=frozenset({"seed", "top_k", "min_p", "repetition_penalty"}),
        )

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        """See `EngineAdapter.generate`. A consumer that is slow gets several ids in a delta."""
        id = request.request_id
        if id in self._running:
            raise RequestError("bad_param", f"request {id} is running already")
        name = self._running[id] = str(next(self._names))
        ended = False
        try:
            output = _Output(asyncio.get_running_loop())
            self._commands.put(partial(self._add, self._request(request, name), output))
            while not ended:
                delta = _merged(await output.take())
                ended = delta.finish_reason is not None
                yield delta
        finally:
            del self._running[id]
            if not ended:
                self._commands.put(partial(self._engine.abort, name))

    async def abort(self, request_id: str) -> bool:
        """See `EngineAdapter.abort`."""
        name = self._running.get(request_id)
        if name is None:
            return False
        self._commands.put(partial(self._engine.abort, name))
        return True

    async def health(self) -> Health:
        """Dead behind a fault of the engine."""
        return Health("dead", self._failure) if self._failure else Health("ready")

    async def aclose(self) -> None:
        """Aborts what runs, and ends the thread behind its step."""
        self._commands.put(None)
        await asyncio.to_thread(self._thread.join)

    def _request(self, request: GenerateRequest, name: str) -> deepseek_engine.Request:
        import deepseek_engine

        constraint, sampling = request.constraint, request.sampling
        if constraint is not None and constraint.enforce == "required":
            raise RequestError("unsupported", "the local engine cannot constrain its output")
        prompt, longest = list(request.prompt_token_ids), self._engine.capabilities().max_model_len
        if len(prompt) >= longest:
            raise RequestError("too_long", f"the prompt has {len(prompt)} tokens of at most {longest}, answer included")
        params = deepseek_engine.SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            seed=sampling.seed,
            max_tokens=min(sampling.max_tokens, longest - len(prompt)),
            stop_token_ids=sampling.stop_token_ids,
            repetition_penalty=sampling.repetition_penalty,
            logprobs=sampling.logprobs,
        )
        return deepseek_engine.Request(name, prompt, params)

    # What follows runs in the thread.

    def _work(self) -> None:
        while self._carry_out():
            try:
                for delta in self._engine.step():
                    self._give(delta)
            except Exception as error:
                _log.exception("the local engine failed")
                self._failure = f"the engine failed: {type(error).__name__}"
                for output in self._outputs.values():
                    output.give(RequestError("engine_dead", "the engine failed"))
                self._outputs.clear()
        for name in self._outputs:
            self._engine.abort(name)
        if self._outputs:
            for delta in self._engine.step():
                self._give(delta)

    def _carry_out(self) -> bool:
        """Carries out the commands that have come; waits for one where nothing is to be computed. False at the end."""
        while True:
            try:
                command = self._commands.get(block=bool(self._failure) or self._engine.idle)
            except queue.Empty:
                return True
            if command is None:
                return False
            command()

    def _add(self, request: deepseek_engine.Request, output: _Output) -> None:
        import deepseek_engine

        if self._failure:
            output.give(RequestError("engine_dead", "the engine failed"))
            return
        try:
            self._engine.add(request)
        except deepseek_engine.RequestError as error:
            output.give(RequestError("bad_param", str(error)))
            return
        self._outputs[request.request_id] = output

    def _give(self, delta: deepseek_engine.Delta) -> None:
        output = self._outputs[delta.request_id]
        if delta.finish_reason is not None:
            del self._outputs[delta.request_id]
        output.give(delta)


class _Output:
    """Deltas on their way from the thread to their consumer. No more wait than the request has tokens."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._some = asyncio.Event()
        self._items: deque[deepseek_engine.Delta | RequestError] = deque()

    def give(self, item: deepseek_engine.Delta | RequestError) -> None:
        """For the thread."""
        self._items.append(item)
        try:
            self._loop.call_soon_threadsafe(self._some.set)
        except RuntimeError:  # The loop is closed: nobody waits.
            pass

    async def take(self) -> list[deepseek_engine.Delta]:
        """For the consumer: all deltas that wait. Raises a `RequestError` that was given, behind the deltas before."""
        await self._some.wait()
        self._some.clear()
        deltas: list[deepseek_engine.Delta] = []
        while self._items:
            item = self._items[0]
            if not isinstance(item, RequestError):
                deltas.append(item)
            elif deltas:
                self._some.set()
                break
            else:
                raise item
            self._items.popleft()
        return deltas


def _merged(deltas: Sequence[deepseek_engine.Delta]) -> TokenDelta:
    """Deltas as one; none is a sign of life."""
    ids = tuple(id for delta in deltas for id in delta.token_ids)
    logprobs: list[TokenLogprob] | None = None
    if deltas and deltas[0].logprobs is not None:
        logprobs = [(cast(float, token.logprob), token.top) for delta in deltas for token in delta.logprobs or ()]
    if not deltas or deltas[-1].finish_reason is None:
        return TokenDelta(ids, logprobs)
    last = deltas[-1]
    return TokenDelta(ids, logprobs, _finish(last), Usage(last.prompt_tokens, 0, last.output_tokens))


def _finish(delta: deepseek_engine.Delta) -> FinishReason:
    match delta.finish_reason:
        case "stop" | "length" | "abort":
            return delta.finish_reason
        case _:
            raise RequestError("engine_dead", "the engine gave the request up")
