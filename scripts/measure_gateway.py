"""Measures what the gateway itself costs, with the replay engine on loopback. Needs the extra `server`.

    .venv/bin/python scripts/measure_gateway.py [REQUEST.json]

CPU time of the server's process for each streamed token, and the time from a request's bytes to the engine's call.
The client runs in a process of its own.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import socket
import statistics
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any

import uvloop

from deepseek_recipe.adapters import GenerateRequest, TokenDelta
from deepseek_recipe.adapters.replay import ReplayEngine, ReplayOutput
from deepseek_recipe.server import Gateway, Settings
from deepseek_recipe.server.serve import bind, serve

PATHS = {"chat_completions": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}


def body(protocol: str, stream: bool = True) -> dict[str, Any]:
    """A small request."""
    if protocol == "responses":
        return {"model": "m", "max_output_tokens": 393_216, "input": "Hi", "stream": stream, "store": False}
    return {"model": "m", "max_tokens": 393_216, "messages": [{"role": "user", "content": "Hi"}], "stream": stream}


def agent_request(size: int) -> bytes:
    """A request of a coding agent: 30 tools and a history of calls, of about so many bytes."""
    properties = {f"field_{n}": {"type": "string", "description": "What to look for, and where."} for n in range(8)}
    tools = [
        {
            "name": f"tool_{n}",
            "description": "Does a thing. " * 30,
            "input_schema": {"type": "object", "properties": properties},
        }
        for n in range(30)
    ]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Please find the fault in the parser."}]
    made: dict[str, Any] = {"model": "m", "max_tokens": 1000, "stream": True, "tools": tools, "messages": messages}
    count = 0
    while len(json.dumps(made)) < size:
        use = {"type": "tool_use", "id": f"id{count}", "name": "tool_1", "input": {"field_1": f"src/file_{count}.rs"}}
        text = "\n".join(f"{line}: let value_{line} = parse(input, {line})?;" for line in range(40))
        messages += [
            {"role": "assistant", "content": [{"type": "text", "text": "I read on."}, use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"id{count}", "content": text}]},
        ]
        count += 1
    return json.dumps(made).encode()


class Timed(ReplayEngine):
    """Says when it was called, in wall and in CPU time."""

    called = (0.0, 0.0)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        Timed.called = (time.perf_counter(), time.process_time())
        async for delta in super().generate(request):
            yield delta


def start(engine: ReplayEngine, settings: Settings) -> tuple[Any, int]:
    """Starts a gateway in a process of its own. Returns the process and the port."""
    listener = bind("127.0.0.1", 0)
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(listener, engine, settings), daemon=True)
    process.start()
    port = listener.getsockname()[1]
    listener.close()
    return process, port


def _serve(listener: socket.socket, engine: ReplayEngine, settings: Settings) -> None:
    uvloop.run(serve(Gateway(engine, settings), listener))


async def read_stream(port: int, path: str, content: bytes) -> int:
    """Reads a reply to its end. Returns its size."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {path} HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: {len(content)}\r\n\r\n"
    writer.write(head.encode() + content)
    size = 0
    while part := await reader.read(1 << 20):
        size += len(part)
    writer.close()
    return size


def cpu(pid: int) -> float:
    """The CPU seconds of a process so far."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_tokens(protocol: str, streams: int, tokens: int, pace: float, step: int) -> None:
    """CPU per token of `streams` streams at a time."""
    engine = ReplayEngine([ReplayOutput([400, 401, 402, 403] * (tokens // 4))], pace=pace, tokens_per_delta=step)
    process, port = start(engine, Settings(max_running=streams))
    assert process.pid is not None
    content = json.dumps(body(protocol)).encode()

    async def run() -> float:
        await read_stream(port, PATHS[protocol], content)
        before, started = cpu(process.pid or 0), time.perf_counter()
        sizes = await asyncio.gather(*(read_stream(port, PATHS[protocol], content) for _ in range(streams)))
        assert min(sizes) > tokens
        wall = time.perf_counter() - started
        used = cpu(process.pid or 0) - before
        made = tokens * streams
        print(
            f"{protocol:17} {streams:4} streams, {step} ids a delta, pace {pace * 1000:3.0f} ms:"
            f" {used / made * 1e6:6.2f} us CPU a token, {made / wall:9.0f} tokens/s, {used / wall:4.0%} of a core"
        )
        return used

    uvloop.run(run())
    process.terminate()
    process.join()


def measure_submit(content: bytes) -> None:
    """The time from the request's bytes to the engine's call, in one process without a network."""
    from deepseek_recipe.server import create_app

    async def run() -> None:
        gateway = Gateway(Timed(["Fine."]), Settings())
        await gateway.start()
        app = create_app(gateway)
        scope = {
            "type": "http", "method": "POST", "path": "/v1/messages", "raw_path": b"/v1/messages", "headers": [],
            "query_string": b"", "http_version": "1.1", "scheme": "http", "server": ("g", 80), "client": ("c", 1),
            "root_path": "",
        }  # fmt: skip
        walls: list[float] = []
        cpus: list[float] = []
        for _ in range(300):
            sent = False

            async def receive() -> dict[str, Any]:
                nonlocal sent
                if sent:
                    await asyncio.sleep(60)
                sent = True
                return {"type": "http.request", "body": content, "more_body": False}

            async def send(message: Any) -> None:
                pass

            wall, used = time.perf_counter(), time.process_time()
            await app(dict(scope), receive, send)
            walls.append(Timed.called[0] - wall)
            cpus.append(Timed.called[1] - used)
        print(
            f"request of {len(content)} bytes to engine call: median {statistics.median(walls) * 1e3:.3f} ms,"
            f" of it CPU {statistics.median(cpus) * 1e3:.3f} ms"
        )

    uvloop.run(run())


def main() -> None:
    """Prints all numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("request", nargs="?", help="a Messages request; by default one of 85 KB is made")
    options = parser.parse_args()
    if options.request:
        with open(options.request, "rb") as file:
            content = file.read()
    else:
        content = agent_request(85_000)
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    measure_submit(content)
    for protocol in PATHS:
        measure_tokens(protocol, 1, 200_000, 0, 1)
    measure_tokens("chat_completions", 16, 40_000, 0, 1)
    measure_tokens("chat_completions", 100, 300, 0.02, 1)
    measure_tokens("chat_completions", 500, 100, 0.05, 1)
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
