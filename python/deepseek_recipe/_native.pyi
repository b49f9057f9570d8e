"""The compiled module. Import its names from `deepseek_recipe`.

Json stands for what the `json` module reads: `None`, `bool`, `int`, `float`, `str`, `list` and `dict` with `str` keys.
Tuples are taken as lists. Integers keep their digits, floats must be finite, at most 128 containers may be nested, and
half a surrogate pair in a string or key becomes U+FFFD. Anything else raises `TypeError`, `ValueError` or
`RecursionError`. Getters give new objects each time: changing what they return changes nothing.

What a caller keeps can be pickled and copied: conversations and all that they are made of, options, requests as
converted, prompts, encodings, tokenizers, engine chunks, streams and complete responses. What seals reasoning is
copied, but not pickled, so that no key is written down. Only the same version of this package reads a pickle.
"""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, ClassVar, Final, Literal, TypeAlias, final, overload

from typing_extensions import Self

__version__: Final[str]
IMAGE_SPECIAL_TOKEN_ID: Final[int]
"""The id of the image placeholder in both vocabularies."""

_Json: TypeAlias = Any
_Detail: TypeAlias = Literal["low", "high", "original", "auto"]

class ConversionError(Exception):
    """A request that is well formed, but cannot be served.

    Errors that conversion raises carry all attributes; `args` is the message alone. A body that is no request at all
    raises `ValueError` instead, with the same attributes and status 400.
    """

    status_code: int
    """The HTTP status of the reply, 400."""
    body: str
    """The error body of the reply: compact JSON text."""
    path: str | None
    """Where in the request the fault is, for example `messages[0].content`, if it is in one place."""

@final
class ModelVersion:
    """The model that a conversation is rendered for.

    Conversion takes it from the table `ConversionOptions.model_versions_by_name`; it says which encoding to use.
    """

    DeepseekV4Pro: ClassVar[ModelVersion]
    """DeepSeek-V4-Pro: the V4 template and vocabulary, `DeepseekV4Encoding`."""
    DeepseekV41Flash: ClassVar[ModelVersion]
    """DeepSeek-V4.1-Flash: the V4.1 template and vocabulary, `DeepseekV41Encoding`."""

    def __int__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...

@final
class ReasoningContentBehavior:
    """What to do with a past assistant message that lacks its reasoning, in thinking mode."""

    FillEmpty: ClassVar[ReasoningContentBehavior]
    """An empty reasoning takes its place."""
    Reject: ClassVar[ReasoningContentBehavior]
    """The request is refused where the reasoning would matter."""

    def __int__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...

@final
class WebSearchBehavior:
    """What to do with web-search tools and blocks of a request."""

    Drop: ClassVar[WebSearchBehavior]
    """They are left out."""
    Reject: ClassVar[WebSearchBehavior]
    """The request is refused."""

    def __int__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...

@final
class ThinkingInitialStage:
    """Where the output begins, in thinking mode."""

    ReasoningStart: ClassVar[ThinkingInitialStage]
    """At the start of the reasoning: newlines before it are dropped."""
    ReasoningContinuation: ClassVar[ThinkingInitialStage]
    """In the middle of the reasoning."""
    ContentContinuation: ClassVar[ThinkingInitialStage]
    """In the middle of the answer."""

    def starts_in_reasoning(self) -> bool:
        """Returns whether the output begins with reasoning."""

    def __int__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...

@final
class SpecialToken:
    """A kind of special token."""

    Bos: ClassVar[SpecialToken]
    """Begin of sentence."""
    Eos: ClassVar[SpecialToken]
    """End of sentence."""
    ThinkingStart: ClassVar[SpecialToken]
    """Opens the reasoning."""
    ThinkingEnd: ClassVar[SpecialToken]
    """Closes the reasoning."""
    System: ClassVar[SpecialToken]
    """Opens a system turn (V4.1)."""
    User: ClassVar[SpecialToken]
    """Opens a user turn."""
    Assistant: ClassVar[SpecialToken]
    """Opens an assistant turn."""
    LatestReminder: ClassVar[SpecialToken]
    """Opens a reminder."""
    Dsml: ClassVar[SpecialToken]
    """Marks tool-call markup."""
    Image: ClassVar[SpecialToken]
    """Stands for one image."""
    Ref: ClassVar[SpecialToken]
    """Opens a grounding reference."""
    RefEnd: ClassVar[SpecialToken]
    """Closes a grounding reference."""
    Box: ClassVar[SpecialToken]
    """Opens a box."""
    BoxEnd: ClassVar[SpecialToken]
    """Closes a box."""
    Point: ClassVar[SpecialToken]
    """Opens a point."""
    PointEnd: ClassVar[SpecialToken]
    """Closes a point."""
    Polygon: ClassVar[SpecialToken]
    """Opens a polygon."""
    PolygonEnd: ClassVar[SpecialToken]
    """Closes a polygon."""

    def default_str(self) -> str:
        """Returns the spelling in the released vocabularies."""

    def __int__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...

@final
class SpecialTokens:
    """A spelling for each kind of special token.

    A keyword that is left out or `None` keeps the released spelling; an empty one renders nothing.
    """

    def __new__(
        cls,
        *,
        bos: str | None = None,
        eos: str | None = None,
        thinking_start: str | None = None,
        thinking_end: str | None = None,
        system: str | None = None,
        user: str | None = None,
        assistant: str | None = None,
        latest_reminder: str | None = None,
        dsml: str | None = None,
        image: str | None = None,
        ref: str | None = ...,
        ref_end: str | None = None,
        box: str | None = ...,
        box_end: str | None = None,
        point: str | None = None,
        point_end: str | None = None,
        polygon: str | None = None,
        polygon_end: str | None = None,
    ) -> Self: ...
    def token(self, token: SpecialToken) -> str:
        """Returns the spelling of `token` in this mapping."""

