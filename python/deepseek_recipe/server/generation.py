"""One answer: what an engine gives becomes the bytes of a reply. Knows no connection and no other answer."""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeAlias

from .._native import InferenceChunk, PromptUsage
from ..adapters import Capabilities, EngineAdapter, GenerateRequest, RequestError, TokenDelta
from ..recipe import Reply
from .constraint import generate

_log = logging.getLogger("deepseek_recipe.server")

_VOCABULARY = 129_280
"""Ids of both built-in vocabularies are below it."""

Edit: TypeAlias = Callable[["Generation", bytes], bytes]
"""Changes the first and the last bytes of a stream: what the protocol says around an answer, not in it."""


class Generation:
    """A request at an engine and the reply that it makes.

    `edit` changes the stream's first and last bytes. `on_finish` runs before the last bytes are given out, so that what
    they announce is true; it is not called where the output failed. Where it fails itself, the answer is given all the
    same, and a log line says so.
    """

    def __init__(
        self,
        engine: EngineAdapter,
        capabilities: Capabilities,
        request: GenerateRequest,
        reply: Reply,
        *,
        edit: Edit | None = None,
        on_finish: Callable[[Generation], Awaitable[None]] | None = None,
    ):
        self._engine = engine
        self._capabilities = capabilities
        self._vocabulary = capabilities.vocab_size or _VOCABULARY
        self._edit = edit
        self._on_finish = on_finish
        self.request: GenerateRequest = request
        self.reply: Reply = reply
        self.opened: bool = False
        """Whether the stream's first bytes have been made: from then on a failure is part of the stream."""
        self.ended: bool = False
        """Whether the stream's last bytes have been made: nothing more is wanted of the engine."""
        self.failure: RequestError | None = None
        self.finish_reason: str | None = None
        self.output_ids: array[int] = array("I")
        """What the engine has given."""
        self.cached_tokens: int = 0
        self.first_at: float | None = None
        """When the first ids came, by `time.monotonic`."""
        self.last_at: float = time.monotonic()
        """When the engine was last heard of."""

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The stream. Raises `RequestError` where the engine fails before the first bytes; later it is an event."""
        # One generator for all of it: each one more is a part of what a token costs.
        deltas = generate(self._engine, self._capabilities, self.request)
        try:
            try:
                async for delta in deltas:
                    self.last_at = time.monotonic()
                    sent = self._push(delta)
                    if self.reply.finished:
                        await self._finish()
                        self.ended = True
                        yield self._edited(sent)
                        return
                    if sent:
                        yield sent
                    if delta.finish_reason == "abort":
                        raise RequestError("engine_dead", "the engine aborted the request")
                raise RequestError("engine_dead", "the engine's output ended without a finish reason")
            finally:
                await deltas.aclose()
        except RequestError as error:
            failure = error
        except Exception as error:
            _log.exception("the adapter failed", extra={"request_id": self.request.request_id})
            failure = RequestError("engine_dead", "the engine failed")
            failure.__cause__ = error
        if not self.opened:
            raise failure
        self.ended = True
        yield self.fail(failure)

    async def _finish(self) -> None:
        if self._on_finish is not None:
            try:
                await self._on_finish(self)
            except Exception:
                _log.exception("an answer could not be kept", extra={"request_id": self.request.request_id})

    def _push(self, delta: TokenDelta) -> bytes:
        ids, reason, reply = delta.token_ids, delta.finish_reason, self.reply
        # Before anything is made of it: what has been made has to be given out.
        _check(delta, self._vocabulary)
        sent = b"" if self.opened or not (ids or reason) else self._open(delta)
        if ids:
            self.output_ids.extend(ids)
            sent += reply.push_sse(InferenceChunk.tokens(ids, delta.logprobs))
        if reply.finished:
            self.finish_reason = "stop"
            return sent + reply.finish_sse()
        if reason is None or reason == "abort":
            return sent
        self.finish_reason = reason
        return sent + reply.finish_sse(reason)

    def _open(self, delta: TokenDelta) -> bytes:
        prompt_tokens = self.request.prompt_tokens
        if delta.usage is not None:
            self.cached_tokens = min(delta.usage.cached_prompt, prompt_tokens)
        self.opened = True
        self.first_at = self.last_at
        usage = PromptUsage(prompt_tokens=prompt_tokens, prompt_cache_hit_tokens=self.cached_tokens)
        return self._edited(self.reply.push_sse(InferenceChunk.ready(prompt_usage=usage)))

    def fail(self, error: RequestError) -> bytes:
        """Ends an opened stream as failed and returns its last bytes."""
        if self.reply.finished:
            return b""
        self.failure = error
        code = "overloaded" if error.kind == "overloaded" else "server_error"
        sent = self.reply.push_sse(InferenceChunk.error(error.message, code))
        return self._edited(sent + self.reply.finish_sse(None))

    def _edited(self, sent: bytes) -> bytes:
        return sent if self._edit is None else self._edit(self, sent)


def _check(delta: TokenDelta, vocabulary: int) -> None:
    ids, logprobs, reason = delta.token_ids, delta.logprobs, delta.finish_reason
    if ids and (min(ids) < 0 or max(ids) >= vocabulary):
        raise RequestError("engine_dead", "the engine gave an id that is not in the vocabulary")
    if logprobs is not None and len(logprobs) != len(ids):
        raise RequestError("engine_dead", "the engine's log probabilities are not one an id")
    if reason not in (None, "stop", "length", "content_filter", "abort"):
        raise RequestError("engine_dead", "the engine ended for no known reason")
