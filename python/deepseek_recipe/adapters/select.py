"""An engine from a word on the command line."""

from __future__ import annotations

from .._native import ModelVersion
from .base import EngineAdapter, EngineUnavailable
from .replay import ReplayEngine

EXAMPLES = "replay, replay:OUTPUTS.jsonl, http://HOST:PORT, vllm+http://…, sglang+http://…, completions+http://…"
"""What can be said, for help texts."""


async def open_engine(
    name: str, *, version: ModelVersion = ModelVersion.DeepseekV41Flash, model: str | None = None, pace: float = 0.0
) -> EngineAdapter:
    """Opens the engine of a name such as those in `EXAMPLES`.

    A plain URL is asked what it is. `model` is what the engine calls its model, where it serves several; `pace` is the
    replay engine's time between tokens. Raises `EngineUnavailable` where it cannot be used, `ValueError` for an unknown
    name, and for a file of outputs as `ReplayEngine.from_file`.
    """
    kind, _, rest = name.partition(":")
    if kind == "replay":
        if rest:
            return ReplayEngine.from_file(rest, version=version, pace=pace)
        return ReplayEngine(version=version, pace=pace)
    scheme, _, transport = kind.partition("+")
    url = f"{transport or scheme}:{rest}"
    if (transport or scheme) not in ("http", "https") or not rest.startswith("//"):
        raise ValueError(f"unknown engine {name!r}; expected one of: {EXAMPLES}")
    try:
        from .http import connect
    except ImportError as error:
        raise EngineUnavailable("engines over HTTP need: pip install 'deepseek-recipe[server]'") from error
    return await connect(url, kind=scheme if transport else None, version=version, model=model)