@final
class ConversionOptions:
    """Options of request conversion. They never change: each `with_` method returns new ones.

    Limits are in tokens, from 0 to 2^32 - 1; others raise `OverflowError`.
    """

    def __new__(
        cls,
        *,
        default_thinking_mode: bool = True,
        reasoning_content_behavior: ReasoningContentBehavior = ...,
        responses_web_search: WebSearchBehavior = ...,
        messages_web_search: WebSearchBehavior = ...,
        thinking_max_tokens_upper_bound: int = ...,
        non_thinking_max_tokens_upper_bound: int = ...,
        tool_pairing: Literal["repair", "refuse"] = ...,
        forced_tool_choice: Literal["constrain", "refuse"] = ...,
        messages_continuation: Literal["continue", "close"] = ...,
        unsupported: Literal["ignore", "refuse"] = ...,
        max_choices: int = ...,
        reasoning_sealer: ReasoningSealer | None = None,
    ) -> Self: ...
    @property
    def default_thinking_mode(self) -> bool:
        """Whether a request that says nothing about thinking thinks. Default: `True`."""

    @property
    def reasoning_content_behavior(self) -> ReasoningContentBehavior:
        """What to do with a past assistant message that lacks its reasoning. Default: `FillEmpty`."""

    @property
    def responses_web_search(self) -> WebSearchBehavior:
        """What to do with web search in Responses. Default: `Drop`."""

    @property
    def messages_web_search(self) -> WebSearchBehavior:
        """What to do with web search in Messages. Default: `Reject`."""

    @property
    def thinking_max_tokens_upper_bound(self) -> int:
        """The largest output limit of a request that thinks, in tokens. Default: 393216."""

    @property
    def non_thinking_max_tokens_upper_bound(self) -> int:
        """The largest output limit of a request that does not think, in tokens. Default: 393216."""

    @property
    def tool_pairing(self) -> Literal["repair", "refuse"]:
        """What to do with calls and results that do not pair as the protocol wants. Default: `repair`.

        `repair` moves results to their calls and stands in for a missing one; `refuse` refuses the request.
        """

    @property
    def forced_tool_choice(self) -> Literal["constrain", "refuse"]:
        """What to do with a tool choice that forces a call, in thinking mode. Default: `constrain`.

        `constrain` leaves it to the output constraint, once the reasoning has ended; `refuse` refuses the request.
        """

    @property
    def messages_continuation(self) -> Literal["continue", "close"]:
        """What to do with a last assistant message of Messages that says something. Default: `continue`.

        `continue`: the model goes on with it; `close`: it is a turn of its own, as in the reference.
        """

    @property
    def unsupported(self) -> Literal["ignore", "refuse"]:
        """What to do with a part of a request that is not served. Default: `ignore`, as the reference.

        `refuse` refuses it by name: history by reference, audio, files that are no text, tools and items of unknown
        types. What is null, empty or false is never refused.
        """

    @property
    def max_choices(self) -> int:
        """The largest `n` of Chat Completions, 1 to 128. Default: 1, as the reference."""

    @property
    def model_versions_by_name(self) -> dict[str, ModelVersion]:
        """The accepted model names with their versions. Default: `DeepSeek-V4-Pro` and `DeepSeek-V4.1-Flash`."""

    @property
    def special_tokens(self) -> SpecialTokens:
        """The spellings that conversion writes and the parser looks for."""

    def with_default_thinking_mode(self, default_thinking_mode: bool) -> ConversionOptions:
        """Returns options with another default of thinking."""

    def with_reasoning_content_behavior(
        self, reasoning_content_behavior: ReasoningContentBehavior
    ) -> ConversionOptions:
        """Returns options that treat missing reasoning in another way."""

    def with_responses_web_search(self, responses_web_search: WebSearchBehavior) -> ConversionOptions:
        """Returns options that treat web search in Responses in another way."""

    def with_messages_web_search(self, messages_web_search: WebSearchBehavior) -> ConversionOptions:
        """Returns options that treat web search in Messages in another way."""

    def with_thinking_max_tokens_upper_bound(self, thinking_max_tokens_upper_bound: int) -> ConversionOptions:
        """Returns options with another largest output limit of requests that think."""

    def with_non_thinking_max_tokens_upper_bound(self, non_thinking_max_tokens_upper_bound: int) -> ConversionOptions:
        """Returns options with another largest output limit of requests that do not think."""

    def with_tool_pairing(self, tool_pairing: Literal["repair", "refuse"]) -> ConversionOptions:
        """Returns options that treat calls and results that do not pair in another way."""

    def with_forced_tool_choice(self, forced_tool_choice: Literal["constrain", "refuse"]) -> ConversionOptions:
        """Returns options that treat a forced call in thinking mode in another way."""

    def with_messages_continuation(self, messages_continuation: Literal["continue", "close"]) -> ConversionOptions:
        """Returns options that treat a last assistant message of Messages in another way."""

    def with_unsupported(self, unsupported: Literal["ignore", "refuse"]) -> ConversionOptions:
        """Returns options that treat parts of a request that are not served in another way."""

    def with_max_choices(self, max_choices: int) -> ConversionOptions:
        """Returns options with another largest `n` of Chat Completions, 1 to 128; others raise `ValueError`."""

    def with_model_alias(self, model: str, model_version: ModelVersion) -> ConversionOptions:
        """Returns options that accept `model` as a name of `model_version`, in place of what the name meant before."""

    def with_model_versions_by_name(self, model_versions_by_name: dict[str, ModelVersion]) -> ConversionOptions:
        """Returns options that accept these names and no others. Names are compared exactly."""

    def with_hosted_names(self) -> ConversionOptions:
        """Returns options that also accept the names of DeepSeek's hosted API.

        These are `deepseek-flash`, `deepseek-v4-pro` and retired ones, names that begin with `claude-opus` (V4 Pro),
        `claude-sonnet` or `claude-haiku` (V4.1 Flash), and in Messages any other name (V4.1 Flash). A suffix in
        brackets is dropped: `deepseek-v4-pro[1m]`.
        """

    def with_reasoning_sealer(self, reasoning_sealer: ReasoningSealer) -> ConversionOptions:
        """Returns options that seal reasoning, and open what was sealed.

        Reasoning is sealed where a request asks for it: `encrypted_content` in Responses, where `include` names it, and
        in Messages the `signature` of a thinking block whose text is omitted (`thinking.display`). What comes back in
        these fields, or in a `redacted_thinking` block, is opened; what does not open is reasoning that is missing.
        """

    def with_special_tokens(self, special_tokens: SpecialTokens) -> ConversionOptions:
        """Returns options with other spellings of the special tokens."""

@final
class ReasoningSealer:
    """Seals reasoning for clients that carry it without reading it, and opens it when it comes back.

    `key` is 32 random bytes and seals; `older_keys` still open what they sealed. Keep them secret, and the same in
    every process that serves a session. A sealer never changes.
    """

    def __new__(cls, key: bytes, *older_keys: bytes) -> Self: ...
    def seal(self, reasoning: str, version: ModelVersion) -> str:
        """Seals the reasoning of a model: a word of letters, digits, `-` and `_`."""

    def open(self, sealed: str, version: ModelVersion) -> str | None:
        """Opens what `seal` returned, for a model of the same family; `None` for everything else."""

@final
class OutputConstraint:
    """A constraint that an engine can enforce while it decodes. Made by conversion."""

    @property
    def kind(self) -> Literal["json", "regex", "tool_call", "tool_call_required"]:
        """What `schema` holds."""

    @property
    def schema(self) -> str:
        """A schema or a tool list as compact JSON, or an expression; empty where any JSON is allowed."""

@final
class InferenceOptions:
    """What a request asks of the engine. Made by conversion; what the request leaves open is `None`."""

    @property
    def max_tokens(self) -> int | None:
        """The most output tokens. `ConversationRequest.resolve_max_tokens` gives the number to use."""

    @property
    def temperature(self) -> float | None:
        """The sampling temperature; 1.0 in thinking mode."""

    @property
    def top_p(self) -> float | None:
        """The nucleus mass, from 0 to 1."""

    @property
    def logprobs(self) -> bool | None:
        """Whether log probabilities are asked for."""

    @property
    def top_logprobs(self) -> int | None:
        """How many alternatives a token, 0 to 20."""

    @property
    def seed(self) -> int | None:
        """The sampling seed, from 0 to 2^63 - 1."""

    @property
    def n(self) -> int:
        """How many answers to sample from the one prompt, at least 1."""

    @property
    def output_constraint(self) -> OutputConstraint | None:
        """What constrained decoding would enforce. Whether an engine does is the caller's choice."""

