"""What engines over HTTP have in common: one streamed request each, errors, ends. Knows no engine's fields."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol, cast

import httpx2
import orjson

from .base import Capabilities, EngineUnavailable, GenerateRequest, Health, RequestError, TokenDelta, merged

_log = logging.getLogger("deepseek_recipe.adapters")

_TOO_LONG = ("context length", "maximum model length", "longer than the model", "too long")


class Reader(Protocol):
    """Reads one output's messages."""

    def read(self, message: dict[str, Any]) -> TokenDelta | None:
        """What a message adds; `None` where it adds nothing. Anything it may raise is a bad message."""
        ...

    def end(self) -> TokenDelta | None:
        """The last delta, where the engine's end is known only at the end of the stream."""
        ...


class Dialect(Protocol):
    """How one kind of engine is spoken to."""

    path: str
    """Where requests go."""

    def body(self, request: GenerateRequest) -> dict[str, Any]:
        """The request as the engine takes it. Raises `RequestError`."""
        ...

    def reader(self, request: GenerateRequest) -> Reader:
        """What reads the answer."""
        ...


class HttpEngine:
    """An engine behind a URL. It streams; closing the connection aborts the request there."""

    def __init__(self, client: httpx2.AsyncClient, dialect: Dialect, capabilities: Capabilities):
        self._client = client
        self._dialect = dialect
        self._capabilities = capabilities
        self._running: dict[str, httpx2.Response | None] = {}
        self._aborted: set[str] = set()

    async def capabilities(self) -> Capabilities:
        """What was found out when the engine was connected to."""
        return self._capabilities

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        """See `EngineAdapter.generate`."""
        id = request.request_id
        if id in self._running:
            raise RequestError("bad_param", f"request {id} is running already")
        self._running[id] = None
        try:
            deltas = self._stream(request)
            try:
                async for delta in deltas:
                    yield delta
            finally:
                await deltas.aclose()
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            if id in self._aborted:
                yield TokenDelta((), None, "abort")
                return
            _log.warning("the engine's connection failed: %s", type(error).__name__, extra={"request_id": id})
            raise RequestError("engine_dead", "the engine cannot be reached") from error
        finally:
            self._aborted.discard(id)
            del self._running[id]

    async def _stream(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        dialect = self._dialect
        content = orjson.dumps(dialect.body(request))
        headers = {"content-type": "application/json", **request.metadata}
        async with self._client.stream("POST", dialect.path, content=content, headers=headers) as response:
            if response.status_code != 200:
                raise _refused(response.status_code, await response.aread())
            self._running[request.request_id] = response
            reader = dialect.reader(request)
            last: TokenDelta | None = None
            async for messages in _messages(response):
                delta = merged([delta for message in messages if (delta := _read(reader, message)) is not None])
                if delta is not None and delta.finish_reason is None:
                    yield delta
                elif delta is not None:
                    # The stream is read to its end all the same: so the connection can be used again.
                    last = delta
            if last is None and request.request_id in self._aborted:
                last = TokenDelta((), None, "abort")
            last = last or reader.end()
            if last is None:
                raise RequestError("engine_dead", "the engine's output ended without a finish reason")
            yield last

    async def abort(self, request_id: str) -> bool:
        """See `EngineAdapter.abort`."""
        if request_id not in self._running:
            return False
        self._aborted.add(request_id)
        response = self._running[request_id]
        if response is not None:
            await response.aclose()
        return True

    async def health(self) -> Health:
        """Asks `/health`, or the list of models where the engine has no such path."""
        try:
            response = await self._client.get("/health", timeout=5)
            if response.status_code == 404:
                response = await self._client.get("/v1/models", timeout=5)
        except httpx2.HTTPError as error:
            return Health("dead", type(error).__name__)
        if response.status_code == 200:
            return Health("ready")
        return Health("loading" if response.status_code == 503 else "degraded", f"status {response.status_code}")

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._client.aclose()


def client(url: str) -> httpx2.AsyncClient:
    """A client of the server at a URL, with or without `/v1` at its end. It waits for outputs as long as they take."""
    timeout = httpx2.Timeout(None, connect=10, pool=None)
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=256)
    # Reading the certificates takes a third of a second, and plain HTTP needs none; redirects are not followed.
    verify = url.startswith("https:")
    base = url.rstrip("/").removesuffix("/v1")
    return httpx2.AsyncClient(base_url=base, timeout=timeout, limits=limits, verify=verify)


