"""`bench`: what the gateway itself costs, measured with an engine that costs nearly nothing.

A gateway runs in a process of its own, and this one is its client, over loopback and plain HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from .plot import Progress, histogram
from .terminal import Commands, Refused, print_title

_EngineAlone: TypeAlias = Callable[[int, float, int], Awaitable[float]]

_AGENT_BYTES = 85_000
"""About what a coding agent sends in the middle of its work."""


def add(commands: Commands) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "bench",
        help="what the gateway costs: requests a second, latencies, CPU time a token",
        description="Starts a gateway with the replay engine in a process of its own and measures it over loopback.",
    )
    command.add_argument("--requests", type=int, default=400, help="in each measurement (default: %(default)s)")
    command.add_argument("--streams", type=int, default=16, help="at a time (default: %(default)s)")
    command.add_argument("--tokens", type=int, default=256, help="of each output (default: %(default)s)")
    command.add_argument("--pace", type=float, default=0.01, help="seconds a token, where latency is measured")
    command.add_argument("--json", action="store_true", help="print the numbers as JSON")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    if min(options.requests, options.streams, options.tokens) < 1 or options.pace <= 0:
        raise Refused("--requests, --streams and --tokens have to be at least 1, and --pace more than 0")
    try:
        from .bench_gateway import engine_alone
    except ImportError as error:
        raise Refused(f"bench needs: pip install 'deepseek-recipe[server]' ({error})") from error
    measured, delays = asyncio.run(_measure(options, engine_alone))
    if options.json:
        print(json.dumps(measured))
        return
    _print(measured, options)
    print_title("From the engine's token to the client, microseconds")
    print(histogram([delay * 1e6 for delay in delays]))


async def _measure(options: argparse.Namespace, engine_alone: _EngineAlone) -> tuple[dict[str, Any], list[float]]:
    requests, streams, tokens = options.requests, options.streams, options.tokens
    small, agent = _body(0), _body(_AGENT_BYTES)
    measured: dict[str, Any] = {"request_bytes": {"small": len(small), "agent": len(agent)}}
    with _gateway(tokens, 0.0) as gateway:
        await _load(gateway, small, 20, 1, "starting")
        for name, body in (("small", small), ("agent", agent)):
            alone = await _load(gateway, body, min(requests, 100), 1, f"latency, {name} request")
            measured[f"first_byte_s_{name}"] = _spread([answer.first - answer.sent for answer in alone.answers])
            measured[f"engine_submit_s_{name}"] = _spread([alone.got[a.id] - a.sent for a in alone.answers])
        short = await _load(gateway, _body(0, max_tokens=1), requests, streams, "requests a second")
        measured["requests_per_s"] = requests / short.seconds
        measured["cpu_s_per_request"] = short.cpu / requests
        whole = await _load(gateway, small, requests, streams, "tokens a second")
        measured["tokens_per_s"] = requests * tokens / whole.seconds
        measured["cpu_s_per_token"] = _per_token(whole, short, tokens)
        measured["engine_cpu_s_per_token"] = await engine_alone(tokens, 0.0, streams)
    with _gateway(tokens, options.pace) as gateway:
        title = f"one token in {options.pace * 1e3:g} ms"
        delays = _delays(await _load(gateway, small, 1, 1, title))
        measured["token_delay_s"] = _spread(delays)
        paced = await _load(gateway, small, streams, streams, f"{title}, {streams} streams")
        measured["paced_cpu_s_per_token"] = _per_token(paced, short, tokens)
        measured["paced_engine_cpu_s_per_token"] = await engine_alone(tokens, options.pace, streams)
    return measured, delays


def _per_token(long: _Load, short: _Load, tokens: int) -> float:
    """CPU seconds of one token: what streams cost beyond requests of one token."""
    answers = len(long.answers)
    return (long.cpu - short.cpu / len(short.answers) * answers) / (answers * max(1, tokens - 1))


def _delays(load: _Load) -> list[float]:
    """From the moment the engine gave a token until the client read something: of each read, the newest token."""
    delays: list[float] = []
    for answer in load.answers:
        gave = iter(load.gave[answer.id])
        coming = next(gave, math.inf)
        newest = math.inf
        for read in answer.reads:
            while coming <= read:
                newest, coming = coming, next(gave, math.inf)
            delays.append(read - newest)
    return delays


# --- the client -------------------------------------------------------------------------------------------------------


class _Answer(NamedTuple):
    """When a request was sent, and when parts of its reply's body were read, by `time.monotonic`."""

    id: str
    sent: float
    reads: list[float]

    @property
    def first(self) -> float:
        return self.reads[0]


