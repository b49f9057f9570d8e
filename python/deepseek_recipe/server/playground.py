"""The playground: one page that shows what the codec makes of a request and of an output, and its endpoints.

It keeps nothing and adds no rule of its own. The page loads nothing from elsewhere.
"""

from __future__ import annotations

import asyncio
import codecs
import copy
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from typing import Any, cast, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .._native import ConversionError, Event, InferenceChunk, ModelVersion, OutputParser, PromptUsage, Tokenizer
from ..describe import describe
from ..recipe import PROTOCOLS, Encoded, FinishReason, ProtocolName, finish_chunk
from .errors import ApiError, of_refusal
from .gateway import Call, Gateway
from .jsontext import dump
from .responders import json_response, whole
from .sse import split

_FILES = {
    "index.html": "text/html",
    "playground.css": "text/css",
    "playground.js": "text/javascript",
    "prompt.js": "text/javascript",
    "diff.js": "text/javascript",
}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}
_MODELS = {"DeepSeek-V4-Pro": ModelVersion.DeepseekV4Pro, "DeepSeek-V4.1-Flash": ModelVersion.DeepseekV41Flash}

_MAX_PROMPT = 200_000
_MAX_OUTPUT = 20_000
"""In tokens, each of which is sent with what is known about it: of an output, chunks of three protocols."""


def routes() -> list[Route]:
    """The page at `/playground`, its files, and the endpoints that it asks."""
    return [
        Route("/playground", _file("index.html")),
        *(Route(f"/playground/{name}", _file(name)) for name in _FILES if name != "index.html"),
        Route("/playground/example", _example),
        Route("/playground/prompt", _prompt, methods=["POST"]),
        Route("/playground/output", _output, methods=["POST"]),
        Route("/playground/engine", _engine, methods=["POST"]),
    ]


def _file(name: str) -> Callable[[Request], Response]:
    def send(request: Request) -> Response:
        content = (resources.files("deepseek_recipe") / "server" / "playground" / name).read_bytes()
        return Response(content, media_type=_FILES[name], headers=_HEADERS)

    return send


def _example(request: Request) -> Response:
    """`GET /playground/example`: the request and the output that the page begins with."""
    demo = resources.files("deepseek_recipe") / "demo"
    names = {"request": "request.json", "output": "output.txt"}
    return json_response(dump({name: (demo / file).read_text(encoding="utf-8") for name, file in names.items()}))


async def _prompt(request: Request) -> Response:
    """`POST /playground/prompt`: what a `request` (JSON text) becomes, for a `protocol` and a `model` if given."""
    gateway: Gateway = request.app.state.gateway
    call = await gateway.call(request)

    def work() -> dict[str, Any]:
        encoded = _encoded(gateway, call)
        _check_size("prompt", len(encoded.token_ids), _MAX_PROMPT)
        return describe_prompt(encoded)

    return await _answer(work)


async def _output(request: Request) -> Response:
    """`POST /playground/output`: what an output, as `text` or `ids`, becomes for the request of `_prompt`.

    `cut` ends it behind so many tokens; `finish_reason` is why it ended, `null` if it goes on.
    """
    gateway: Gateway = request.app.state.gateway
    call = await gateway.call(request)

    def work() -> dict[str, Any]:
        encoded = _encoded(gateway, call)
        ids = _ids(call.fields, encoded.tokenizer)
        return describe_output(encoded, ids, _finish_reason(call.fields))

    return await _answer(work)


async def _engine(request: Request) -> Response:
    """`POST /playground/engine`: the `ids` that the engine gives for the request of `_prompt`, and why they ended."""
    gateway: Gateway = request.app.state.gateway
    call = await gateway.call(request)
    with _refusals():
        encoded = await asyncio.to_thread(_encoded, gateway, call)
    if encoded.model_version != gateway.settings.model:
        raise ApiError(400, "the engine of this server runs the other model", param="model")
    body = cast(str, call.fields["request"]).encode()
    inner = replace(call, body=body, fields=json.loads(body))
    encoded = await gateway.encode(body, encoded.protocol, inner)
    answer, *_ = await gateway.generations(encoded, inner)
    job = gateway.run([answer], inner, encoded.protocol, keep=False)

    def said() -> bytes:
        return dump({"ids": answer.output_ids.tolist(), "finish_reason": answer.finish_reason})

    return await whole(request, gateway, inner, encoded, job, said)


