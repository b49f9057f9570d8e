"""The protocol between the gateway and an engine: plain records and one class of methods.

Ids go in and ids come out; text, templates and API protocols never cross it. One request is one answer: a caller that
wants several answers to a prompt makes as many requests, with seeds of their own.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from .._native import MultiModalData

FinishReason: TypeAlias = Literal["stop", "length", "content_filter", "abort"]
"""`stop`: an end or stop token came; `length`: `max_tokens` or the context was reached; `abort`: `abort` was called."""

TokenLogprob: TypeAlias = tuple[float, Sequence[tuple[int, float]]]
"""The natural logarithm of the sampled id's probability, and pairs of id and logarithm for the most likely ids there.
What `InferenceChunk.tokens` takes."""

RequestErrorKind: TypeAlias = Literal[
    "too_long", "bad_param", "unsupported", "constraint_invalid", "overloaded", "engine_dead"
]


class EngineUnavailable(Exception):
    """The engine cannot be used at all: its package is missing, nothing answers, or it speaks another protocol."""


class RequestError(Exception):
    """One request failed; the others go on.

    `too_long`, `bad_param`, `unsupported` and `constraint_invalid` are the caller's fault and come before the first
    delta. `overloaded` may be tried again later. `engine_dead` may come at any time: the output is incomplete.
    `message` may be shown to the client: it names no host and no path.
    """

    def __init__(self, kind: RequestErrorKind, message: str):
        super().__init__(message)
        self.kind: RequestErrorKind = kind
        self.message: str = message


@dataclass(frozen=True)
class SamplingSpec:
    """How to sample. The order of the filters is the engine's."""

    max_tokens: int
    """The most output tokens, at least 1."""
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    """-1: no limit."""
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    """Ids that end the output, besides the engine's own end tokens."""
    logprobs: int | None = None
    """How many alternatives an id; 0: the sampled one alone; `None`: no log probabilities."""


@dataclass(frozen=True)
class ConstraintSpec:
    """What the output must look like, for engines that can constrain decoding."""

    kind: Literal["json_schema", "json_object", "regex", "tools"]
    value: str
    """A JSON Schema, nothing, a regular expression, or the codec's JSON array of tools."""
    trigger_token_ids: tuple[int, ...] = ()
    """The constraint begins behind these ids, when they first stand in the output; empty: at once."""
    required: bool = True
    """Whether a call has to come (`tools`); elsewhere true."""
    enforce: Literal["required", "best_effort"] = "required"
    """`best_effort`: an engine that cannot do it goes on without."""


@dataclass(frozen=True)
class GenerateRequest:
    """One answer that is wanted."""

    request_id: str
    """Unique among the running requests; for `abort` and logs."""
    prompt_token_ids: Sequence[int] | memoryview
    """The prompt; a buffer of uint32 where it comes from the codec."""
    sampling: SamplingSpec
    images: MultiModalData = field(default_factory=MultiModalData)
    """The images of the prompt, resized, in the order of their placeholders: one id each in `prompt_token_ids`."""
    constraint: ConstraintSpec | None = None
    priority: int = 0
    """Lower numbers first, as in vLLM; engines without priorities ignore it."""
    cache_salt: str | None = None
    """Requests of different salts must not see each other's prefix cache."""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    """Headers of a trace (`traceparent`), and hints that only one engine knows."""

    @property
    def prompt_tokens(self) -> int:
        """The length of the prompt as the engine sees it, placeholders expanded."""
        return len(self.prompt_token_ids) + self.images.image_token_adjustment()

    def image_urls(self) -> list[str]:
        """The images as data URLs."""
        return [f"data:image/webp;base64,{base64.b64encode(image.data).decode()}" for image in self.images.images]


@dataclass(frozen=True)
class Usage:
    """What a request cost, in tokens, as the engine counts."""

    prompt: int | None = None
    cached_prompt: int = 0
    """The part of the prompt that came from the prefix cache."""
    completion: int | None = None