@final
class ParsingOptions:
    """How to parse the output. A `StreamProcessor` keeps the settings that it was made with."""

    def __new__(
        cls,
        *,
        parse_tool_calls: bool = True,
        starts_in_tool_calls: bool = False,
        parse_json_output: bool = False,
        thinking_initial_stage: ThinkingInitialStage | None = None,
        stop_sequences: Sequence[str] | None = None,
        special_tokens: SpecialTokens | None = None,
        parallel_tool_calls: bool = True,
    ) -> Self: ...

    parse_tool_calls: bool
    """Whether tool-call markup is looked for."""
    starts_in_tool_calls: bool
    """Whether the prompt has opened the calls block already. Wins over the stage."""
    parse_json_output: bool
    """Whether the answer is the one JSON value in it."""
    thinking_initial_stage: ThinkingInitialStage | None
    """Where the output begins; `None` without thinking."""
    stop_sequences: Sequence[str]
    """Texts that end the answer. Read as a new list."""
    special_tokens: SpecialTokens
    """The spellings to look for."""
    parallel_tool_calls: bool
    """Whether more than one call is wanted; if not, the output ends with the first."""

@final
class ToolCall:
    """A call in the history."""

    def __new__(cls, id: str, name: str, arguments: str) -> Self: ...
    @property
    def id(self) -> str:
        """What the result refers to."""

    @property
    def name(self) -> str:
        """The tool."""

    @property
    def arguments(self) -> str:
        """The arguments as the caller sent them: usually a JSON object as text, but never checked."""

@final
class ToolDefinition:
    """A declared tool. `parameters` is Json."""

    def __new__(
        cls,
        name: str,
        description: str | None = None,
        parameters: _Json = None,
        strict: bool | None = None,
        defer_loading: bool = False,
    ) -> Self: ...
    @property
    def name(self) -> str:
        """The name."""

    @property
    def description(self) -> str | None:
        """What it does."""

    @property
    def parameters(self) -> _Json:
        """The JSON Schema of the arguments, as new objects; `None` if there is none."""

    @property
    def strict(self) -> bool | None:
        """The `strict` setting as sent."""

    @property
    def defer_loading(self) -> bool:
        """Whether the prompt leaves it out until a system message loads it (V4.1)."""

class ImageSource:
    """Base class of the places where the bytes of an image are. It cannot be made itself.

    `detail` is `low`, `high`, `original` or `auto`; others raise `ValueError`.
    """

    @property
    def kind(self) -> Literal["url", "data_url", "bytes"]:
        """Which of the three places it is."""

    @property
    def detail(self) -> _Detail:
        """The level that the request asks for."""

    @property
    def path(self) -> str:
        """The place in the request, such as `messages.0.content[1]`, for messages; empty unless it was given."""

    @property
    def url(self) -> str | None:
        """The URL of a `url` source."""

    @property
    def data_url(self) -> str | None:
        """The URL of a `data_url` source."""

    @property
    def data(self) -> bytes | None:
        """The encoded bytes of a `bytes` source."""

@final
class UrlImageSource(ImageSource):
    """An image behind an external URL."""

    def __new__(cls, url: str, detail: _Detail = "high", *, path: str = ...) -> Self: ...

@final
class DataUrlImageSource(ImageSource):
    """An image in a `data:` URL, base64 or percent-encoded. It is not read before the image is resolved."""

    def __new__(cls, data_url: str, detail: _Detail = "high", *, path: str = ...) -> Self: ...

@final
class BytesImageSource(ImageSource):
    """An image as the bytes of its file."""

    def __new__(
        cls, data: bytes | bytearray | memoryview | Sequence[int], detail: _Detail = "high", *, path: str = ...
    ) -> Self: ...

class Message:
    """Base class of the messages. It cannot be made itself.

    What a role does not have is `None`, `False` or an empty list.
    """

    @property
    def role(self) -> Literal["system", "user", "assistant", "tool", "latest_reminder"]:
        """The role."""

    @property
    def content(self) -> str:
        """The text, image placeholders spelled out."""

    @property
    def reasoning_content(self) -> str | None:
        """The reasoning before an assistant's answer."""

    @property
    def tool_calls(self) -> list[ToolCall] | None:
        """The calls of an assistant."""

    @property
    def tool_call_id(self) -> str | None:
        """The call that a tool message answers."""

    @property
    def prefix(self) -> bool:
        """Whether the model goes on with this assistant message."""

    @property
    def image_sources(self) -> list[ImageSource]:
        """The images of a system, user or tool message."""

@final
class SystemMessage(Message):
    """Instructions, possibly with tools that become callable here. Images as in `UserMessage`."""

    def __new__(
        cls,
        content: str,
        image_sources: Sequence[ImageSource] | None = None,
        tools: Sequence[ToolDefinition] | None = None,
        *,
        image_token: str | None = None,
    ) -> Self: ...
    @property
    def tools(self) -> list[ToolDefinition] | None:
        """The tools introduced by this message. V4.1 renders them after the content; V4 does not."""

@final
class UserMessage(Message):
    """What the user says.

    The first occurrences of `image_token` in `content` (by default the released spelling) stand for the images, one a
    source; further ones are plain text. Where there are fewer, the sources are kept all the same. An empty
    `image_token` raises `ValueError`.
    """

    def __new__(
        cls,
        content: str,
        image_sources: Sequence[ImageSource] | None = None,
        *,
        image_token: str | None = None,
    ) -> Self: ...

@final
class AssistantMessage(Message):
    """What the model said: the answer, the reasoning before it and the calls after it.

    With `prefix` the model goes on with this message. V4 tells an absent list of calls from an empty one.
    """

    def __new__(
        cls,
        content: str,
        reasoning_content: str | None = None,
        tool_calls: Sequence[ToolCall] | None = None,
        prefix: bool = False,
    ) -> Self: ...

@final
class ToolMessage(Message):
    """What a tool answered. Images as in `UserMessage`."""

    def __new__(
        cls,
        content: str,
        tool_call_id: str | None = None,
        image_sources: Sequence[ImageSource] | None = None,
        *,
        image_token: str | None = None,
    ) -> Self: ...

@final
class LatestReminderMessage(Message):
    """Instructions that follow the conversation."""

    def __new__(cls, content: str) -> Self: ...