async def _answer(work: Callable[[], dict[str, Any]]) -> Response:
    """What `work` says. It runs on another thread: answers of other requests go on meanwhile."""
    with _refusals():
        return json_response(await asyncio.to_thread(lambda: dump(work())))


@contextmanager
def _refusals() -> Generator[None]:
    """What the codec says about a request, with the place of the fault."""
    try:
        yield
    except (ConversionError, ValueError) as error:
        refusal = of_refusal(error)
        refusal.param = getattr(error, "path", None)
        raise refusal from error


def _encoded(gateway: Gateway, call: Call) -> Encoded:
    text, protocol, model = (call.fields.get(name) for name in ("request", "protocol", "model"))
    if not isinstance(text, str):
        raise ApiError(400, "expected 'request' as JSON text", param="request")
    if protocol is not None and protocol not in PROTOCOLS:
        raise ApiError(400, f"expected 'protocol' as null or one of {', '.join(PROTOCOLS)}", param="protocol")
    recipe = gateway.recipe
    if model is not None:
        if not isinstance(model, str) or model not in _MODELS:
            raise ApiError(400, f"expected 'model' as null or one of {', '.join(_MODELS)}", param="model")
        recipe = recipe.with_model(_MODELS[model])
    return recipe.encode(text, protocol=protocol)


def _ids(fields: Mapping[str, Any], tokenizer: Tokenizer) -> list[int]:
    text, ids, cut = (fields.get(name) for name in ("text", "ids", "cut"))
    if isinstance(text, str) and ids is None:
        output = tokenizer.encode(text)
    elif isinstance(ids, list) and text is None:
        output = [_known(id, place, tokenizer) for place, id in enumerate(cast("list[Any]", ids))]
    else:
        raise ApiError(400, "expected either 'text' as a string or 'ids' as a list", param="text")
    if cut is not None and (not isinstance(cut, int) or isinstance(cut, bool) or cut < 0):
        raise ApiError(400, "expected 'cut' as a number of tokens or null", param="cut")
    _check_size("output", len(output[:cut]), _MAX_OUTPUT)
    return output[:cut]


def _check_size(name: str, tokens: int, most: int) -> None:
    if tokens > most:
        raise ApiError(400, f"the {name} has {tokens} tokens; {most} can be shown")


def _known(id: Any, place: int, tokenizer: Tokenizer) -> int:
    whole = isinstance(id, int) and not isinstance(id, bool) and 0 <= id < 2**32
    if not whole or tokenizer.token(id) is None:
        raise ApiError(400, f"ids[{place}]: not an id of the vocabulary", param=f"ids[{place}]")
    return id


def _finish_reason(fields: Mapping[str, Any]) -> FinishReason | None:
    reason, known = fields.get("finish_reason"), get_args(FinishReason)
    if reason is not None and reason not in known:
        raise ApiError(400, f"expected 'finish_reason' as null or one of {', '.join(known)}", param="finish_reason")
    return reason


def describe_prompt(encoded: Encoded) -> dict[str, Any]:
    """A prompt with its ids, and which message of the conversation made what.

    `segments` are those of the prompt: a kind and `pieces`. A piece is the fewest tokens that are whole characters: its
    `text`, its `ids`, the `message` (a place in `messages`, `null` for the template) that made its first character and,
    where that is another one, the `last_message` that made its last.
    """
    pieces = _Pieces(encoded)
    ids = encoded.token_ids
    return {
        **describe(encoded),
        "tokens": len(ids),
        "characters": len(encoded.prompt),
        "messages": [message.role for message in encoded.conversation.messages],
        "segments": [
            {"kind": segment.kind, "pieces": list(pieces.take(segment.text, segment.kind == "plain"))}
            for segment in encoded.segments
        ],
        "images": [image.position for image in encoded.images],
    }


