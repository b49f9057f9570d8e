"""Requests that schemathesis makes from the published document: none makes the server fail or answer in other forms."""

import asyncio
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from deepseek_recipe.adapters.replay import ReplayEngine
from deepseek_recipe.server import Gateway, MemoryStore, Settings, create_app
from deepseek_recipe.server.openapi import document

GATEWAY = Gateway(ReplayEngine(["Fine.</think>Said."]), Settings(), store=MemoryStore())
asyncio.run(GATEWAY.start())

schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(GATEWAY))


@schema.parametrize()
@hypothesis.settings(max_examples=30, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
def test_operation(case: Any) -> None:
    response = case.call()
    assert response.status_code < 500, response.text
    case.validate_response(response, checks=[response_schema_conformance, status_code_conformance])


BODIES_OF = {
    "/v1/chat/completions": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/responses": {"model": "m", "input": "Hi"},
}


@pytest.mark.parametrize("path", BODIES_OF)
@pytest.mark.parametrize("stream", [False, True])
def test_answers(path: str, stream: bool) -> None:
    """Random requests are rarely good ones."""
    body = {**BODIES_OF[path], "stream": stream}
    case = schema[path]["POST"].Case(body=body, media_type="application/json")
    response = case.call()
    assert response.status_code == 200
    case.validate_response(response, checks=[response_schema_conformance, status_code_conformance])


def test_document_has_every_route() -> None:
    app: Any = create_app(GATEWAY)
    routes = {
        route.path: route.methods - {"HEAD"} for route in app._app.routes if route.path.startswith(("/v1", "/t", "/d"))
    }
    described = {path: {method.upper() for method in operations} for path, operations in document()["paths"].items()}
    for path, methods in routes.items():
        assert methods <= described[path], path


def test_document_can_be_left_out() -> None:
    from starlette.testclient import TestClient

    gateway = Gateway(ReplayEngine(), Settings(expose_docs=False))
    with TestClient(create_app(gateway)) as client:
        assert client.get("/openapi.json").status_code == 404


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
