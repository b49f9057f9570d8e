"""Server-sent events as bytes. Knows that an event ends with an empty line, and no protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .jsontext import dump, load

COMMENT = b": keep-alive\n\n"
"""Keeps a connection alive in every protocol: clients skip it."""


def split(sent: bytes) -> Iterator[bytes]:
    """The events, each with the empty line that ends it. JSON text holds no line break, so no event holds one."""
    for event in sent.split(b"\n\n"):
        if event:
            yield event + b"\n\n"


def edit(sent: bytes, change: Callable[[dict[str, Any]], bool]) -> bytes:
    """Lets `change` edit the data of each event; where it returns false, the event is left out.

    Data that is no JSON object (`[DONE]`) passes as it is.
    """
    edited: list[bytes] = []
    for event in split(sent):
        head, mark, data = event.partition(b"data: {")
        if not mark:
            edited.append(event)
            continue
        fields = load(b"{" + data)
        if change(fields):
            edited.append(head + b"data: " + dump(fields) + b"\n\n")
    return b"".join(edited)