async def get(client: httpx2.AsyncClient, path: str) -> dict[str, Any] | None:
    """The JSON object at a path; `None` where there is none. Raises `EngineUnavailable` where nothing answers."""
    try:
        response = await client.get(path, timeout=10)
    except httpx2.HTTPError as error:
        raise EngineUnavailable(f"no engine answers at {client.base_url}: {type(error).__name__}") from error
    if response.status_code != 200:
        return None
    try:
        found = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


async def post(client: httpx2.AsyncClient, path: str, body: Any) -> httpx2.Response:
    """The reply to a JSON body, whatever its status. Raises `EngineUnavailable` where nothing answers."""
    try:
        return await client.post(path, json=body, timeout=10)
    except httpx2.HTTPError as error:
        raise EngineUnavailable(f"no engine answers at {client.base_url}: {type(error).__name__}") from error


def has_ids(ids: Any) -> list[int]:
    """A list of ids from a message. Raises `ValueError` for anything else."""
    if not isinstance(ids, list):
        raise ValueError("no list of ids")
    for id in cast("list[Any]", ids):
        if type(id) is not int:
            raise ValueError("not an id")
    return cast("list[int]", ids)


def _read(reader: Reader, message: Mapping[str, Any]) -> TokenDelta | None:
    error = message.get("error")
    if error is not None:
        text = str(cast("dict[str, Any]", error).get("message", "") if isinstance(error, dict) else error)
        raise _by_text(text, "engine_dead")
    try:
        return reader.read(dict(message))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as wrong:
        raise RequestError("engine_dead", "the engine's answer has another form than expected") from wrong


async def _messages(response: httpx2.Response) -> AsyncGenerator[list[dict[str, Any]], None]:
    """The data of the events that came at a time."""
    rest = b""
    async for part in response.aiter_bytes():
        *lines, rest = (rest + part).split(b"\n")
        messages: list[dict[str, Any]] = []
        for line in lines:
            if line.startswith(b"data:"):
                data = line[5:].strip()
                if data != b"[DONE]":
                    messages.append(_object(data))
        if messages:
            yield messages


def _object(data: bytes) -> dict[str, Any]:
    try:
        message = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise RequestError("engine_dead", "the engine's answer is not JSON") from error
    if not isinstance(message, dict):
        raise RequestError("engine_dead", "the engine's answer has another form than expected")
    return cast("dict[str, Any]", message)


def _refused(status: int, body: bytes) -> RequestError:
    if status in (429, 503):
        return RequestError("overloaded", "the engine is overloaded")
    if status not in (400, 413, 422):
        _log.warning("the engine replied with status %s", status)
        return RequestError("engine_dead", "the engine failed")
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        said = {}
    error: Any = cast("dict[str, Any]", said).get("error", said) if isinstance(said, dict) else {}
    text = cast("dict[str, Any]", error).get("message", "") if isinstance(error, dict) else error
    return _by_text(str(text), "bad_param")


def _by_text(text: str, default: Any) -> RequestError:
    short = text[:300] or "the engine refuses the request"
    if any(words in text for words in _TOO_LONG):
        return RequestError("too_long", short)
    if default == "engine_dead":
        _log.warning("the engine reported an error: %s", short)
        return RequestError("engine_dead", "the engine failed")
    return RequestError(default, short)
