"""What engines that compute when they are asked have in common: one thread owns the engine. Knows no engine."""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

from .base import Capabilities, GenerateRequest, Health, RequestError, TokenDelta, merged

_log = logging.getLogger("deepseek_recipe.adapters")

Made: TypeAlias = "Iterable[tuple[str, TokenDelta | RequestError]]"
"""What a step made, by the names of the requests. An error or a delta with a finish reason is a request's last."""


class OwnedEngine(ABC):
    """Calls the engine from one thread, which computes while there is something to compute."""

    def __init__(self, name: str):
        self._running: dict[str, str] = {}
        """The engine's names of the requests. They are used once, so that the end of a request never meets the next."""
        self._outputs: dict[str, _Output] = {}
        """By the engine's names; of the thread."""
        self._names = itertools.count()
        self._commands: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._failure = ""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @abstractmethod
    async def capabilities(self) -> Capabilities:
        """See `EngineAdapter.capabilities`."""

    @abstractmethod
    def _native(self, request: GenerateRequest, name: str) -> Any:
        """The request in the engine's words, under this name. Raises `RequestError`."""

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        """See `EngineAdapter.generate`. A consumer that is slow gets several ids in a delta."""
        id = request.request_id
        if id in self._running:
            raise RequestError("bad_param", f"request {id} is running already")
        name = self._running[id] = str(next(self._names))
        ended = False
        try:
            output = _Output(asyncio.get_running_loop())
            self._commands.put(partial(self._start, name, self._native(request, name), output))
            while not ended:
                delta = merged(await output.take()) or TokenDelta()
                ended = delta.finish_reason is not None
                yield delta
        finally:
            del self._running[id]
            if not ended:
                self._commands.put(partial(self._end, name))

    async def abort(self, request_id: str) -> bool:
        """See `EngineAdapter.abort`."""
        name = self._running.get(request_id)
        if name is None:
            return False
        self._commands.put(partial(self._end, name))
        return True

    async def health(self) -> Health:
        """Dead behind a fault of the engine."""
        return Health("dead", self._failure) if self._failure else Health("ready")

    async def aclose(self) -> None:
        """Aborts what runs, and ends the thread behind its step."""
        self._commands.put(None)
        await asyncio.to_thread(self._thread.join)

    # What follows runs in the thread.

    @abstractmethod
    def _add(self, native: Any) -> None:
        """Gives a request to the engine. Raises `RequestError`."""

    @abstractmethod
    def _cancel(self, name: str) -> None:
        """Ends a request in the engine, if it runs; the next step gives its last delta."""

    @abstractmethod
    def _idle(self) -> bool:
        """Whether a step would do nothing."""

    @abstractmethod
    def _step(self) -> Made:
        """Computes, and gives what was made."""

    def _work(self) -> None:
        while self._carry_out():
            self._pump()
        for name in list(self._outputs):
            self._end(name)
        if self._outputs:
            self._pump()

    def _pump(self) -> None:
        try:
            for name, made in self._step():
                self._give(name, made)
        except Exception as error:
            _log.exception("the engine failed")
            self._failure = f"the engine failed: {type(error).__name__}"
            for output in self._outputs.values():
                output.give(RequestError("engine_dead", "the engine failed"))
            self._outputs.clear()

    def _carry_out(self) -> bool:
        """Carries out the commands that have come; waits for one where nothing is to be computed. False at the end."""
        while True:
            try:
                command = self._commands.get(block=bool(self._failure) or self._idle())
            except queue.Empty:
                return True
            if command is None:
                return False
            command()

    def _start(self, name: str, native: Any, output: _Output) -> None:
        if self._failure:
            output.give(RequestError("engine_dead", "the engine failed"))
            return
        try:
            self._add(native)
        except RequestError as error:
            output.give(error)
            return
        self._outputs[name] = output

    def _end(self, name: str) -> None:
        if name in self._outputs:
            self._cancel(name)

    def _give(self, name: str, made: TokenDelta | RequestError) -> None:
        output = self._outputs.get(name)
        if output is None:
            return
        if isinstance(made, RequestError) or made.finish_reason is not None:
            del self._outputs[name]
        output.give(made)


class _Output:
    """Deltas on their way from the thread to their consumer. No more wait than the request has tokens."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._some = asyncio.Event()
        self._items: deque[TokenDelta | RequestError] = deque()

    def give(self, item: TokenDelta | RequestError) -> None:
        """For the thread."""
        self._items.append(item)
        try:
            self._loop.call_soon_threadsafe(self._some.set)
        except RuntimeError:  # The loop is closed: nobody waits.
            pass

    async def take(self) -> list[TokenDelta]:
        """For the consumer: all deltas that wait. Raises a `RequestError` that was given, behind the deltas before."""
        await self._some.wait()
        self._some.clear()
        deltas: list[TokenDelta] = []
        while self._items:
            item = self._items[0]
            if not isinstance(item, RequestError):
                deltas.append(item)
            elif deltas:
                self._some.set()
                break
            else:
                raise item
            self._items.popleft()
        return deltas
