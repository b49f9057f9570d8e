"""A job's output on a connection: as a stream, or whole. A client that goes away ends the job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..recipe import Encoded
from .errors import ApiError
from .gateway import Call, Gateway
from .generation import Generation
from .job import Job

STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # Proxies of the nginx family would collect the stream.
    (b"x-accel-buffering", b"no"),
]


class StreamResponse(Response):
    """A job as server-sent events. `on_error` makes the one event of a job that fails after the headers were sent."""

    def __init__(self, job: Job, on_error: Callable[[ApiError], bytes]):
        super().__init__(status_code=200)
        self._job = job
        self._on_error = on_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        job = self._job
        job.consumer = asyncio.current_task()
        listener = asyncio.ensure_future(_cancel_on_disconnect(receive, job))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
            while sent := await job.read():
                await send({"type": "http.response.body", "body": sent, "more_body": True})
            last = b"" if job.error is None else self._on_error(job.error)
            await send({"type": "http.response.body", "body": last, "more_body": False})
        except asyncio.CancelledError:
            # A client that takes nothing: the connection is closed without the end of the stream.
            if not job.cancelled:
                raise
        finally:
            listener.cancel()
            job.cancel()


async def respond(
    request: Request,
    gateway: Gateway,
    call: Call,
    encoded: Encoded,
    generations: Sequence[Generation],
    body: Callable[[], str | bytes],
) -> Response:
    """Runs the answers and replies as the request wants it; `body` makes the whole response when they have ended.

    Raises `ApiError` where there is no answer.
    """
    job = gateway.run(generations, call, encoded.protocol, keep=encoded.stream)
    if encoded.stream:
        try:
            await job.first()
        except asyncio.CancelledError:
            job.cancel()
            raise
        return StreamResponse(job, lambda error: error.sse(encoded.protocol, call.id))
    await whole(request, job)
    return json_response(body())


def json_response(body: str | bytes, status: int = 200) -> Response:
    """A reply of JSON text."""
    return Response(body, status, media_type="application/json")


async def whole(request: Request, job: Job) -> None:
    """Waits until a job has ended. Raises its error; a client that is gone gets 499, which nobody sees."""
    listener = asyncio.ensure_future(_cancel_on_disconnect(request.receive, job))
    try:
        await asyncio.wait([job.task])
    finally:
        listener.cancel()
        job.cancel()
    if job.error is not None:
        raise job.error
    if job.cancelled:
        raise ApiError(499, "The client closed the connection.")
    for generation in job.generations:
        if generation.failure is not None:
            raise ApiError(500, generation.failure.message, code="server_error")


async def _cancel_on_disconnect(receive: Receive, job: Job) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    job.cancel()
