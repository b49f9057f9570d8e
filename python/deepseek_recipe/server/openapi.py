"""The description of the API (OpenAPI 3.1). Bodies are described as far as the gateway itself reads them."""

from __future__ import annotations

from typing import Any

from .._native import __version__


def document() -> dict[str, Any]:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "deepseek-recipe gateway",
            "version": __version__,
            "description": "Chat Completions, Responses and Messages for DeepSeek models. "
            "Where the server was started with keys, each request carries one.",
        },
        "security": [{}, {"bearer": []}, {"key": []}],
        "paths": _PATHS,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
            "schemas": _SCHEMAS,
        },
    }


_EVENT = {
    "type": "object",
    "required": ["data"],
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
}
"""One server-sent event."""


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _operation(
    summary: str,
    reply: dict[str, Any],
    *,
    body: str | None = None,
    stream: bool = False,
    error: str = "Error",
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    content = _json(reply)
    if stream:
        content["text/event-stream"] = {"schema": _EVENT}
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": {
            "200": {"description": "The reply", "content": content},
            "4XX": {"description": "The request is refused", "content": _json(_ref(error))},
            "5XX": {"description": "The engine or the server failed", "content": _json(_ref(error))},
        },
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": _json(_ref(body))}
    if parameters:
        operation["parameters"] = parameters
    return operation


def _parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


_STRING: dict[str, Any] = {"type": "string"}
_OBJECT: dict[str, Any] = {"type": "object"}
_ID = _parameter("id", "path", {"type": "string", "minLength": 1})
_RESPONSE: dict[str, Any] = {
    "type": "object",
    "required": ["id", "object", "status", "output"],
    "properties": {"id": _STRING, "object": {"const": "response"}, "status": _STRING, "output": {"type": "array"}},
}
_COUNT: dict[str, Any] = {
    "type": "object",
    "required": ["input_tokens"],
    "properties": {"input_tokens": {"type": "integer", "minimum": 0}},
}
_TOKENS: dict[str, Any] = {
    "type": "object",
    "required": ["tokens", "count"],
    "properties": {"tokens": {"type": "array", "items": {"type": "integer"}}, "count": {"type": "integer"}},
}

_SCHEMAS: dict[str, Any] = {
    "Error": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "param", "code"],
                "properties": {
                    "message": _STRING,
                    "type": _STRING,
                    "param": {"type": ["string", "null"]},
                    "code": {"type": ["string", "null"]},
                },
            }
        },
    },
    "MessagesError": {
        "type": "object",
        "required": ["type", "error", "request_id"],
        "properties": {
            "type": {"const": "error"},
            "error": {
                "type": "object",
                "required": ["type", "message"],
                "properties": {"type": _STRING, "message": _STRING},
            },
            "request_id": _STRING,
        },
    },
    "ChatCompletionRequest": {
        "type": "object",
        "required": ["model", "messages"],
        "properties": {
            "model": _STRING,
            "messages": {"type": "array", "items": _OBJECT, "minItems": 1},
            "max_tokens": {"type": ["integer", "null"], "minimum": 1, "maximum": 393216},
            "n": {"type": ["integer", "null"], "minimum": 1, "maximum": 8},
            "stop": {"type": ["string", "array", "null"], "items": _STRING},
            "stream": {"type": ["boolean", "null"]},
            "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 2},
            "top_p": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1},
            "tools": {"type": ["array", "null"], "items": _OBJECT},
        },
    },
    "MessagesRequest": {
        "type": "object",
        "required": ["model", "messages"],
        "properties": {
            "model": _STRING,
            "max_tokens": {"type": "integer", "minimum": 1},
            "messages": {"type": "array", "items": _OBJECT, "minItems": 1},
            "system": {"type": ["string", "array"]},
            "stop_sequences": {"type": "array", "items": _STRING},
            "stream": {"type": "boolean"},
            "tools": {"type": "array", "items": _OBJECT},
        },
    },
    "ResponsesRequest": {
        "type": "object",
        "required": ["model"],
        "properties": {
            "model": _STRING,
            "input": {"type": ["string", "array", "null"], "items": _OBJECT},
            "instructions": {"type": ["string", "null"]},
            "previous_response_id": {"type": ["string", "null"]},
            "store": {"type": ["boolean", "null"]},
            "background": {"type": ["boolean", "null"]},
            "stream": {"type": ["boolean", "null"]},
            "max_output_tokens": {"type": ["integer", "null"], "minimum": 1},
            "tools": {"type": ["array", "null"], "items": _OBJECT},
        },
    },
    "TokenizeRequest": {
        "type": "object",
        "properties": {"prompt": _STRING, "messages": {"type": "array", "items": _OBJECT}},
    },
    "DetokenizeRequest": {
        "type": "object",
        "required": ["tokens"],
        "properties": {"tokens": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
    },
}

