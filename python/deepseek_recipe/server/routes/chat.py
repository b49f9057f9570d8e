"""Chat Completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from .. import sse
from ..gateway import Gateway
from ..generation import Generation
from ..jsontext import dump, load
from ..responders import respond

_DONE = b"data: [DONE]\n\n"


async def create(request: Request) -> Response:
    """`POST /v1/chat/completions`"""
    gateway: Gateway = request.app.state.gateway
    call = await gateway.call(request)
    encoded = await gateway.encode(call.body, "chat_completions", call)
    choices = _Choices(encoded.inference_options.n)
    generations = await gateway.generations(encoded, call, edit=choices.edit if choices.count > 1 else None)
    return await respond(request, gateway, call, encoded, generations, lambda: _response(generations))


def _response(generations: Sequence[Generation]) -> str | bytes:
    if len(generations) == 1:
        return generations[0].reply.response_json()
    responses = [load(generation.reply.response_json()) for generation in generations]
    choices = [choice for response in responses for choice in response["choices"]]
    usage = _sum([response["usage"] for response in responses])
    return dump({**responses[0], "choices": choices, "usage": usage})


def _sum(usages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The usage of several answers to one prompt, which was read once."""
    total = {**usages[0], "completion_tokens": sum(usage["completion_tokens"] for usage in usages)}
    total["total_tokens"] = total["prompt_tokens"] + total["completion_tokens"]
    details = [usage.get("completion_tokens_details") for usage in usages]
    if all(details):
        reasoning = sum(detail["reasoning_tokens"] for detail in details if detail)
        total["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return total


class _Choices:
    """The streams of several choices as one: the usage of all stands in the last chunk, and the end behind it."""

    def __init__(self, count: int):
        self.count = count
        self._usages: list[dict[str, Any]] = []
        self._failed = False

    def edit(self, generation: Generation, sent: bytes) -> bytes:
        """Takes the usage out of a choice's last chunk, and the end of its stream away."""
        if not generation.reply.finished:
            return sent
        edited = sse.edit(sent.removesuffix(_DONE), self._take_usage)
        self._failed = self._failed or generation.failure is not None
        return edited if len(self._usages) < self.count or self._failed else edited + _DONE

    def _take_usage(self, chunk: dict[str, Any]) -> bool:
        usage = chunk.get("usage")
        if usage is not None:
            self._usages.append(usage)
            chunk["usage"] = _sum(self._usages) if len(self._usages) == self.count else None
        return True
