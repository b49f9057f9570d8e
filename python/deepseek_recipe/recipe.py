"""The short way: one call from a request to ids, one loop from an output to events.

It stands on the same classes as the long way and adds no rule of its own.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from copy import copy
from operator import index
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args, overload

from ._native import (
    ChatCompletionChunk,
    ChatCompletionRequest,
    Conversation,
    ConversationRequest,
    ConversionOptions,
    DeepseekV4Encoding,
    DeepseekV41Encoding,
    Event,
    ImageQuota,
    ImageResolver,
    ImageSource,
    InferenceChunk,
    InferenceFinishReason,
    InferenceOptions,
    MessagesRequest,
    MessagesStreamEvent,
    ModelVersion,
    OpenCvImagePreprocessor,
    OutputParser,
    ParsingOptions,
    ReasoningSealer,
    RenderedPrompt,
    ReplyStream,
    ReqwestImageFetcher,
    ResponsesRequest,
    ResponsesStreamEvent,
    SpecialToken,
    ThinkingInitialStage,
    TokenIds,
    Tokenizer,
    UrlImageSource,
    extend_prompt,
    parse_start,
    read_request,
)

Piece: TypeAlias = "int | str | list[int] | tuple[int, ...] | memoryview | InferenceChunk"
"""What an engine may give at a time: an id, ids, text, or a chunk with its own usage or finish."""

Chunk: TypeAlias = "ChatCompletionChunk | MessagesStreamEvent | ResponsesStreamEvent"
"""What a reply is made of, in the request's protocol."""

ProtocolName: TypeAlias = Literal["chat_completions", "messages", "responses"]

PROTOCOLS: tuple[ProtocolName, ...] = get_args(ProtocolName)

FinishReason: TypeAlias = Literal["stop", "length", "content_filter"]

Ids: TypeAlias = "Sequence[int] | memoryview"

ChangeReason: TypeAlias = Literal["history_changed", "tools_changed", "reasoning_dropped", "output_differs"]

_FINISH = {
    "stop": InferenceFinishReason.Stop,
    "length": InferenceFinishReason.Length,
    "content_filter": InferenceFinishReason.ContentFilter,
}


_REQUESTS: dict[ProtocolName, type[ChatCompletionRequest | MessagesRequest | ResponsesRequest]] = {
    "chat_completions": ChatCompletionRequest,
    "messages": MessagesRequest,
    "responses": ResponsesRequest,
}
_ID_PREFIX: dict[ProtocolName, str] = {"chat_completions": "chatcmpl-", "messages": "msg_", "responses": "resp_"}


class HasModelDump(Protocol):
    """A request object, for example a pydantic model."""

    def model_dump(self) -> Mapping[str, Any]: ...


Body: TypeAlias = "Mapping[str, Any] | str | bytes | HasModelDump"


class Segment(NamedTuple):
    """A run of the prompt: `special` and `image` segments are one token, a `plain` one is text."""

    kind: Literal["special", "plain", "image"]
    text: str


class PromptImage(NamedTuple):
    """An image of the prompt, and where in `token_ids` its one placeholder stands."""

    source: ImageSource
    position: int


class ParsedCall(NamedTuple):
    """A tool call. The arguments are JSON text: one object if the call is `finished`, else the beginning of one."""

    id: str
    name: str
    arguments: str
    finished: bool


class ParsedOutput(NamedTuple):
    """A whole output. Text behind a call is apart from the text before it by an empty line."""

    reasoning: str
    content: str
    tool_calls: list[ParsedCall]
    end: Event.Finish | Event.Error


