"""`deepseek-recipe serve`: a gateway from the words of the command line."""

from __future__ import annotations

import argparse
import contextlib
import re
from pathlib import Path

from .._native import ModelVersion, ReasoningSealer
from ..adapters import EngineAdapter
from ..adapters.replay import Recorder
from ..adapters.select import open_engine
from .gateway import Gateway
from .logs import setup
from .serve import bind, serve
from .serve import run as run_loop
from .settings import Settings
from .store import MemoryStore, ResponseStore, SqliteStore


def run(options: argparse.Namespace, version: ModelVersion) -> None:
    """Serves until it is told to stop. Raises `OSError`, `ValueError` and `EngineUnavailable` with what is wrong."""
    store = _store(options.store)
    sealer = _sealer(options.seal_key_file)
    keys = [*options.api_key, *_lines(options.api_key_file)]
    if options.api_key_file is not None and not keys:
        # Not "no keys, so everyone is served".
        raise ValueError(f"{options.api_key_file}: there is no key in it")
    settings = Settings(
        model=version,
        api_keys=tuple(keys),
        max_running=options.max_running,
        max_waiting=options.max_waiting,
        drain_timeout=options.drain_timeout,
        fetch_images=not options.no_fetch_images,
        expose_docs=not options.no_docs,
    )
    with contextlib.suppress(KeyboardInterrupt):
        run_loop(_run(options, settings, store, sealer))


async def _run(
    options: argparse.Namespace, settings: Settings, store: ResponseStore | None, sealer: ReasoningSealer | None
) -> None:
    engine = await open_engine(options.engine, version=settings.model, model=options.engine_model, pace=options.pace)
    with contextlib.ExitStack() as files:
        if options.record:
            engine = _recorded(engine, options.record, files)
        gateway = Gateway(engine, settings, store=store, sealer=sealer)
        listener = files.enter_context(bind(options.host, options.port, reuse_port=options.reuse_port))
        host = f"[{options.host}]" if ":" in options.host else options.host
        setup(options.log_level)
        print(f"deepseek-recipe: http://{host}:{listener.getsockname()[1]} (engine: {options.engine})", flush=True)
        await serve(gateway, listener)


def _recorded(engine: EngineAdapter, path: str, files: contextlib.ExitStack) -> EngineAdapter:
    return Recorder(engine, files.enter_context(open(path, "a", encoding="utf-8")))


def _store(name: str) -> ResponseStore | None:
    if name == "memory":
        return MemoryStore()
    if name == "none":
        return None
    kind, _, path = name.partition(":")
    if kind != "sqlite" or not path:
        raise ValueError(f"unknown store {name!r}; expected memory, sqlite:FILE or none")
    return SqliteStore(path)


def _sealer(path: str | None) -> ReasoningSealer | None:
    keys = _lines(path)
    if path is not None and not all(re.fullmatch("[0-9a-fA-F]{64}", key) for key in keys or ("",)):
        raise ValueError(f"{path}: expected keys of 64 hexadecimal digits, one a line, the newest first")
    return ReasoningSealer(*(bytes.fromhex(key) for key in keys)) if keys else None


def _lines(path: str | None) -> list[str]:
    lines = [] if path is None else Path(path).read_text(encoding="utf-8").split("\n")
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]
