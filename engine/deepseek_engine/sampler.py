"""From logits to a token: what a request may ask for, in a fixed order, and randomness that is a function.

Each row is sampled by itself, so a request's tokens do not depend on its batch. Knows no sequence and no model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

_MASK = 2**64 - 1
MAX_LOGPROBS = 1000
TARGET = 0
"""The purpose of a draw: the token of a sequence."""


class RequestError(ValueError):
    """A request that the engine does not serve; the text names the field."""


@dataclass(frozen=True)
class SamplingParams:
    """What a request asks of its tokens.

    temperature 0 takes the most likely token. top_k -1: no limit. seed: any of 64 bits, None: a random one. logprobs:
    how many alternatives are reported beside the token itself, None: nothing. logprobs_mode: of the distribution that
    is drawn from (`processed`), or of the model's (`raw`). Until `min_tokens` are made no token can end the output.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int = 16
    min_tokens: int = 0
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    logprobs: int | None = None
    logprobs_mode: Literal["processed", "raw"] = "processed"

    def check(self, vocab_size: int) -> None:
        """Raises `RequestError` for a value outside its range, or an id outside the vocabulary."""
        ranges: dict[str, tuple[float, float]] = {
            "temperature": (0, math.inf),
            "top_p": (0, 1),
            "min_p": (0, 1),
            "presence_penalty": (-2, 2),
            "frequency_penalty": (-2, 2),
            "repetition_penalty": (0.01, 100),
            "max_tokens": (1, math.inf),
            "min_tokens": (0, math.inf),
            "seed": (0, _MASK),
            "logprobs": (0, MAX_LOGPROBS),
        }
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if value is not None and not (low <= value <= high and math.isfinite(value)):
                raise RequestError(f"'{name}' is {value}, must be from {low:g} to {high:g}")
        if self.top_p == 0:
            raise RequestError("'top_p' is 0, must be positive")
        if self.top_k != -1 and self.top_k < 1:
            raise RequestError(f"'top_k' is {self.top_k}, must be -1 or positive")
        if self.logprobs_mode not in ("processed", "raw"):
            raise RequestError(f"'logprobs_mode' is {self.logprobs_mode!r}, must be 'processed' or 'raw'")
        for name, ids in (("stop_token_ids", self.stop_token_ids), ("logit_bias", self.logit_bias)):
            for token in ids:
                if not 0 <= token < vocab_size:
                    raise RequestError(f"'{name}' has {token}, the vocabulary has {vocab_size} ids")
        for bias in self.logit_bias.values():
            if not -100 <= bias <= 100:
                raise RequestError(f"'logit_bias' has {bias}, must be from -100 to 100")


@dataclass(frozen=True)
class Sampled:
    """A token, its log probability, and the most likely ones with theirs; no log probabilities unless asked for."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


def sample(
    logits: Tensor,
    params: SamplingParams,
    prompt: Sequence[int],
    output: Sequence[int],
    banned: Iterable[int],
    seed: int,
) -> Sampled:
    """The next token of a sequence from its logits, [V].

    banned: ids that must not come, not all of them. seed: the sequence's. The order of what is done is part of the
    interface.

    Raises:
        ArithmeticError: the logits are not finite: the weights are broken.
    """
    if not logits.isfinite().all():
        raise ArithmeticError("the model's logits are not finite")
    scores = logits.clone()
    scores[list(banned)] = -torch.inf
    penalise(scores, params, prompt, output)
    for token, bias in params.logit_bias.items():
        scores[token] += bias
    logprobs = distribution(scores, params)
    token = draw(logprobs, seed, len(prompt) + len(output), TARGET)
    if params.logprobs is None:
        return Sampled(token)
    if params.logprobs_mode == "raw":
        logprobs = torch.log_softmax(logits.double(), -1)
    best = torch.sort(logprobs, descending=True, stable=True).indices[: params.logprobs].tolist()
    # What cannot be drawn is no alternative.
    top = ((other, logprobs[other].item()) for other in best if logprobs[other] > -torch.inf)
    return Sampled(token, logprobs[token].item(), tuple(top))


def penalise(scores: Tensor, params: SamplingParams, prompt: Sequence[int], output: Sequence[int]) -> None:
    """Lowers, in place, the scores of tokens that were there: `repetition_penalty` counts those of prompt and output,
    the other two those of the output."""
    if params.repetition_penalty != 1:
        seen = torch.tensor(sorted({*prompt, *output}))
        values = scores[seen]
        factor = params.repetition_penalty
        scores[seen] = torch.where(values > 0, values / factor, values * factor)
    if output and (params.presence_penalty or params.frequency_penalty):
        made, counts = torch.tensor(list(output)).unique(return_counts=True)
        scores[made] -= params.presence_penalty + params.frequency_penalty * counts


def distribution(scores: Tensor, params: SamplingParams) -> Tensor:
    """Log probabilities, fp64 [V]: temperature, then top-p, top-k and min-p, each on what the one before left.

    Top-p removes tokens before which there is more than `top_p` already, so that the first always stays. Equals are
    ranked by id.
    """
    if params.temperature == 0:
        one_hot = torch.full_like(scores, -torch.inf, dtype=torch.float64)
        one_hot[(scores == scores.max()).nonzero()[0, 0]] = 0
        return one_hot
    # The largest is zero, so that no temperature is too small.
    scaled = (scores - scores.max()).double() / params.temperature
    if params.top_p < 1 or params.top_k > 0 or params.min_p > 0:
        probabilities, order = torch.sort(torch.softmax(scaled, -1), descending=True, stable=True)
        kept = torch.ones_like(order, dtype=torch.bool)
        if params.top_p < 1:
            kept[1:] = probabilities.cumsum(0)[:-1] <= params.top_p
        if params.top_k > 0:
            kept[params.top_k :] = False
        kept &= probabilities >= params.min_p * probabilities[0]
        scaled[order[~kept]] = -torch.inf
    return torch.log_softmax(scaled, -1)


def draw(logprobs: Tensor, seed: int, position: int, purpose: int) -> int:
    """The id at which the cumulative probability, in order of ids, passes a number that is a function of the arguments.

    An id of probability zero is never drawn.
    """
    cumulative = logprobs.exp().cumsum(0)
    at = torch.searchsorted(cumulative, cumulative[-1] * uniform(seed, position, purpose), right=True)
    # Rounding may give the total itself, which nothing passes.
    last = torch.searchsorted(cumulative, cumulative[-1])
    return int(torch.minimum(at, last))


def uniform(seed: int, position: int, purpose: int) -> float:
    """A number in [0, 1) from a counter: the finaliser of splitmix64 over the three, whose top 53 bits it is."""
    x = (seed * 0x9E3779B97F4A7C15 ^ (3 * position + purpose) * 0xD1342543DE82EF95) & _MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _MASK
    return ((x ^ x >> 31) >> 11) * 2.0**-53