_CHAT: dict[str, Any] = {
    "type": "object",
    "required": ["id", "object", "choices", "usage"],
    "properties": {"id": _STRING, "object": {"const": "chat.completion"}, "choices": {"type": "array", "minItems": 1}},
}
_MESSAGE: dict[str, Any] = {
    "type": "object",
    "required": ["id", "type", "role", "content", "usage"],
    "properties": {"id": _STRING, "type": {"const": "message"}, "content": {"type": "array"}},
}
_LIST: dict[str, Any] = {"type": "object", "required": ["data"], "properties": {"data": {"type": "array"}}}
_MODEL: dict[str, Any] = {"type": "object", "required": ["id"], "properties": {"id": _STRING}}

_PATHS: dict[str, Any] = {
    "/v1/chat/completions": {"post": _operation("Chat Completions", _CHAT, body="ChatCompletionRequest", stream=True)},
    "/v1/responses": {"post": _operation("Responses", _RESPONSE, body="ResponsesRequest", stream=True)},
    "/v1/responses/input_tokens": {
        "post": _operation("The tokens of a Responses request", _COUNT, body="ResponsesRequest")
    },
    "/v1/responses/{id}": {
        "get": _operation(
            "A stored response, or its stream again",
            _RESPONSE,
            stream=True,
            parameters=[
                _ID,
                _parameter("stream", "query", {"type": "boolean"}),
                _parameter("starting_after", "query", {"type": "integer"}),
            ],
        ),
        "delete": _operation("Forgets a stored response", _OBJECT, parameters=[_ID]),
    },
    "/v1/responses/{id}/cancel": {"post": _operation("Cancels a background response", _RESPONSE, parameters=[_ID])},
    "/v1/responses/{id}/input_items": {
        "get": _operation(
            "What the model was shown",
            _LIST,
            parameters=[
                _ID,
                _parameter("limit", "query", {"type": "integer", "minimum": 1, "maximum": 100}),
                _parameter("order", "query", {"enum": ["asc", "desc"]}),
                _parameter("after", "query", _STRING),
            ],
        )
    },
    "/v1/messages": {
        "post": _operation("Messages", _MESSAGE, body="MessagesRequest", stream=True, error="MessagesError")
    },
    "/v1/messages/count_tokens": {
        "post": _operation("The tokens of a Messages request", _COUNT, body="MessagesRequest", error="MessagesError")
    },
    "/v1/models": {"get": _operation("The models", _LIST)},
    "/v1/models/{id}": {"get": _operation("One model", _MODEL, parameters=[_ID])},
    "/tokenize": {"post": _operation("Text to ids", _TOKENS, body="TokenizeRequest")},
    "/detokenize": {
        "post": _operation(
            "Ids to text",
            {"type": "object", "required": ["prompt"], "properties": {"prompt": _STRING}},
            body="DetokenizeRequest",
        )
    },
    "/health": {"get": _operation("Whether requests are served", _OBJECT)},
}
