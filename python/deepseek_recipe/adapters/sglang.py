"""SGLang over HTTP: `/generate` with `input_ids` (fields as in SGLang 0.5.23)."""

from __future__ import annotations

from typing import Any

import httpx2

from .base import Capabilities, GenerateRequest, RequestError, TokenDelta, TokenLogprob, Usage
from .http import HttpEngine, get, has_ids


async def open_sglang(client: httpx2.AsyncClient, model: str, max_model_len: int) -> HttpEngine:
    """The engine behind a client that has been found to be SGLang."""
    info = await get(client, "/server_info") or await get(client, "/get_server_info") or {}
    capabilities = Capabilities(
        name="sglang",
        version=str(info.get("version", "unknown")),
        model_id=model,
        max_model_len=max_model_len,
        constraints=frozenset({"json_schema", "json_object", "regex"}),
        logprobs=20,
        sampling=frozenset({"top_k", "min_p", "repetition_penalty"}),
    )
    return HttpEngine(client, _Sglang(), capabilities)


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
        if sampling.logprobs is not None:
            body |= {"return_logprob": True, "top_logprobs_num": sampling.logprobs, "return_text_in_logprobs": False}
        if request.cache_salt is not None:
            body["extra_key"] = request.cache_salt
        if request.priority:
            body["priority"] = request.priority
        return body

    def reader(self, request: GenerateRequest) -> _Reader:
        """Reads SGLang's messages."""
        return _Reader(request.sampling.logprobs)


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
