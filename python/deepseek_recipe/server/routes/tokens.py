"""Text to ids and back, with the paths and fields that vLLM and SGLang have."""

from __future__ import annotations

from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from ..._native import Tokenizer
from ..errors import ApiError
from ..gateway import Gateway
from ..jsontext import dump
from ..responders import json_response


async def tokenize(request: Request) -> Response:
    """`POST /tokenize`: the ids of a `prompt`, special tokens spelled out, or of `messages` with their template."""
    gateway: Gateway = request.app.state.gateway
    call = await gateway.call(request)
    if "messages" in call.fields:
        encoded = await gateway.encode(call.body, "chat_completions", call)
        ids = encoded.token_ids.tolist()
    else:
        prompt = call.fields.get("prompt")
        if not isinstance(prompt, str):
            raise ApiError(400, "expected 'prompt' as a string, or 'messages'", param="prompt")
        ids = Tokenizer.builtin(gateway.settings.model).encode(prompt)
    return json_response(dump({"tokens": ids, "count": len(ids), "max_model_len": gateway.capabilities.max_model_len}))


async def detokenize(request: Request) -> Response:
    """`POST /detokenize`: the text of `tokens`."""
    gateway: Gateway = request.app.state.gateway
    call = await gateway.call(request)
    ids = call.fields.get("tokens")
    if not isinstance(ids, list):
        raise ApiError(400, "expected 'tokens' as a list of ids", param="tokens")
    tokenizer = Tokenizer.builtin(gateway.settings.model)
    text = b"".join(_bytes(tokenizer, id, index) for index, id in enumerate(cast("list[Any]", ids)))
    return json_response(dump({"prompt": text.decode("utf-8", "replace")}))


def _bytes(tokenizer: Tokenizer, id: Any, index: int) -> bytes:
    known = isinstance(id, int) and not isinstance(id, bool) and 0 <= id < 2**32
    token = tokenizer.token(id) if known else None
    if token is None:
        raise ApiError(400, f"tokens[{index}]: not an id of the vocabulary", param=f"tokens[{index}]")
    return token.encode() if isinstance(token, str) else token
