"""When an output ends, P-18."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepseek_engine.sampler import SamplingParams
from deepseek_engine.sequence import FinishReason, Request, Sequence

EOS = 1


def sequence(prompt: int, sampling: SamplingParams) -> Sequence:
    ids = [9] * prompt
    return Sequence(Request("a", ids, sampling), 0, 0, list(ids))


@pytest.mark.parametrize(
    ("sampling", "tokens", "kept", "reason", "stop"),
    [
        (SamplingParams(max_tokens=5), [3, EOS, 4], 2, "stop", EOS),
        (SamplingParams(max_tokens=5, ignore_eos=True), [3, EOS, 4], 3, None, None),
        (SamplingParams(max_tokens=5, stop_token_ids=(4, 7)), [3, 7, 4], 2, "stop", 7),
        (SamplingParams(max_tokens=5, stop_token_ids=(EOS,), ignore_eos=True), [EOS], 1, "stop", EOS),
        (SamplingParams(max_tokens=2), [3, 4, 5], 2, "length", None),
        (SamplingParams(max_tokens=2), [3, EOS, 5], 2, "stop", EOS),  # a stop at the limit is a stop
        (SamplingParams(max_tokens=50), [3] * 30, 18, "length", None),  # one more than 20 in all
        (SamplingParams(max_tokens=50), [3] * 17 + [EOS, 3], 18, "stop", EOS),
        (SamplingParams(max_tokens=50), [3, 4], 2, None, None),
        (SamplingParams(max_tokens=50), [], 0, None, None),
    ],
)
def test_p18_the_checks_have_an_order(
    sampling: SamplingParams, tokens: list[int], kept: int, reason: FinishReason | None, stop: int | None
) -> None:
    """A token that stops comes before the limits; what comes behind the end is dropped."""
    found = sequence(3, sampling)
    assert found.push(tokens, EOS, max_length=20) == kept
    assert found.output == tokens[:kept]
    assert (found.finish_reason, found.stop_token_id) == (reason, stop)


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 20), st.integers(0, 5), st.data())
def test_p18_several_tokens_at_once_are_one_by_one(
    tokens: list[int], limit: int, stop: int, data: st.DataObject
) -> None:
    """Any cut of the tokens into pushes gives the same output, reason and stop token."""
    sampling = SamplingParams(max_tokens=limit, stop_token_ids=(stop,))
    whole, cut = sequence(3, sampling), sequence(3, sampling)
    whole.push(tokens, EOS, 20)
    rest = tokens
    while rest:
        count = data.draw(st.integers(1, len(rest)))
        cut.push(rest[:count], EOS, 20)
        rest = rest[count:]
    assert (whole.tokens, whole.finish_reason, whole.stop_token_id) == (
        cut.tokens,
        cut.finish_reason,
        cut.stop_token_id,
    )
