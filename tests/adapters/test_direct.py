"""The transport to engines: any cut of a reply reads as with httpx2's own, and bad replies are its errors."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepseek_recipe.adapters.direct import DirectTransport

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n3\r\nabc\r\n7\r\ndata: d\r\n0\r\n\r\n"
REPLIES = {
    "chunked": CHUNKED,
    "length": b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nhello",
    "empty": b"HTTP/1.1 204 No Content\r\n\r\n",
    "until the end": b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nall of it",
    "continue": b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED,
    "closes": b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
    "no chunk ends": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nab",
    "too short": b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello",
    "no status": b"HTTP/1.1 200 O",
    "no HTTP": b"SSH-2.0-other\r\n\r\n",
    "bad chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n",
    "nothing": b"",
}

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(script: Script) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/path?a=b"


async def request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    return head + await reader.readexactly(4)


async def outcome(transport: httpx2.AsyncBaseTransport, url: str) -> Any:
    """What a client sees of a reply: all of it, or that it failed."""
    async with httpx2.AsyncClient(transport=transport, timeout=5) as client:
        try:
            reply = await client.post(url, content=b"body")
        except httpx2.TransportError as error:
            return isinstance(error, httpx2.NetworkError | httpx2.ProtocolError)
        return reply.status_code, reply.content, sorted(reply.headers.items())


@pytest.mark.parametrize("name", REPLIES)
def test_any_cut_reads_as_with_the_other_transport(name: str) -> None:
    reply = REPLIES[name]

    @settings(max_examples=15, deadline=None)
    @given(st.lists(st.integers(0, len(reply)), max_size=6))
    def check(cuts: list[int]) -> None:
        seen: list[bytes] = []

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await request(reader))
            places = [0, *sorted(cuts), len(reply)]
            for start, end in itertools.pairwise(places):
                writer.write(reply[start:end])
                await writer.drain()
                await asyncio.sleep(0)

        async def run() -> None:
            async with listening(script) as url:
                assert await outcome(DirectTransport(), url) == await outcome(httpx2.AsyncHTTPTransport(), url)

        asyncio.run(asyncio.wait_for(run(), 30))
        ours, theirs = ({line.lower() for line in sent.split(b"\r\n")} for sent in seen)
        assert ours == theirs and seen[0].startswith(b"POST /path?a=b HTTP/1.1\r\n")

    check()


def test_a_connection_serves_one_request_after_another() -> None:
    connections = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        # It says more than it was asked behind the third reply, and closes behind the fifth.
        for extra in (b"", b"", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b"", b""):
            await request(reader)
            writer.write(CHUNKED + extra)

    async def run() -> None:
        async with (
            listening(script) as url,
            httpx2.AsyncClient(transport=DirectTransport(), timeout=5) as client,
        ):
            for count in range(1, 9):
                assert (await client.post(url, content=b"body")).content == b"abcdata: d"
                await asyncio.sleep(0.02)
                assert connections == (1 if count <= 3 else 2 if count <= 6 else 3)

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_reply_that_is_left_closes_the_connection_and_wakes_its_reader() -> None:
    gone = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(CHUNKED[:-5])
        assert await reader.read() == b""
        gone.set()

    async def run() -> None:
        async with (
            listening(script) as url,
            httpx2.AsyncClient(transport=DirectTransport(), timeout=5) as client,
            client.stream("POST", url, content=b"body") as reply,
        ):
            reading = asyncio.ensure_future(reply.aread())
            await asyncio.sleep(0.05)
            await reply.aclose()
            with pytest.raises(httpx2.ReadError):
                await reading
            await gone.wait()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_who_reads_slowly_holds_the_server_back() -> None:
    sent = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 50000000\r\n\r\n")
        for _ in range(500):
            writer.write(bytes(100_000))
            await writer.drain()
            sent += 100_000

    async def run() -> None:
        async with (
            listening(script) as url,
            httpx2.AsyncClient(transport=DirectTransport(), timeout=5) as client,
            client.stream("POST", url, content=b"body") as reply,
        ):
            await asyncio.sleep(0.5)
            assert sent < 20_000_000
            assert sum([len(part) async for part in reply.aiter_bytes()]) == 50_000_000

    asyncio.run(asyncio.wait_for(run(), 30))


def test_limits() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"x-a: " + bytes(1000).replace(b"\0", b"a") + b"\r\n")
            await writer.drain()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def run() -> None:
        async with listening(endless) as url, httpx2.AsyncClient(transport=DirectTransport()) as client:
            with pytest.raises(httpx2.RemoteProtocolError, match="headers are too long"):
                await client.post(url, content=b"body")
            with pytest.raises(httpx2.LocalProtocolError, match="line break"):
                await client.post(url, content=b"body", headers={"traceparent": "a\r\nx-b: c"})
        async with listening(silent) as url, httpx2.AsyncClient(transport=DirectTransport(), timeout=0.05) as client:
            with pytest.raises(httpx2.ReadTimeout):
                await client.post(url, content=b"body")

    asyncio.run(asyncio.wait_for(run(), 30))
