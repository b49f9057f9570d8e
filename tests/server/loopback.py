"""A gateway on loopback, as the command line serves it, and raw connections to it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import deepseek_recipe.server.serve as serving
from deepseek_recipe.adapters import EngineAdapter
from deepseek_recipe.server import Gateway, MemoryStore, ResponseStore, Settings


@asynccontextmanager
async def listening(
    engine: EngineAdapter, *, store: ResponseStore | None = None, **settings: Any
) -> AsyncIterator[tuple[int, Gateway]]:
    """The port of a gateway. In the end it is drained."""
    gateway = Gateway(engine, Settings(**settings), store=store or MemoryStore())
    await gateway.start()
    listener = serving.bind("127.0.0.1", 0)
    server = serving.server(gateway)
    task = asyncio.ensure_future(server.serve([listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield listener.getsockname()[1], gateway
    finally:
        server.drain()
        await asyncio.wait_for(task, 20)


async def post(port: int, path: str, body: Any, *headers: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Sends a request and leaves the connection open."""
    content = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [f"POST {path} HTTP/1.1", "Host: gateway", f"Content-Length: {len(content)}", *headers]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
    await writer.drain()
    return reader, writer


async def until(condition: Any, seconds: float = 5) -> None:
    """Waits until something is so."""
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not become so")