class _Pieces:
    """Walks the ids of a prompt along its segments."""

    def __init__(self, encoded: Encoded):
        self._ids = iter(encoded.token_ids)
        self._tokenizer = encoded.tokenizer
        self._ranges = iter(encoded.message_ranges)
        self._end = 0
        self._message: int | None = None
        self._at = 0

    def take(self, text: str, is_plain: bool) -> Iterator[dict[str, Any]]:
        """The pieces of the next segment. No token belongs to two segments."""
        if not is_plain:
            yield self._piece(text, [next(self._ids)])
            return
        end = self._at + len(text)
        decoder = codecs.getincrementaldecoder("utf-8")()
        ids: list[int] = []
        done = ""
        while self._at < end:
            ids.append(next(self._ids))
            token = self._tokenizer.token(ids[-1])
            done += decoder.decode(token if isinstance(token, bytes) else (token or "").encode())
            if not decoder.getstate()[0]:
                yield self._piece(done, ids)
                ids, done = [], ""

    def _piece(self, text: str, ids: list[int]) -> dict[str, Any]:
        first = self._message_at(self._at)
        self._at += len(text)
        last = self._message_at(self._at - 1)
        piece = {"text": text, "ids": ids, "message": first}
        return piece if last == first else {**piece, "last_message": last}

    def _message_at(self, place: int) -> int | None:
        while place >= self._end:
            _, self._end, self._message = next(self._ranges)
        return self._message


def describe_output(encoded: Encoded, ids: Sequence[int], finish_reason: FinishReason | None) -> dict[str, Any]:
    """An output token by token: what each makes, as events and in the stream of each protocol.

    `steps` has one entry a token, with its `id`, its `text` and whether it is `special`, and one for the end if there
    is a `finish_reason`. A cut of the output is a cut of the steps: what was sent does not depend on what comes.
    """
    parser = OutputParser.for_request(encoded.request, encoded.tokenizer)
    replies = {protocol: _as(encoded, protocol).reply(id="playground") for protocol in PROTOCOLS}
    ready = InferenceChunk.ready(prompt_usage=PromptUsage(prompt_tokens=len(encoded.token_ids)))
    # What streams begin with stands in the first step.
    begun = {name: reply.push_sse(ready) for name, reply in replies.items()}
    steps: list[dict[str, Any]] = []
    for id in ids:
        chunk = InferenceChunk.tokens([id])
        events = [] if parser.finished else parser.push(chunk)
        sent = {name: b"" if reply.finished else reply.push_sse(chunk) for name, reply in replies.items()}
        sent, begun = {name: begun.get(name, b"") + text for name, text in sent.items()}, {}
        token = encoded.tokenizer.token(id)
        special = not isinstance(token, bytes)
        text = token if special else token.decode(errors="replace")
        steps.append({"id": id, "text": text, "special": special, **_step(events, sent)})
    if finish_reason is not None:
        events = [] if parser.finished else parser.push(finish_chunk(finish_reason))
        sent = {name: begun.get(name, b"") + reply.finish_sse(finish_reason) for name, reply in replies.items()}
        steps.append(_step(events, sent))
    return {"tokens": len(ids), "steps": steps, "response": replies[encoded.protocol].response()}


def _step(events: Sequence[Event], sent: Mapping[str, bytes]) -> dict[str, Any]:
    streams = {name: [event.decode().rstrip("\n") for event in split(data)] for name, data in sent.items()}
    return {"events": [event.to_dict() for event in events], "streams": streams}


def _as(encoded: Encoded, protocol: ProtocolName) -> Encoded:
    """The same request, answered in another protocol."""
    other = copy.copy(encoded)
    other.protocol = protocol
    return other
