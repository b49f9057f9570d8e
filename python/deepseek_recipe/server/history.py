"""Earlier responses that a request refers to, as items of its input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .errors import ApiError
from .store import ResponseStore, StoredResponse

_MAX_RESPONSES = 1000

# The ids of output items say which response they are of; those of input items are given when they are stored.
_ITEM_ID = re.compile(r"[a-z]+_(resp_[A-Za-z0-9]+)_\d+")


class History:
    """One owner's responses."""

    def __init__(self, store: ResponseStore, owner: str):
        self._store = store
        self._owner = owner

    async def continued(self, id: str) -> tuple[list[dict[str, Any]], tuple[memoryview, memoryview] | None]:
        """The items up to and with a response's output, and the ids of its prompt and output, where they are known.

        Raises `ApiError` where it is not there or not finished.
        """
        stored = await self._store.get(id, self._owner)
        if stored is None:
            raise _not_found(id)
        if stored.status not in ("completed", "incomplete"):
            message = f"Previous response with id '{id}' cannot be continued: its status is '{stored.status}'."
            raise ApiError(400, message, param="previous_response_id")
        ids = memoryview(stored.prompt_ids).cast("I"), memoryview(stored.output_ids).cast("I")
        return await self.before(id), ids if stored.prompt_ids else None

    async def before(self, id: str | None) -> list[dict[str, Any]]:
        """The items up to and with a response's output; instructions are not among them."""
        chain: list[StoredResponse] = []
        while id is not None:
            stored = await self._store.get(id, self._owner)
            if stored is None or len(chain) == _MAX_RESPONSES:
                raise _not_found(id)
            chain.append(stored)
            id = stored.previous_id
        return [item for stored in reversed(chain) for item in (*stored.input, *stored.response["output"])]

    async def resolved(self, items: Sequence[dict[str, Any]], before: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The items with references replaced by what they refer to. Raises `ApiError` where that is not there."""
        return [await self._item(item, before) if _is_reference(item) else item for item in items]

    async def _item(self, reference: dict[str, Any], before: Sequence[dict[str, Any]]) -> dict[str, Any]:
        id = str(reference.get("id"))
        candidates = list(before)
        if match := _ITEM_ID.fullmatch(id):
            stored = await self._store.get(match[1], self._owner)
            candidates += [] if stored is None else [*stored.input, *stored.response["output"]]
        for item in candidates:
            if item.get("id") == id:
                return item
        raise ApiError(400, f"Item with id '{id[:200]}' not found.", param="input")


def _is_reference(item: dict[str, Any]) -> bool:
    """The type may be left out."""
    return item.get("type") == "item_reference" or ("type" not in item and item.keys() == {"id"})


def _not_found(id: str) -> ApiError:
    return ApiError(
        400,
        f"Previous response with id '{id[:200]}' not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )
