"""The operations: P-01, P-02, P-04, and that a row's bits depend on that row alone."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deepseek_engine import ops
from deepseek_engine.config import PRESETS, RopeScaling
from deepseek_engine.quantised import FP8_BLOCK, Quantised
from steps import relative_error


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_p01_rmsnorm() -> None:
    """A row has root mean square one before the weight; zero stays finite; fp64 stays fp64."""
    x, weight = normal(5, 64), normal(64, seed=1)
    y = ops.rmsnorm(x, torch.ones(64), 1e-20)
    torch.testing.assert_close(y.square().mean(-1), torch.ones(5), rtol=1e-6, atol=0)
    torch.testing.assert_close(ops.rmsnorm(x, weight, 1e-20), y * weight, rtol=1e-6, atol=1e-7)
    assert torch.equal(ops.rmsnorm(torch.zeros(1, 64), weight, 1e-20), torch.zeros(1, 64))
    assert ops.rmsnorm(x.double(), weight, 1e-20).dtype == torch.float64


@pytest.mark.parametrize("scaling", [None, PRESETS["tiny"].rope_scaling])
def test_p01_rope(scaling: RopeScaling | None) -> None:
    """Turning back is the identity, only the last elements turn, pairs are interleaved, and dot products depend on the
    distance of positions alone."""
    frequency = ops.rope_frequencies(8, 10000.0, scaling)
    positions = torch.tensor([0, 1, 5, 700])
    x = normal(4, 3, 32, dtype=torch.float64)
    turned = ops.rope(x, positions, frequency)
    torch.testing.assert_close(ops.rope(turned, positions, frequency, inverse=True), x, rtol=1e-9, atol=1e-9)
    assert torch.equal(turned[..., :24], x[..., :24]) and torch.equal(turned[0], x[0])
    angle = 5 * frequency[1]
    a, b = x[2, 0, 26], x[2, 0, 27]
    torch.testing.assert_close(turned[2, 0, 26], a * torch.cos(angle) - b * torch.sin(angle))
    torch.testing.assert_close(turned[2, 0, 27], a * torch.sin(angle) + b * torch.cos(angle))
    query, key = normal(1, 32, seed=1, dtype=torch.float64), normal(1, 32, seed=2, dtype=torch.float64)

    def product(at: int, other: int) -> torch.Tensor:
        return (ops.rope(query, torch.tensor([at]), frequency) * ops.rope(key, torch.tensor([other]), frequency)).sum()

    torch.testing.assert_close(product(3, 10), product(503, 510), rtol=1e-9, atol=1e-9)


def test_p01_yarn_ramp() -> None:
    """For 8 rotary elements, theta 160000 and factor 4 over 64 positions the angles are those computed by hand:
    d(32) = 8 ln(64 / (32 * 2 pi)) / (2 ln 160000) = -0.38, so low = 0; d(1) = 0.77, so high = 1; the ramp is
    0, 1, 1, 1.
    """
    found = ops.rope_frequencies(8, 160000.0, RopeScaling(4.0, 64, 32.0, 1.0))
    expected = torch.tensor([1.0, 0.05 / 4, 0.0025 / 4, 0.000125 / 4], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


@given(st.integers(0, 2**32 - 1), st.permutations(range(4)))
def test_p02_sinkhorn(seed: int, order: list[int]) -> None:
    """Rows and columns sum to one, values are positive, and permuting the streams permutes the result."""
    logits = normal(6, 4, 4, seed=seed) / 2
    matrix = ops.sinkhorn(logits, 20, 1e-6)
    assert (matrix > 0).all()
    assert (matrix.sum(-1) - 1).abs().max() < 1e-4 and (matrix.sum(-2) - 1).abs().max() < 1e-4
    permuted = ops.sinkhorn(logits[:, order][:, :, order], 20, 1e-6)
    torch.testing.assert_close(permuted, matrix[:, order][:, :, order], rtol=1e-4, atol=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_p04_attention_over_all_keys_is_dense(seed: int, count: int) -> None:
    """With every key visible it is softmax with one more logit, the sink's, that has no value; the order of keys does
    not matter, and zeroed keys that are not visible do not count."""
    queries, keys, sink = normal(3, 4, 32, seed=seed), normal(3, count, 32, seed=seed + 1), normal(4, seed=seed + 2)
    seen = torch.ones(3, count, dtype=torch.bool)
    found = ops.sink_attention(queries, keys, seen, sink)
    scores = torch.einsum("thd,tkd->thk", queries, keys) / math.sqrt(32)
    weights = torch.cat([scores, sink.expand(3, 4)[..., None]], -1).softmax(-1)[..., :-1]
    expected = torch.einsum("thk,tkd->thd", weights, keys)
    assert relative_error(found, expected) < 1e-5
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    assert relative_error(ops.sink_attention(queries, keys[:, order], seen, sink), expected) < 1e-5
    more, some = torch.cat([keys, torch.zeros(3, 2, 32)], 1), torch.cat([seen, torch.zeros(3, 2, dtype=torch.bool)], 1)
    assert relative_error(ops.sink_attention(queries, more, some, sink), expected) < 1e-5


def test_p04_a_query_without_keys_gives_zero() -> None:
    """Only the sink counts then, and it has no value; also for extreme sinks nothing is NaN."""
    hidden = torch.zeros(2, 5, dtype=torch.bool)
    for sink in (-1e4, 0.0, 1e4):
        found = ops.sink_attention(normal(2, 4, 32), torch.zeros(2, 5, 32), hidden, torch.full((4,), sink))
        assert torch.equal(found, torch.zeros(2, 4, 32))


def test_stable_topk_takes_the_lowest_index_of_equals() -> None:
    """Of equal scores the lowest indices come first; fewer than k are all returned."""
    assert ops.stable_topk(torch.tensor([1.0, 2.0, 2.0, 2.0, 0.0]), 3).tolist() == [1, 2, 3]
    assert ops.stable_topk(torch.zeros(2, 3), 8).tolist() == [[0, 1, 2]] * 2


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_p56_bits_of_a_row_depend_on_the_row_alone(threads: int, dtype: torch.dtype) -> None:
    """The same row gives the same bits alone, in any place of a batch and in a batch of any length. Rows of 7 elements
    stand sometimes in a vector register and sometimes behind the last."""
    wide, narrow, weight = (
        normal(200, 64, dtype=dtype),
        normal(200, 7, dtype=dtype),
        normal(96, 64, seed=1, dtype=dtype),
    )
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for x, function in (
            (wide, lambda y: ops.linear(y, weight)),
            *((narrow, f) for f in (ops.sigmoid, ops.silu, ops.softplus)),
        ):
            whole = function(x)
            for start, stop in ((0, 1), (1, 2), (63, 65), (3, 130), (199, 200)):
                assert torch.equal(function(x[start:stop].clone()), whole[start:stop])
    finally:
        torch.set_num_threads(before)


def test_elementwise_functions_are_those_of_torch() -> None:
    """Written with exp and log, they agree with torch's own, also far out."""
    x = torch.cat([normal(1000), torch.tensor([-200.0, -90.0, 0.0, 90.0, 200.0])])
    for ours, theirs in (
        (ops.sigmoid, torch.sigmoid),
        (ops.silu, torch.nn.functional.silu),
        (ops.softplus, torch.nn.functional.softplus),
    ):
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-6)


def test_linear_dequantises() -> None:
    """A quantised matrix multiplies as its values do."""
    stored = torch.randint(0, 120, (40, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    matrix = Quantised(stored, torch.full((2, 2), 127, dtype=torch.uint8), FP8_BLOCK)
    x = normal(3, 64)
    assert torch.equal(ops.linear(x, matrix), ops.linear(x, matrix.dense(torch.float32)))
