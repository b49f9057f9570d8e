"""`deepseek-recipe serve`: a gateway from the words of the command line."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from pathlib import Path

from .._native import ModelVersion
from ..adapters import EngineAdapter
from ..adapters.replay import Recorder
from ..adapters.select import open_engine
from .gateway import Gateway
from .logs import setup
from .serve import bind, serve
from .settings import Settings
from .store import MemoryStore, ResponseStore, SqliteStore


def run(options: argparse.Namespace, version: ModelVersion) -> None:
    """Serves until it is told to stop. Raises `OSError`, `ValueError` and `EngineUnavailable` with what is wrong."""
    store = _store(options.store)
    keys = [*options.api_key, *_keys(options.api_key_file)]
    settings = Settings(
        model=version,
        api_keys=tuple(keys),
        max_running=options.max_running,
        max_waiting=options.max_waiting,
        drain_timeout=options.drain_timeout,
        expose_docs=not options.no_docs,
    )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(options, version, settings, store))


async def _run(
    options: argparse.Namespace, version: ModelVersion, settings: Settings, store: ResponseStore | None
) -> None:
    engine = await open_engine(options.engine, version=version, model=options.engine_model, pace=options.pace)
    with contextlib.ExitStack() as files:
        if options.record:
            engine = _recorded(engine, options.record, files)
        listener = files.enter_context(bind(options.host, options.port, reuse_port=options.reuse_port))
        host = f"[{options.host}]" if ":" in options.host else options.host
        setup(options.log_level)
        print(f"deepseek-recipe: http://{host}:{listener.getsockname()[1]} (engine: {options.engine})", flush=True)
        await serve(Gateway(engine, settings, store=store), listener)


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


def _keys(path: str | None) -> list[str]:
    lines = [] if path is None else Path(path).read_text(encoding="utf-8").split("\n")
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]
