"""What operators ask: health, numbers, and the description of the API."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..gateway import Gateway
from ..jsontext import dump
from ..openapi import document
from ..responders import json_response


async def health(request: Request) -> Response:
    """`GET /health`: 200 while requests are served, else 503."""
    gateway: Gateway = request.app.state.gateway
    if gateway.draining:
        return json_response(dump({"status": "draining"}), 503)
    state = await gateway.engine.health()
    body = {"status": state.status, "detail": state.detail, "engine": gateway.capabilities.name}
    return json_response(dump(body), 200 if state.status in ("ready", "degraded") else 503)


async def metrics(request: Request) -> Response:
    """`GET /metrics`"""
    gateway: Gateway = request.app.state.gateway
    return Response(gateway.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def home(request: Request) -> Response:
    """`GET /`: what a person with a browser comes for."""
    return RedirectResponse("playground")


async def openapi(request: Request) -> Response:
    """`GET /openapi.json`"""
    return json_response(dump(document()))
