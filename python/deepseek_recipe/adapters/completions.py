"""Any server with OpenAI's `/v1/completions` that takes a prompt of ids.

The best of them also return ids (`return_token_ids`, an extension of vLLM). From others comes text, which is encoded
again: special tokens that the server writes out become themselves, and counts may differ by a few tokens.
"""

from __future__ import annotations

from typing import Any

import httpx2
import orjson

from .._native import ModelVersion, Tokenizer
from .base import Capabilities, EngineUnavailable, GenerateRequest, TokenDelta, Usage
from .http import HttpEngine, has_ids

_FINISH: dict[str, Any] = {"stop": "stop", "length": "length", "content_filter": "content_filter", "eos": "stop"}


async def open_completions(
    client: httpx2.AsyncClient, model: str, max_model_len: int, version: ModelVersion
) -> HttpEngine:
    """The engine behind a client. One token is asked for, to see what comes back. Raises `EngineUnavailable`."""
    probe = {"model": model, "prompt": [0], "max_tokens": 1, **_EXTENSIONS}
    try:
        response = await client.post("/v1/completions", content=orjson.dumps(probe), timeout=120)
        if response.status_code in (400, 422):
            probe = {"model": model, "prompt": [0], "max_tokens": 1}
            response = await client.post("/v1/completions", content=orjson.dumps(probe), timeout=120)
        if response.status_code != 200:
            raise EngineUnavailable(f"the server does not take a prompt of ids: status {response.status_code}")
        ids = isinstance(orjson.loads(response.content)["choices"][0].get("token_ids"), list)
    except (httpx2.HTTPError, orjson.JSONDecodeError, LookupError, TypeError, AttributeError) as error:
        raise EngineUnavailable(f"no completions at {client.base_url}: {type(error).__name__}") from error
    extended = "return_token_ids" in probe
    capabilities = Capabilities(
        name="completions",
        version="unknown",
        model_id=model,
        max_model_len=max_model_len,
        sampling=frozenset({"seed"}),
        details={"returns": "ids" if ids else "text", "extensions": extended},
    )
    return HttpEngine(client, _Completions(model, extended, None if ids else Tokenizer.builtin(version)), capabilities)


_EXTENSIONS = {"return_token_ids": True, "skip_special_tokens": False}


class _Completions:
    path = "/v1/completions"

    def __init__(self, model: str, extended: bool, tokenizer: Tokenizer | None):
        self._model = model
        self._extended = extended
        self._tokenizer = tokenizer

    def body(self, request: GenerateRequest) -> dict[str, Any]:
        """The request, with the extensions that the server has been seen to take."""
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self._model,
            "prompt": list(request.prompt_token_ids),
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        if self._extended:
            body |= _EXTENSIONS
            if sampling.stop_token_ids:
                body["stop_token_ids"] = list(sampling.stop_token_ids)
        return body

    def reader(self, request: GenerateRequest) -> _Reader:
        """Reads the chunks."""
        return _Reader(self._tokenizer)


class _Reader:
    """The usage comes behind the finish: the finish waits for it."""

    def __init__(self, tokenizer: Tokenizer | None):
        self._tokenizer = tokenizer
        self._finish: Any = None
        self._count = 0

    def read(self, message: dict[str, Any]) -> TokenDelta | None:
        """One chunk."""
        usage: Any = message.get("usage")
        ids: list[int] = []
        for choice in message["choices"]:
            if self._tokenizer is not None:
                ids = self._tokenizer.encode(choice["text"])
            elif choice.get("token_ids"):
                ids = has_ids(choice["token_ids"])
            if choice.get("finish_reason") is not None:
                self._finish = _FINISH[choice["finish_reason"]]
        self._count += len(ids)
        if not message["choices"] and usage is not None and self._finish is not None:
            details: Any = usage.get("prompt_tokens_details") or {}
            cached = details.get("cached_tokens") or 0
            return TokenDelta((), None, self._finish, Usage(usage["prompt_tokens"], cached, self._count))
        return TokenDelta(ids) if ids else None

    def end(self) -> TokenDelta | None:
        """The finish, where no usage came."""
        return None if self._finish is None else TokenDelta((), None, self._finish, Usage(completion=self._count))
