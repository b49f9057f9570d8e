"""A gateway in this process, and engines that misbehave. Knows no test."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

import httpx2

from deepseek_recipe.adapters import (
    Capabilities,
    EngineAdapter,
    GenerateRequest,
    Health,
    RequestError,
    TokenDelta,
    Usage,
)
from deepseek_recipe.adapters.replay import ReplayEngine
from deepseek_recipe.server import Files, Gateway, MemoryStore, ResponseStore, Settings, create_app

_Result = TypeVar("_Result")

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"

BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    MESSAGES: {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]},
    RESPONSES: {"model": "m", "input": "Hi"},
}
"""A request of each protocol."""


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Runs a test's coroutine; none takes half a minute."""
    return asyncio.run(asyncio.wait_for(work, 30))


@asynccontextmanager
async def serving(
    engine: EngineAdapter | None = None,
    *,
    store: ResponseStore | None = None,
    files: Files | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[httpx2.AsyncClient, Gateway]]:
    """A client of a gateway. Its transport collects whole replies."""
    gateway = Gateway(
        engine or ReplayEngine(["I think.</think>Said."]),
        Settings(**settings),
        store=MemoryStore() if store is None else store,
        files=files,
    )
    await gateway.start()
    transport = httpx2.ASGITransport(create_app(gateway), raise_app_exceptions=False)
    try:
        async with httpx2.AsyncClient(transport=transport, base_url="http://gateway", timeout=20) as client:
            yield client, gateway
    finally:
        await gateway.aclose()


def events(text: str) -> list[dict[str, Any]]:
    """The data of a stream's events, but for the mark of the end."""
    return [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]


class Scripted:
    """An engine that gives what it is told: deltas, seconds to wait, and errors to raise.

    `requests` are those that it got, `closed` the ids of those that ended, in whatever way.
    """

    def __init__(self, *script: TokenDelta | float | Exception, **capabilities: Any):
        self.script = script
        self.requests: list[GenerateRequest] = []
        self.closed: list[str] = []
        self._capabilities = replace(Capabilities("scripted", "1", "model", 100_000), **capabilities)

    async def capabilities(self) -> Capabilities:
        return self._capabilities

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        self.requests.append(request)
        try:
            for step in self.script:
                if isinstance(step, TokenDelta):
                    yield step
                elif isinstance(step, Exception):
                    raise step
                else:
                    await asyncio.sleep(step)
        finally:
            self.closed.append(request.request_id)

    async def abort(self, request_id: str) -> bool:
        return False

    async def health(self) -> Health:
        return Health("dead", "no engine")

    async def aclose(self) -> None:
        pass


THOUGHT = TokenDelta(ReplayEngine().tokenizer.encode("I think.</think>"))
END = TokenDelta((), finish_reason="stop", usage=Usage(10, 4, 5))
DIED = RequestError("engine_dead", "the engine is gone")


def message_of(path: str, body: dict[str, Any]) -> str:
    """The message of an error, checked for its protocol's form."""
    error = body["error"]
    if path == MESSAGES:
        assert body.keys() == {"type", "error", "request_id"} and body["type"] == "error"
        assert error.keys() == {"type", "message"}
    else:
        assert body.keys() == {"error"} and error.keys() == {"message", "type", "param", "code"}
    return error["message"]
