"""What an engine's name on the command line opens, and what the package never loads by itself."""

import asyncio
import subprocess
import sys

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deepseek_recipe.adapters import EngineUnavailable
from deepseek_recipe.adapters.select import open_engine
from fakes import loopback

IMPORT_ALL = """
import importlib, pkgutil, sys
import deepseek_recipe
for module in pkgutil.walk_packages(deepseek_recipe.__path__, "deepseek_recipe."):
    # vLLM imports what is in its plug-in.
    if not module.name.endswith("__main__") and not module.name.startswith("deepseek_recipe.plugins.vllm."):
        importlib.import_module(module.name)
assert "deepseek_recipe.adapters.local" in sys.modules
print(sorted({"torch", "numpy", "deepseek_engine", "vllm", "transformers"} & sys.modules.keys()))
"""


def test_no_module_loads_the_engine_by_itself() -> None:
    """The codec and its server work without torch, and start as fast where it is installed."""
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_local_without_the_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepseek_engine", None)
    with pytest.raises(EngineUnavailable, match=r"pip install 'deepseek-recipe\[engine\]'"):
        asyncio.run(open_engine("local"))


@pytest.mark.parametrize("name", ["", "other", "locally", "local+x:", "ftp://127.0.0.1"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected one of"):
        asyncio.run(open_engine(name))


def _other_server(models: bytes, completions: bytes) -> Starlette:
    """A server that is no engine: it has these bodies at two paths."""

    async def reply(request: Request) -> Response:
        return Response({"/v1/models": models, "/v1/completions": completions}[request.url.path])

    paths = ("/v1/models", "/v1/completions")
    return Starlette(routes=[Route(path, reply, methods=["GET", "POST"]) for path in paths])


@pytest.mark.parametrize(
    "models", [b"{}", b"3", b"no JSON", b'{"data": 3}', b'{"data": "ab"}', b'{"data": [1, {"a": 2}]}']
)
def test_servers_without_a_model_are_refused(models: bytes) -> None:
    async def test() -> None:
        async with loopback(_other_server(models, b"")) as url:
            with pytest.raises(EngineUnavailable, match="the engine has: none"):
                await open_engine(url)

    asyncio.run(test())


@pytest.mark.parametrize(
    "completions", [b"{}", b"3", b"no JSON", b'{"choices": 3}', b'{"choices": []}', b'{"choices": [3]}']
)
def test_servers_that_say_odd_things_are_refused(completions: bytes) -> None:
    async def test() -> None:
        async with loopback(_other_server(b'{"data": [{"id": "a"}]}', completions)) as url:
            with pytest.raises(EngineUnavailable, match="no completions at"):
                await open_engine(url)

    asyncio.run(test())


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-other\r\n", b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"])
def test_connections_that_break_are_refused(said: bytes) -> None:
    """The last one answers the first two questions and nothing to the third."""

    async def test() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while (await reader.readline()).startswith(b"GET"):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(said)
                await writer.drain()
                if not said.startswith(b"HTTP"):
                    break
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(EngineUnavailable, match="no engine answers"):
                await open_engine(f"http://127.0.0.1:{port}")

    asyncio.run(asyncio.wait_for(test(), 30))
