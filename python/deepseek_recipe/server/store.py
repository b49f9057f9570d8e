"""Where responses are kept that a later request refers to. Each belongs to an owner, and no other one sees it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from .jsontext import dump, load

_Result = TypeVar("_Result")

_DAY = 24 * 3600.0


@dataclass(frozen=True)
class StoredResponse:
    """A response, and what it answers."""

    id: str
    owner: str
    input: list[dict[str, Any]]
    """The request's own input items."""
    response: dict[str, Any]
    """The response object, as it is at present: its `status` may be `queued` or `in_progress`."""
    previous_id: str | None = None
    background: bool = False
    """Whether its stream is kept, too."""
    created_at: float = field(default_factory=time.time)
    prompt_ids: bytes = b""
    """The ids that the engine got, as native uint32, and those that it gave: the next prompt goes on from them."""
    output_ids: bytes = b""

    @property
    def status(self) -> str:
        """The response's status."""
        return self.response["status"]


class ResponseStore(Protocol):
    """Keeps responses and, for background work, the events of their streams, in order from 0."""

    async def put(self, stored: StoredResponse) -> None:
        """Keeps a response, in place of an earlier state of it."""
        ...

    async def get(self, id: str, owner: str) -> StoredResponse | None:
        """Returns the response, if it is this owner's."""
        ...

    async def delete(self, id: str, owner: str) -> bool:
        """Forgets a response and its events. Returns whether there was one."""
        ...

    async def append(self, id: str, owner: str, events: Sequence[bytes]) -> None:
        """Adds events to a response's stream; nothing if it has been forgotten."""
        ...

    async def events(self, id: str, owner: str, start: int) -> list[bytes]:
        """Returns the events from number `start` on that have been added so far."""
        ...

    async def aclose(self) -> None:
        """Closes the store."""
        ...


class MemoryStore:
    """Keeps responses in this process: at most `max_bytes` of JSON text and none longer than `ttl` seconds.

    Processes behind a balancer do not see each other's.
    """

    def __init__(self, max_bytes: int = 256 * 1024 * 1024, ttl: float = _DAY):
        self._max_bytes = max_bytes
        self._ttl = ttl
        self._size = 0
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    async def put(self, stored: StoredResponse) -> None:
        """See `ResponseStore`. The ones that were used longest ago make room."""
        key = (stored.owner, stored.id)
        earlier = self._kept.pop(key, None)
        events: list[bytes] = []
        if earlier is not None:
            self._size -= earlier.size
            events = earlier.events
        size = len(dump(stored.input)) + len(dump(stored.response)) + sum(map(len, events))
        size += len(stored.prompt_ids) + len(stored.output_ids)
        self._kept[key] = _Kept(stored, size, events)
        self._grow(size)

    async def get(self, id: str, owner: str) -> StoredResponse | None:
        """See `ResponseStore`."""
        kept = self._find(id, owner)
        return None if kept is None else kept.stored

    async def delete(self, id: str, owner: str) -> bool:
        """See `ResponseStore`."""
        found = self._find(id, owner) is not None
        self._drop((owner, id))
        return found

    async def append(self, id: str, owner: str, events: Sequence[bytes]) -> None:
        """See `ResponseStore`."""
        kept = self._find(id, owner)
        if kept is not None:
            added = sum(map(len, events))
            kept.events.extend(events)
            kept.size += added
            self._grow(added)

    async def events(self, id: str, owner: str, start: int) -> list[bytes]:
        """See `ResponseStore`."""
        kept = self._find(id, owner)
        return [] if kept is None else kept.events[start:]

    async def aclose(self) -> None:
        """Forgets everything."""
        self._kept.clear()
        self._size = 0

    def _find(self, id: str, owner: str) -> _Kept | None:
        kept = self._kept.get((owner, id))
        if kept is not None and time.time() - kept.stored.created_at > self._ttl:
            self._drop((owner, id))
            return None
        if kept is not None:
            self._kept.move_to_end((owner, id))
        return kept

    def _grow(self, size: int) -> None:
        self._size += size
        while self._size > self._max_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[str, str]) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size -= kept.size


@dataclass
class _Kept:
    stored: StoredResponse
    size: int
    events: list[bytes]


