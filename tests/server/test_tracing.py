"""Requests are spans where OpenTelemetry is installed, the engine gets the trace, and without it nothing is missed."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from deepseek_recipe.server import tracing
from support import BODIES, CHAT, END, THOUGHT, Scripted, run, serving

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", lambda name: provider.get_tracer(name))

    async def test() -> None:
        engine = Scripted(THOUGHT, END)
        async with serving(engine) as (client, _):
            body = {**BODIES[CHAT], "messages": [{"role": "user", "content": "a secret"}]}
            reply = await client.post(CHAT, json=body, headers={"traceparent": PARENT})
            (span,) = exporter.get_finished_spans()
            assert span.name == f"POST {CHAT}" and span.context is not None and span.parent is not None
            assert f"{span.context.trace_id:032x}" == PARENT.split("-")[1]
            assert f"{span.parent.span_id:016x}" == PARENT.split("-")[2]
            assert dict(span.attributes or {}) == {
                "deepseek_recipe.request_id": reply.headers["x-request-id"],
                "http.response.status_code": 200,
            }
            passed = engine.requests[0].metadata["traceparent"].split("-")
            assert passed[1:3] == [PARENT.split("-")[1], f"{span.context.span_id:016x}"]

    run(test())


def test_without_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_trace", None)
    monkeypatch.setattr(tracing, "_inject", None)

    async def test() -> None:
        engine = Scripted(THOUGHT, END)
        async with serving(engine) as (client, _):
            await client.post(CHAT, json=BODIES[CHAT], headers={"traceparent": PARENT})
            assert engine.requests[0].metadata == {"traceparent": PARENT}

    run(test())
