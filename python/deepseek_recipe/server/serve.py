"""Runs a gateway as a process: its socket, its signals, its end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .app import create_app
from .gateway import Gateway

_Result = TypeVar("_Result")

_BACKLOG = 2048
"""Connections that wait to be accepted."""

_HEADER_TIMEOUT = 30.0
"""Seconds that a new connection gets until its first request's headers are there."""


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol with a limit for connections that say nothing, or never come to an end of their headers."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(_HEADER_TIMEOUT, self._close_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def _close_if_silent(self) -> None:
        if getattr(self, "cycle", None) is None:
            self.transport.close()


class Server(uvicorn.Server):
    """Ends gracefully: no new requests, time for the running ones, then an end in their protocol's form."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway):
        super().__init__(config)
        self._gateway = gateway

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Called between two instructions of whatever runs: the loop does the rest.
        self._loop.call_soon_threadsafe(self.drain)
        super().handle_exit(sig, frame)

    def drain(self) -> None:
        """Begins the end."""
        self.should_exit = True
        if not self._gateway.draining:
            self._gateway.draining = True
            self._loop.call_later(self._gateway.settings.drain_timeout, self._gateway.expire_all)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)


def bind(host: str, port: int, *, reuse_port: bool = False) -> socket.socket:
    """A socket that listens there. With `reuse_port`, several processes share the port and its connections.

    Raises `OSError`, and `ValueError` for no host, no port, and where the system cannot share one. A connection whose
    other end takes nothing for a minute is given up (`TCP_USER_TIMEOUT`).
    """
    if reuse_port and not hasattr(socket, "SO_REUSEPORT"):
        raise ValueError("this system cannot share a port")
    if not host or not 0 <= port < 65536:
        raise ValueError(f"{host}:{port}: expected a host, and a port from 0 to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small writes at once (TCP_NODELAY) only where the protocol is named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if reuse_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"{host}:{port}: {error.strerror}") from error
    return listener


def run(main: Coroutine[Any, Any, _Result]) -> _Result:
    """Runs to the end, on uvloop where that is installed: it takes less for each token."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


async def serve(gateway: Gateway, listener: socket.socket) -> None:
    """Serves until SIGTERM or SIGINT. The second signal ends it at once.

    Raises `EngineUnavailable` where the engine cannot be used.
    """
    await gateway.start()
    await server(gateway).serve([listener])


def server(gateway: Gateway) -> Server:
    """What `serve` runs."""
    config = uvicorn.Config(
        create_app(gateway),
        http=_Protocol,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=int(gateway.settings.drain_timeout) + 5,
    )
    return Server(config, gateway)