@final
class Conversation:
    """A conversation and what the prompt has to say about it.

    `response_schema` (Json) and `response_regex` choose the formats `json_schema` and `regex`; they exclude each other
    and `json_object`. An unknown name or an effort that is not from 1 to 100 raises `ValueError`.
    """

    def __new__(
        cls,
        messages: Sequence[Message] | None = None,
        *,
        thinking_mode: bool = True,
        tools: Sequence[ToolDefinition] | None = None,
        tool_choice: Literal["auto", "none", "required"] = "auto",
        reasoning_effort: Literal["low", "high", "xhigh", "max"] | int | None = None,
        response_format: Literal["text", "json_object"] = "text",
        response_schema: _Json = None,
        response_regex: str | None = None,
    ) -> Self: ...
    @property
    def messages(self) -> list[Message]:
        """The messages in order."""

    @property
    def thinking_mode(self) -> bool:
        """Whether the next assistant turn starts with reasoning."""

    @property
    def tools(self) -> list[ToolDefinition]:
        """The declared tools in order."""

    @property
    def tool_choice(self) -> Literal["auto", "none", "required"]:
        """Whether a tool may, must not or must be called."""

    @property
    def reasoning_effort(self) -> Literal["low", "high", "xhigh", "max"] | int | None:
        """How much to think, by name or as a number from 1 to 100. Only looked at in thinking mode."""

    @property
    def response_format(self) -> Literal["text", "json_object", "json_schema", "regex"]:
        """The form that the answer has to take."""

    @property
    def response_schema(self) -> _Json:
        """The schema of the format `json_schema`, as new objects."""

    @property
    def response_regex(self) -> str | None:
        """The expression of the format `regex`."""

class _TokenIds(Sequence[int]):
    def __new__(cls, data: bytes) -> Self: ...
    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> memoryview[int]: ...
    def __len__(self) -> int: ...
    def __getattr__(self, name: str) -> Any: ...
    def tolist(self) -> list[int]:
        """Returns the ids as a list of shared integers, several times as fast as a memoryview makes one."""

@final
class TokenIds(_TokenIds):
    """Ids as a read-only sequence and buffer of native uint32.

    `data` are four bytes an id. What a memoryview has, it has too, for example `nbytes`; a slice is one. It can be
    pickled and copied.
    """

    def __buffer__(self, flags: int) -> memoryview: ...

@final
class Tokenizer:
    """A byte-level BPE tokenizer with an added vocabulary. It never changes, so threads may share it."""

    @staticmethod
    def builtin(version: ModelVersion) -> Tokenizer:
        """Returns the tokenizer of a model version. Its vocabulary is part of the package."""

    @staticmethod
    def from_file(path: str | PathLike[str]) -> Tokenizer:
        """Reads a tokenizer.json file of the same family. Raises `RuntimeError` if it cannot be read or used."""

    @staticmethod
    def from_str(text: str) -> Tokenizer:
        """Reads the text of a tokenizer.json file. Raises `RuntimeError` if it cannot be used."""

    @staticmethod
    def from_pretrained(identifier: str, revision: str | None = None, token: str | None = None) -> Tokenizer:
        """Raises `NotImplementedError`: this package downloads nothing."""

    def with_segment_cache(self, bytes: int) -> Tokenizer:
        """Returns the same tokenizer with a cache of segments of its own, which keeps at most `bytes`; 0 keeps nothing.

        The ids of a prompt's plain segments are kept for the next prompt that has them. Without this, the tokenizers
        of one model version share a cache of 32 MiB: of texts, ids at four bytes each, and 112 bytes for each segment.
        """

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text with the full vocabulary: the spelling of an added token becomes its id.

        Only for text that no user wrote, or for counting. Prompts are encoded by `DeepseekV4Encoding.encode`.
        """

    def encode_prompt(self, prompt: RenderedPrompt) -> TokenIds:
        """Returns the ids of a prompt. Other threads run meanwhile, unless it is short.

        Raises `RuntimeError` if a special token's spelling is not in the added vocabulary.
        """

    def special_id(self, spelling: str) -> int | None:
        """Returns the id of an added token, or `None`."""

    def token(self, id: int) -> bytes | str | None:
        """Returns what `id` stands for.

        The bytes of an ordinary token (they need not be whole characters), the spelling of an added one, or `None` for
        an id that is in neither vocabulary.
        """

@final
class RenderedPrompt:
    """A prompt, and which parts of it are special tokens."""

    @property
    def prompt(self) -> str:
        """The whole text."""

    @property
    def special_ranges(self) -> list[tuple[int, int]]:
        """The ranges of the special tokens as half-open pairs of `str` indices, ascending and disjoint.

        Everything else is plain text, whatever it spells. An image placeholder is special, too.
        """

    @property
    def message_ranges(self) -> list[tuple[int, int, int | None]]:
        """What made each part of the prompt: `str` indices of start and end, and a message's place in the conversation.

        `None` is the template: declarations, effort, the opening of the answer. The ranges add up to the prompt, and
        none is empty. A plain segment may hold several: its text is encoded as one.
        """

    @property
    def segments(self) -> list[tuple[Literal["special", "plain", "image"], str]]:
        """The runs of the prompt as pairs of kind and text: joined, the texts are the prompt; none is empty.

        A `special` and an `image` segment are one token each, a `plain` one is text.
        """

    @property
    def image_sources(self) -> list[ImageSource]:
        """The images in prompt order. More than there are placeholders where a message's text has too few."""

@final
class DeepseekV4Encoding:
    """The prompt encoding of DeepSeek-V4-Pro. It never changes: each `with_` method returns a new one."""

    def __new__(cls) -> Self: ...
    def with_tokenizer(self, tokenizer: Tokenizer) -> DeepseekV4Encoding:
        """Returns the same encoding with a tokenizer for `encode`."""

    def with_special_tokens(self, special_tokens: SpecialTokens) -> DeepseekV4Encoding:
        """Returns the same encoding with other spellings of the special tokens."""

    def render_conversation(self, conversation: Conversation) -> RenderedPrompt:
        """Returns the prompt of a conversation. Every conversation has one. Other threads run meanwhile."""

    def encode(self, conversation: Conversation) -> list[int]:
        """Returns the ids of a conversation's prompt. Other threads run meanwhile.

        Raises `RuntimeError` if there is no tokenizer, or if it lacks the spelling of a special token.
        """

@final
class DeepseekV41Encoding:
    """The prompt encoding of DeepSeek-V4.1-Flash. It never changes: each `with_` method returns a new one."""

    def __new__(cls) -> Self: ...
    def with_tokenizer(self, tokenizer: Tokenizer) -> DeepseekV41Encoding:
        """Returns the same encoding with a tokenizer for `encode`."""

    def with_special_tokens(self, special_tokens: SpecialTokens) -> DeepseekV41Encoding:
        """Returns the same encoding with other spellings of the special tokens."""

    def render_conversation(self, conversation: Conversation) -> RenderedPrompt:
        """Returns the prompt of a conversation. Every conversation has one. Other threads run meanwhile."""

    def encode(self, conversation: Conversation) -> list[int]:
        """Returns the ids of a conversation's prompt. Other threads run meanwhile.

        Raises `RuntimeError` if there is no tokenizer, or if it lacks the spelling of a special token.
        """

@final
class InferenceFinishReason:
    """Why an engine ended."""

    Stop: ClassVar[InferenceFinishReason]
    """The model ended its turn."""
    Length: ClassVar[InferenceFinishReason]
    """The output limit was reached."""
    ContentFilter: ClassVar[InferenceFinishReason]
    """A filter ended the output."""

    def __int__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __eq__(self, value: object, /) -> bool: ...

