"""How many requests run and wait, and who may ask."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Iterable
from types import TracebackType

from .errors import ApiError


class Slots:
    """Places at the engine: `async with slots` waits for one. One too many to wait is refused with 429."""

    def __init__(self, running: int, waiting: int):
        self._free = asyncio.Semaphore(running)
        self._max_waiting = waiting
        self.running: int = 0
        self.waiting: int = 0

    async def __aenter__(self) -> None:
        if self._free.locked():
            if self.waiting >= self._max_waiting:
                raise ApiError(
                    429, "Too many requests are waiting. Please try again later.", headers={"retry-after": "1"}
                )
            self.waiting += 1
            try:
                await self._free.acquire()
            finally:
                self.waiting -= 1
        else:
            await self._free.acquire()
        self.running += 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.running -= 1
        self._free.release()


class Keys:
    """The keys that are served. Only digests are kept; each request is compared with all of them."""

    def __init__(self, keys: Iterable[str]):
        self._digests = [hashlib.sha256(key.encode()).digest() for key in keys]

    def owner(self, authorization: str | None, api_key: str | None) -> str:
        """Who asks: a word that is the same for the same key, and empty where no keys are wanted.

        `authorization` and `api_key` are the headers `authorization` and `x-api-key`. Raises `ApiError` with 401.
        """
        if not self._digests:
            return ""
        scheme, _, token = (authorization or "").partition(" ")
        sent = api_key if api_key is not None else token.strip() if scheme.lower() == "bearer" else None
        if sent is None:
            raise ApiError(401, "No API key was sent: use the header 'Authorization: Bearer KEY' or 'x-api-key: KEY'.")
        digest = hashlib.sha256(sent.encode("utf-8", "surrogateescape")).digest()
        # Every digest is compared, and each in constant time.
        known = [hmac.compare_digest(digest, other) for other in self._digests]
        if not any(known):
            raise ApiError(401, "The API key is not known.", code="invalid_api_key")
        return digest.hex()[:32]
