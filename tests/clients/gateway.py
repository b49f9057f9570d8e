"""A gateway on loopback in a thread of its own, whose model says what a test wants. Knows no SDK."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from deepseek_recipe.adapters import EngineAdapter
from deepseek_recipe.adapters.replay import ReplayEngine
from deepseek_recipe.server import Gateway, MemoryStore, Settings
from deepseek_recipe.server.serve import bind, server


def call(name: str, arguments: dict[str, str], before: str = "") -> str:
    """An output that calls a tool, with what stands before the call."""
    parameters = "".join(
        f'<｜DSML｜ parameter name="{key}" string="true">{value}</｜DSML｜ parameter>\n'
        for key, value in arguments.items()
    )
    return (
        f"{before}\n\n<｜DSML｜ calls>\n"
        f'<｜DSML｜ invoke name="{name}">\n{parameters}</｜DSML｜ invoke>\n</｜DSML｜ calls>'
    )


WEATHER = call("get_weather", {"city": "Paris"}, "I look.</think>One moment.")
ANSWER = "Now I know.</think>It is sunny in Paris."


@contextmanager
def gateway(*outputs: Any, engine: EngineAdapter | None = None, **settings: Any) -> Iterator[str]:
    """The URL of a gateway. Its model says these outputs in turn."""
    listener = bind("127.0.0.1", 0)
    loop = asyncio.new_event_loop()
    served = Gateway(engine or ReplayEngine(outputs), Settings(**settings), store=MemoryStore())
    loop.run_until_complete(served.start())
    running = server(served)
    thread = threading.Thread(target=loop.run_until_complete, args=(running.serve([listener]),), daemon=True)
    thread.start()
    while not running.started:
        thread.join(0.005)
        assert thread.is_alive()
    try:
        yield f"http://127.0.0.1:{_port(listener)}"
    finally:
        loop.call_soon_threadsafe(running.drain)
        thread.join(20)
        assert not thread.is_alive()
        loop.close()
        listener.close()


def _port(listener: socket.socket) -> int:
    return listener.getsockname()[1]