@final
class PromptUsage:
    """What a prompt cost, in tokens, as the engine reports it. Counts are from 0 to 2^64 - 1."""

    def __new__(cls, *, prompt_tokens: int = 0, prompt_cache_hit_tokens: int = 0) -> Self: ...
    @property
    def prompt_tokens(self) -> int:
        """All of the prompt."""

    @property
    def prompt_cache_hit_tokens(self) -> int:
        """The part that came from the prompt cache."""

@final
class InferenceChunk:
    """One message of an engine, made with `ready`, `text`, `tokens`, `finish` or `error`.

    What a kind does not have is `None`.
    """

    @staticmethod
    def ready(*, prompt_usage: PromptUsage | None = None, system_fingerprint: str | None = None) -> InferenceChunk:
        """The engine has taken the request. Only the first chunk of a stream counts as one."""

    @staticmethod
    def text(content: str, token_count: int = 0) -> InferenceChunk:
        """Text, special tokens spelled out, and how many tokens it accounts for (0 to 2^64 - 1)."""

    @staticmethod
    def tokens(
        token_ids: Sequence[int], logprobs: Sequence[tuple[float, Sequence[tuple[int, float]]]] | None = None
    ) -> InferenceChunk:
        """Token ids, each from 0 to 2^32 - 1.

        `logprobs` has one pair an id: the natural logarithm of the sampled id's probability, and pairs of id and
        logarithm for the most likely ids at its place.
        """

    @staticmethod
    def finish(finish_reason: InferenceFinishReason) -> InferenceChunk:
        """The engine has ended."""

    @staticmethod
    def error(message: str, code: str = "server_error") -> InferenceChunk:
        """The engine has failed: what happened, and a word for programs."""

    @property
    def kind(self) -> Literal["ready", "text", "tokens", "finish", "error"]:
        """How the chunk was made."""

    @property
    def prompt_usage(self) -> PromptUsage | None:
        """What the prompt cost: zeros in a `ready` chunk that does not say it."""

    @property
    def system_fingerprint(self) -> str | None:
        """The engine's fingerprint, of a `ready` chunk."""

    @property
    def content(self) -> str | None:
        """The text of a `text` chunk."""

    @property
    def token_count(self) -> int | None:
        """How many tokens a `text` chunk accounts for."""

    @property
    def token_ids(self) -> list[int] | None:
        """The ids of a `tokens` chunk."""

    @property
    def finish_reason(self) -> InferenceFinishReason | None:
        """Why the engine ended, of a `finish` chunk."""

@final
class ConversationRequest:
    """What every protocol's request becomes, or a request made by hand with the default options."""

    def __new__(cls, conversation: Conversation, model_version: ModelVersion) -> Self: ...
    @property
    def conversation(self) -> Conversation:
        """What the prompt says."""

    @property
    def inference_options(self) -> InferenceOptions:
        """What the engine is told."""

    @property
    def parsing_options(self) -> ParsingOptions:
        """How the output is to be read. A new object: the request keeps its own."""

    @property
    def model_version(self) -> ModelVersion:
        """The model that the requested name stands for. It says which encoding to use."""

    @property
    def stream(self) -> bool:
        """Whether the reply is sent in chunks; `False` for a request made by hand."""

    @property
    def include_usage(self) -> bool:
        """Whether a Chat Completions reply in chunks mentions the usage in every chunk."""

    def resolve_max_tokens(self, prompt_tokens: int, context_limit: int) -> int:
        """Returns the output limit in tokens, for a prompt of this length in a model's context of this size.

        Every image counts as its tokens, not as one. Raises `ConversionError` if the prompt and the requested limit do
        not fit.
        """

@final
class ChatCompletionRequest:
    """A Chat Completions request from JSON text (`str` or `bytes`) or from Json.

    Raises `ValueError` if the body is no JSON text or has another shape; such errors carry `status_code` (400) and
    `body`, the error reply. Unknown fields are ignored. `convert` uses a request up.
    """

    def __new__(cls, body: _Json) -> Self: ...
    @property
    def model(self) -> str:
        """The requested model name. Raises `RuntimeError` once the request is used up."""

    def convert(self, options: ConversionOptions) -> ConversationRequest:
        """Converts the request, which is used up by that, also when it fails. Other threads run meanwhile.

        Raises `ConversionError` if the request cannot be served, and `RuntimeError` if it is used up already.
        """

    @staticmethod
    def chunk_generator(
        request: ConversationRequest, id: str, model: str, *, index: int = 0
    ) -> ChatCompletionChunkGenerator:
        """Returns a generator of the reply's chunks, with the id and the model name that they mention.

        Each of several choices has a generator of its own: `index` is its number. The chunks are dated now.
        """

@final
class ChatCompletionChunkGenerator:
    """Makes the chunks of a Chat Completions reply. A `StreamProcessor` uses it up."""

@final
class ChatCompletionChunk:
    """One chunk of a Chat Completions reply, until a response accumulates it."""

    def to_json(self) -> str:
        """Returns the chunk as JSON text, as the protocol sends it. Raises `RuntimeError` once it is used up."""

@final
class ChatCompletionResponse:
    """The complete Chat Completions response: what the chunks so far add up to.

    `created` is the Unix time in seconds. The usage comes with the chunks; the two counts are there because every
    protocol's response is made like this.
    """

    def __new__(cls, id: str, model: str, created: int, prompt_tokens: int, prompt_cache_hit_tokens: int) -> Self: ...
    def accumulate(self, chunk: ChatCompletionChunk) -> None:
        """Adds a chunk, which is used up by that. Raises `RuntimeError` if it is used up already."""

    def to_json(self) -> str:
        """Returns the response as JSON text, also before the reply is complete."""

    @staticmethod
    def sse_event_name(chunk: ChatCompletionChunk) -> str | None:
        """Returns the name of a chunk's server-sent event: `None`, since this protocol has no names."""

    @staticmethod
    def sse_done_data() -> str | None:
        """Returns the data that ends a stream of server-sent events: `[DONE]`."""

@final
class MessagesRequest:
    """A Messages request from JSON text (`str` or `bytes`) or from Json.

    Raises `ValueError` if the body is no JSON text or has another shape; such errors carry `status_code` (400) and
    `body`, the error reply. Unknown fields are ignored. `convert` uses a request up.
    """

    def __new__(cls, body: _Json) -> Self: ...
    @property
    def model(self) -> str:
        """The requested model name. Raises `RuntimeError` once the request is used up."""

    def convert(self, options: ConversionOptions) -> ConversationRequest:
        """Converts the request, which is used up by that, also when it fails. Other threads run meanwhile.

        Raises `ConversionError` if the request cannot be served, and `RuntimeError` if it is used up already.
        """

    @staticmethod
    def chunk_generator(request: ConversationRequest, id: str, model: str) -> MessagesChunkGenerator:
        """Returns a generator of the reply's events, with the id and the model name that they mention."""

@final
class MessagesChunkGenerator:
    """Makes the events of a Messages reply. A `StreamProcessor` uses it up."""

    def __new__(cls, id: str, model: str, thinking_mode: bool) -> Self: ...
    def with_signature(self, signature: str) -> MessagesChunkGenerator:
        """Returns a generator that signs thinking blocks so (default: the id), and uses this one up."""

