"""Sampling: P-16, P-17 and P-19."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deepseek_engine.sampler import (
    TARGET,
    RequestError,
    SamplingParams,
    distribution,
    draw,
    penalise,
    sample,
    uniform,
)

# What chi-square exceeds with probability 1e-3, by degrees of freedom.
CHI_SQUARE = {1: 10.83, 3: 16.27, 5: 20.52, 6: 22.46, 9: 27.88}


@pytest.mark.parametrize(
    ("probabilities", "draws"),
    [([0.5, 0, 0.2, 0.1, 0.1, 0, 0.06, 0.04], 200_000), ([0, 0, 0.25, 0.75, 0], 20_000), ([0.1] * 10, 20_000)],
)
def test_p16_draws_follow_the_distribution(probabilities: list[float], draws: int) -> None:
    """Over positions and seeds the ids come as often as their probabilities say; those of probability 0 never."""
    logprobs = torch.tensor(probabilities, dtype=torch.float64).log()
    for seeds in (False, True):
        count = draws // 2
        keys = ((n * 977, 5) if seeds else (42, n) for n in range(count))
        found = Counter(draw(logprobs, seed, position, TARGET) for seed, position in keys)
        assert all(probabilities[token] > 0 for token in found)
        possible = [(found[token], p * count) for token, p in enumerate(probabilities) if p > 0]
        assert sum((seen - mean) ** 2 / mean for seen, mean in possible) < CHI_SQUARE[len(possible) - 1]


def test_p16_randomness_is_a_function() -> None:
    """The number depends on seed, position and purpose alone, as computed with unsigned integers of 64 bits."""

    def by_hand(seed: int, position: int, purpose: int) -> float:
        with np.errstate(over="ignore"):
            x = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
            x = x ^ np.uint64(3 * position + purpose) * np.uint64(0xD1342543DE82EF95)
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
                x = (x ^ x >> np.uint64(shift)) * np.uint64(factor)
            return float((x ^ x >> np.uint64(31)) >> np.uint64(11)) * 2.0**-53

    keys = [
        (seed, position, purpose)
        for seed in (0, 1, 2**63, 2**64 - 1)
        for position in (0, 7, 2**20)
        for purpose in range(3)
    ]
    assert [uniform(*key) for key in keys] == [by_hand(*key) for key in keys]
    assert len({uniform(*key) for key in keys}) == len(keys)
    assert all(0 <= uniform(*key) < 1 for key in keys)


def test_p16_the_last_possible_id_takes_the_rest() -> None:
    """Where rounding brings the number to the total, the last id that is possible is drawn, not one behind it."""
    logprobs = torch.tensor([0.3, 0.7, 0.0, 0.0], dtype=torch.float64).log()
    assert {draw(logprobs, seed, 0, TARGET) for seed in range(200)} == {0, 1}


def naive_kept(scores: list[float], params: SamplingParams) -> set[int]:
    """Top-p, top-k and min-p with Python's lists."""
    weights = [math.exp((score - max(scores)) / params.temperature) for score in scores]
    probabilities = [weight / math.fsum(weights) for weight in weights]
    order = sorted(range(len(scores)), key=lambda token: (-probabilities[token], token))
    kept: list[int] = []
    before = 0.0
    for token in order:
        if before > params.top_p:
            break
        kept.append(token)
        before += probabilities[token]
    if params.top_k > 0:
        kept = kept[: params.top_k]
    return {
        token
        for token in kept
        if probabilities[token] >= params.min_p * probabilities[order[0]] and probabilities[token]
    }


