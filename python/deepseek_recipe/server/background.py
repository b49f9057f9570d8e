"""Responses that are made without a connection. Their events go to the store, and whoever asks follows them there.

So a stream can be taken up again, from another process that shares the store, too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .gateway import Call, Gateway
from .generation import Generation
from .job import Job
from .jsontext import dump
from .responders import STREAM_HEADERS, json_response
from .settings import Settings
from .sse import COMMENT, split
from .store import ResponseStore, StoredResponse

_POLL = 0.05
"""Seconds between two looks for new events."""

_CHECK = 1.0
"""Seconds between two looks whether another process has cancelled a response."""

_LAST_EVENTS = (b"event: response.completed\n", b"event: response.incomplete\n", b"event: response.failed\n")


async def start(
    gateway: Gateway,
    store: ResponseStore,
    call: Call,
    generation: Generation,
    queued: StoredResponse,
    stored: Callable[[Generation], StoredResponse],
    stream: bool,
) -> Response:
    """Starts a response and replies at once: with the queued response, or with its stream.

    `stored` makes what is kept of it.
    """
    job = gateway.run([generation], call, "responses", keep=True)
    gateway.background[queued.owner, queued.id] = job
    await store.put(queued)
    record = asyncio.ensure_future(_record(gateway, store, job, queued, stored))
    gateway.tasks.add(record)
    record.add_done_callback(gateway.tasks.discard)
    return Follow(store, queued, 0, gateway.settings) if stream else json_response(dump(queued.response))


def cancel_job(gateway: Gateway, stored: StoredResponse) -> None:
    """Ends the work on a response, if it is done in this process."""
    job = gateway.background.get((stored.owner, stored.id))
    if job is not None:
        job.cancel()


async def cancel(gateway: Gateway, store: ResponseStore, stored: StoredResponse) -> StoredResponse:
    """Cancels a response that is not finished, and returns its last state."""
    cancel_job(gateway, stored)
    if stored.status not in ("queued", "in_progress"):
        return stored
    cancelled = with_status(stored, "cancelled")
    await store.put(cancelled)
    return cancelled


class Follow(Response):
    """A background response's stream, from the event of number `start` on."""

    def __init__(self, store: ResponseStore, stored: StoredResponse, start: int, settings: Settings):
        super().__init__(status_code=200)
        self._store = store
        self._stored = stored
        self._start = start
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_disconnect(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
            sent_at = came_at = time.monotonic()
            # The process that makes the response may have died: no event comes for so long otherwise.
            while not gone.done() and time.monotonic() - came_at < self._settings.first_token_timeout + _CHECK:
                events = await self._store.events(self._stored.id, self._stored.owner, self._start)
                came_at = time.monotonic() if events else came_at
                if events or time.monotonic() - sent_at > self._settings.keep_alive:
                    self._start += len(events)
                    sent_at = time.monotonic()
                    await send({"type": "http.response.body", "body": b"".join(events) or COMMENT, "more_body": True})
                if (events and events[-1].startswith(_LAST_EVENTS)) or (not events and await self._is_over()):
                    break
                await asyncio.sleep(_POLL)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()

    async def _is_over(self) -> bool:
        """Whether no more events will come: it was cancelled or deleted, or all of them have been sent before."""
        stored = await self._store.get(self._stored.id, self._stored.owner)
        if stored is None or stored.status == "cancelled":
            return True
        if stored.status in ("queued", "in_progress"):
            return False
        # The state is written before the last event: that one may still be on its way.
        await asyncio.sleep(_POLL)
        return not await self._store.events(stored.id, stored.owner, self._start)


async def _record(
    gateway: Gateway,
    store: ResponseStore,
    job: Job,
    queued: StoredResponse,
    stored: Callable[[Generation], StoredResponse],
) -> None:
    """Writes a job's state and events. The last state stands in the store before the last event does."""
    generation = job.generations[0]
    running = False
    checked = time.monotonic()
    try:
        while sent := await job.read():
            if time.monotonic() - checked > _CHECK:
                checked = time.monotonic()
                now = await store.get(queued.id, queued.owner)
                if now is None or now.status == "cancelled":
                    job.cancel()
            if job.cancelled:
                return
            if generation.reply.finished:
                await store.put(replace(stored(generation), created_at=queued.created_at))
            elif not running and generation.opened:
                running = True
                await store.put(with_status(queued, "in_progress"))
            # Comments keep connections alive, and here is none.
            events = [event for event in split(sent) if not event.startswith(b":")]
            await store.append(queued.id, queued.owner, events)
        if job.error is not None and not job.cancelled:
            error = {"code": "server_error", "message": job.error.message}
            failed = replace(queued, response={**queued.response, "status": "failed", "error": error})
            await store.put(failed)
            event = dump({"type": "response.failed", "response": failed.response, "sequence_number": 0})
            await store.append(queued.id, queued.owner, [b"event: response.failed\ndata: " + event + b"\n\n"])
    finally:
        job.cancel()
        gateway.background.pop((queued.owner, queued.id), None)


def with_status(stored: StoredResponse, status: str) -> StoredResponse:
    """The same response with another status."""
    return replace(stored, response={**stored.response, "status": status})


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