@final
class MessagesStreamEvent:
    """One event of a Messages reply, until a response accumulates it."""

    def to_json(self) -> str:
        """Returns the event as JSON text, as the protocol sends it. Raises `RuntimeError` once it is used up."""

@final
class MessagesResponse:
    """The complete Messages response: what the events so far add up to.

    `created` is not part of it. The two counts stand in it until the first event brings others.
    """

    def __new__(cls, id: str, model: str, created: int, prompt_tokens: int, prompt_cache_hit_tokens: int) -> Self: ...
    def accumulate(self, chunk: MessagesStreamEvent) -> None:
        """Adds an event, which is used up by that. Raises `RuntimeError` if it is used up already."""

    def to_json(self) -> str:
        """Returns the response as JSON text, also before the reply is complete."""

    @staticmethod
    def sse_event_name(chunk: MessagesStreamEvent) -> str | None:
        """Returns the name of an event's server-sent event: its type."""

    @staticmethod
    def sse_done_data() -> str | None:
        """Returns `None`: the last event ends the stream."""

@final
class ResponsesRequest:
    """A Responses request from JSON text (`str` or `bytes`) or from Json.

    Raises `ValueError` if the body is no JSON text or has another shape; such errors carry `status_code` (400) and
    `body`, the error reply. Unknown fields are ignored. `convert` uses a request up.
    """

    def __new__(cls, body: _Json) -> Self: ...
    @property
    def model(self) -> str:
        """The requested model name. Raises `RuntimeError` once the request is used up."""

    def convert(self, options: ConversionOptions) -> ConversationRequest:
        """Converts the request, which is used up by that, also when it fails. Other threads run meanwhile.

        Raises `ConversionError` if the request cannot be served, and `RuntimeError` if it is used up already.
        """

    def echo(self) -> ResponsesEcho:
        """Returns the settings that response objects report. Raises `RuntimeError` once the request is used up."""

    def namespace_tool_map(self, options: ConversionOptions) -> dict[str, tuple[str, str]]:
        """Returns the function names of declared namespaces with their namespace and local name.

        Raises `ConversionError` if the declarations cannot be served, and `RuntimeError` once the request is used up.
        """

    @staticmethod
    def chunk_generator(request: ConversationRequest, id: str, model: str) -> ResponsesChunkGenerator:
        """Returns a generator of the reply's events, with the id and the model name that they mention."""

@final
class ResponsesChunkGenerator:
    """Makes the events of a Responses reply. A `StreamProcessor` uses it up."""

    def with_echo(self, echo: ResponsesEcho) -> ResponsesChunkGenerator:
        """Returns a generator that reports these settings, and uses this one up."""

    def with_namespace_tool_map(self, namespace_tool_map: dict[str, tuple[str, str]]) -> ResponsesChunkGenerator:
        """Returns a generator with these names for the functions of namespaces, and uses this one up."""

@final
class ResponsesStreamEvent:
    """One event of a Responses reply, until a response accumulates it."""

    def to_json(self) -> str:
        """Returns the event as JSON text, as the protocol sends it. Raises `RuntimeError` once it is used up."""

@final
class ResponsesResponse:
    """The complete Responses response: what the events so far add up to.

    `created` is the Unix time in seconds. The usage comes with the events.
    """

    def __new__(cls, id: str, model: str, created: int, prompt_tokens: int, prompt_cache_hit_tokens: int) -> Self: ...
    def accumulate(self, chunk: ResponsesStreamEvent) -> None:
        """Adds an event, which is used up by that. Raises `RuntimeError` if it is used up already."""

    def to_json(self) -> str:
        """Returns the response as JSON text, also before the reply is complete."""

    @staticmethod
    def sse_event_name(chunk: ResponsesStreamEvent) -> str | None:
        """Returns the name of an event's server-sent event: its type."""

    @staticmethod
    def sse_done_data() -> str | None:
        """Returns `None`: the last event ends the stream."""

@final
class ResponsesEcho:
    """The settings of a Responses request that response objects report, or those of a request without any."""

    def __new__(cls) -> Self: ...
    @property
    def instructions(self) -> str | None:
        """The instructions."""

    @property
    def max_output_tokens(self) -> int | None:
        """The output limit in tokens."""

    @property
    def temperature(self) -> float:
        """The temperature, or 1.0; not the one that is sampled with."""

    @property
    def top_logprobs(self) -> int:
        """The number of alternatives a token, or 0."""

    @property
    def top_p(self) -> float:
        """The nucleus mass, or 1.0; not the one that is sampled with."""

    @property
    def user(self) -> str | None:
        """The user."""

def extend_prompt(
    request: ConversationRequest,
    prompt: RenderedPrompt,
    tokenizer: Tokenizer,
    prompt_ids: Sequence[int],
    output_ids: Sequence[int],
) -> tuple[TokenIds, int, Literal["history_changed", "tools_changed", "reasoning_dropped", "output_differs"] | None]:
    """Returns the ids of a request's prompt, going on from earlier ids where it tells the same story.

    The parts are the ids, where the new part begins, and why they do not go on.
    """

def parse_start(conversation: Conversation) -> ParsingOptions:
    """Returns how the output behind the prompt of `conversation` is to be read, as a new object.

    It says where the output begins, whether calls are looked for, and whether the answer is one JSON value. Stop
    sequences and other spellings are for the caller to add.
    """

def read_request(
    body: _Json, protocol: str | None = None
) -> ChatCompletionRequest | MessagesRequest | ResponsesRequest:
    """Reads a body of the named protocol (`chat_completions`, `messages` or `responses`), or of the one it shows.

    The body is JSON text (`str`, `bytes`, `bytearray` or `memoryview`) or Json.

    Raises `ValueError` as the classes do, for an unknown name, and for a body that could be of two protocols.
    """

@final
class StreamProcessor:
    """Parses an output: engine chunks in, protocol chunks out.

    It uses the generator up. Without a tokenizer it takes no `tokens` chunks. `copy.copy` gives a processor that goes
    on from the same place by itself, and so does `pickle`, unless the reply seals reasoning.
    """

    def __new__(
        cls,
        generator: ChatCompletionChunkGenerator | MessagesChunkGenerator | ResponsesChunkGenerator,
        options: ParsingOptions,
        tokenizer: Tokenizer | None = None,
    ) -> Self: ...
    @property
    def finished(self) -> bool:
        """Whether the output has ended (by a `finish` chunk, a stop sequence or `finish`) and nobody called `close`."""

    @property
    def stop_sequence(self) -> str | None:
        """The stop sequence that ended the output, if one did."""

    @property
    def remaining_text(self) -> str:
        """The text behind the place where the output ended by itself, `""` if it did not.

        That is behind a stop sequence, or behind the one call that was wanted.
        """

    @property
    def remaining_ids(self) -> list[int]:
        """The ids of the remaining text, as a new list. One with text on both sides of the end is not among them."""

    def push(self, chunk: InferenceChunk) -> list[Any]:
        """Takes an engine chunk and returns the protocol chunks that it makes, of the generator's protocol.

        Raises `RuntimeError` after the end, after `close`, for `tokens` without a tokenizer, and if the log
        probabilities are not one an id. The last two close the processor.
        """

    def finish(self) -> list[Any]:
        """Closes the input and returns the last chunks; none if the output has ended.

        Without a `finish` chunk before it, the reply says that the output failed.
        """

    def close(self) -> None:
        """Ends without any chunk. May be called at any time."""

    def save(self) -> bytes:
        """Returns the state as bytes, between any two chunks: as large as what is held.

        The tokenizer and the keys of a `ReasoningSealer` are not among them.
        """

    @classmethod
    def restore(
        cls, data: bytes, tokenizer: Tokenizer | None = None, *, reasoning_sealer: ReasoningSealer | None = None
    ) -> StreamProcessor:
        """Returns the processor that `save` made these bytes of, whatever its protocol.

        Without a tokenizer the built-in one with the same vocabulary is taken. Raises `ValueError` for bytes that are
        damaged or of another version of the form, for another vocabulary, and where a sealer is needed and missing.
        """