# Few values, so that there are ties; top-p values that no sum of such probabilities comes near.
SCORES = st.lists(st.sampled_from([-math.inf, -2.0, 0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=30)


@given(
    SCORES.filter(lambda scores: max(scores) > -math.inf),
    st.sampled_from([1e-9, 0.1234567, 0.5123457, 0.9034561, 1.0]),
    st.sampled_from([-1, 1, 2, 5, 100]),
    st.sampled_from([0.0, 0.0501234, 0.4012345, 1.0]),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_p17_filters(scores: list[float], top_p: float, top_k: int, min_p: float, temperature: float) -> None:
    """Top-p, top-k and min-p keep what a plain loop keeps; what is left sums to one in the same proportions."""
    params = SamplingParams(temperature=temperature, top_p=top_p, top_k=top_k, min_p=min_p)
    logprobs = distribution(torch.tensor(scores), params)
    kept = set(logprobs.isfinite().nonzero().flatten().tolist())
    assert kept == naive_kept(scores, params)
    first = scores.index(max(scores))
    assert first in kept
    if top_p < 1e-6 or top_k == 1:
        assert kept == {first}
    assert abs(logprobs.exp().sum() - 1) < 1e-9
    for token in kept:
        expected = (scores[token] - scores[first]) / temperature
        assert abs(logprobs[token] - logprobs[first] - expected) < 1e-9


def test_p17_greedy_takes_the_lowest_of_the_best() -> None:
    """Temperature 0 gives the lowest id of the highest score, whatever else is asked."""
    for params in (SamplingParams(temperature=0), SamplingParams(temperature=0, top_p=0.1, top_k=3, min_p=0.5)):
        logprobs = distribution(torch.tensor([0.0, 2.0, 1.0, 2.0]), params)
        assert logprobs.tolist() == [-math.inf, 0.0, -math.inf, -math.inf]


@pytest.mark.parametrize("temperature", [5e-324, 1e-30, 1e300])
def test_p17_any_temperature_gives_a_distribution(temperature: float) -> None:
    """The smallest temperatures are greedy, the largest uniform; nothing overflows."""
    logprobs = distribution(torch.tensor([-30.0, 2.0, 1.0, -math.inf]), SamplingParams(temperature=temperature))
    expected = [1 / 3, 1 / 3, 1 / 3, 0] if temperature > 1 else [0, 1, 0, 0]
    assert logprobs.exp().tolist() == pytest.approx(expected)


def test_logits_that_are_not_finite_are_a_fault() -> None:
    """Broken weights are reported, not sampled from."""
    for value in (math.nan, math.inf):
        with pytest.raises(ArithmeticError, match="not finite"):
            sample(torch.tensor([0.0, value]), SamplingParams(), [1], [], [], 0)


def test_p19_log_probabilities() -> None:
    """What is reported is the log-softmax of what is drawn from, or of the model's logits; alternatives come best first
    and can be drawn."""
    logits = torch.randn(50, generator=torch.Generator().manual_seed(0))
    params = SamplingParams(temperature=0.7, top_p=0.8, logit_bias={3: 1.5}, logprobs=5)
    biased = logits.clone()
    biased[3] += 1.5
    biased[7] = -math.inf
    found = sample(logits, params, [1, 2], [], [7], seed=11)
    expected = distribution(biased, params)
    assert found.logprob == pytest.approx(expected[found.token].item(), rel=1e-6)
    order = sorted(range(50), key=lambda token: -expected[token].item())[:5]
    assert [token for token, _ in found.top] == order
    assert [value for _, value in found.top] == pytest.approx(expected[order].tolist(), rel=1e-6)

    raw = sample(
        logits, SamplingParams(temperature=0.7, top_p=0.8, logprobs=50, logprobs_mode="raw"), [1, 2], [], [], 11
    )
    plain = torch.log_softmax(logits.double(), -1)
    assert len(raw.top) == 50 and raw.logprob == pytest.approx(plain[raw.token].item(), rel=1e-6)
    assert dict(raw.top) == pytest.approx(dict(enumerate(plain.tolist())), rel=1e-6)

    greedy = sample(logits, SamplingParams(temperature=0, logprobs=5), [1], [], [], 0)
    assert (greedy.logprob, greedy.top) == (0.0, ((int(logits.argmax()), 0.0),))
    assert sample(logits, SamplingParams(), [1], [], [], 0).logprob is None
    assert sample(logits, SamplingParams(logprobs=0), [1], [], [], 0).top == ()


def test_the_logits_of_the_model_are_left_as_they_are() -> None:
    """Sampling works on a copy."""
    logits = torch.randn(20, generator=torch.Generator().manual_seed(0))
    before = logits.clone()
    sample(logits, SamplingParams(logit_bias={1: 5.0}, presence_penalty=1.0, repetition_penalty=2.0), [1], [2], [3], 0)
    assert torch.equal(logits, before)


def test_penalties() -> None:
    """Presence and frequency count what was made; repetition divides or multiplies what was seen at all."""
    scores = torch.tensor([2.0, -2.0, 1.0, 1.0, 1.0])
    penalise(
        scores, SamplingParams(repetition_penalty=2.0, presence_penalty=0.5, frequency_penalty=0.25), [0, 1, 1], [2, 2]
    )
    assert scores.tolist() == [1.0, -4.0, 0.5 - 0.5 - 0.5, 1.0, 1.0]
    scores = torch.tensor([2.0, 1.0])
    penalise(scores, SamplingParams(presence_penalty=0.5), [0], [])
    assert scores.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"temperature": math.inf}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 1.5}, "min_p"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"stop_token_ids": (512,)}, "stop_token_ids"),
        ({"logit_bias": {-1: 1.0}}, "logit_bias"),
        ({"logit_bias": {1: math.inf}}, "logit_bias"),
        ({"logit_bias": {1: 1e300}}, "logit_bias"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"frequency_penalty": 1e300}, "frequency_penalty"),
        ({"presence_penalty": math.nan}, "presence_penalty"),
        ({"logprobs": 1001}, "logprobs"),
        ({"logprobs_mode": "other"}, "logprobs_mode"),
    ],
)
def test_parameters_outside_their_range_are_refused(change: dict[str, Any], name: str) -> None:
    """The error names the parameter."""
    SamplingParams().check(512)
    with pytest.raises(RequestError, match=f"'{name}'"):
        SamplingParams(**change).check(512)
