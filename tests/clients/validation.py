"""Strict validation with an SDK's pydantic models. Knows no protocol."""

import json
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError


def models_by_type(union: Any) -> dict[str, type[BaseModel]]:
    """The models of a union of events, by the `type` that each stands for."""
    members = get_args(union)
    if not all(isinstance(member, type) for member in members):
        return models_by_type(members[0])
    return {get_args(member.model_fields["type"].annotation)[0]: member for member in members}


def faults(model: type[BaseModel], value: object) -> set[str]:
    """The paths at which a JSON value is not what the model says, without indexes."""
    try:
        model.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        return {path(fault["loc"]) for fault in error.errors()}
    return set()


def further_fields(value: object, at: tuple[str, ...] = ()) -> Iterator[str]:
    """The paths of fields that a parsed model does not name."""
    if isinstance(value, list):
        for item in value:
            yield from further_fields(item, at)
    if isinstance(value, BaseModel):
        yield from (path((*at, name)) for name in value.model_extra or {})
        for name in type(value).model_fields:
            yield from further_fields(getattr(value, name, None), (*at, name))


def path(steps: tuple[str | int, ...]) -> str:
    return ".".join(step for step in steps if isinstance(step, str))


def without_nulls(value: Any) -> Any:
    """JSON without null members: SDKs add fields that they know to what they build from a stream."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value
