"""Holds many streams at a time against a gateway on loopback and watches its memory. Needs the extra `server`.

    .venv/bin/python scripts/soak_gateway.py [--streams 500] [--seconds 60]

Each stream is one request of one of the three protocols; as soon as it has ended, the next begins. Every tenth client
goes away in the middle. Exit status 1 where a stream broke, something still runs in the end, or memory grew.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import time

from deepseek_recipe.adapters.replay import ReplayEngine, ReplayOutput
from deepseek_recipe.cli.bench_request import WIRES, short_request
from deepseek_recipe.recipe import PROTOCOLS, ProtocolName
from deepseek_recipe.server import Gateway, Settings
from deepseek_recipe.server.serve import bind, run, serve

TOKENS = 200


def start(settings: Settings) -> tuple[multiprocessing.Process, int]:
    """Starts a gateway in a process of its own. Returns the process and the port."""
    listener = bind("127.0.0.1", 0)
    process = multiprocessing.Process(target=serve_forever, args=(listener, settings), daemon=True)
    process.start()
    port = listener.getsockname()[1]
    listener.close()
    return process, port


def serve_forever(listener: socket.socket, settings: Settings) -> None:
    """What that process does."""
    engine = ReplayEngine([ReplayOutput([*[400, 401] * (TOKENS // 2), 1])], pace=0.05)
    run(serve(Gateway(engine, settings), listener))


def cpu(pid: int) -> float:
    """The CPU seconds of a process so far."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Count:
    """What the clients have seen."""

    whole = 0
    left = 0
    broken = 0


async def one(port: int, protocol: ProtocolName, leave: bool) -> None:
    """One client."""
    wire = WIRES[protocol]
    content = json.dumps({**short_request(protocol, "m", TOKENS + 1), **wire.no_thinking}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {wire.path} HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: {len(content)}\r\n\r\n"
    writer.write(head.encode() + content)
    if leave:
        await reader.readexactly(2000)
        Count.left += 1
    else:
        text = await reader.read()
        while part := await reader.read(1 << 16):
            text = text[-2000:] + part
        ends = (b"data: [DONE]\n\n", b"event: message_stop\n", b"event: response.completed\n")
        if any(end in text for end in ends):
            Count.whole += 1
        else:
            Count.broken += 1
    writer.close()


async def client(port: int, number: int, until: float) -> None:
    """One client after another."""
    protocol = PROTOCOLS[number % len(PROTOCOLS)]
    turn = number
    while time.monotonic() < until:
        turn += 1
        try:
            await one(port, protocol, turn % 10 == 0)
        except (OSError, asyncio.IncompleteReadError):
            Count.broken += 1


async def metric(port: int, name: str) -> float:
    """A number of the gateway's own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + " "))


def resident(pid: int) -> float:
    """The resident memory of a process in MiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


async def soak(port: int, pid: int, streams: int, seconds: float) -> list[float]:
    """Runs the clients. Returns the memory in the course of time."""
    started, used = time.monotonic(), cpu(pid)
    clients = [asyncio.ensure_future(client(port, number, started + seconds)) for number in range(streams)]
    memory: list[float] = []
    while time.monotonic() < started + seconds:
        await asyncio.sleep(min(5.0, seconds / 10))
        memory.append(resident(pid))
        running = await metric(port, "deepseek_recipe_running")
        print(
            f"{time.monotonic() - started:5.0f} s: {running:4.0f} running, {memory[-1]:6.1f} MiB,"
            f" {Count.whole} whole, {Count.left} left, {Count.broken} broken,"
            f" {(cpu(pid) - used) / (time.monotonic() - started):4.0%} of a core",
            flush=True,
        )
    await asyncio.gather(*clients)
    return memory


async def rest(port: int) -> float:
    """What still runs when all clients are gone."""
    for _ in range(50):
        if not await metric(port, "deepseek_recipe_running"):
            return 0
        await asyncio.sleep(0.1)
    return await metric(port, "deepseek_recipe_running")


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    process, port = start(Settings(max_running=options.streams + 10))
    assert process.pid is not None
    memory = asyncio.run(soak(port, process.pid, options.streams, options.seconds))
    left = asyncio.run(rest(port))
    process.terminate()
    process.join()
    # The first quarter fills pools and caches.
    settled = memory[len(memory) // 4 :]
    grew = settled[-1] - settled[0]
    print(f"{Count.broken} broken, {left:.0f} still running, memory {settled[0]:.1f} -> {settled[-1]:.1f} MiB")
    return int(Count.broken > 0 or left > 0 or grew > 0.1 * settled[0])


if __name__ == "__main__":
    raise SystemExit(main())
