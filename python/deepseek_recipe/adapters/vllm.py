"""vLLM: over HTTP by `/inference/v1/generate`, or its `AsyncLLM` in this process (fields as in vLLM 0.33)."""

from __future__ import annotations

import importlib
import io
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx2

from .base import Capabilities, GenerateRequest, RequestError, TokenDelta, TokenLogprob, Usage
from .http import HttpEngine, get, has_ids
from .in_process import InProcess, probe

_FINISH: dict[str, Any] = {"stop": "stop", "length": "length", "abort": "abort", "repetition": "stop"}


_ARGUMENTS = ("prompt", "sampling_params", "request_id", "trace_headers", "priority", "reasoning_ended")


async def open_vllm(client: httpx2.AsyncClient, model: str, max_model_len: int) -> HttpEngine:
    """The engine behind a client that has been found to be vLLM."""
    version = str((await get(client, "/version") or {}).get("version", "unknown"))
    # It does not say whether its model sees; one that does not refuses the request.
    return HttpEngine(client, _Vllm(model), _capabilities(version, model, max_model_len, True))


def _capabilities(version: str, model: str, max_model_len: int, images: bool) -> Capabilities:
    return Capabilities(
        name="vllm",
        version=version,
        model_id=model,
        max_model_len=max_model_len,
        constraints=frozenset({"json_schema", "json_object", "regex"}),
        logprobs=20,
        images=images,
        sampling=frozenset({"seed", "top_k", "min_p", "repetition_penalty"}),
    )


def _params(request: GenerateRequest) -> dict[str, Any]:
    """The fields of `SamplingParams`."""
    sampling, constraint = request.sampling, request.constraint
    params: dict[str, Any] = {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "stop_token_ids": list(sampling.stop_token_ids),
        "detokenize": False,
        "skip_special_tokens": False,
    }
    if sampling.seed is not None:
        params["seed"] = sampling.seed
    if sampling.logprobs is not None:
        params["logprobs"] = sampling.logprobs
    if constraint is not None:
        name = {"json_schema": "json", "json_object": "json_object", "regex": "regex"}[constraint.kind]
        params["structured_outputs"] = {name: True if name == "json_object" else constraint.value}
    return params


