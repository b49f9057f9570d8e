"""A running request, as a plain record: its tokens, what of them is computed, and what it holds of the cache."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Ids
from dataclasses import dataclass, field
from typing import Literal

from .sampler import SamplingParams

FinishReason = Literal["stop", "length", "abort", "preempted", "ignored"]
"""stop: a token that ends the output. length: a limit. ignored: the prompt is longer than the engine's limit."""


@dataclass(frozen=True)
class Request:
    """Ids to go on from. `request_id` is the caller's and must be unique among those that are not finished."""

    request_id: str
    prompt_token_ids: Ids[int]
    sampling: SamplingParams = field(default_factory=SamplingParams)


@dataclass(eq=False)
class Sequence:
    """A request on its way.

    tokens: prompt and output. num_tokens: how many of them are in the cache; a sequence that decodes has its newest
    token not there yet. pages: block table of the compressed caches. slot: its rings; None while it holds nothing.
    """

    request: Request
    seed: int
    arrival: int
    tokens: list[int]
    num_tokens: int = 0
    pages: list[int] = field(default_factory=list)
    slot: int | None = None
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None

    @property
    def prompt_length(self) -> int:
        return len(self.request.prompt_token_ids)

    @property
    def output(self) -> list[int]:
        return self.tokens[self.prompt_length :]

    @property
    def output_length(self) -> int:
        return len(self.tokens) - self.prompt_length

    def stop_ids(self, eos: int) -> set[int]:
        """The ids that end the output."""
        sampling = self.request.sampling
        return {*sampling.stop_token_ids, *(() if sampling.ignore_eos else (eos,))}

    def push(self, sampled: Iterable[int], eos: int, max_length: int) -> int:
        """Appends tokens one by one until one ends the output, and says why. What comes behind it is dropped.

        The checks have an order: a token that stops, more than `max_length` tokens in all, `max_tokens` of output.
        Returns how many were appended.
        """
        sampling, stop_ids, pushed = self.request.sampling, self.stop_ids(eos), 0
        for token in sampled:
            if self.finish_reason is not None:
                break
            self.tokens.append(token)
            pushed += 1
            if token in stop_ids:
                self.finish_reason, self.stop_token_id = "stop", token
            elif len(self.tokens) > max_length or self.output_length >= sampling.max_tokens:
                self.finish_reason = "length"
        return pushed
