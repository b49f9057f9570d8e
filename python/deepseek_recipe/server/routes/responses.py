"""Responses: what is created, with its history by reference, and what is kept."""

from __future__ import annotations

from array import array
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from ..._native import InferenceChunk
from ...recipe import Encoded, Reply
from .. import background
from ..errors import ApiError
from ..gateway import Call, Gateway
from ..generation import Generation
from ..history import History
from ..jsontext import dump, load
from ..responders import json_response, respond
from ..sse import edit
from ..store import ResponseStore, StoredResponse

_ECHOED = ("metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "max_tool_calls")


async def create(request: Request) -> Response:
    """`POST /v1/responses`"""
    gateway: Gateway = request.app.state.gateway
    call = await gateway.call(request)
    wants = _Wants(call, gateway.store)
    encoded = await gateway.encode(await wants.body(), "responses", call, wants.previous_ids)

    async def keep(generation: Generation) -> None:
        if wants.store is not None:
            await wants.store.put(wants.stored(generation))

    on_finish = None if wants.background else keep
    generations = await gateway.generations(encoded, call, edit=wants.edit, on_finish=on_finish)
    if wants.background and wants.store is not None:
        queued = background.with_status(wants.stored(generations[0], _begun(encoded, generations[0])), "queued")
        return await background.start(gateway, wants.store, call, generations[0], queued, wants.stored, encoded.stream)

    def whole() -> bytes:
        return dump(wants.echo(load(generations[0].reply.response_json())))

    return await respond(request, gateway, call, encoded, generations, whole)


async def count_tokens(request: Request) -> Response:
    """`POST /v1/responses/input_tokens`"""
    gateway: Gateway = request.app.state.gateway
    call = await gateway.call(request)
    wants = _Wants(call, gateway.store)
    encoded = await gateway.encode(await wants.body(), "responses", call, wants.previous_ids)
    return json_response(dump({"object": "response.input_tokens", "input_tokens": await gateway.count_tokens(encoded)}))


async def get(request: Request) -> Response:
    """`GET /v1/responses/{id}`, with `stream=true` and `starting_after` for background responses"""
    gateway: Gateway = request.app.state.gateway
    store, stored = await _find(request, gateway)
    if request.query_params.get("stream", "").lower() != "true":
        return json_response(dump(stored.response))
    if not stored.background:
        raise ApiError(400, "Only background responses can be streamed again.", param="stream")
    start = 0 if "starting_after" not in request.query_params else _number(request, "starting_after", 0, 10**9) + 1
    return background.Follow(store, stored, start, gateway.settings)


async def delete(request: Request) -> Response:
    """`DELETE /v1/responses/{id}`"""
    gateway: Gateway = request.app.state.gateway
    store, stored = await _find(request, gateway)
    background.cancel_job(gateway, stored)
    await store.delete(stored.id, stored.owner)
    return json_response(dump({"id": stored.id, "object": "response", "deleted": True}))


async def cancel(request: Request) -> Response:
    """`POST /v1/responses/{id}/cancel`"""
    gateway: Gateway = request.app.state.gateway
    store, stored = await _find(request, gateway)
    if not stored.background:
        raise ApiError(400, "Only background responses can be cancelled.")
    return json_response(dump((await background.cancel(gateway, store, stored)).response))


async def input_items(request: Request) -> Response:
    """`GET /v1/responses/{id}/input_items`: what the model was shown, the history included"""
    gateway: Gateway = request.app.state.gateway
    store, stored = await _find(request, gateway)
    items = [*await History(store, stored.owner).before(stored.previous_id), *stored.input]
    query = request.query_params
    limit = _number(request, "limit", 1, 100) if "limit" in query else 20
    if query.get("order", "desc") not in ("asc", "desc"):
        raise ApiError(400, "Invalid 'order': expected 'asc' or 'desc'", param="order")
    if query.get("order", "desc") == "desc":
        items.reverse()
    if after := query.get("after"):
        places = [place for place, item in enumerate(items) if item.get("id") == after]
        if not places:
            raise ApiError(400, f"Item with id '{after[:200]}' not found.", param="after")
        items = items[places[0] + 1 :]
    page = items[:limit]
    ids = (
        {"first_id": page[0].get("id"), "last_id": page[-1].get("id")} if page else {"first_id": None, "last_id": None}
    )
    return json_response(dump({"object": "list", "data": page, **ids, "has_more": len(items) > len(page)}))


def _begun(encoded: Encoded, generation: Generation) -> Reply:
    """A reply that has said its settings and nothing else."""
    reply = encoded.reply(id=generation.reply.id)
    reply.push(InferenceChunk.ready())
    return reply


class _Wants:
    """What a request says besides what the model is told: history, keeping, and what is said back."""

    def __init__(self, call: Call, store: ResponseStore | None):
        fields = call.fields
        self._call = call
        self._history = None if store is None else History(store, call.owner)
        previous = fields.get("previous_response_id") or None
        if previous is not None and not isinstance(previous, str):
            raise ApiError(400, "Invalid 'previous_response_id': expected a string", param="previous_response_id")
        self.previous_id: str | None = previous
        self.previous_ids: tuple[memoryview, memoryview] | None = None
        """The ids that the history was made of, once `body` has been called."""
        self.background: bool = fields.get("background") is True and store is not None
        self.store: ResponseStore | None = None if fields.get("store") is False else store
        """Where the response is kept, if it is."""
        if self.background and self.store is None:
            raise ApiError(400, "Background responses have to be stored.", param="store")
        if self.previous_id is not None and fields.get("conversation"):
            message = "'previous_response_id' and 'conversation' cannot be used together."
            raise ApiError(400, message, param="previous_response_id")
        _check_metadata(fields.get("metadata"))

    async def body(self) -> bytes | dict[str, Any]:
        """The request with its history in it, and without what was dealt with here."""
        refers = self.previous_id or self.background or b"item_reference" in self._call.body
        if self._history is None or not refers or not self._call.fields:
            return self._call.body
        request = self._call.parsed()
        request.pop("background", None)
        before: list[dict[str, Any]] = []
        if self.previous_id is not None:
            before, self.previous_ids = await self._history.continued(self.previous_id)
            del request["previous_response_id"]
        items = _items(request.get("input"))
        if items is not None:
            request["input"] = [*before, *await self._history.resolved(items, before)]
        return request

    def edit(self, generation: Generation, sent: bytes) -> bytes:
        """Says back what was asked for, in the events that hold the whole response."""

        def change(event: dict[str, Any]) -> bool:
            if "response" in event:
                self.echo(event["response"])
            return True

        return edit(sent, change)

    def echo(self, response: dict[str, Any]) -> dict[str, Any]:
        """Writes the settings into a response object and returns it."""
        fields = self._call.fields
        response["previous_response_id"] = self.previous_id
        response["store"] = self.store is not None
        response["background"] = self.background
        for name in _ECHOED:
            if fields.get(name) is not None:
                response[name] = fields[name]
        if response.get("usage"):
            response["usage"]["input_tokens_details"].setdefault("cache_write_tokens", 0)
        return response

    def stored(self, generation: Generation, reply: Reply | None = None) -> StoredResponse:
        """What is kept of a response, as it is now in the generation's reply or in another one."""
        response: dict[str, Any] = load((reply or generation.reply).response_json())
        items = _items(self._call.parsed().get("input")) or []
        for number, item in enumerate(items):
            item.setdefault("type", "message")
            item.setdefault("id", f"item_{response['id']}_{number}")
        return StoredResponse(
            response["id"],
            self._call.owner,
            items,
            self.echo(response),
            self.previous_id,
            self.background,
            prompt_ids=bytes(array("I", generation.request.prompt_token_ids)),
            output_ids=generation.output_ids.tobytes(),
        )


def _items(given: Any) -> list[dict[str, Any]] | None:
    """The input as a list of items; `None` where it is something else, which the codec refuses."""
    if given is None:
        return []
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": given}]}]
    if isinstance(given, list) and all(isinstance(item, dict) for item in cast("list[Any]", given)):
        return cast("list[dict[str, Any]]", given)
    return None


def _check_metadata(metadata: Any) -> None:
    if metadata is None:
        return
    if not isinstance(metadata, dict):
        raise ApiError(400, "Invalid 'metadata': expected an object", param="metadata")
    pairs = cast("dict[str, Any]", metadata)
    fits = all(isinstance(value, str) and len(name) <= 64 and len(value) <= 512 for name, value in pairs.items())
    if len(pairs) > 16 or not fits:
        message = "Invalid 'metadata': at most 16 strings of at most 512 characters, with names of at most 64"
        raise ApiError(400, message, param="metadata")


def _number(request: Request, name: str, low: int, high: int) -> int:
    text = request.query_params[name]
    if len(text) > 10 or not text.isdecimal() or not low <= int(text) <= high:
        raise ApiError(400, f"Invalid '{name}': expected a number from {low} to {high}", param=name)
    return int(text)


async def _find(request: Request, gateway: Gateway) -> tuple[ResponseStore, StoredResponse]:
    owner = gateway.authorize(request)
    id: str = request.path_params["id"]
    stored = None if gateway.store is None else await gateway.store.get(id, owner)
    if gateway.store is None or stored is None:
        raise ApiError(404, f"Response with id '{id[:200]}' not found.", code="response_not_found")
    return gateway.store, stored
