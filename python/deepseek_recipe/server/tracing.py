"""Spans of OpenTelemetry, where its API is installed; nothing otherwise. A span holds numbers and names, no texts."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

try:
    from opentelemetry import trace as _trace  # pyright: ignore
    from opentelemetry.propagate import extract as _extract  # pyright: ignore
    from opentelemetry.propagate import inject as _inject
except ImportError:
    _trace: Any = None
    _extract: Any = None
    _inject: Any = None


@contextmanager
def span(name: str, headers: Mapping[str, str], attributes: Mapping[str, str]) -> Generator[Any]:
    """A span of the server around a request, as a child of the caller's. Gives `None` without OpenTelemetry."""
    if _trace is None:
        yield None
        return
    tracer = _trace.get_tracer("deepseek_recipe.server")
    context = _extract(dict(headers))
    with tracer.start_as_current_span(name, context, _trace.SpanKind.SERVER, dict(attributes)) as current:
        yield current


def headers_for_engine(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of the present trace for the engine: those of the current span, else those that came in."""
    if _inject is not None:
        carrier: dict[str, str] = {}
        _inject(carrier)
        if carrier:
            return carrier
    return {name: value for name in ("traceparent", "tracestate") if (value := headers.get(name))}
