"""Messages."""

from __future__ import annotations

from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from ...recipe import Encoded
from ..gateway import Call, Gateway
from ..jsontext import dump
from ..responders import json_response, respond

_CONTEXT_EDITS = ("clear_tool_uses_", "clear_thinking_", "compact_")
"""Edits that make a long history shorter. Without them the model sees more than it has to, and nothing is lost."""


async def create(request: Request) -> Response:
    """`POST /v1/messages`"""
    gateway: Gateway = request.app.state.gateway
    call = await gateway.call(request)
    encoded = await _encode(gateway, call)
    generations = await gateway.generations(encoded, call)
    return await respond(request, gateway, call, encoded, generations, generations[0].reply.response_json)


async def count_tokens(request: Request) -> Response:
    """`POST /v1/messages/count_tokens`"""
    gateway: Gateway = request.app.state.gateway
    call = await gateway.call(request)
    encoded = await _encode(gateway, call)
    return json_response(dump({"input_tokens": await gateway.count_tokens(encoded)}))


async def _encode(gateway: Gateway, call: Call) -> Encoded:
    body: bytes | dict[str, Any] = call.body
    if _only_shortens(call.fields.get("context_management")):
        body = call.parsed()
        del body["context_management"]
    return await gateway.encode(body, "messages", call)


def _only_shortens(context_management: Any) -> bool:
    """Whether it is a list of such edits. Claude Code sends one with every request."""
    if not isinstance(context_management, dict):
        return False
    edits = cast("dict[str, Any]", context_management).get("edits", [])
    return isinstance(edits, list) and all(
        isinstance(edit, dict) and str(cast("dict[str, Any]", edit).get("type", "")).startswith(_CONTEXT_EDITS)
        for edit in cast("list[Any]", edits)
    )