@dataclass(frozen=True, slots=True)
class TokenDelta:
    """The next part of an output. Without ids it only shows that the engine works on it."""

    token_ids: Sequence[int] = ()
    logprobs: Sequence[TokenLogprob] | None = None
    """One an id."""
    finish_reason: FinishReason | None = None
    """On the last delta, and only there."""
    usage: Usage | None = None
    """On the last delta; on the first one, too, where the engine knows then what was cached."""


def merged(deltas: Sequence[TokenDelta]) -> TokenDelta | None:
    """What came at a time as one delta: less work for each token where the engine is faster than the network."""
    if len(deltas) < 2:
        return deltas[0] if deltas else None
    ids = [id for delta in deltas for id in delta.token_ids]
    logprobs = None
    if any(delta.logprobs is not None for delta in deltas):
        logprobs = [entry for delta in deltas for entry in delta.logprobs or ()]
    usages = [delta.usage for delta in deltas if delta.usage is not None]
    return TokenDelta(ids, logprobs, deltas[-1].finish_reason, usages[-1] if usages else None)


@dataclass(frozen=True)
class Capabilities:
    """What an engine can do. Adapters ask the engine; what it does not say is absent."""

    name: str
    version: str
    model_id: str
    """What the engine calls its model."""
    max_model_len: int
    """Prompt and output together, in tokens."""
    vocab_size: int | None = None
    """Ids are below it; `None`: as the codec's vocabulary."""
    constraints: frozenset[str] = frozenset()
    """The kinds of `ConstraintSpec` that it enforces."""
    constraint_trigger: bool = False
    """Whether `ConstraintSpec.trigger_token_ids` works."""
    logprobs: int | None = None
    """The most alternatives an id; `None`: no log probabilities."""
    images: bool = False
    """Whether it takes `GenerateRequest.images`."""
    sampling: frozenset[str] = frozenset()
    """Fields of `SamplingSpec` beyond `temperature`, `top_p` and `stop_token_ids` that it honours."""
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What was found out besides, for people."""


@dataclass(frozen=True)
class Health:
    """Whether an engine takes requests."""

    status: Literal["ready", "loading", "degraded", "dead"]
    detail: str = ""


class EngineAdapter(Protocol):
    """An engine. All methods are called from one event loop; many requests run at a time.

    1. The ids of an output are the model's, including the token that ended it.
    2. The last delta has a finish reason, and no other. An output that breaks off raises `RequestError("engine_dead")`.
    3. What the engine cannot do is refused before the first delta, unless it is `best_effort`.
    4. Closing the iterator (`aclose`, cancellation) aborts the request and frees what it holds.
    5. After `abort`, the iterator gives what was made so far and ends with the reason `abort`.
    6. A consumer that is slow holds up its own request only.
    """

    async def capabilities(self) -> Capabilities:
        """Returns what the engine can do. Raises `EngineUnavailable`."""
        ...

    def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        """Starts a request and gives its output. Raises `RequestError` while iterated."""
        ...

    async def abort(self, request_id: str) -> bool:
        """Ends a request. Returns `False` if it is not running. May be called twice."""
        ...

    async def health(self) -> Health:
        """Returns whether the engine takes requests. Never raises."""
        ...

    async def aclose(self) -> None:
        """Ends everything that runs and closes connections."""
        ...


class Wrapped:
    """An engine around another one: a subclass says in `generate` what is different."""

    def __init__(self, engine: EngineAdapter):
        self._engine = engine

    async def capabilities(self) -> Capabilities:
        """Those of the engine inside."""
        return await self._engine.capabilities()

    async def abort(self, request_id: str) -> bool:
        """Aborts it in the engine inside."""
        return await self._engine.abort(request_id)

    async def health(self) -> Health:
        """That of the engine inside."""
        return await self._engine.health()

    async def aclose(self) -> None:
        """Closes the engine inside."""
        await self._engine.aclose()
