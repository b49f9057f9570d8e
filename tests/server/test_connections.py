"""Clients that go away, dawdle or send half a request; and the end of the server."""

import asyncio
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from typing import Any

import pytest

from deepseek_recipe import ModelVersion, ReasoningSealer
from deepseek_recipe.adapters import TokenDelta
from deepseek_recipe.adapters.replay import ReplayEngine, ReplayOutput
from deepseek_recipe.server import serve as serving
from loopback import listening, post, until
from support import BODIES, CHAT, DIED, END, MESSAGES, RESPONSES, THOUGHT, Scripted, events, run

ENDLESS = ReplayOutput([400] * 1_000_000)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("reset", [False, True])
def test_client_that_goes_away(path: str, stream: bool, reset: bool) -> None:
    async def test() -> None:
        engine = ReplayEngine([ENDLESS], pace=0.01)
        async with listening(engine) as (port, gateway):
            reader, writer = await post(port, path, {**BODIES[path], "stream": stream})
            if stream:
                await reader.readuntil(b"\n\n")
            await until(lambda: engine.running == 1)
            if reset:
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.close()
            await until(lambda: engine.running == 0 and not gateway.jobs)
            assert gateway.slots.running == 0

    run(test())


def test_client_that_goes_away_while_it_waits_for_its_turn() -> None:
    async def test() -> None:
        engine = ReplayEngine([ENDLESS], pace=0.01)
        async with listening(engine, max_running=1) as (port, gateway):
            _, first = await post(port, CHAT, {**BODIES[CHAT], "stream": True})
            await until(lambda: engine.running == 1)
            _, second = await post(port, CHAT, {**BODIES[CHAT], "stream": True})
            await until(lambda: gateway.slots.waiting == 1)
            second.close()
            await until(lambda: gateway.slots.waiting == 0 and len(gateway.jobs) == 1)
            first.close()
            await until(lambda: not gateway.jobs)

    run(test())


def test_slow_reader_holds_the_engine_back_and_nobody_else() -> None:
    async def test() -> None:
        engine = ReplayEngine([ENDLESS])
        async with listening(engine, write_timeout=60) as (port, gateway):
            reader, writer = await post(port, CHAT, {**BODIES[CHAT], "stream": True})
            await reader.readuntil(b"\n\n")
            await until(lambda: engine.running == 1)
            await asyncio.sleep(0.5)
            (job,) = gateway.jobs
            made = len(job.generations[0].output_ids)
            await asyncio.sleep(0.3)
            # What fits into the buffers, and no more.
            assert len(job.generations[0].output_ids) == made < 100_000
            other, closing = await post(port, MESSAGES, {**BODIES[MESSAGES], "max_tokens": 3}, "Connection: close")
            assert b" 200 " in (await other.read())[:20]
            closing.close()
            writer.close()
            await until(lambda: not gateway.jobs)

    run(test())


def test_reader_that_takes_nothing_is_given_up() -> None:
    async def test() -> None:
        engine = ReplayEngine([ENDLESS])
        async with listening(engine, write_timeout=0.3) as (port, gateway):
            _, writer = await post(port, CHAT, {**BODIES[CHAT], "stream": True})
            await until(lambda: engine.running == 1)
            await until(lambda: engine.running == 0 and not gateway.jobs)
            writer.close()

    run(test())


def test_body_that_does_not_come() -> None:
    async def test() -> None:
        async with listening(ReplayEngine(), body_timeout=0.2) as (port, gateway):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"POST {MESSAGES} HTTP/1.1\r\nHost: g\r\nContent-Length: 100\r\n\r\n{{".encode())
            reply = await reader.read(2000)
            assert b"408" in reply and b'"type":"error"' in reply
            writer.close()
            assert not gateway.jobs

    run(test())