class Event:
    """One fact about an output, of one of the classes below. Texts are deltas: they add up to the whole.

    Events are compared by what they say.
    """

    @property
    def type(
        self,
    ) -> Literal["reasoning", "content", "tool_call_start", "tool_call_arguments", "tool_call_end", "finish", "error"]:
        """The kind, as a word."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the event as a dict: `type`, then its fields."""

    def __eq__(self, value: object, /) -> bool: ...

    @final
    class Reasoning(Event):
        """More of the reasoning."""

        __match_args__ = ("text",)
        def __new__(cls, text: str) -> Self: ...
        @property
        def text(self) -> str:
            """The text."""

    @final
    class Content(Event):
        """More of the answer."""

        __match_args__ = ("text",)
        def __new__(cls, text: str) -> Self: ...
        @property
        def text(self) -> str:
            """The text."""

    @final
    class ToolCallStart(Event):
        """A call begins."""

        __match_args__ = ("index", "id", "name")
        def __new__(cls, index: int, id: str, name: str) -> Self: ...
        @property
        def index(self) -> int:
            """Which call of the output, from 0."""

        @property
        def id(self) -> str:
            """A made-up id, for the result to refer to."""

        @property
        def name(self) -> str:
            """The tool."""

    @final
    class ToolCallArguments(Event):
        """More of a call's arguments."""

        __match_args__ = ("index", "text")
        def __new__(cls, index: int, text: str) -> Self: ...
        @property
        def index(self) -> int:
            """Which call."""

        @property
        def text(self) -> str:
            """JSON text."""

    @final
    class ToolCallEnd(Event):
        """A call is finished: its arguments are one JSON object."""

        __match_args__ = ("index",)
        def __new__(cls, index: int) -> Self: ...
        @property
        def index(self) -> int:
            """Which call."""

    @final
    class Finish(Event):
        """The output has ended. Comes last, once."""

        __match_args__ = (
            "reason",
            "stop_sequence",
            "completion_tokens",
            "reasoning_tokens",
            "remaining_text",
            "remaining_ids",
        )
        def __new__(
            cls,
            reason: str,
            stop_sequence: str | None,
            completion_tokens: int,
            reasoning_tokens: int | None,
            remaining_text: str,
            remaining_ids: Sequence[int],
        ) -> Self: ...
        @property
        def reason(self) -> str:
            """`stop`, `tool_calls`, `length` or `content_filter`."""

        @property
        def stop_sequence(self) -> str | None:
            """The stop sequence that matched, if one did."""

        @property
        def completion_tokens(self) -> int:
            """All tokens of the output: ids, and what text chunks say of themselves."""

        @property
        def reasoning_tokens(self) -> int | None:
            """The tokens of the reasoning; `None` where the output could hold none or no tokenizer counts them."""

        @property
        def remaining_text(self) -> str:
            """The text behind the place where the output ended by itself, `""` if it did not.

            That is behind a stop sequence, or behind the one call that was wanted.
            """

        @property
        def remaining_ids(self) -> list[int]:
            """The ids of the remaining text. One with text on both sides of the end is not among them."""

    @final
    class Error(Event):
        """The output has failed. Comes last, once, in place of `Finish`."""

        __match_args__ = ("message", "code")
        def __new__(cls, message: str, code: str) -> Self: ...
        @property
        def message(self) -> str:
            """What happened."""

        @property
        def code(self) -> str:
            """A word for programs, for example `server_error`."""

@final
class OutputParser:
    """Parses an output into events, without a protocol. Without a tokenizer it takes no `tokens` chunks.

    The schemas of `tools` tell strings from other values.
    """

    def __new__(
        cls, options: ParsingOptions, tools: Sequence[ToolDefinition], tokenizer: Tokenizer | None = None
    ) -> Self: ...
    @staticmethod
    def for_request(request: ConversationRequest, tokenizer: Tokenizer | None = None) -> OutputParser:
        """Returns a parser of a request's output."""

    @property
    def finished(self) -> bool:
        """Whether the output has ended."""

    def push(self, chunk: InferenceChunk) -> list[Event]:
        """Takes an engine chunk and returns its events. Raises `RuntimeError` as `StreamProcessor.push`."""

    def finish(self) -> list[Event]:
        """Closes the input. Without a `finish` chunk before it, the last event is an error."""

    def save(self) -> bytes:
        """Returns the state as bytes, as `StreamProcessor.save`."""

    @classmethod
    def restore(cls, data: bytes, tokenizer: Tokenizer | None = None) -> OutputParser:
        """Returns the parser that `save` made these bytes of. Raises as `StreamProcessor.restore`."""

@final
class ReplyStream:
    """A reply in the protocol of its generator: engine chunks in, protocol chunks out, the complete response kept.

    It uses the generator up. `id` and `model` are those of the complete response.
    """

    def __new__(
        cls,
        generator: ChatCompletionChunkGenerator | MessagesChunkGenerator | ResponsesChunkGenerator,
        options: ParsingOptions,
        tokenizer: Tokenizer,
        id: str,
        model: str,
    ) -> Self: ...
    @property
    def finished(self) -> bool:
        """Whether the output has ended."""

    @property
    def stop_sequence(self) -> str | None:
        """The stop sequence that ended the output, if one did."""

    @property
    def remaining_text(self) -> str:
        """The text behind the place where the output ended by itself, `""` if it did not.

        That is behind a stop sequence, or behind the one call that was wanted.
        """

    @property
    def remaining_ids(self) -> list[int]:
        """The ids of the remaining text, as a new list. One with text on both sides of the end is not among them."""

    def push(self, chunk: InferenceChunk) -> list[Any]:
        """Takes an engine chunk and returns the protocol chunks. Raises `RuntimeError` as `StreamProcessor.push`."""

    def push_sse(self, chunk: InferenceChunk) -> bytes:
        """As `push`, as server-sent events."""

    def finish(self) -> list[Any]:
        """Closes the input and returns the last chunks: a failure, unless the output had ended."""

    def finish_sse(self) -> bytes:
        """As `finish`, as server-sent events, with the end of the stream behind them, once, unless the reply failed."""

    def response_json(self) -> str:
        """Returns the complete response as JSON text, also before the reply is complete."""

    def save(self) -> bytes:
        """Returns the state as bytes, with the complete response so far. As `StreamProcessor.save`."""

    @classmethod
    def restore(
        cls, data: bytes, tokenizer: Tokenizer | None = None, *, reasoning_sealer: ReasoningSealer | None = None
    ) -> ReplyStream:
        """Returns the stream that `save` made these bytes of. Raises as `StreamProcessor.restore`."""