class Encoded:
    """A request on its way to an engine, and what is needed to read the answer."""

    def __init__(
        self,
        protocol: ProtocolName,
        request: ConversationRequest,
        rendered: RenderedPrompt,
        tokenizer: Tokenizer,
        model: str,
        previous: tuple[Ids, Ids] | None = None,
    ):
        self.protocol: ProtocolName = protocol
        self.request: ConversationRequest = request
        self.tokenizer: Tokenizer = tokenizer
        self.model: str = model
        self._rendered = rendered
        shared, reason = 0, None
        if previous is None:
            ids = tokenizer.encode_prompt(rendered)
        else:
            earlier, output = previous
            ids, shared, reason = extend_prompt(request, rendered, tokenizer, list(earlier), list(output))
        self.token_ids: TokenIds = ids
        """The ids, read-only uint32: index, iterate, `.tolist()`, or `numpy.asarray` without a copy."""
        self.shared: int = shared
        """How many leading ids are those of `previous`: with its output and the end-of-sentence token behind it, or, if
        there is a `reason`, what the plain encoding has in common with them."""
        self.reason: ChangeReason | None = reason
        """Why the ids do not extend those of `previous`; `None` where they do, and without `previous`."""

    def __repr__(self) -> str:
        return f"Encoded({self.protocol}, model={self.model!r}, token_ids=<{len(self.token_ids)} ids>)"

    @property
    def prompt(self) -> str:
        """The prompt as text. It cannot be encoded from this text alone: special tokens look like text in it."""
        return self._rendered.prompt

    @property
    def segments(self) -> list[Segment]:
        """The prompt in runs; the texts add up to `prompt`."""
        return [Segment(kind, text) for kind, text in self._rendered.segments]

    @property
    def message_ranges(self) -> list[tuple[int, int, int | None]]:
        """What made a part of `prompt`: start, end, and a place in `conversation.messages`, `None` for the template."""
        return self._rendered.message_ranges

    @property
    def image_sources(self) -> list[ImageSource]:
        """The images in prompt order."""
        return self._rendered.image_sources

    @property
    def images(self) -> list[PromptImage]:
        """The images with their places. Nothing is fetched or decoded: that is up to `ImageResolver` or the engine."""
        sources = self._rendered.image_sources
        placeholder = self.tokenizer.special_id(self.parsing_options.special_tokens.token(SpecialToken.Image))
        positions = (place for place, id in enumerate(self.token_ids) if id == placeholder) if sources else ()
        return [PromptImage(source, position) for source, position in zip(sources, positions, strict=True)]

    def count_tokens(self, *, fetch_images: bool = False) -> int:
        """How many prompt tokens generation would be charged for, those of images included.

        The sizes of images are read from their headers. One behind a URL counts as the largest, unless `fetch_images`.
        Raises `ImageError` where an image is none.
        """
        near = [image for image in self.image_sources if fetch_images or not isinstance(image, UrlImageSource)]
        resolver = ImageResolver(ReqwestImageFetcher(), OpenCvImagePreprocessor())
        adjustment = resolver.measure(near, ImageQuota()).image_token_adjustment()
        far = len(self.image_sources) - len(near)
        return len(self.token_ids) + adjustment + far * (_LARGEST_IMAGE - 1)

    @property
    def conversation(self) -> Conversation:
        """What the prompt says."""
        return self.request.conversation

    @property
    def inference_options(self) -> InferenceOptions:
        """What the engine is told."""
        return self.request.inference_options

    @property
    def parsing_options(self) -> ParsingOptions:
        """How the output is read."""
        return self.request.parsing_options

    @property
    def model_version(self) -> ModelVersion:
        """The model that the requested name stands for."""
        return self.request.model_version

    @property
    def stream(self) -> bool:
        """Whether the caller asked for a reply in chunks."""
        return self.request.stream

    def resolve_max_tokens(self, context_limit: int) -> int:
        """The output limit in tokens for a context of this size. Raises `ConversionError` if the prompt is too long."""
        return self.request.resolve_max_tokens(len(self.token_ids), context_limit)

    def reply(self, *, id: str | None = None, model: str | None = None, index: int = 0) -> Reply:
        """A reply to this request. `id` is made up where it is not given; `model` is the requested name.

        Each of several choices (`inference_options.n`) has a reply of its own, with the same id: `index` is its number.
        """
        id = id or _ID_PREFIX[self.protocol] + uuid.uuid4().hex
        return Reply(self, id, self.model if model is None else model, index)


