"""The engine of this project, `deepseek_engine`, in a thread of this process."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, cast

from .base import Capabilities, EngineUnavailable, GenerateRequest, RequestError, TokenDelta, TokenLogprob, Usage
from .owned import Made, OwnedEngine

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


class LocalEngine(OwnedEngine):
    """The engine in a thread of its own. Constraints are not enforced: one that is required is refused."""

    def __init__(self, engine: deepseek_engine.Engine, model_id: str):
        self._engine = engine
        self._model_id = model_id
        super().__init__("deepseek-engine")

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

    def _native(self, request: GenerateRequest, name: str) -> deepseek_engine.Request:
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

    def _add(self, native: deepseek_engine.Request) -> None:
        import deepseek_engine

        try:
            self._engine.add(native)
        except deepseek_engine.RequestError as error:
            raise RequestError("bad_param", str(error)) from error

    def _cancel(self, name: str) -> None:
        self._engine.abort(name)

    def _idle(self) -> bool:
        return self._engine.idle

    def _step(self) -> Made:
        for delta in self._engine.step():
            yield delta.request_id, _delta(delta)


def _delta(delta: deepseek_engine.Delta) -> TokenDelta | RequestError:
    logprobs: list[TokenLogprob] | None = None
    if delta.logprobs is not None:
        logprobs = [(cast(float, token.logprob), token.top) for token in delta.logprobs]
    match delta.finish_reason:
        case None:
            return TokenDelta(delta.token_ids, logprobs)
        case "stop" | "length" | "abort":
            usage = Usage(delta.prompt_tokens, 0, delta.output_tokens)
            return TokenDelta(delta.token_ids, logprobs, delta.finish_reason, usage)
        case _:
            return RequestError("engine_dead", "the engine gave the request up")
