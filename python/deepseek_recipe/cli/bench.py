"""`bench`: what the gateway itself costs, measured with an engine that costs nearly nothing; or how fast a server is.

The gateway runs in a process of its own, and this one is its client, over loopback and plain HTTP. A server of another
kind tells no clock and no CPU time: of it only what the client sees is measured.
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
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from ..recipe import PROTOCOLS, ProtocolName
from .bench_request import WIRES, agent_request, short_request
from .plot import Progress, histogram
from .terminal import Commands, Refused, print_title, read

_EngineAlone: TypeAlias = Callable[[int, float, int], Awaitable[float]]

_AGENT_BYTES = 85_000
"""About what a coding agent sends in the middle of its work."""

_CONNECTING = 30.0
"""Seconds."""


def add(commands: Commands) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "bench",
        help="what the gateway costs, or how fast a server is: requests a second, latencies, CPU time a token",
        description="Starts a gateway with the replay engine in a process of its own and measures it over loopback; "
        "with --url, measures a server that runs.",
    )
    command.add_argument("--url", help="http://HOST:PORT of any server of the protocols, to measure instead")
    command.add_argument("--api-key", metavar="KEY", help="for --url")
    command.add_argument("--model", default="DeepSeek-V4.1-Flash", help="its name in requests (default: %(default)s)")
    command.add_argument("--protocol", choices=PROTOCOLS, default="chat_completions", help="default: %(default)s")
    command.add_argument(
        "--request",
        metavar="FILE",
        help="a streaming request as JSON, in place of that of an agent; - is standard input",
    )
    command.add_argument("--requests", type=int, default=400, help="in each measurement (default: %(default)s)")
    command.add_argument("--streams", type=int, default=16, help="at a time (default: %(default)s)")
    command.add_argument("--tokens", type=int, default=256, help="of each output (default: %(default)s)")
    command.add_argument(
        "--pace", type=float, default=0.01, help="seconds a token, where latency is measured (default: %(default)s)"
    )
    command.add_argument("--json", action="store_true", help="print the numbers as JSON")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    if min(options.requests, options.streams, options.tokens) < 1 or not 0 < options.pace < math.inf:
        raise Refused("--requests, --streams and --tokens have to be at least 1, and --pace more than 0")
    try:
        if options.url is None:
            from ..server.serve import run
            from .bench_gateway import engine_alone

            measured, delays = run(_measure_gateway(options, engine_alone))
        else:
            measured, delays = asyncio.run(_measure_server(options, _server(options)))
    except ImportError as error:
        raise Refused(f"bench needs: pip install 'deepseek-recipe[server]' ({error})") from error
    if options.json:
        print(json.dumps(measured))
        return
    _print(measured, options)
    print_title(f"{'Between two reads' if options.url else 'From the engine to the client'}, microseconds")
    print(histogram([delay * 1e6 for delay in delays]))


async def _measure_gateway(
    options: argparse.Namespace, engine_alone: _EngineAlone
) -> tuple[dict[str, Any], list[float]]:
    requests, streams, tokens = options.requests, options.streams, options.tokens
    bodies = _bodies(options, WIRES[options.protocol].no_thinking)
    measured: dict[str, Any] = {"request_bytes": {name: len(body) for name, body in bodies.items()}}
    with _gateway(tokens, 0.0, options.protocol) as gateway:
        await _load(gateway, bodies["small"], 20, 1, "starting")
        for name in ("small", "agent"):
            alone = await _load(gateway, bodies[name], min(requests, 100), 1, f"latency, {name} request")
            measured[f"first_byte_s_{name}"] = _spread([answer.first - answer.sent for answer in alone.answers])
            measured[f"engine_submit_s_{name}"] = _spread([alone.got[a.id] - a.sent for a in alone.answers])
            measured[f"cpu_s_per_request_{name}"] = alone.cpu / len(alone.answers)
        short = await _load(gateway, bodies["small"], requests, streams, "requests a second")
        measured["requests_per_s"] = requests / short.seconds
        whole = await _load(gateway, bodies["stream"], requests, streams, "tokens a second")
        measured["tokens_per_s"] = requests * tokens / whole.seconds
        measured["cpu_s_per_token"] = _per_token(whole, short, tokens)
        measured["engine_cpu_s_per_token"] = await engine_alone(tokens, 0.0, streams)
    with _gateway(tokens, options.pace, options.protocol) as gateway:
        title = f"one token in {options.pace * 1e3:g} ms"
        delays = _delays(await _load(gateway, bodies["stream"], 1, 1, title))
        measured["token_delay_s"] = _spread(delays)
        paced = await _load(gateway, bodies["stream"], streams, streams, f"{title}, {streams} streams")
        measured["paced_cpu_s_per_token"] = _per_token(paced, short, tokens)
        measured["paced_engine_cpu_s_per_token"] = await engine_alone(tokens, options.pace, streams)
    return measured, delays


async def _measure_server(options: argparse.Namespace, server: _Server) -> tuple[dict[str, Any], list[float]]:
    requests, streams = options.requests, options.streams
    bodies = _bodies(options, {})
    measured: dict[str, Any] = {"request_bytes": {name: len(body) for name, body in bodies.items()}}
    for name in ("small", "agent"):
        alone = await _load(server, bodies[name], min(requests, 20), 1, f"latency, {name} request")
        measured[f"first_byte_s_{name}"] = _spread([answer.first - answer.sent for answer in alone.answers])
    short = await _load(server, bodies["small"], requests, streams, "requests a second")
    measured["requests_per_s"] = requests / short.seconds
    whole = await _load(server, bodies["stream"], requests, streams, "events a second")
    measured["events_per_s"] = sum(answer.events for answer in whole.answers) / whole.seconds
    gaps = [b - a for answer in whole.answers for a, b in zip(answer.reads, answer.reads[1:], strict=False)]
    measured["read_gap_s"] = _spread(gaps)
    return measured, gaps


def _bodies(options: argparse.Namespace, further: dict[str, Any]) -> dict[str, bytes]:
    """Two requests of one token, and one of a whole output."""
    protocol, model = options.protocol, options.model
    made = {
        "small": short_request(protocol, model, 1),
        "agent": agent_request(protocol, model, 1, _AGENT_BYTES),
        # One more than the outputs of the replay engine have: they end by themselves.
        "stream": short_request(protocol, model, options.tokens + 1),
    }
    bodies = {name: json.dumps({**body, **further}).encode() for name, body in made.items()}
    return bodies if options.request is None else {**bodies, "agent": read(options.request)}


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
        for at in answer.reads:
            while coming <= at:
                newest, coming = coming, next(gave, math.inf)
            delays.append(at - newest)
    return delays


# --- the client -------------------------------------------------------------------------------------------------------


class _Answer(NamedTuple):
    """When a request was sent, and when parts of its reply's body were read, by `time.monotonic`."""

    id: str
    sent: float
    reads: list[float]
    events: int

    @property
    def first(self) -> float:
        return self.reads[0]