class Reply:
    """The reply in the request's own protocol: engine output in, protocol chunks out."""

    def __init__(self, encoded: Encoded, id: str, model: str, index: int = 0):
        self.id: str = id
        self.model: str = model
        if encoded.protocol == "chat_completions":
            generator = ChatCompletionRequest.chunk_generator(encoded.request, id, model, index=index)
        else:
            generator = _REQUESTS[encoded.protocol].chunk_generator(encoded.request, id, model)
        self._stream = ReplyStream(generator, encoded.parsing_options, encoded.tokenizer, id, model)

    def save(self) -> bytes:
        """The state as bytes, between any two tokens: as large as what is held. Another process goes on from them.

        Keys of a `ReasoningSealer` and the vocabulary are not among them; text that is still to be sealed is. They are
        for servers: sign them where a client carries them.
        """
        return self._stream.save()

    @classmethod
    def restore(
        cls, data: bytes, tokenizer: Tokenizer | None = None, *, reasoning_sealer: ReasoningSealer | None = None
    ) -> Reply:
        """The reply that `save` made these bytes of. Without `tokenizer` the built-in one with the same vocabulary.

        Raises `ValueError` for bytes that are damaged or of another version of the form, for another vocabulary, and
        where the reply seals reasoning and there is no sealer.
        """
        reply = cls.__new__(cls)
        reply._stream = ReplyStream.restore(data, tokenizer, reasoning_sealer=reasoning_sealer)
        response = reply.response()
        reply.id, reply.model = response["id"], response["model"]
        return reply

    def __copy__(self) -> Reply:
        reply = self.__class__.__new__(self.__class__)
        reply.__dict__.update(self.__dict__, _stream=copy(self._stream))
        return reply

    @property
    def finished(self) -> bool:
        """Whether the output has ended, by `finish` or at a stop sequence. Then the engine can be told to stop."""
        return self._stream.finished

    def push(self, piece: Piece) -> list[Chunk]:
        """Takes what the engine gave and returns the chunks that it makes; `chunk.to_json()` is what is sent."""
        return self._stream.push(_chunk(piece))

    def push_sse(self, piece: Piece) -> bytes:
        """As `push`, as server-sent events."""
        return self._stream.push_sse(_chunk(piece))

    def finish(self, reason: FinishReason | None = "stop") -> list[Chunk]:
        """Ends the output and returns the last chunks, none if it had ended already. `None`: the engine failed."""
        if self.finished or reason is None:
            return self._stream.finish()
        return self._stream.push(finish_chunk(reason))

    def finish_sse(self, reason: FinishReason | None = "stop") -> bytes:
        """As `finish`, as server-sent events, with the end of the stream behind them; `b""` the second time."""
        sent = b"" if self.finished or reason is None else self._stream.push_sse(finish_chunk(reason))
        return sent + self._stream.finish_sse()

    def response(self) -> dict[str, Any]:
        """The complete response, or what there is of it so far."""
        return json.loads(self.response_json())

    def response_json(self) -> str:
        """As `response`, as JSON text."""
        return self._stream.response_json()

    @property
    def stop_sequence(self) -> str | None:
        """The stop sequence that ended the output, if one did."""
        return self._stream.stop_sequence

    @property
    def remaining_text(self) -> str:
        """What came behind the place where the output ended by itself: a stop sequence, or the one call wanted."""
        return self._stream.remaining_text

    @property
    def remaining_ids(self) -> list[int]:
        """The ids of `remaining_text`. One with text on both sides of the end is not among them."""
        return self._stream.remaining_ids