@dataclass
class _Load:
    """Requests, what the client saw, and what the gateway told behind them."""

    answers: list[_Answer]
    seconds: float
    cpu: float
    got: dict[str, float]
    gave: dict[str, list[float]]


class _Gateway(NamedTuple):
    port: int
    process: subprocess.Popen[str]

    def told(self) -> dict[str, Any]:
        """What `Clocked.told` says."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


@contextmanager
def _gateway(tokens: int, pace: float) -> Generator[_Gateway]:
    """A gateway in a process of its own."""
    command = [sys.executable, "-m", "deepseek_recipe.cli.bench_gateway", str(tokens), str(pace)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        port = process.stdout.readline()
        if not port:
            raise Refused("the gateway did not start")
        try:
            yield _Gateway(int(port), process)
        finally:
            process.stdin.close()


async def _load(gateway: _Gateway, body: bytes, requests: int, at_a_time: int, title: str) -> _Load:
    before = gateway.told()["cpu"]
    progress = Progress(title, requests)
    answers: list[_Answer] = []
    numbers = iter(range(requests))

    async def client() -> None:
        for number in numbers:
            answers.append(await _request(gateway.port, body, f"bench-{number}"))
            progress.step()

    started = time.monotonic()
    await asyncio.gather(*(client() for _ in range(min(at_a_time, requests))))
    seconds = time.monotonic() - started
    progress.end()
    told = gateway.told()
    return _Load(answers, seconds, told["cpu"] - before, told["got"], told["gave"])


async def _request(port: int, body: bytes, id: str) -> _Answer:
    """One request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nx-request-id: {id}\r\nconnection: close\r\n"
        sent = time.monotonic()
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        status = await reader.readline()
        if b" 200 " not in status:
            raise Refused(f"the gateway answered {status.decode().strip()}")
        while (await reader.readline()).strip():
            pass
        reads: list[float] = []
        while await reader.read(65536):
            reads.append(time.monotonic())
        return _Answer(id, sent, reads)
    finally:
        writer.close()


def _body(size: int, **fields: Any) -> bytes:
    """A streaming request of about so many bytes: an agent's, with tools' results in its history."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Write a word, many times."}]
    call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "src/main.rs"}'}}
    result = "\n".join(f"    let value_{n} = read(&input[{n}..], options)?;" for n in range(40))
    while len(json.dumps(messages)) < size:
        messages += [
            {"role": "assistant", "content": "I read the file.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": result},
        ]
    body = {"model": "DeepSeek-V4.1-Flash", "stream": True, "thinking": {"type": "disabled"}, "messages": messages}
    return json.dumps({**body, **fields}).encode()


# --- what is printed --------------------------------------------------------------------------------------------------


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    """The median, and what 99 of 100 stay below."""
    ordered = sorted(seconds)
    return {"median": ordered[len(ordered) // 2], "p99": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]}


def _print(measured: dict[str, Any], options: argparse.Namespace) -> None:
    sizes = measured["request_bytes"]
    print_title("One request at a time, milliseconds: median, 99 of 100 below")
    for name in ("small", "agent"):
        for key, said in (("engine_submit_s", "request to engine"), ("first_byte_s", "request to first byte")):
            spread = measured[f"{key}_{name}"]
            print(f"{said}, {sizes[name]:,} bytes".ljust(44), *(f"{spread[k] * 1e3:9.3f}" for k in ("median", "p99")))
    spread = measured["token_delay_s"]
    print("token to client".ljust(44), *(f"{spread[k] * 1e3:9.3f}" for k in ("median", "p99")))
    print_title(f"{options.streams} at a time")
    print("requests a second, outputs of one token".ljust(44), f"{measured['requests_per_s']:9.0f}")
    print("CPU a request, milliseconds".ljust(44), f"{measured['cpu_s_per_request'] * 1e3:9.3f}")
    print(f"tokens a second, outputs of {options.tokens}".ljust(44), f"{measured['tokens_per_s']:9.0f}")
    for key, said in (("", "as fast as they come"), ("paced_", f"one in {options.pace * 1e3:g} ms")):
        total, engine = measured[f"{key}cpu_s_per_token"] * 1e6, measured[f"{key}engine_cpu_s_per_token"] * 1e6
        print(f"CPU a token, {said}, microseconds".ljust(44), f"{total:9.2f}  (the replay engine alone: {engine:.2f})")
