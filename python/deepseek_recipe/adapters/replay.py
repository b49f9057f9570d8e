"""An engine without a model: it plays recorded or scripted outputs, and a demonstration where there are none.

It needs nothing but the codec, so it serves tests, demos and the first start of the gateway. `Recorder` makes the
recordings.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from array import array
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, cast

from .._native import ModelVersion, SpecialToken, Tokenizer, __version__
from .base import (
    Capabilities,
    EngineAdapter,
    FinishReason,
    GenerateRequest,
    Health,
    RequestError,
    TokenDelta,
    Usage,
    Wrapped,
)

_FINISH_REASONS = ("stop", "length", "content_filter", "error")


@dataclass(frozen=True)
class ReplayOutput:
    """One output, and for which prompt it is."""

    ids: Sequence[int]
    finish_reason: str = "stop"
    """`stop`, `length`, `content_filter`, or `error`: the engine breaks off."""
    match: str | None = None
    """Only for prompts in whose text this stands."""
    prompt_sha256: str | None = None
    """Only for the prompt whose ids, as little-endian uint32, have this digest, in hexadecimal."""


class ReplayEngine:
    """Plays outputs. For a prompt it takes the one with its digest, else the first whose `match` is in its text, else
    the next of those that are for any prompt, round and round; without any, it says what it is.

    `pace` is the time in seconds between deltas of `tokens_per_delta` ids. Constraints are taken and not enforced: the
    outputs are given. Log probabilities are those of a model that is certain.
    """

    def __init__(
        self,
        outputs: Iterable[ReplayOutput | str] = (),
        *,
        version: ModelVersion = ModelVersion.DeepseekV41Flash,
        pace: float = 0.0,
        tokens_per_delta: int = 1,
        max_model_len: int = 1_048_576,
    ):
        if tokens_per_delta < 1 or not 0 <= pace < math.inf:
            raise ValueError("tokens_per_delta has to be at least 1, and pace at least 0 and finite")
        self.tokenizer: Tokenizer = Tokenizer.builtin(version)
        self._version = version
        self._pace = pace
        self._step = tokens_per_delta
        self._max_model_len = max_model_len
        made = [output if isinstance(output, ReplayOutput) else self.output(output) for output in outputs]
        self._by_digest = {output.prompt_sha256: output for output in made if output.prompt_sha256 is not None}
        self._by_match = [output for output in made if output.match is not None and output.prompt_sha256 is None]
        self._in_turn = [output for output in made if output.match is None and output.prompt_sha256 is None]
        self._next = 0
        self._running: dict[str, bool] = {}
        """Running requests, and whether they are aborted."""

    @classmethod
    def from_file(cls, path: str | Path, **options: Any) -> ReplayEngine:
        """Reads outputs from a file: one JSON object a line, with `text` (special tokens spelled out) or `ids`, and as
        wanted `finish_reason`, `match` and `prompt_sha256`. Raises `ValueError` with the line, and `OSError`."""
        engine = cls(**options)
        outputs: list[ReplayOutput] = []
        for number, line in enumerate(Path(path).read_text(encoding="utf-8").split("\n"), 1):
            if line.strip():
                try:
                    outputs.append(engine._read(json.loads(line)))
                except (ValueError, TypeError, OverflowError) as error:
                    raise ValueError(f"{path}: line {number}: {error}") from error
        return cls(outputs, **options)

    def output(self, text: str, finish_reason: str = "stop", match: str | None = None) -> ReplayOutput:
        """An output from its text, special tokens spelled out, with the end token where it ended by itself."""
        ids = self.tokenizer.encode(text)
        return ReplayOutput(self._ended(ids, finish_reason), finish_reason, match)

    @property
    def running(self) -> int:
        """How many requests are running."""
        return len(self._running)

    async def capabilities(self) -> Capabilities:
        """Never raises: there is nothing to ask."""
        name = "DeepSeek-V4-Pro" if self._version == ModelVersion.DeepseekV4Pro else "DeepSeek-V4.1-Flash"
        return Capabilities(
            name="replay",
            version=__version__,
            model_id=name,
            max_model_len=self._max_model_len,
            constraints=frozenset({"json_schema", "json_object", "regex", "tools"}),
            constraint_trigger=True,
            logprobs=20,
            images=True,
            sampling=frozenset({"seed", "top_k", "min_p", "repetition_penalty"}),
        )

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        """See `EngineAdapter.generate`."""
        prompt, sampling = request.prompt_token_ids, request.sampling
        limit = min(sampling.max_tokens, self._max_model_len - request.prompt_tokens)
        if limit < 1:
            raise RequestError("too_long", f"the prompt has {len(prompt)} tokens of at most {self._max_model_len}")
        if request.request_id in self._running:
            raise RequestError("bad_param", f"request {request.request_id} is running already")
        self._running[request.request_id] = False
        try:
            output = self._choose(prompt)
            ids, reason = _cut(output, limit, sampling.stop_token_ids)
            for start in range(0, len(ids), self._step):
                if self._pace:
                    await asyncio.sleep(self._pace)
                if self._running[request.request_id]:
                    yield TokenDelta((), None, "abort", Usage(len(prompt), 0, start))
                    return
                step = ids[start : start + self._step]
                yield TokenDelta(step, _logprobs(step, sampling.logprobs))
            if reason == "error":
                raise RequestError("engine_dead", "the engine broke off")
            yield TokenDelta((), None, cast(FinishReason, reason), Usage(len(prompt), 0, len(ids)))
        finally:
            del self._running[request.request_id]

    async def abort(self, request_id: str) -> bool:
        """See `EngineAdapter.abort`."""
        running = request_id in self._running
        if running:
            self._running[request_id] = True
        return running

    async def health(self) -> Health:
        """Always ready."""
        return Health("ready")

    async def aclose(self) -> None:
        """Ends everything that runs, at its next delta."""
        for request_id in self._running:
            self._running[request_id] = True

    def _read(self, line: Any) -> ReplayOutput:
        if not isinstance(line, dict):
            raise TypeError("expected an object")
        fields = cast("dict[str, Any]", line)
        if unknown := fields.keys() - {"text", "ids", "finish_reason", "match", "prompt_sha256"}:
            raise ValueError(f"unknown field {min(unknown)!r}")
        reason = fields.get("finish_reason", "stop")
        if reason not in _FINISH_REASONS:
            raise ValueError(f"invalid finish_reason {reason!r}; expected {', '.join(_FINISH_REASONS)}")
        if ("text" in fields) == ("ids" in fields):
            raise ValueError("expected either 'text' or 'ids'")
        if "text" in fields:
            ids = self._ended(self.tokenizer.encode(fields["text"]), reason)
        else:
            ids = list(array("I", fields["ids"]))
        return ReplayOutput(ids, reason, fields.get("match"), fields.get("prompt_sha256"))

    def _ended(self, ids: list[int], finish_reason: str) -> list[int]:
        end = self.tokenizer.special_id(SpecialToken.Eos.default_str())
        return [*ids, end] if finish_reason == "stop" and end is not None and ids[-1:] != [end] else ids

    def _choose(self, prompt: Sequence[int] | memoryview) -> ReplayOutput:
        if self._by_digest and (found := self._by_digest.get(prompt_digest(prompt))):
            return found
        if self._by_match:
            text = self._text(prompt)
            for output in self._by_match:
                if output.match is not None and output.match in text:
                    return output
        if not self._in_turn:
            return self._demonstration(list(prompt))
        self._next += 1
        return self._in_turn[(self._next - 1) % len(self._in_turn)]

    def _text(self, ids: Sequence[int] | memoryview) -> str:
        tokens = (self.tokenizer.token(id) for id in ids)
        return b"".join(token.encode() if isinstance(token, str) else token or b"" for token in tokens).decode(
            errors="replace"
        )

    def _demonstration(self, prompt: list[int]) -> ReplayOutput:
        special, encode = self.tokenizer.special_id, self.tokenizer.encode
        ids: list[int] = []
        if prompt[-1:] == [special(SpecialToken.ThinkingStart.default_str())]:
            ids += encode(
                "The replay engine has no model, so I say what I am." + SpecialToken.ThinkingEnd.default_str()
            )
        ids += encode(
            "This is the replay engine: it plays outputs and has no model. "
            f"Your prompt has {len(prompt)} tokens. Its last message: "
        )
        # The ids as they stand in the prompt: what a user spells is text and stays text.
        user, assistant = special(SpecialToken.User.default_str()), special(SpecialToken.Assistant.default_str())
        if user in prompt:
            last = prompt[len(prompt) - prompt[::-1].index(user) :]
            ids += last[: last.index(assistant)][:200] if assistant in last else last[:200]
        return ReplayOutput(self._ended(ids, "stop"))


class Recorder(Wrapped):
    """An engine that writes what another one says, in the form that `ReplayEngine.from_file` reads.

    The file has outputs and digests of prompts, but no prompts. An output is written when it ended by itself. The file
    is the caller's to close.
    """

    def __init__(self, engine: EngineAdapter, file: TextIO):
        super().__init__(engine)
        self._file = file

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        """The engine's output."""
        ids: list[int] = []
        deltas = self._engine.generate(request)
        try:
            async for delta in deltas:
                ids += delta.token_ids
                if delta.finish_reason not in (None, "abort"):
                    line = {
                        "ids": ids,
                        "finish_reason": delta.finish_reason,
                        "prompt_sha256": prompt_digest(request.prompt_token_ids),
                    }
                    self._file.write(json.dumps(line) + "\n")
                    self._file.flush()
                yield delta
        finally:
            await deltas.aclose()


def prompt_digest(prompt: Sequence[int] | memoryview) -> str:
    """The SHA-256 of a prompt's ids as little-endian uint32, in hexadecimal."""
    digest = hashlib.sha256()
    for start in range(0, len(prompt), 65536):
        digest.update(b"".join(id.to_bytes(4, "little") for id in prompt[start : start + 65536]))
    return digest.hexdigest()


def _cut(output: ReplayOutput, limit: int, stop_ids: tuple[int, ...]) -> tuple[Sequence[int], str]:
    """The ids that a request gets, and why they end there."""
    for count, id in enumerate(output.ids[:limit], 1):
        if id in stop_ids:
            return output.ids[:count], "stop"
    return (output.ids, output.finish_reason) if len(output.ids) <= limit else (output.ids[:limit], "length")


def _logprobs(ids: Sequence[int], alternatives: int | None) -> list[tuple[float, list[tuple[int, float]]]] | None:
    if alternatives is None:
        return None
    return [(0.0, [(id, 0.0)] if alternatives else []) for id in ids]