class Recipe:
    """A model, a tokenizer and options, used for many requests. It does not change and may be shared by threads.

    `model`: take every model name in requests as this one (a `ModelVersion`, or a name that the options know).
    `tokenizer`: instead of the built-in one of the request's model. `options`: of the conversion.
    """

    def __init__(
        self,
        *,
        model: ModelVersion | str | None = None,
        tokenizer: Tokenizer | None = None,
        options: ConversionOptions | None = None,
    ):
        self._options = ConversionOptions() if options is None else options
        if isinstance(model, str):
            known = self._options.model_versions_by_name
            if model not in known:
                raise ValueError(f"unknown model {model!r}; the options know {', '.join(sorted(known))}")
            model = known[model]
        self._version = model
        self._tokenizer = tokenizer

    def with_model(self, model: ModelVersion) -> Recipe:
        """The same, with every model name taken as this one."""
        return Recipe(model=model, tokenizer=self._tokenizer, options=self._options)

    def encode(
        self, request: Body, *, protocol: ProtocolName | None = None, previous: tuple[Ids, Ids] | None = None
    ) -> Encoded:
        """Converts, renders and encodes a request of Chat Completions, Messages or Responses.

        `request` is a dict, JSON text or bytes, or an object with `model_dump()`. Its shape shows the protocol; one
        that could be of two is refused with a `ValueError`, and `protocol` says which. Raises `ValueError` where it is
        no request at all and `ConversionError` where it cannot be served; both carry `status_code` and `body`.

        `previous` are the ids of the session's last prompt and those that the model sampled for it. Where the request
        goes on from there, the new ids begin with exactly these, whatever the text would be encoded as, so that a KV
        cache fits to the last token. They never say anything but what the plain prompt says; `Encoded.reason` tells why
        they do not go on.
        """
        if not isinstance(request, (str, bytes, Mapping)) and hasattr(request, "model_dump"):
            request = request.model_dump()
        body = read_request(request, protocol)
        protocol = next(name for name, kind in _REQUESTS.items() if isinstance(body, kind))
        name = body.model
        options = self._options
        if self._version is not None:
            options = options.with_model_alias(name, self._version)
        converted = body.convert(options)
        encoding = _ENCODINGS[converted.model_version]().with_special_tokens(options.special_tokens)
        tokenizer = self._tokenizer or Tokenizer.builtin(converted.model_version)
        rendered = encoding.render_conversation(converted.conversation)
        return Encoded(protocol, converted, rendered, tokenizer, name, previous)

    @overload
    def stream_parse(
        self, tokens: Iterable[Piece], prompt: Prompt | None = None, *, finish_reason: FinishReason | None = "stop"
    ) -> Iterator[Event]: ...
    @overload
    def stream_parse(
        self, tokens: AsyncIterable[Piece], prompt: Prompt | None = None, *, finish_reason: FinishReason | None = "stop"
    ) -> AsyncIterator[Event]: ...
    def stream_parse(
        self,
        tokens: Iterable[Piece] | AsyncIterable[Piece],
        prompt: Prompt | None = None,
        *,
        finish_reason: FinishReason | None = "stop",
    ) -> Iterator[Event] | AsyncIterator[Event]:
        """The events of an output, as it comes: reasoning, content, tool calls, and one finish or error at the end.

        `tokens` is an iterable or an async iterable of ids, lists of ids, or text. `prompt` is what the output answers;
        without it the output is read as that of a request that says nothing about thinking or tools. Where the iterable
        ends, the output has ended for `finish_reason` (`None`: it failed); an exception of it becomes an `Error` event.
        """
        parser = self._parser(prompt)
        last = None if finish_reason is None else finish_chunk(finish_reason)
        if isinstance(tokens, AsyncIterable):
            return _parse_async(parser, tokens, last)
        return _parse(parser, tokens, last)

    def parse_text(
        self, output: Piece, prompt: Prompt | None = None, *, finish_reason: FinishReason = "stop"
    ) -> ParsedOutput:
        """A whole output at once: text with its special tokens spelled out, or ids. Otherwise as `stream_parse`."""
        *events, end = self.stream_parse([output], prompt, finish_reason=finish_reason)
        texts: dict[str, list[str]] = {"reasoning": [], "content": []}
        behind_call = dict.fromkeys(texts, False)
        calls: list[tuple[Event.ToolCallStart, list[str]]] = []
        finished: set[int] = set()
        for event in events:
            match event:
                case Event.Reasoning(text=text) | Event.Content(text=text) if text:
                    channel = texts[event.type]
                    channel.append("\n\n" + text if channel and behind_call[event.type] else text)
                    behind_call[event.type] = False
                case Event.ToolCallStart():
                    calls.append((event, []))
                    behind_call = dict.fromkeys(texts, True)
                case Event.ToolCallArguments(index=call, text=text):
                    calls[call][1].append(text)
                case Event.ToolCallEnd(index=call):
                    finished.add(call)
                case _:
                    pass
        parsed = [
            ParsedCall(start.id, start.name, "".join(arguments), start.index in finished) for start, arguments in calls
        ]
        assert isinstance(end, (Event.Finish, Event.Error))  # What every output ends with.
        return ParsedOutput("".join(texts["reasoning"]), "".join(texts["content"]), parsed, end)

    def count_tokens(self, request: Body, *, protocol: ProtocolName | None = None, fetch_images: bool = False) -> int:
        """How many prompt tokens generation would be charged for. Raises as `encode` and `Encoded.count_tokens`."""
        return self.encode(request, protocol=protocol).count_tokens(fetch_images=fetch_images)

    def _parser(self, prompt: Prompt | None) -> OutputParser:
        if isinstance(prompt, Encoded):
            return OutputParser.for_request(prompt.request, prompt.tokenizer)
        tokenizer = self._tokenizer or Tokenizer.builtin(self._version or ModelVersion.DeepseekV41Flash)
        if prompt is None:
            stage = ThinkingInitialStage.ReasoningStart if self._options.default_thinking_mode else None
            options, tools = ParsingOptions(thinking_initial_stage=stage), []
        else:
            options, tools = parse_start(prompt), prompt.tools
        options.special_tokens = self._options.special_tokens
        return OutputParser(options, tools, tokenizer)