class _Vllm:
    path = "/inference/v1/generate"

    def __init__(self, model: str):
        self._model = model

    def body(self, request: GenerateRequest) -> dict[str, Any]:
        """vLLM's request. Structured outputs begin at the first token: `reasoning_ended` says so to its parser."""
        body: dict[str, Any] = {
            "model": self._model,
            "request_id": request.request_id,
            "token_ids": list(request.prompt_token_ids),
            "sampling_params": _params(request),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if not request.images.is_empty():
            body["content_parts"] = [{"type": "image_url", "url": url} for url in request.image_urls()]
        if request.constraint is not None:
            body["reasoning_ended"] = True
        if request.cache_salt is not None:
            body["cache_salt"] = request.cache_salt
        if request.priority:
            body["priority"] = request.priority
        return body

    def reader(self, request: GenerateRequest) -> _Reader:
        """Reads vLLM's chunks."""
        return _Reader(request.sampling.logprobs)


class VllmEngine(InProcess):
    """vLLM's `AsyncLLM` in this process."""

    def __init__(self, engine: Any):
        super().__init__()
        self._engine = engine

    async def capabilities(self) -> Capabilities:
        """What the engine's configuration says. Raises `EngineUnavailable` for a version that is called otherwise."""
        probe(self._engine.generate, _ARGUMENTS)
        config = self._engine.model_config
        version = str(getattr(importlib.import_module("vllm"), "__version__", "unknown"))
        made = _capabilities(version, str(config.model), int(config.max_model_len), bool(config.is_multimodal_model))
        return replace(made, vocab_size=int(config.get_vocab_size()))

    async def _start(self, request: GenerateRequest) -> AsyncIterator[TokenDelta]:
        vllm = importlib.import_module("vllm.sampling_params")
        fields = _params(request)
        if "structured_outputs" in fields:
            fields["structured_outputs"] = vllm.StructuredOutputsParams(**fields["structured_outputs"])
        prompt: dict[str, Any] = {"prompt_token_ids": list(request.prompt_token_ids)}
        if not request.images.is_empty():
            pillow = importlib.import_module("PIL.Image")
            images = [pillow.open(io.BytesIO(image.data)) for image in request.images.images]
            prompt["multi_modal_data"] = {"image": images}
        if request.cache_salt is not None:
            prompt["cache_salt"] = request.cache_salt
        try:
            outputs = self._engine.generate(
                prompt,
                vllm.SamplingParams(**fields, output_kind=vllm.RequestOutputKind.DELTA),
                request.request_id,
                trace_headers=dict(request.metadata) or None,
                priority=request.priority,
                reasoning_ended=True if request.constraint is not None else None,
            )
        except ValueError as error:
            raise RequestError("bad_param", str(error)[:300]) from error
        return self._deltas(request, outputs)

    async def _deltas(self, request: GenerateRequest, outputs: Any) -> AsyncIterator[TokenDelta]:
        count, prompt = 0, request.prompt_tokens
        try:
            async for output in outputs:
                (choice,) = output.outputs
                ids = [int(id) for id in choice.token_ids]
                usage = None
                if not count or choice.finish_reason is not None:
                    usage = Usage(prompt, output.num_cached_tokens or 0, count + len(ids))
                count += len(ids)
                reason = None if choice.finish_reason is None else _FINISH[choice.finish_reason]
                yield TokenDelta(ids, _logprobs(ids, choice.logprobs, request.sampling.logprobs), reason, usage)
        finally:
            # It aborts the request.
            await outputs.aclose()

    async def _abort(self, request_id: str) -> None:
        await self._engine.abort(request_id)

    async def aclose(self) -> None:
        """Shuts the engine down."""
        await super().aclose()
        self._engine.shutdown()


def _logprobs(ids: list[int], positions: Any, count: int | None) -> list[TokenLogprob] | None:
    """vLLM gives a table of ids for each place; the sampled one is in it, whatever its rank."""
    if count is None:
        return None
    found: list[TokenLogprob] = []
    for id, position in zip(ids, positions, strict=True):
        table: dict[int, float] = {int(other): float(entry.logprob) for other, entry in position.items()}
        found.append((table[id], sorted(table.items(), key=lambda pair: -pair[1])[:count]))
    return found


class _Reader:
    """The usage comes behind the finish, in a chunk of its own: the finish waits for it."""

    def __init__(self, logprobs: int | None):
        self._logprobs = logprobs
        self._finish: Any = None
        self._count = 0

    def read(self, message: dict[str, Any]) -> TokenDelta | None:
        """One chunk."""
        usage: Any = message.get("usage")
        if not message["choices"]:
            details: Any = usage.get("prompt_tokens_details") or {}
            cached = details.get("cached_tokens") or 0
            counts = Usage(usage["prompt_tokens"], cached, usage["completion_tokens"])
            return TokenDelta((), None, self._finish, counts)
        (choice,) = message["choices"]
        ids = has_ids(choice["token_ids"] or [])
        self._count += len(ids)
        if choice["finish_reason"] is not None:
            self._finish = _FINISH[choice["finish_reason"]]
        if not ids:
            return None
        return TokenDelta(ids, self._read_logprobs(choice.get("logprobs")))

    def end(self) -> TokenDelta | None:
        """The finish, where no usage came."""
        return None if self._finish is None else TokenDelta((), None, self._finish, Usage(completion=self._count))

    def _read_logprobs(self, logprobs: Any) -> list[TokenLogprob] | None:
        if self._logprobs is None:
            return None
        return [(float(entry["logprob"]), _top(entry["top_logprobs"], self._logprobs)) for entry in logprobs["content"]]


def _top(entries: list[dict[str, Any]], count: int) -> list[tuple[int, float]]:
    """The most likely ids. vLLM puts the sampled one first, whatever its rank, and may so give one more."""
    pairs = [(int(entry["token_id"]), float(entry["logprob"])) for entry in entries]
    return sorted(pairs, key=lambda pair: -pair[1])[:count]
