"""What engines in this process have in common: requests that run, and how they end. Knows no engine."""

from __future__ import annotations

import asyncio
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

from .base import Capabilities, EngineUnavailable, GenerateRequest, Health, RequestError, TokenDelta, Usage

_log = logging.getLogger("deepseek_recipe.adapters")

_WAITING = 256
"""Deltas of one request that wait for its consumer; then the engine's iterator waits."""


def probe(method: Callable[..., Any], names: Sequence[str]) -> None:
    """Raises `EngineUnavailable` where a method of the engine does not take all that it is given.

    Engines change from version to version; a start that fails is better than requests that do.
    """
    try:
        taken = inspect.signature(method).parameters
    except (TypeError, ValueError) as error:
        raise EngineUnavailable(f"this version of the engine does not say what {method} takes") from error
    if missing := [name for name in names if name not in taken]:
        raise EngineUnavailable(f"this version of the engine has no {', '.join(missing)} in {method.__qualname__}")


class InProcess(ABC):
    """An engine whose outputs are async iterators. A task reads each, so that an abort can come in between."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Queue[TokenDelta | Exception]] = {}

    @abstractmethod
    async def capabilities(self) -> Capabilities:
        """See `EngineAdapter.capabilities`."""

    @abstractmethod
    async def _start(self, request: GenerateRequest) -> AsyncIterator[TokenDelta]:
        """Starts a request. Raises `RequestError`."""

    @abstractmethod
    async def _abort(self, request_id: str) -> None:
        """Ends a request in the engine."""

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        """See `EngineAdapter.generate`."""
        id = request.request_id
        if id in self._running:
            raise RequestError("bad_param", f"request {id} is running already")
        queue = self._running[id] = asyncio.Queue(_WAITING)
        reader = asyncio.ensure_future(self._read(request, queue))
        ended = False
        count = 0
        try:
            while not ended:
                delta = await queue.get()
                if isinstance(delta, Exception):
                    ended = True
                    raise delta
                ended = delta.finish_reason is not None
                count += len(delta.token_ids)
                if delta.finish_reason == "abort" and delta.usage is None:
                    delta = TokenDelta((), None, "abort", Usage(completion=count))
                yield delta
        finally:
            del self._running[id]
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader
            if not ended:
                await self._abort(id)

    async def _read(self, request: GenerateRequest, queue: asyncio.Queue[TokenDelta | Exception]) -> None:
        try:
            async for delta in await self._start(request):
                await queue.put(delta)
                if delta.finish_reason is not None:
                    return
            await queue.put(RequestError("engine_dead", "the engine's output ended without a finish reason"))
        except RequestError as error:
            await queue.put(error)
        except Exception as error:
            _log.exception("the engine failed", extra={"request_id": request.request_id})
            kind = "bad_param" if isinstance(error, ValueError) else "engine_dead"
            await queue.put(RequestError(kind, "the engine failed" if kind == "engine_dead" else str(error)[:300]))

    async def abort(self, request_id: str) -> bool:
        """See `EngineAdapter.abort`."""
        queue = self._running.get(request_id)
        if queue is None:
            return False
        await self._abort(request_id)
        while queue.full():
            queue.get_nowait()
        queue.put_nowait(TokenDelta((), None, "abort"))
        return True

    async def health(self) -> Health:
        """Ready as long as it is not closed: an engine that died fails its requests."""
        return Health("ready")

    async def aclose(self) -> None:
        """Ends everything that runs."""
        for request_id in list(self._running):
            await self.abort(request_id)