_SCHEMA = """
CREATE TABLE IF NOT EXISTS responses (
    owner TEXT, id TEXT, previous_id TEXT, background INTEGER, created_at REAL, input BLOB, response BLOB,
    prompt_ids BLOB, output_ids BLOB, PRIMARY KEY (owner, id)
);
CREATE INDEX IF NOT EXISTS responses_created_at ON responses (created_at);
CREATE TABLE IF NOT EXISTS events (owner TEXT, id TEXT, number INTEGER, event BLOB, PRIMARY KEY (owner, id, number));
"""


class SqliteStore:
    """Keeps responses in a file, none longer than `ttl` seconds. Processes of one machine may share it.

    Raises `ValueError` for a file that cannot be used.
    """

    def __init__(self, path: str | Path, ttl: float = 30 * _DAY):
        self._ttl = ttl
        self._lock = threading.Lock()
        try:
            self._connection = sqlite3.connect(path, timeout=30, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise ValueError(f"{path}: {error}") from error

    async def put(self, stored: StoredResponse) -> None:
        """See `ResponseStore`. What is too old goes at the same time."""

        def put(connection: sqlite3.Connection) -> None:
            oldest = time.time() - self._ttl
            connection.execute(
                "DELETE FROM events WHERE (owner, id) IN (SELECT owner, id FROM responses WHERE created_at < ?)",
                (oldest,),
            )
            connection.execute("DELETE FROM responses WHERE created_at < ?", (oldest,))
            connection.execute(
                "INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    stored.owner,
                    stored.id,
                    stored.previous_id,
                    stored.background,
                    stored.created_at,
                    dump(stored.input),
                    dump(stored.response),
                    stored.prompt_ids,
                    stored.output_ids,
                ),
            )

        await self._run(put)

    async def get(self, id: str, owner: str) -> StoredResponse | None:
        """See `ResponseStore`."""

        def get(connection: sqlite3.Connection) -> StoredResponse | None:
            row = connection.execute(
                "SELECT input, response, previous_id, background, created_at, prompt_ids, output_ids FROM responses"
                " WHERE owner = ? AND id = ? AND created_at >= ?",
                (owner, id, time.time() - self._ttl),
            ).fetchone()
            if row is None:
                return None
            input, response, previous_id, background, *others = row
            return StoredResponse(id, owner, load(input), load(response), previous_id, bool(background), *others)

        return await self._run(get)

    async def delete(self, id: str, owner: str) -> bool:
        """See `ResponseStore`."""

        def delete(connection: sqlite3.Connection) -> bool:
            connection.execute("DELETE FROM events WHERE owner = ? AND id = ?", (owner, id))
            return connection.execute("DELETE FROM responses WHERE owner = ? AND id = ?", (owner, id)).rowcount > 0

        return await self._run(delete)

    async def append(self, id: str, owner: str, events: Sequence[bytes]) -> None:
        """See `ResponseStore`."""

        def append(connection: sqlite3.Connection) -> None:
            exists = connection.execute("SELECT 1 FROM responses WHERE owner = ? AND id = ?", (owner, id)).fetchone()
            if exists is None:
                return
            (count,) = connection.execute(
                "SELECT COALESCE(MAX(number) + 1, 0) FROM events WHERE owner = ? AND id = ?", (owner, id)
            ).fetchone()
            connection.executemany(
                "INSERT INTO events VALUES (?, ?, ?, ?)",
                [(owner, id, count + number, event) for number, event in enumerate(events)],
            )

        await self._run(append)

    async def events(self, id: str, owner: str, start: int) -> list[bytes]:
        """See `ResponseStore`."""

        def events(connection: sqlite3.Connection) -> list[bytes]:
            rows = connection.execute(
                "SELECT event FROM events WHERE owner = ? AND id = ? AND number >= ? ORDER BY number",
                (owner, id, start),
            )
            return [event for (event,) in rows]

        return await self._run(events)

    async def aclose(self) -> None:
        """Closes the file."""
        await asyncio.to_thread(self._connection.close)

    async def _run(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        def locked() -> _Result:
            with self._lock, self._connection:
                return work(self._connection)

        return await asyncio.to_thread(locked)
