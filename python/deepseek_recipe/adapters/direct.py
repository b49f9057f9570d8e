"""Plain HTTP/1.1 to an engine, as a transport of httpx2 that costs little for each token. Knows no engine.

One connection a request, kept for the next one. Neither TLS nor proxies: other URLs take httpx2's own transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar, cast

import httptools
import httpx2

_Result = TypeVar("_Result")

_MAX_HEAD = 64 * 1024
"""Bytes of the names and values of a reply's headers."""

_MAX_WAITING = 256 * 1024
"""Bytes of a body that wait for who reads it; then the connection is not read."""

_MAX_IDLE = 256
"""Connections that are kept."""


class DirectTransport(httpx2.AsyncBaseTransport):
    """Speaks to one server."""

    def __init__(self) -> None:
        self._idle: list[_Connection] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends a request and returns the reply when its headers are there. Raises `httpx2.TransportError`."""
        head, body = _head(request), await request.aread()
        timeouts: dict[str, float | None] = request.extensions.get("timeout", {})
        connection = self._idle.pop() if self._idle else await self._open(request.url, timeouts.get("connect"))
        stream = _Body(self, connection, timeouts.get("read"))
        try:
            connection.send(head, body)
            while not connection.begun:
                await stream.wait()
        except BaseException:
            await stream.aclose()
            raise
        return httpx2.Response(connection.status, headers=connection.headers, stream=stream)

    async def _open(self, url: httpx2.URL, timeout: float | None) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            opening = loop.create_connection(lambda: _Connection(self._forget), url.host, url.port or 80)
            _, connection = await _within(opening, timeout, httpx2.ConnectTimeout)
        except OSError as error:
            raise httpx2.ConnectError(str(error)) from error
        return connection

    def keep(self, connection: _Connection) -> None:
        """Takes a connection whose reply is over."""
        if connection.is_idle() and len(self._idle) < _MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def _forget(self, connection: _Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)

    async def aclose(self) -> None:
        """Closes the connections that no request has."""
        for connection in list(self._idle):
            connection.close()


class _Body(httpx2.AsyncByteStream):
    """A reply's body as it comes."""

    def __init__(self, transport: DirectTransport, connection: _Connection, timeout: float | None):
        self._transport = transport
        self._connection: _Connection | None = connection
        self._timeout = timeout

    async def wait(self) -> None:
        """Waits for the headers, and behind them for a part of the body or its end."""
        if self._connection is None:
            raise httpx2.ReadError("the reply is closed")
        if self._timeout is None:
            await self._connection.wait()
        else:
            await _within(self._connection.wait(), self._timeout, httpx2.ReadTimeout)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self._connection is not None:
            if part := self._connection.take():
                yield part
            elif self._connection.complete:
                return
            else:
                await self.wait()

    async def aclose(self) -> None:
        """Gives the connection back, or closes it where the reply is not over. Who waits for a part gets an error."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._transport.keep(connection)


class _Connection(asyncio.Protocol):
    """A connection and the reply that comes on it. `on_…` are called by the parser."""

    _transport: asyncio.Transport

    def __init__(self, forget: Any):
        self._forget = forget
        self._error: httpx2.TransportError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._reset()
        self.complete = True

    def _reset(self) -> None:
        self._parts: list[bytes] = []
        self._waiting = 0
        self._head_size = 0
        self._delimited = False
        self._news = False
        self.begun = False
        """Whether the headers are there."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.complete = False
        self._stays = False

    def send(self, head: bytes, body: bytes) -> None:
        """Sends a request."""
        self._reset()
        self._transport.write(head + body)

    async def wait(self) -> None:
        """Waits until there is something new: the headers, a part, or the end. Raises what went wrong."""
        if self._error is not None:
            raise self._error
        if not self._news:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self._news = False

    def take(self) -> bytes:
        """The body's parts that wait."""
        taken = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts = []
        if self._waiting > _MAX_WAITING and self._error is None:
            self._transport.resume_reading()
        self._waiting = 0
        return taken

    def is_idle(self) -> bool:
        """Whether the reply is over and taken, and another request may follow."""
        return self.complete and self._stays and not self._parts and self._error is None

    def close(self) -> None:
        """Closes the connection at once: the engine ends what it does for it."""
        self._fail(httpx2.ReadError("the reply is closed"))

    def _wake(self) -> None:
        self._news = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: httpx2.TransportError) -> None:
        if self._error is None:
            self._error = error
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_exception(error)
        self._transport.abort()

    # --- asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is none by its class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(httpx2.RemoteProtocolError(str(error)))

    def eof_received(self) -> None:
        if self.begun and not self._delimited and not self.complete:
            self.complete = True
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget(self)
        message = "the server closed the connection before its reply was whole"
        self._fail(httpx2.ReadError(str(exc)) if exc else httpx2.RemoteProtocolError(message))

    # --- httptools ---

    def on_message_begin(self) -> None:
        if self.complete:
            # Nothing was asked.
            self._fail(httpx2.RemoteProtocolError("the server sent more than its reply"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value)
        if self._head_size > _MAX_HEAD:
            self._fail(httpx2.RemoteProtocolError("the headers are too long"))
            return
        self.headers.append((name, value))
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._delimited = True

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status < 200:
            # It says that it goes on.
            self.headers = []
            return
        self.begun = True
        self._wake()

    def on_body(self, data: bytes) -> None:
        self._parts.append(data)
        self._waiting += len(data)
        if self._waiting > _MAX_WAITING >= self._waiting - len(data) and self._error is None:
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        if self.status >= 200:
            self.complete = True
            self._stays = self._parser.should_keep_alive()
            self._wake()


async def _within(work: Awaitable[_Result], seconds: float | None, error: type[httpx2.TimeoutException]) -> _Result:
    try:
        return await asyncio.wait_for(work, seconds)
    except asyncio.TimeoutError:
        raise error(f"nothing came within {seconds} s") from None


def _head(request: httpx2.Request) -> bytes:
    if any(b"\r" in value or b"\n" in value for _, value in request.headers.raw):
        raise httpx2.LocalProtocolError("a header holds a line break")
    lines = [request.method.encode() + b" " + request.url.raw_path + b" HTTP/1.1"]
    lines += [name + b": " + value for name, value in request.headers.raw]
    return b"\r\n".join(lines) + b"\r\n\r\n"
