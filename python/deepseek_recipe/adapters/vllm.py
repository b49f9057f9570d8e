"""vLLM over HTTP: `/inference/v1/generate`, ids in and ids out (fields as in vLLM 0.33)."""

from __future__ import annotations

from typing import Any

import httpx2

from .base import Capabilities, GenerateRequest, TokenDelta, TokenLogprob, Usage
from .http import HttpEngine, get, has_ids

_FINISH: dict[str, Any] = {"stop": "stop", "length": "length", "abort": "abort", "repetition": "stop"}


async def open_vllm(client: httpx2.AsyncClient, model: str, max_model_len: int) -> HttpEngine:
    """The engine behind a client that has been found to be vLLM."""
    version = str((await get(client, "/version") or {}).get("version", "unknown"))
    capabilities = Capabilities(
        name="vllm",
        version=version,
        model_id=model,
        max_model_len=max_model_len,
        constraints=frozenset({"json_schema", "json_object", "regex"}),
        logprobs=20,
        sampling=frozenset({"seed", "top_k", "min_p", "repetition_penalty"}),
    )
    return HttpEngine(client, _Vllm(model), capabilities)


class _Vllm:
    path = "/inference/v1/generate"

    def __init__(self, model: str):
        self._model = model

    def body(self, request: GenerateRequest) -> dict[str, Any]:
        """vLLM's request. Structured outputs begin at the first token: `reasoning_ended` says so to its parser."""
        sampling = request.sampling
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
        body: dict[str, Any] = {
            "model": self._model,
            "request_id": request.request_id,
            "token_ids": list(request.prompt_token_ids),
            "sampling_params": params,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        constraint = request.constraint
        if constraint is not None:
            name = {"json_schema": "json", "json_object": "json_object", "regex": "regex"}[constraint.kind]
            params["structured_outputs"] = {name: True if name == "json_object" else constraint.value}
            body["reasoning_ended"] = True
        if request.cache_salt is not None:
            body["cache_salt"] = request.cache_salt
        if request.priority:
            body["priority"] = request.priority
        return body

    def reader(self, request: GenerateRequest) -> _Reader:
        """Reads vLLM's chunks."""
        return _Reader(request.sampling.logprobs)


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
