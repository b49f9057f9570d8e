"""What the operator of a gateway decides. Knows no request."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._native import ModelVersion


@dataclass(frozen=True)
class Settings:
    """Limits are in bytes, requests and seconds. Raises `ValueError` for one that nothing could keep."""

    model: ModelVersion = ModelVersion.DeepseekV41Flash
    """What the engine runs. Every model name in a request is taken as this one, and said back as it was sent."""
    api_keys: tuple[str, ...] = ()
    """A request has to bring one of these; without any, all are served. Requests of one key share stored responses."""
    max_body_bytes: int = 48 * 1024 * 1024
    max_running: int = 512
    """Requests that the engine works on at a time."""
    max_waiting: int = 1024
    """Requests that wait for their turn; the next one is refused with 429."""
    fetch_images: bool = True
    """Whether images behind URLs are fetched, from public addresses alone."""
    max_choices: int = 8
    """The largest `n` of Chat Completions."""
    body_timeout: float = 60.0
    """Until a request has come in whole."""
    first_token_timeout: float = 600.0
    """Until an output begins, the wait for its turn included."""
    stall_timeout: float = 120.0
    """Between two parts of an output."""
    write_timeout: float = 60.0
    """Until a client has taken what waits for it."""
    keep_alive: float = 15.0
    """After this time without output, a stream shows that it lives."""
    drain_timeout: float = 30.0
    """What running requests get when the server is told to stop."""
    expose_docs: bool = True
    """Whether `/openapi.json` and `/playground` are served."""

    def __post_init__(self) -> None:
        if not all(self.api_keys):
            raise ValueError("an API key is empty")
        for name, least in _LEAST.items():
            # What is not a number is not at least anything.
            if not least <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} has to be at least {least}, and finite")


_LEAST = {
    "max_body_bytes": 1,
    "max_running": 1,
    "max_waiting": 0,
    "max_choices": 1,
    "body_timeout": 0,
    "first_token_timeout": 0,
    "stall_timeout": 0,
    "write_timeout": 0,
    "keep_alive": 0,
    "drain_timeout": 0,
}
