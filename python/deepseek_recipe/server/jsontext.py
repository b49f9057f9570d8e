"""JSON that passes through: numbers keep their spelling and their digits, whatever their size.

Requests and responses are changed in a few places and are otherwise the client's or the codec's.
"""

from __future__ import annotations

import json
from typing import Any, cast

import orjson


def load(text: str | bytes) -> Any:
    """Reads JSON text. Numbers that Python would spell otherwise are kept as text, for `dump`.

    Raises `ValueError`, and `RecursionError` for nesting.
    """
    return json.loads(text, parse_int=_integer, parse_float=orjson.Fragment, parse_constant=_refused)


def dump(value: Any) -> bytes:
    """Writes JSON text. Half of a surrogate pair becomes U+FFFD, as in the codec.

    Raises `RecursionError` for more than 254 containers in each other.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        if "ecursion" in str(error):
            raise RecursionError(str(error)) from error
        return orjson.dumps(_repaired(value))


def members(text: bytes) -> dict[str, Any]:
    """The members of a JSON object, to look at; none where it is not one, which the codec then says."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            # It refuses half a surrogate pair, which clients send where they cut a text.
            found = load(text)
        except (ValueError, RecursionError):
            return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _integer(digits: str) -> Any:
    return int(digits) if len(digits) < 19 else orjson.Fragment(digits)


def _repaired(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_repaired(element) for element in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {_repaired(name): _repaired(member) for name, member in cast("dict[Any, Any]", value).items()}
    return value
