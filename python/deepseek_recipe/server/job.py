"""The work for one HTTP request: its answers run, their bytes wait to be taken, and clocks watch over both.

A job runs by itself; whoever takes its output may be a connection or a store. Knows no protocol.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from ..adapters import RequestError
from .errors import ApiError, of_engine
from .generation import Generation
from .limits import Slots
from .settings import Settings
from .sse import COMMENT

_log = logging.getLogger("deepseek_recipe.server")

_HIGH = 64 * 1024
"""With so many bytes waiting, the engine is not asked for more."""

_OPEN_AFTER = 1.0
"""Seconds until a stream is opened although nothing has come: an engine that refuses does it sooner, and before that
the refusal can have a status of its own."""


_CLOSING = 10.0
"""Seconds that an engine gets to let go of requests that have ended, or that nobody wants any more."""


class Job:
    """Answers that run at a time, one for most requests.

    `ping` is what shows a client that the stream lives, once it has begun; `keep` says whether anyone takes the bytes.
    `on_end` is called once, when everything has ended.
    """

    def __init__(
        self,
        generations: Sequence[Generation],
        slots: Slots,
        settings: Settings,
        *,
        keep: bool = True,
        ping: bytes = COMMENT,
        on_end: Callable[[Job], None] | None = None,
    ):
        self.generations: Sequence[Generation] = generations
        self._slots = slots
        self._settings = settings
        self._keep = keep
        self._ping = ping
        self._on_end = on_end
        self.started: float = time.monotonic()
        self.error: ApiError | None = None
        """Why there is no output at all."""
        self.cancelled: bool = False
        self.done: bool = False
        self.consumer: asyncio.Task[None] | None = None
        """Who takes the bytes; cancelled where nothing is taken for too long."""
        self._chunks: list[bytes] = []
        self._size = 0
        self._taken_at = self._put_at = self.started
        self._room = asyncio.Event()
        self._pumps: list[asyncio.Task[None]] = []
        self._expired: RequestError | None = None
        self._ended_at: float | None = None
        """Since when nothing more is wanted of the engine."""
        limits = (settings.first_token_timeout, settings.stall_timeout, settings.write_timeout, settings.keep_alive)
        self._period = max(0.01, min(1.0, *(limit / 4 for limit in limits)))
        loop = asyncio.get_running_loop()
        self._output: asyncio.Future[None] = loop.create_future()
        self._timer = loop.call_later(self._period, self._tick)
        self.task: asyncio.Task[None] = loop.create_task(self._run())
        # Not at the end of `_run`: a task that is cancelled before it starts never gets there.
        self.task.add_done_callback(self._end)

    def cancel(self) -> None:
        """Ends the job: nobody wants it any more. The engine is told."""
        if not self.done:
            self.cancelled = True
            self.task.cancel()

    def expire(self, error: RequestError) -> None:
        """Ends the job as failed; a stream that has begun gets its protocol's last event."""
        if self._expired is None:
            self._expired = error
            for pump in self._pumps:
                pump.cancel()
            if not self._pumps:
                self.task.cancel()

    async def first(self) -> None:
        """Waits for output, but not for long. Raises the `ApiError` of a job that has none to give."""
        await asyncio.wait([self._wait()], timeout=_OPEN_AFTER)
        if self.error is not None:
            raise self.error

    async def read(self) -> bytes:
        """Takes all bytes that wait, as soon as there are some; none at the end."""
        if not self._chunks:
            await self._wait()
            if not self._chunks:
                return b""
        taken = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks = []
        self._size = 0
        self._taken_at = time.monotonic()
        self._room.set()
        return taken

    def _wait(self) -> asyncio.Future[None]:
        """What is done as soon as bytes wait, or none will come. A plain future costs less a token than an event."""
        self._output = asyncio.get_running_loop().create_future()
        if self._chunks or self.done:
            self._output.set_result(None)
        return self._output

    def _wake(self) -> None:
        if not self._output.done():
            self._output.set_result(None)

    async def _run(self) -> None:
        try:
            async with self._slots:
                loop = asyncio.get_running_loop()
                self._pumps = [loop.create_task(self._pump(generation)) for generation in self.generations]
                await asyncio.gather(*self._pumps)
        except ApiError as error:
            self.error = error
        except asyncio.CancelledError:
            # The job's own end: the task that awaits it goes on.
            if self._expired is not None:
                self.error = _of_expiry(self._expired)
        except Exception:
            _log.exception("a job failed")
            self.error = ApiError(500, "Internal server error")
        finally:
            for pump in self._pumps:
                pump.cancel()
            await asyncio.gather(*self._pumps, return_exceptions=True)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._timer.cancel()
        self.done = True
        self._wake()
        if self._on_end is not None:
            self._on_end(self)

    async def _pump(self, generation: Generation) -> None:
        events = generation.events()
        try:
            async for sent in events:
                self._put(sent)
                while self._size > _HIGH:
                    self._room.clear()
                    await self._room.wait()
        except RequestError as error:
            raise of_engine(error) from error
        except asyncio.CancelledError:
            if self._expired is None:
                raise
            if not generation.opened:
                raise _of_expiry(self._expired) from None
            self._put(generation.fail(self._expired))
        finally:
            await events.aclose()

    def _put(self, sent: bytes) -> None:
        if self._keep and sent:
            if not self._chunks:
                self._taken_at = time.monotonic()
                self._wake()
            self._chunks.append(sent)
            self._size += len(sent)
            self._put_at = time.monotonic()

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._period, self._tick)
        now, settings = time.monotonic(), self._settings
        for generation in self.generations:
            waits = generation.finish_reason is None and generation.failure is None and self._size <= _HIGH
            if not generation.opened and now - self.started > settings.first_token_timeout:
                self.expire(RequestError("engine_dead", "the engine did not begin in time"))
            elif generation.opened and waits and now - generation.last_at > settings.stall_timeout:
                self.expire(RequestError("engine_dead", "the engine stopped giving output"))
        self._press(now)
        if self._chunks:
            if now - self._taken_at > settings.write_timeout and self.consumer is not None:
                self.consumer.cancel()
                self.cancel()
        elif self._keep and now - self._put_at > settings.keep_alive:
            self._put(self._ping if any(generation.opened for generation in self.generations) else COMMENT)

    def _press(self, now: float) -> None:
        """Does not wait for ever for an engine that hangs in the end of a request: its place has to become free."""
        if not (self.cancelled or self._expired is not None or all(one.ended for one in self.generations)):
            return
        if self._ended_at is None:
            self._ended_at = now
        elif now - self._ended_at > _CLOSING and self._size <= _HIGH:
            self._ended_at = now
            for generation, pump in zip(self.generations, self._pumps, strict=False):
                if not pump.done():
                    id = generation.request.request_id
                    _log.warning("the engine does not let go of a request", extra={"request_id": id})
                    pump.cancel()


def _of_expiry(error: RequestError) -> ApiError:
    return of_engine(error) if error.kind == "overloaded" else ApiError(504, error.message, code="timeout")
