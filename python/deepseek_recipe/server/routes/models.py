"""The model list, in the form of whoever asks."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ..._native import ModelVersion
from ..errors import ApiError
from ..gateway import Gateway
from ..jsontext import dump
from ..responders import json_response

_NAMES: dict[ModelVersion, tuple[tuple[str, str], ...]] = {
    ModelVersion.DeepseekV41Flash: (
        ("DeepSeek-V4.1-Flash", "DeepSeek V4.1 Flash"),
        ("deepseek-flash", "DeepSeek Flash"),
    ),
    ModelVersion.DeepseekV4Pro: (("DeepSeek-V4-Pro", "DeepSeek V4 Pro"), ("deepseek-v4-pro", "DeepSeek V4 Pro")),
}
_CREATED = 1_767_225_600
"""2026-01-01: the models' own dates are not known here, and clients want one."""


async def list_models(request: Request) -> Response:
    """`GET /v1/models`"""
    gateway: Gateway = request.app.state.gateway
    gateway.authorize(request)
    found = [_model(request, gateway, *names) for names in _NAMES[gateway.settings.model]]
    if _is_anthropic(request):
        ids = {"first_id": found[0]["id"], "last_id": found[-1]["id"]}
        return json_response(dump({"data": found, "has_more": False, **ids}))
    return json_response(dump({"object": "list", "data": found}))


async def get_model(request: Request) -> Response:
    """`GET /v1/models/{id}`"""
    gateway: Gateway = request.app.state.gateway
    gateway.authorize(request)
    wanted = request.path_params["id"]
    for id, name in _NAMES[gateway.settings.model]:
        if id == wanted:
            return json_response(dump(_model(request, gateway, id, name)))
    raise ApiError(404, f"The model '{wanted[:200]}' does not exist.", code="model_not_found", param="model")


def _model(request: Request, gateway: Gateway, id: str, name: str) -> dict[str, Any]:
    if _is_anthropic(request):
        return {"type": "model", "id": id, "display_name": name, "created_at": "2026-01-01T00:00:00Z"}
    return {
        "id": id,
        "object": "model",
        "created": _CREATED,
        "owned_by": "deepseek",
        "max_model_len": gateway.capabilities.max_model_len,
    }


def _is_anthropic(request: Request) -> bool:
    """Both APIs have this path; only Anthropic's clients send this header."""
    return "anthropic-version" in request.headers or request.url.path.startswith("/anthropic")
