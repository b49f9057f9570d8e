"""The ASGI application: paths to routes, request ids, errors in the protocol's form, and one log line a request."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from . import playground
from .errors import ApiError, Dialect
from .gateway import Gateway
from .jsontext import dump
from .responders import json_response
from .routes import chat, messages, models, operations, responses, tokens
from .tracing import span

_log = logging.getLogger("deepseek_recipe.server")

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")

_Endpoint = Callable[[Request], Awaitable[Response]]


def create_app(gateway: Gateway) -> ASGIApp:
    """The application of a gateway, which starts and ends with it."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        await gateway.start()
        yield
        await gateway.aclose()

    app = Starlette(
        routes=_routes(gateway),
        exception_handlers={ApiError: _api_error, HTTPException: _http_error, Exception: _bug},
        lifespan=lifespan,
    )
    app.state.gateway = gateway
    return _Edge(app, gateway)


def _routes(gateway: Gateway) -> list[Route]:
    routes: list[Route] = []

    def add(method: str, path: str, endpoint: _Endpoint, *prefixes: str) -> None:
        routes.extend(Route(prefix + path, endpoint, methods=[method]) for prefix in prefixes or ("",))

    # OpenAI's clients have /v1 in their base URL; DeepSeek's own URLs leave it out.
    openai = ("/v1", "", "/beta")
    add("POST", "/chat/completions", chat.create, *openai)
    add("POST", "/responses", responses.create, "/v1", "")
    add("POST", "/responses/input_tokens", responses.count_tokens, "/v1", "")
    add("GET", "/responses/{id}", responses.get, "/v1", "")
    add("DELETE", "/responses/{id}", responses.delete, "/v1", "")
    add("POST", "/responses/{id}/cancel", responses.cancel, "/v1", "")
    add("GET", "/responses/{id}/input_items", responses.input_items, "/v1", "")
    anthropic = ("/v1", "/anthropic/v1")
    add("POST", "/messages", messages.create, *anthropic)
    add("POST", "/messages/count_tokens", messages.count_tokens, *anthropic)
    add("GET", "/models", models.list_models, "/v1", "", "/anthropic/v1")
    add("GET", "/models/{id}", models.get_model, "/v1", "", "/anthropic/v1")
    add("POST", "/tokenize", tokens.tokenize)
    add("POST", "/detokenize", tokens.detokenize)
    add("GET", "/health", operations.health)
    add("GET", "/metrics", operations.metrics)
    if gateway.settings.expose_docs:
        add("GET", "/openapi.json", operations.openapi)
        add("GET", "/", operations.home)
        routes += playground.routes()
    return routes


def _dialect(path: str) -> Dialect:
    return "anthropic" if path.startswith(("/v1/messages", "/anthropic/")) else "openai"


def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    dialect = _dialect(request.url.path)
    response = json_response(dump(error.body(dialect, request.state.request_id)), error.http_status(dialect))
    response.headers.update(error.headers)
    return response


def _http_error(request: Request, error: Exception) -> Response:
    """Paths and methods that there are not."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path[:200]}: {error.detail}"
    return _api_error(request, ApiError(error.status_code, message, headers=dict(error.headers or {})))


def _bug(request: Request, error: Exception) -> Response:
    return _api_error(request, ApiError(500, "Internal server error"))


class _Edge:
    """What every request passes: it gets an id, the reply carries it, and one line is logged."""

    def __init__(self, app: ASGIApp, gateway: Gateway):
        self._app = app
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        asked = headers.get("x-request-id", "")
        id = asked if _REQUEST_ID.fullmatch(asked) else f"req_{uuid.uuid4().hex}"
        state = scope.setdefault("state", {})
        state["request_id"] = id
        # For the parts of a stream: what stands between looks at the beginning of a reply only.
        state["send"] = send
        started = time.monotonic()
        status = 500
        # The names of OpenAI's and of Anthropic's header.
        added = [(b"x-request-id", id.encode()), (b"request-id", id.encode())]

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        try:
            with span(
                f"{scope['method']} {scope['path'][:200]}", headers, {"deepseek_recipe.request_id": id}
            ) as current:
                await self._app(scope, receive, send_with_id)
                if current is not None:
                    current.set_attribute("http.response.status_code", status)
        finally:
            # Of an unknown path only that it is unknown: labels of metrics must not grow with what clients make up.
            route = getattr(scope.get("route"), "path", "unknown")
            self._gateway.metrics.replied(route, status, started)
            _log.info(
                "request",
                extra={
                    "request_id": id,
                    "method": scope["method"],
                    "route": route,
                    "status": status,
                    "seconds": round(time.monotonic() - started, 4),
                },
            )