Prompt: TypeAlias = "Encoded | Conversation"
"""What an output answers: an encoded request, or a conversation made by hand."""

_LARGEST_IMAGE = 1024
"""In tokens, by the rule of V4.1."""

_ENCODINGS = {
    ModelVersion.DeepseekV4Pro: DeepseekV4Encoding,
    ModelVersion.DeepseekV41Flash: DeepseekV41Encoding,
}


def _chunk(piece: Piece) -> InferenceChunk:
    if isinstance(piece, InferenceChunk):
        return piece
    if isinstance(piece, str):
        return InferenceChunk.text(piece)
    if not isinstance(piece, (bytes, bytearray)):
        try:
            ids = [index(id) for id in piece] if isinstance(piece, Iterable) else [index(piece)]
        except TypeError:
            pass
        else:
            return InferenceChunk.tokens(ids)
    raise TypeError(f"expected an id, a list of ids, text or an InferenceChunk, not {piece!r}")


def finish_chunk(reason: FinishReason) -> InferenceChunk:
    """What an engine gives at the end of an output. Raises `ValueError` for another reason."""
    if reason not in _FINISH:
        raise ValueError(f"invalid finish_reason {reason!r}; expected {', '.join(map(repr, _FINISH))}, or None")
    return InferenceChunk.finish(_FINISH[reason])


def _last(parser: OutputParser, last: InferenceChunk | None) -> list[Event]:
    return parser.finish() if parser.finished or last is None else parser.push(last)


def _failed(parser: OutputParser, error: Exception) -> list[Event]:
    return parser.push(InferenceChunk.error(str(error) or type(error).__name__))


def _parse(parser: OutputParser, tokens: Iterable[Piece], last: InferenceChunk | None) -> Iterator[Event]:
    pieces = iter(tokens)
    while not parser.finished:
        try:
            piece = next(pieces)
        except StopIteration:
            break
        except Exception as error:
            yield from _failed(parser, error)
            return
        yield from parser.push(_chunk(piece))
    yield from _last(parser, last)


async def _parse_async(
    parser: OutputParser, tokens: AsyncIterable[Piece], last: InferenceChunk | None
) -> AsyncIterator[Event]:
    pieces = aiter(tokens)
    while not parser.finished:
        try:
            piece = await anext(pieces)
        except StopAsyncIteration:
            break
        except Exception as error:
            for event in _failed(parser, error):
                yield event
            return
        for event in parser.push(_chunk(piece)):
            yield event
    for event in _last(parser, last):
        yield event


_DEFAULT = Recipe()


def encode(request: Body, *, protocol: ProtocolName | None = None, previous: tuple[Ids, Ids] | None = None) -> Encoded:
    """`Recipe().encode(request)`: see there."""
    return _DEFAULT.encode(request, protocol=protocol, previous=previous)


stream_parse = _DEFAULT.stream_parse
parse_text = _DEFAULT.parse_text
count_tokens = _DEFAULT.count_tokens
