"""DeepInfer's `LLMEngine` in a thread of this process (fields as recorded of DeepInfer 0.1.0; it never ran here).

The record has no names for an output's id and log probabilities, nor whether `so_args` is a field of the sampling
parameters: `_OUTPUT` and `_SAMPLING` say what is expected, and an engine with other names is refused.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from .base import (
    Capabilities,
    ConstraintSpec,
    EngineUnavailable,
    FinishReason,
    GenerateRequest,
    RequestError,
    TokenDelta,
    TokenLogprob,
    Usage,
)
from .in_process import probe
from .owned import Made, OwnedEngine

_REQUEST = ("user_id", "request_id", "sampling_params", "prompt_token_ids")
_SAMPLING = ("temperature", "top_p", "top_k", "max_tokens", "seq_seed", "top_logprobs", "so_args")
_OUTPUT = ("request_id", "token_id", "finish_reason", "num_output_tokens")

_FINISH: dict[str, FinishReason] = {"stop": "stop", "length": "length", "abort": "abort"}

_GREEDY = 1e-5
"""Its temperature for the most likely id."""


@dataclass
class _Running:
    """What the thread knows of a request, beside the engine."""

    request: GenerateRequest
    count: int = 0

    def usage(self) -> Usage:
        """DeepInfer does not say what was cached."""
        return Usage(len(self.request.prompt_token_ids), 0, self.count)


class DeepInferEngine(OwnedEngine):
    """DeepInfer in a thread of its own, which pumps `step()`.

    `model_id` and `max_model_len` (tokens, prompt and output) are what the engine was started with: it does not say.
    It ends outputs at its own end token and at the limit only; other stop ids are watched for here, and abort.
    """

    def __init__(self, engine: Any, model_id: str, max_model_len: int):
        self._engine = engine
        self._model_id = model_id
        self._max_model_len = max_model_len
        self._requests: dict[str, _Running] = {}
        """Those that run in the engine, by its names; of the thread."""
        self._aborted: list[tuple[str, TokenDelta]] = []
        super().__init__("deepinfer")

    async def capabilities(self) -> Capabilities:
        """What is known of the engine. Raises `EngineUnavailable` for a version that is called otherwise."""
        package = _package()
        probe(self._engine.add_request, _REQUEST)
        probe(self._engine.abort_request, ("request_id",))
        probe(package.SamplingParams, _SAMPLING)
        for name in ("step", "flush_inflight_reqs"):
            if not callable(getattr(self._engine, name, None)):
                raise EngineUnavailable(f"this version of the engine has no {name}")
        return Capabilities(
            name="deepinfer",
            version=str(getattr(package, "__version__", "unknown")),
            model_id=self._model_id,
            max_model_len=self._max_model_len,
            constraints=frozenset({"json_schema", "json_object", "regex"}),
            constraint_trigger=True,
            logprobs=1000,
            sampling=frozenset({"seed", "top_k"}),
        )

    def _native(self, request: GenerateRequest, name: str) -> dict[str, Any]:
        sampling, length = request.sampling, len(request.prompt_token_ids)
        if sampling.min_p > 0 or sampling.repetition_penalty != 1.0:
            raise RequestError("unsupported", "the engine has no min_p and no repetition_penalty")
        if not request.images.is_empty():
            raise RequestError("unsupported", "the engine takes no images here")
        if length >= self._max_model_len:
            raise RequestError(
                "too_long", f"the prompt has {length} tokens of at most {self._max_model_len}, answer included"
            )
        params: dict[str, Any] = {
            "temperature": sampling.temperature or _GREEDY,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "max_tokens": min(sampling.max_tokens, self._max_model_len - length),
        }
        if sampling.seed is not None:
            params["seq_seed"] = sampling.seed
        if sampling.logprobs is not None:
            params["top_logprobs"] = sampling.logprobs
        if request.constraint is not None and (so_args := _so_args(request.constraint)) is not None:
            params["so_args"] = so_args
        numpy: Any = importlib.import_module("numpy")
        try:
            made = _package().SamplingParams(**params)
        except ValueError as error:
            raise RequestError("bad_param", str(error)[:300]) from error
        return {
            # Whether its prefix cache is apart by user is not recorded.
            "user_id": request.cache_salt or "",
            "request_id": name,
            "sampling_params": made,
            "prompt_token_ids": numpy.asarray(request.prompt_token_ids, dtype=numpy.int32),
            "request": request,
        }

    # What follows runs in the thread.

    def _work(self) -> None:
        super()._work()
        self._engine.flush_inflight_reqs()

    def _add(self, native: dict[str, Any]) -> None:
        request = native.pop("request")
        try:
            self._engine.add_request(**native)
        except ValueError as error:
            raise RequestError("bad_param", str(error)[:300]) from error
        self._requests[native["request_id"]] = _Running(request)

    def _cancel(self, name: str) -> None:
        """The engine has no last output for an aborted request: it is made here."""
        running = self._requests.pop(name, None)
        if running is not None:
            self._engine.abort_request(request_id=name)
            self._aborted.append((name, TokenDelta((), None, "abort", running.usage())))

    def _idle(self) -> bool:
        return not self._requests and not self._aborted

    def _step(self) -> Made:
        made: list[tuple[str, TokenDelta | RequestError]] = [*self._aborted]
        self._aborted.clear()
        # The outputs are the engine's again with its next call, an abort included: all are read before.
        read = [_read(output) for output in self._engine.step()] if self._requests else []
        for name, id, reason, logprob in read:
            running = self._requests.get(name)
            if running is not None:
                made.append((name, self._made(name, running, id, reason, logprob)))
        return made

    def _made(
        self, name: str, running: _Running, id: int | None, reason: str | None, logprob: TokenLogprob | None
    ) -> TokenDelta | RequestError:
        ids = [] if id is None else [id]
        running.count += len(ids)
        finish = None if reason is None else _FINISH.get(reason)
        if reason is not None:
            del self._requests[name]
            if finish is None:
                invalid = "xgrammar" in reason and running.count == 0
                return RequestError(
                    "constraint_invalid" if invalid else "engine_dead", "the engine gave the request up"
                )
        elif id in running.request.sampling.stop_token_ids:
            del self._requests[name]
            self._engine.abort_request(request_id=name)
            finish = "stop"
        logprobs: list[TokenLogprob] | None = None
        if running.request.sampling.logprobs is not None:
            if ids and logprob is None:
                raise ValueError("an output without the log probability that was asked for")
            logprobs = [] if logprob is None else [logprob]
        return TokenDelta(ids, logprobs, finish, running.usage() if finish else None)


def _package() -> Any:
    try:
        return importlib.import_module("deepinfer")
    except ImportError as error:
        raise EngineUnavailable(f"the package of DeepInfer is not installed ({error})") from error


def _so_args(constraint: ConstraintSpec) -> dict[str, Any] | None:
    """The constraint as DeepInfer takes it; `None` for one that it lacks and may be left out."""
    match constraint.kind:
        case "json_schema":
            kind, schema = "json", constraint.value
        case "json_object":
            kind, schema = "json", '{"type": "object"}'
        case "regex":
            kind, schema = "regex", constraint.value
        case _:
            if constraint.enforce == "best_effort":
                return None
            raise RequestError("unsupported", f"the engine cannot constrain its output by {constraint.kind}")
    return {"schema_type": kind, "schema": schema, "trigger_token_ids": list(constraint.trigger_token_ids)}


def _read(output: Any) -> tuple[str, int | None, str | None, TokenLogprob | None]:
    """A copy of an output: name, id, finish reason, log probability. Raises `AttributeError` for another form."""
    name, id, reason, _ = (getattr(output, field) for field in _OUTPUT)
    logprob: TokenLogprob | None = None
    if getattr(output, "logprob", None) is not None:
        top = [(int(other), float(value)) for other, value in getattr(output, "top_logprobs", None) or ()]
        logprob = (float(output.logprob), top)
    return str(name), None if id is None else int(id), None if reason is None else str(reason), logprob
