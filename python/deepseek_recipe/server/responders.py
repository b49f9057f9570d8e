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
            send_part: Send = scope["state"]["send"]
            while sent := await job.read():
                await send_part({"type": "http.response.body", "body": sent, "more_body": True})
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
    return await whole(request, gateway, call, encoded, job, body)


async def whole(
    request: Request, gateway: Gateway, call: Call, encoded: Encoded, job: Job, body: Callable[[], str | bytes]
) -> Response:
    """The reply to a job that nobody follows. Raises `ApiError` where it fails soon."""
    if await _ends(request, job, gateway.settings.keep_alive):
        return json_response(body())
    return _LateResponse(job, body, gateway.settings.keep_alive, lambda error: error.text(encoded.protocol, call.id))


def json_response(body: str | bytes, status: int = 200) -> Response:
    """A reply of JSON text."""
    return Response(body, status, media_type="application/json")


class _LateResponse(Response):
    """A whole response that takes long: empty lines, white space to JSON, keep the connection until it is there.

    Its status has been sent by then. One that fails is left without its end, so that every client sees a failure; what
    it was stands in it for people.
    """

    def __init__(
        self, job: Job, body: Callable[[], str | bytes], keep_alive: float, on_error: Callable[[ApiError], bytes]
    ):
        super().__init__(status_code=200)
        self._job = job
        self._body = body
        self._keep_alive = keep_alive
        self._on_error = on_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        job = self._job
        listener = asyncio.ensure_future(_cancel_on_disconnect(receive, job))
        try:
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while not job.task.done():
                await send({"type": "http.response.body", "body": b"\n", "more_body": True})
                await asyncio.wait([job.task], timeout=self._keep_alive)
            if (error := _failure(job)) is not None:
                await send({"type": "http.response.body", "body": self._on_error(error), "more_body": True})
                return
            body = self._body()
            content = body.encode() if isinstance(body, str) else body
            await send({"type": "http.response.body", "body": content, "more_body": False})
        finally:
            listener.cancel()
            job.cancel()


async def _ends(request: Request, job: Job, seconds: float) -> bool:
    """Waits until a job has ended, for so long. Returns whether it has, and raises its error."""
    listener = asyncio.ensure_future(_cancel_on_disconnect(request.receive, job))
    try:
        await asyncio.wait([job.task], timeout=seconds)
    except asyncio.CancelledError:
        job.cancel()
        raise
    finally:
        listener.cancel()
    if not job.task.done():
        return False
    if (error := _failure(job)) is not None:
        raise error
    return True


def _failure(job: Job) -> ApiError | None:
    """Why an ended job has no whole response. That of a client that is gone is seen by nobody."""
    if job.error is not None:
        return job.error
    if job.cancelled:
        return ApiError(499, "The client closed the connection.")
    for generation in job.generations:
        if generation.failure is not None:
            return ApiError(500, generation.failure.message, code="server_error")
    return None


async def _cancel_on_disconnect(receive: Receive, job: Job) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    job.cancel()
