"""Numbers about the gateway for Prometheus."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from .job import Job
from .limits import Slots

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """One set a gateway, so that several can live in one process."""

    def __init__(self, slots: Slots):
        registry = self._registry = CollectorRegistry()
        self._requests = Counter("deepseek_recipe_requests", "HTTP requests", ["route", "status"], registry=registry)
        self._duration = Histogram(
            "deepseek_recipe_request_seconds", "From request to end of reply", ["route"], buckets=_SECONDS,
            registry=registry,
        )  # fmt: skip
        self._first_token = Histogram(
            "deepseek_recipe_first_token_seconds", "From request to first token", buckets=_SECONDS, registry=registry
        )
        self._tokens = Counter("deepseek_recipe_tokens", "Tokens", ["kind"], registry=registry)
        self._ended = Counter("deepseek_recipe_generations", "Answers by how they ended", ["end"], registry=registry)
        Gauge("deepseek_recipe_running", "Requests at the engine", registry=registry).set_function(
            lambda: slots.running
        )
        Gauge("deepseek_recipe_waiting", "Requests that wait", registry=registry).set_function(lambda: slots.waiting)

    def replied(self, route: str, status: int, started: float) -> None:
        """Counts a reply of a route."""
        self._requests.labels(route, status).inc()
        self._duration.labels(route).observe(time.monotonic() - started)

    def ended(self, job: Job) -> None:
        """Counts a job's answers and tokens."""
        for generation in job.generations:
            if generation.first_at is not None:
                self._first_token.observe(generation.first_at - job.started)
            self._tokens.labels("completion").inc(len(generation.output_ids))
            self._ended.labels(how_ended(job, generation.finish_reason)).inc()
        first = job.generations[0]
        self._tokens.labels("prompt").inc(first.request.prompt_tokens)
        self._tokens.labels("cached_prompt").inc(first.cached_tokens)

    def text(self) -> bytes:
        """All numbers in the text form."""
        return generate_latest(self._registry)


def how_ended(job: Job, finish_reason: str | None) -> str:
    """A word for logs and metrics: the finish reason, `failed`, or `cancelled` where the client went away."""
    if finish_reason is not None:
        return finish_reason
    return "cancelled" if job.cancelled else "failed"