@dataclass(frozen=True)
class _Server:
    """Where requests go. One that is not ours tells nothing."""

    host: str
    port: int
    path: str
    tls: bool = False
    headers: str = ""

    def told(self) -> dict[str, Any]:
        """What `Clocked.told` says, as far as it is known."""
        return {"cpu": 0.0, "got": {}, "gave": {}}


@dataclass(frozen=True)
class _Gateway(_Server):
    """The process that this one has started."""

    process: subprocess.Popen[str] = field(kw_only=True)

    def told(self) -> dict[str, Any]:
        """What `Clocked.told` says."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


@dataclass
class _Load:
    """Requests, what the client saw, and what the gateway told behind them."""

    answers: list[_Answer]
    seconds: float
    cpu: float
    got: dict[str, float]
    gave: dict[str, list[float]]


def _server(options: argparse.Namespace) -> _Server:
    """The server of `--url`. Raises `Refused`."""
    try:
        url = urlsplit(str(options.url))
        port = url.port
    except ValueError as error:
        raise Refused(f"{options.url}: {error}") from error
    if url.scheme not in ("http", "https") or not url.hostname:
        raise Refused(f"{options.url}: expected http://HOST:PORT")
    tls = url.scheme == "https"
    base = url.path.rstrip("/").removesuffix("/v1")
    key = options.api_key
    headers = "" if key is None else f"authorization: Bearer {key}\r\nx-api-key: {key}\r\n"
    if not headers.isascii() or headers.count("\n") not in (0, 2):
        raise Refused("--api-key has characters that no header holds")
    # Anthropic's own servers want a version.
    headers += "anthropic-version: 2023-06-01\r\n" if options.protocol == "messages" else ""
    path = base + WIRES[options.protocol].path
    return _Server(url.hostname, port or (443 if tls else 80), path, tls, headers)


@contextmanager
def _gateway(tokens: int, pace: float, protocol: ProtocolName) -> Generator[_Gateway]:
    """A gateway in a process of its own."""
    command = [sys.executable, "-m", "deepseek_recipe.cli.bench_gateway", str(tokens), str(pace)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        port = process.stdout.readline()
        if not port:
            raise Refused("the gateway did not start")
        try:
            yield _Gateway("127.0.0.1", int(port), WIRES[protocol].path, process=process)
        finally:
            process.stdin.close()


async def _load(server: _Server, body: bytes, requests: int, at_a_time: int, title: str) -> _Load:
    before = server.told()["cpu"]
    progress = Progress(title, requests)
    answers: list[_Answer] = []
    numbers = iter(range(requests))

    async def client() -> None:
        for number in numbers:
            answers.append(await _request(server, body, f"bench-{number}"))
            progress.step()

    started = time.monotonic()
    await asyncio.gather(*(client() for _ in range(min(at_a_time, requests))))
    seconds = time.monotonic() - started
    progress.end()
    told = server.told()
    return _Load(answers, seconds, told["cpu"] - before, told["got"], told["gave"])


async def _request(server: _Server, body: bytes, id: str) -> _Answer:
    """One request on a connection of its own. Raises `Refused` where it is not answered with a stream."""
    try:
        opening = asyncio.open_connection(server.host, server.port, ssl=server.tls or None)
        reader, writer = await asyncio.wait_for(opening, _CONNECTING)
    except (OSError, asyncio.TimeoutError) as error:
        raise Refused(f"no server answers at {server.host}:{server.port}: {error or 'no connection'}") from error
    try:
        head = f"POST {server.path} HTTP/1.1\r\nhost: {server.host}:{server.port}\r\nx-request-id: {id}\r\n"
        head += f"content-type: application/json\r\nconnection: close\r\n{server.headers}"
        sent = time.monotonic()
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        status = (await reader.readline()).decode("latin-1").strip()
        while (await reader.readline()).strip():
            pass
        if " 200 " not in status + " ":
            raise Refused(f"the server answered {status!r}: {(await reader.read(300)).decode(errors='replace')}")
        reads: list[float] = []
        events, rest = 0, b""
        while part := await reader.read(65536):
            reads.append(time.monotonic())
            events += (rest + part).count(b"data:")
            rest = part[-4:]
        if not events:
            raise Refused("the server answered without a stream")
        return _Answer(id, sent, reads, events)
    except OSError as error:
        raise Refused(f"the connection to {server.host}:{server.port} failed: {error}") from error
    finally:
        writer.close()


# --- what is printed --------------------------------------------------------------------------------------------------


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    """The median, and what 99 of 100 stay below."""
    ordered = sorted(seconds) or [0.0]
    return {"median": ordered[len(ordered) // 2], "p99": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]}


def _print(measured: dict[str, Any], options: argparse.Namespace) -> None:
    sizes = measured["request_bytes"]
    print_title("One request at a time, milliseconds: median, 99 of 100 below")
    for name in ("small", "agent"):
        for key, said in (("engine_submit_s", "request to engine"), ("first_byte_s", "request to first byte")):
            _print_spread(measured, f"{key}_{name}", f"{said}, {sizes[name]:,} bytes")
    _print_spread(measured, "token_delay_s", "token to client")
    print_title(f"{options.streams} at a time")
    print("requests a second, outputs of one token".ljust(48), f"{measured['requests_per_s']:9.0f}")
    if options.url:
        print("events a second".ljust(48), f"{measured['events_per_s']:9.0f}")
        _print_spread(measured, "read_gap_s", "between two reads, milliseconds")
        return
    for name in ("small", "agent"):
        print(
            f"CPU a request, {sizes[name]:,} bytes, ms".ljust(48), f"{measured[f'cpu_s_per_request_{name}'] * 1e3:9.3f}"
        )
    print(f"tokens a second, outputs of {options.tokens}".ljust(48), f"{measured['tokens_per_s']:9.0f}")
    for key, said in (("", "as fast as they come"), ("paced_", f"one in {options.pace * 1e3:g} ms")):
        total, engine = measured[f"{key}cpu_s_per_token"] * 1e6, measured[f"{key}engine_cpu_s_per_token"] * 1e6
        print(f"CPU a token, {said}, microseconds".ljust(48), f"{total:9.2f}  (the replay engine alone: {engine:.2f})")


def _print_spread(measured: dict[str, Any], key: str, said: str) -> None:
    if key in measured:
        print(said.ljust(48), *(f"{measured[key][k] * 1e3:9.3f}" for k in ("median", "p99")))
