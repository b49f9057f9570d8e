"""SGLang: over HTTP by `/generate` with `input_ids`, or in this process (fields as in SGLang 0.5.23)."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from .base import Capabilities, GenerateRequest, RequestError, TokenDelta, TokenLogprob, Usage
from .http import HttpEngine, get, has_ids
from .in_process import InProcess, probe

_ARGUMENTS = (
    "input_ids", "image_data", "sampling_params", "return_logprob", "top_logprobs_num", "stream", "rid",
    "priority", "cache_salt",
)  # fmt: skip


async def open_sglang(client: httpx2.AsyncClient, model: str, max_model_len: int) -> HttpEngine:
    """The engine behind a client that has been found to be SGLang."""
    info = await get(client, "/server_info") or await get(client, "/get_server_info") or {}
    described = await get(client, "/model_info") or await get(client, "/get_model_info") or {}
    version, images = str(info.get("version", "unknown")), described.get("has_image_understanding") is True
    return HttpEngine(client, _Sglang(), _capabilities(version, model, max_model_len, images))


def _capabilities(version: str, model: str, max_model_len: int, images: bool) -> Capabilities:
    return Capabilities(
        name="sglang",
        version=version,
        model_id=model,
        max_model_len=max_model_len,
        constraints=frozenset({"json_schema", "json_object", "regex"}),
        logprobs=20,
        images=images,
        sampling=frozenset({"top_k", "min_p", "repetition_penalty"}),
    )


class _Sglang:
    path = "/generate"

    def body(self, request: GenerateRequest) -> dict[str, Any]:
        """SGLang's request."""
        sampling = request.sampling
        params: dict[str, Any] = {
            "max_new_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repetition_penalty,
            "stop_token_ids": list(sampling.stop_token_ids),
            "skip_special_tokens": False,
        }
        if sampling.seed is not None:
            # Only its deterministic mode looks at it.
            params["sampling_seed"] = sampling.seed
        if request.constraint is not None:
            kind, value = request.constraint.kind, request.constraint.value
            params["regex" if kind == "regex" else "json_schema"] = (
                '{"type": "object"}' if kind == "json_object" else value
            )
        body: dict[str, Any] = {
            "rid": request.request_id,
            "input_ids": list(request.prompt_token_ids),
            "sampling_params": params,
            "stream": True,
        }
        if not request.images.is_empty():
            body["image_data"] = request.image_urls()
        if sampling.logprobs is not None:
            body |= {"return_logprob": True, "top_logprobs_num": sampling.logprobs, "return_text_in_logprobs": False}
        if request.cache_salt is not None:
            body["cache_salt"] = request.cache_salt
        if request.priority:
            body["priority"] = request.priority
        return body

    def reader(self, request: GenerateRequest) -> _Reader:
        """Reads SGLang's messages."""
        return _Reader(request.sampling.logprobs)


class SglangEngine(InProcess):
    """SGLang's `Engine` in this process, in the event loop that it was started for."""

    def __init__(self, engine: Any):
        super().__init__()
        self._engine = engine

    async def capabilities(self) -> Capabilities:
        """What the engine's configuration says. Raises `EngineUnavailable` for a version that is called otherwise."""
        probe(self._engine.async_generate, _ARGUMENTS)
        manager = self._engine.tokenizer_manager
        version = str(getattr(importlib.import_module("sglang"), "__version__", "unknown"))
        config = manager.model_config
        images = bool(config.is_image_understandable_model)
        return _capabilities(version, str(manager.served_model_name), int(config.context_len), images)

    async def _start(self, request: GenerateRequest) -> AsyncIterator[TokenDelta]:
        # The method has no argument for what only the HTTP server does.
        fields = {name: value for name, value in _Sglang().body(request).items() if name != "return_text_in_logprobs"}
        try:
            messages = await self._engine.async_generate(**fields)
        except ValueError as error:
            raise RequestError("bad_param", str(error)[:300]) from error
        reader = _Reader(request.sampling.logprobs)

        async def deltas() -> AsyncIterator[TokenDelta]:
            async for message in messages:
                delta = reader.read(message)
                if delta is not None:
                    yield delta

        return deltas()

    async def _abort(self, request_id: str) -> None:
        self._engine.tokenizer_manager.abort_request(rid=request_id)

    async def aclose(self) -> None:
        """Shuts the engine down."""
        await super().aclose()
        self._engine.shutdown()


class _Reader:
    """A message has all ids so far, or only the new ones, as the server was started: the count tells which are new."""

    def __init__(self, logprobs: int | None):
        self._logprobs = logprobs
        self._seen = 0

    def read(self, message: dict[str, Any]) -> TokenDelta | None:
        """One message."""
        meta = message["meta_info"]
        total = int(meta["completion_tokens"])
        new = max(0, total - self._seen)
        ids = has_ids(message["output_ids"])
        if new > len(ids):
            raise ValueError("fewer ids than are counted")
        self._seen = max(total, self._seen)
        ids = ids[len(ids) - new :]
        finish = meta.get("finish_reason")
        reason: Any = None
        if finish is not None:
            reason = finish["type"]
            if reason == "abort" and finish.get("status_code"):
                raise RequestError("bad_param", str(finish.get("message", "the engine refuses the request"))[:300])
            if reason not in ("stop", "length", "abort"):
                raise ValueError(f"unknown finish reason {reason!r}")
        usage = Usage(int(meta["prompt_tokens"]), int(meta.get("cached_tokens") or 0), total)
        return TokenDelta(ids, self._read_logprobs(meta, new), reason, usage)

    def end(self) -> TokenDelta | None:
        """SGLang always says why it ended."""
        return None

    def _read_logprobs(self, meta: dict[str, Any], new: int) -> list[TokenLogprob] | None:
        if self._logprobs is None:
            return None
        if not new:
            return []
        chosen = meta["output_token_logprobs"][-new:]
        top = meta["output_top_logprobs"][-new:] if self._logprobs else [()] * new
        return [
            (float(entry[0]), [(int(other[1]), float(other[0])) for other in others or ()])
            for entry, others in zip(chosen, top, strict=True)
        ]