class ImageError(Exception):
    """An image that cannot be had, read or resized."""

    kind: str
    """A word for programs."""
    is_retryable: bool
    """Whether a second try may help."""

class CalcResizeError(ValueError):
    """The size of an image does not converge to an allowed count of tokens."""

@final
class ImageInfo:
    """An image as the engine gets it: the bytes of its file and its size in pixels."""

    def __new__(cls, data: bytes | bytearray | memoryview | Sequence[int], width: int, height: int) -> Self: ...
    @property
    def data(self) -> bytes:
        """The bytes of the file."""

    @property
    def width(self) -> int:
        """The width in pixels, from 0 to 2^32 - 1."""

    @property
    def height(self) -> int:
        """The height in pixels, from 0 to 2^32 - 1."""

@final
class MultiModalData:
    """Images in the order of their placeholders in the prompt."""

    def __new__(cls, images: Sequence[ImageInfo] | None = None) -> Self: ...
    @property
    def images(self) -> list[ImageInfo]:
        """The images."""

    def is_empty(self) -> bool:
        """Returns whether there is no image."""

    def image_token_adjustment(self) -> int:
        """Returns how many more tokens the prompt has when every placeholder is expanded, by the rule of V4.1.

        Add it to the number of ids for `ConversationRequest.resolve_max_tokens`. The sizes count, not the bytes.
        Raises `CalcResizeError` if a size does not converge, which is not known to happen.
        """

@final
class ImageQuota:
    """What the images of one request have used of its limits, over any number of calls."""

    def __new__(cls) -> Self: ...
    def byte_size(self) -> int:
        """Returns how many bytes the files of the resolved images had."""

    def image_count(self) -> int:
        """Returns how many images were resolved."""

@final
class PreprocessOptions:
    """How to resize an image. Limits are from 0 to 2^32 - 1."""

    def __new__(cls, detail: _Detail, max_dimension_px: int, low_detail_max_dimension_px: int) -> Self: ...
    @property
    def detail(self) -> _Detail:
        """The level that the request asks for."""

    @property
    def max_dimension_px(self) -> int:
        """The longest side that is taken, in pixels."""

    @property
    def low_detail_max_dimension_px(self) -> int:
        """The longest side at low detail, in pixels."""

@final
class ImageLimits:
    """The limits of a request's images. What is not given is as in the reference, where that has such a limit.

    `images` (600): the most images. `image_bytes` (32 MiB), `total_bytes` (64 MiB): the most bytes of one file and of
    all. `total_pixels` (2^31): the most pixels of all, as their headers say. `dimension_px` (8192): the longest side in
    pixels; from `many_images` (15) images on it is `dimension_px_of_many` (4096). `low_detail_dimension_px` (512): the
    longest side to which low detail is reduced. `url_bytes` (8192): the most bytes of a URL. `at_a_time` (8): the most
    images that are fetched or decoded at a time. `download_seconds` (90): the time for all downloads of one call, tries
    again included. Raises `ValueError` for a time that is negative or too long.
    """

    def __new__(
        cls,
        *,
        images: int | None = None,
        image_bytes: int | None = None,
        total_bytes: int | None = None,
        total_pixels: int | None = None,
        dimension_px: int | None = None,
        many_images: int | None = None,
        dimension_px_of_many: int | None = None,
        low_detail_dimension_px: int | None = None,
        url_bytes: int | None = None,
        at_a_time: int | None = None,
        download_seconds: float | None = None,
    ) -> Self: ...

@final
class ReqwestImageFetcher:
    """Downloads images over HTTP and HTTPS, without a proxy, following up to 5 redirects.

    Only public addresses are connected to: a name is looked up once for each request and redirect, its addresses are
    checked, and the connection goes to one that passed.
    """

    def __new__(cls) -> Self: ...
    @staticmethod
    def with_max_bytes(max_bytes: int) -> ReqwestImageFetcher:
        """Returns a fetcher with a limit of one image, in bytes; otherwise it is 32 MiB."""

    def with_internal_addresses(self) -> ReqwestImageFetcher:
        """Returns a fetcher that connects to addresses of this machine, its network and its cloud's services, too."""

    def with_destination_filter(self, destination_filter: Callable[[str, str], bool]) -> ReqwestImageFetcher:
        """Returns a fetcher that asks with host and address before it connects. Raises `TypeError` if it cannot.

        It asks about addresses that are allowed otherwise, from any thread; IPv6 hosts have no brackets. A filter that
        raises, or gives anything but `True`, refuses.
        """

    def fetch(self, url: str) -> bytes:
        """Returns the body behind a URL, in one attempt of at most 60 seconds.

        Raises `ImageError`: `Fetch` without a whole answer, `FetchStatus` for a status that is no success,
        `ImageTooLarge`, or `DestinationRejected` where no address may be connected to.
        """

@final
class OpenCvImagePreprocessor:
    """Resizes images. The name is the reference's; there is no OpenCV here."""

    def __new__(cls) -> Self: ...
    def preprocess(self, data: bytes | bytearray | memoryview | Sequence[int], options: PreprocessOptions) -> ImageInfo:
        """Returns an image as WebP, in a size that the model takes and with borders where the ratio asks for them.

        `data` is a PNG, JPEG, GIF or WebP file; the first frame counts, transparent pixels show a light grey. Raises
        `ImageError`: `EmptyImage`, `UnsupportedMediaType`, `Decode` or `ImageDimensionsTooLarge`.
        """

@final
class ImageResolver:
    """Fetches and resizes the images of a request."""

    def __new__(
        cls,
        fetcher: ReqwestImageFetcher,
        preprocessor: OpenCvImagePreprocessor,
        *,
        limits: ImageLimits | None = None,
    ) -> Self: ...
    def resolve(self, sources: Sequence[ImageSource], quota: ImageQuota) -> MultiModalData:
        """Returns the images of the sources, in their order, and counts them in `quota` if there is no error.

        Downloads are tried again up to three times where that may help. Raises `ImageError` for the first source that
        cannot be loaded, otherwise for the first that cannot be resized.
        """

    def measure(self, sources: Sequence[ImageSource], quota: ImageQuota) -> MultiModalData:
        """Returns the same without pixels: sizes from the headers of the files, for `image_token_adjustment`.

        URLs are downloaded. Raises as `resolve`, but not for files of which only the pixels are broken.
        """

def image_size(data: bytes | bytearray | memoryview | Sequence[int]) -> tuple[int, int]:
    """Returns the width and height of an image in pixels, from the header of its file.

    Raises `ImageError`: `EmptyImage`, `UnsupportedMediaType` or `Decode`.
    """

def image_tokens(width: int, height: int, detail: _Detail = "high") -> int:
    """Returns how many tokens an image of this size in pixels costs, by the rule of V4.1 and with the default limits.

    Raises `CalcResizeError` if a side is 0, and `ValueError` for another detail.
    """
