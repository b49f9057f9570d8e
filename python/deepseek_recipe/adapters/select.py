"""An engine from a word on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from .._native import ModelVersion
from .base import EngineAdapter, EngineUnavailable
from .local import open_local
from .replay import ReplayEngine

if TYPE_CHECKING:
    import httpx2

_CONTEXT = 1_048_576
"""The context of the models, where the engine does not say its own."""

EXAMPLES = (
    "replay, replay:OUTPUTS.jsonl, local, local:FOLDER, http://HOST:PORT, vllm+http://…, sglang+http://…, "
    "completions+http://…"
)
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
    if kind == "local":
        return await open_local(rest)
    scheme, _, transport = kind.partition("+")
    url = f"{transport or scheme}:{rest}"
    if (transport or scheme) not in ("http", "https") or not rest.startswith("//"):
        raise ValueError(f"unknown engine {name!r}; expected one of: {EXAMPLES}")
    try:
        return await _connect(url, scheme if transport else None, version, model)
    except ImportError as error:
        raise EngineUnavailable("engines over HTTP need: pip install 'deepseek-recipe[server]'") from error


async def _connect(url: str, kind: str | None, version: ModelVersion, model: str | None) -> EngineAdapter:
    # Only engines over HTTP need an HTTP client.
    from . import completions, http, sglang, vllm

    client = http.client(url)
    try:
        kind = kind or await _kind(client)
        model_id, max_model_len = await _model(client, model)
        match kind:
            case "vllm":
                return await vllm.open_vllm(client, model_id, max_model_len)
            case "sglang":
                return await sglang.open_sglang(client, model_id, max_model_len)
            case "completions":
                return await completions.open_completions(client, model_id, max_model_len, version)
            case _:
                raise ValueError(f"unknown kind of engine {kind!r}; expected one of: {EXAMPLES}")
    except BaseException:
        await client.aclose()
        raise


async def _kind(client: httpx2.AsyncClient) -> str:
    """What answers: vLLM if it takes ids at its own path (an empty request is refused there, not unknown)."""
    from .http import get, post

    if await get(client, "/model_info") or await get(client, "/get_model_info"):
        return "sglang"
    if (await post(client, "/inference/v1/generate", {})).status_code in (400, 422):
        return "vllm"
    return "completions"


async def _model(client: httpx2.AsyncClient, wanted: str | None) -> tuple[str, int]:
    """The name and the context of the model. Raises `EngineUnavailable` where it is not there or not the only one."""
    from .http import get

    listed = (await get(client, "/v1/models") or {}).get("data")
    found = cast("list[Any]", listed) if isinstance(listed, list) else []
    described = [cast("dict[str, Any]", model) for model in found if isinstance(model, dict)]
    models = {str(model["id"]): model for model in described if "id" in model}
    if wanted is None and len(models) == 1:
        wanted = next(iter(models))
    if wanted not in models:
        known = ", ".join(models) or "none"
        raise EngineUnavailable(f"say which model to use; the engine has: {known}")
    max_model_len = models[wanted].get("max_model_len")
    return wanted, max_model_len if isinstance(max_model_len, int) else _CONTEXT
