"""What a client is told when a request fails, in the form of its protocol."""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias, cast

from .._native import ConversionError
from ..adapters import RequestError, RequestErrorKind
from .jsontext import dump

Dialect: TypeAlias = Literal["openai", "anthropic"]
"""The two forms of errors: Chat Completions and Responses share one."""

_OPENAI_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_OF_ENGINE: dict[RequestErrorKind, tuple[int, str]] = {
    "too_long": (400, "context_length_exceeded"),
    "bad_param": (400, "invalid_request_error"),
    "unsupported": (400, "invalid_request_error"),
    "constraint_invalid": (400, "invalid_request_error"),
    "overloaded": (503, "overloaded"),
    "engine_dead": (500, "server_error"),
}


class ApiError(Exception):
    """A request that is answered with an error. `message` is for the client: no host, no path, no trace."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ):
        super().__init__(message)
        self.status: int = status
        self.message: str = message
        self.code: str | None = code
        self.param: str | None = param
        self.headers: dict[str, str] = headers or {}

    def body(self, dialect: Dialect, request_id: str) -> dict[str, Any]:
        """The reply's body."""
        if dialect == "anthropic":
            default = "invalid_request_error" if self.status < 500 else "api_error"
            error = {"type": _ANTHROPIC_TYPES.get(self.status, default), "message": self.message}
            return {"type": "error", "error": error, "request_id": request_id}
        default = "invalid_request_error" if self.status < 500 else "server_error"
        type = _OPENAI_TYPES.get(self.status, default)
        return {"error": {"message": self.message, "type": type, "param": self.param, "code": self.code or type}}

    def http_status(self, dialect: Dialect) -> int:
        """The reply's status: Messages has one of its own for overload."""
        return 529 if dialect == "anthropic" and self.status == 503 else self.status

    def text(self, protocol: str, request_id: str) -> bytes:
        """The reply's body as JSON text."""
        return dump(self.body("anthropic" if protocol == "messages" else "openai", request_id))

    def sse(self, protocol: str, request_id: str) -> bytes:
        """The only event of a stream that failed before its first one (protocols' own forms)."""
        if protocol == "messages":
            return b"event: error\ndata: " + dump(self.body("anthropic", request_id)) + b"\n\n"
        body = self.body("openai", request_id)
        if protocol == "responses":
            error = body["error"]
            event = {"type": "error", "code": error["code"], "message": error["message"], "param": error["param"]}
            return b"event: error\ndata: " + dump({**event, "sequence_number": 0}) + b"\n\n"
        return b"data: " + dump(body) + b"\n\n"


def of_refusal(error: ConversionError | ValueError) -> ApiError:
    """What the codec says about a request. Anything else that is a `ValueError` is a bug and raised again."""
    if not hasattr(error, "body"):
        raise error
    refusal = cast(ConversionError, error)
    said = json.loads(refusal.body)["error"]
    code = said["code"]
    if said["message"].startswith("This model's maximum context length"):
        code = "context_length_exceeded"
    return ApiError(refusal.status_code, said["message"], code=code, param=said["param"])


def of_engine(error: RequestError) -> ApiError:
    """What an engine says about a request."""
    status, code = _OF_ENGINE[error.kind]
    return ApiError(status, error.message, code=code, headers={"retry-after": "1"} if status == 503 else None)