@pytest.mark.parametrize("sent", [b"", b"POST /v1", b"POST /v1/messages HTTP/1.1\r\nHost: g\r\nX: "])
def test_headers_that_do_not_come(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_HEADER_TIMEOUT", 0.2)

    async def test() -> None:
        async with listening(ReplayEngine()) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            assert await reader.read() == b""
            writer.close()

    run(test())


def test_half_closed_connection() -> None:
    """A client that says it sends no more counts as gone: it cannot be told from one that is."""

    async def test() -> None:
        engine = ReplayEngine([ENDLESS], pace=0.01)
        async with listening(engine) as (port, gateway):
            reader, writer = await post(port, CHAT, {**BODIES[CHAT], "stream": True})
            writer.write_eof()
            await reader.read()
            await until(lambda: engine.running == 0 and not gateway.jobs)
            writer.close()

    run(test())


def test_garbage_on_the_wire() -> None:
    async def test() -> None:
        async with listening(ReplayEngine(["Fine."])) as (port, _):
            for sent in (b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(sent)
                writer.write_eof()
                await reader.read()
                writer.close()
            reader, writer = await post(port, CHAT, BODIES[CHAT], "Connection: close")
            assert b" 200 " in (await reader.read())[:20]
            writer.close()

    run(test())


def test_drain_lets_running_streams_end() -> None:
    async def test() -> None:
        engine = Scripted(THOUGHT, 0.3, TokenDelta([400]), END)
        async with listening(engine) as (port, _):
            reader, writer = await post(port, CHAT, {**BODIES[CHAT], "stream": True})
            await reader.readuntil(b"\n\n")
        text = (await reader.read()).decode()
        assert "data: [DONE]" in text
        writer.close()

    run(test())


@pytest.mark.parametrize("path", BODIES)
def test_drain_ends_what_takes_too_long(path: str) -> None:
    async def test() -> None:
        engine = ReplayEngine([ENDLESS], pace=0.01)
        async with listening(engine, drain_timeout=0.2) as (port, _):
            reader, writer = await post(port, path, {**BODIES[path], "stream": True})
            await reader.readuntil(b"\n\n")
        text = (await reader.read()).decode()
        # Chunked transfer may cut the events; the message is in the last one.
        assert "the server is shutting down" in text and "[DONE]" not in text
        assert engine.running == 0
        writer.close()

    run(test())


def test_process(tmp_path: Any) -> None:
    """The command: it says where it is, takes keys, and shuts down at SIGTERM."""
    keys = tmp_path / "keys"
    keys.write_text("# ours\nsecret\n", encoding="utf-8")
    (tmp_path / "seal").write_text("ab" * 32 + "\n" + "cd" * 32, encoding="utf-8")
    options = ["--port", "0", "--pace", "0", "--api-key-file", str(keys), "--store", f"sqlite:{tmp_path / 'store'}"]
    options += ["--seal-key-file", str(tmp_path / "seal"), "--no-fetch-images"]
    process = subprocess.Popen(
        [sys.executable, "-m", "deepseek_recipe", "serve", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("deepseek-recipe: http://127.0.0.1:") and line.endswith(" (engine: replay)\n")
        port = int(line.split(":")[3].split()[0])

        async def test() -> tuple[bytes, bytes, bytes]:
            for _ in range(200):
                try:
                    reader, writer = await post(port, RESPONSES, BODIES[RESPONSES], "Connection: close")
                    break
                except OSError:
                    await asyncio.sleep(0.05)
            refused = await reader.read()
            writer.close()
            header = "Authorization: Bearer secret"
            sealed = {**BODIES[RESPONSES], "include": ["reasoning.encrypted_content"]}
            reader, writer = await post(port, RESPONSES, sealed, "Connection: close", header)
            served = await reader.read()
            writer.close()
            image = {"type": "image_url", "image_url": {"url": "https://images/1.png"}}
            body = {**BODIES[CHAT], "messages": [{"role": "user", "content": [image]}]}
            reader, writer = await post(port, CHAT, body, "Connection: close", header)
            seeing = await reader.read()
            writer.close()
            return refused, served, seeing

        refused, served, seeing = run(test())
        assert b" 400 " in seeing[:20] and b"this server fetches no images" in seeing
        assert b" 401 " in refused[:20] and b" 200 " in served[:20]
        (item, _) = json.loads(served.partition(b"\r\n\r\n")[2])["output"]
        sealer = ReasoningSealer(bytes.fromhex("ab" * 32))
        assert sealer.open(item["encrypted_content"], ModelVersion.DeepseekV41Flash) == item["content"][0]["text"]
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=20)
    # uvicorn ends by the signal once it has shut down.
    assert process.returncode == -signal.SIGTERM and "Application shutdown complete" in log
    assert "secret" not in log and all(line.startswith("{") for line in log.splitlines())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "no"], "unknown engine 'no'"),
        (["--engine", "replay:/no/file"], "/no/file"),
        (["--engine", "http://127.0.0.1:9"], "no engine answers at http://127.0.0.1:9"),
        (["--store", "no"], "unknown store 'no'"),
        (["--store", f"sqlite:{__file__}"], "file is not a database"),
        (["--store", "sqlite:/no/folder/file"], "unable to open database file"),
        (["--api-key-file", "/no/file"], "/no/file"),
        (["--api-key-file", os.devnull], "there is no key in it"),
        (["--api-key", ""], "an API key is empty"),
        (["--port", "65536"], "a port from 0 to 65535"),
        (["--port", "-1"], "a port from 0 to 65535"),
        (["--host", ""], "expected a host"),
        (["--max-running", "0"], "max_running has to be at least 1"),
        (["--max-waiting", "-1"], "max_waiting has to be at least 0"),
        (["--drain-timeout", "nan"], "drain_timeout has to be at least 0, and finite"),
        (["--pace", "nan"], "pace at least 0 and finite"),
        (["--seal-key-file", __file__], "expected keys of 64 hexadecimal digits"),
        (["--seal-key-file", os.devnull], "expected keys of 64 hexadecimal digits"),
    ],
)
def test_process_that_cannot_start(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    from deepseek_recipe.cli import main

    assert main(["serve", "--port", "0", *options]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_small_writes_do_not_wait_for_each_other() -> None:
    async def test() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        listener = serving.bind("127.0.0.1", 0)
        async with await asyncio.start_server(serve, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            assert await accepted
            writer.close()

    run(test())


def test_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    from deepseek_recipe.cli import main

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    error = capsys.readouterr().err
    assert f"127.0.0.1:{port}: Address already in use" in error and error.count("\n") == 1


@pytest.mark.parametrize("path", BODIES)
def test_whole_response_that_fails_late_has_no_end(path: str) -> None:
    async def test() -> None:
        async with listening(Scripted(THOUGHT, 0.3, DIED), keep_alive=0.1) as (port, gateway):
            reader, writer = await post(port, path, BODIES[path])
            reply = await reader.read()
            assert b" 200 " in reply[:20] and b"the engine is gone" in reply
            # The last chunk of a reply that is whole.
            assert not reply.endswith(b"0\r\n\r\n")
            assert not gateway.jobs
            writer.close()

    run(test())


def test_client_that_goes_away_while_its_response_takes_long() -> None:
    async def test() -> None:
        engine = ReplayEngine([ENDLESS], pace=0.01)
        async with listening(engine, keep_alive=0.1) as (port, gateway):
            reader, writer = await post(port, CHAT, BODIES[CHAT])
            await reader.readuntil(b"\r\n\r\n1\r\n\n")
            writer.close()
            await until(lambda: engine.running == 0 and not gateway.jobs)

    run(test())


def test_events_are_whole_in_each_write() -> None:
    async def test() -> None:
        engine = ReplayEngine(["one two three four"], pace=0.001)
        async with listening(engine) as (port, _):
            reader, writer = await post(port, MESSAGES, {**BODIES[MESSAGES], "stream": True}, "Connection: close")
            text = (await reader.read()).decode().partition("\r\n\r\n")[2]
            # Chunked: each chunk is a length, a line break, whole events.
            for chunk in text.split("\r\n")[1::2]:
                assert not chunk or chunk.endswith("\n\n")
                events(chunk)
            writer.close()

    run(test())
