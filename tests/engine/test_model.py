"""The model's parts, P-03, P-05, P-06 and P-08, and the whole against two other programs, P-09 to P-13 and P-56."""

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracle_numpy
import reference
from deepseek_engine import ops
from deepseek_engine.model import Experts, HyperConnection, candidate_blocks, choose, collapse, expand, score
from deepseek_engine.weights import Weights
from steps import TINY, Runner, Text, build, prompt, relative_error, tiny_weights


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_p03_one_hot_connections_are_a_plain_residual() -> None:
    """With fn 0 and bases that read stream 0, add once and keep the streams apart, stream 0 is a pre-norm residual
    network: x + f(norm(x)), sub-layer after sub-layer."""
    base = torch.cat([torch.tensor([20.0] + [-20.0] * 3), torch.zeros(4), (torch.eye(4) * 40 - 20).flatten()])
    weights = Weights({"hc_fn": torch.zeros(24, 256), "hc_base": base, "hc_scale": torch.full((3,), 0.5)})
    connection = HyperConnection(TINY, weights, "hc")
    matrices = [normal(64, 64, seed=seed) / 8 for seed in range(6)]
    x = normal(5, 64, seed=9)
    streams, plain = x[:, None].repeat(1, 4, 1), x
    read = torch.eye(4)[0].repeat(5, 1)
    for matrix in matrices:
        next_read, add, mix = connection.mixes(streams)
        output = ops.rmsnorm(collapse(streams, read), torch.ones(64), 1e-20) @ matrix
        streams, read = expand(output, streams, add, mix), next_read
        plain = plain + ops.rmsnorm(plain, torch.ones(64), 1e-20) @ matrix
    assert relative_error(streams[:, 0], plain) < 1e-4
    assert relative_error(collapse(streams, read), plain) < 1e-4


def test_p05_compressor() -> None:
    """Ratio 1 is the normed projection of each token, turned by its position; with equal gates ratio 2 is the normed
    mean of two projections, turned by the first one's position; index keys are made before turning."""
    weights = tiny_weights()
    weights["layers.1.attn.compressor.wgate.weight"] = torch.zeros(32, 64)
    runner, x = Runner(weights), normal(33, 64)
    step = build(TINY, [(Text(prompt(33), 1, [2, 5, 1]), 0, 33)])
    for layer, ratio in ((4, 1), (1, 2)):
        compressor = runner.model.blocks[layer].attention.compressor
        assert compressor is not None
        compressor(x, step, runner.cache)
        projected = (x @ weights.plain(f"layers.{layer}.attn.compressor.wkv.weight").T)[: 33 // ratio * ratio]
        entry = ops.rmsnorm(projected.unflatten(0, (-1, ratio)).mean(1), compressor.norm, 1e-20)
        key = ops.rmsnorm(entry @ weights.plain(f"layers.{layer}.attn.indexer.wk.weight").T, compressor.k_norm, 1e-20)
        start = torch.arange(0, 33 // ratio * ratio, ratio)
        for store, expected in ((runner.cache.entries, entry), (runner.cache.index_keys, key)):
            found = store[layer][[2, 5, 1]].flatten(0, 1)
            torch.testing.assert_close(found[: len(start)], ops.rope(expected, start, compressor.frequency))
            assert found[len(start) :].isnan().all()


def test_p05_groups_are_independent() -> None:
    """A changed token changes the entry of its group and of no group before it."""
    weights, ids = tiny_weights(), prompt(40)
    runner, other = Runner(weights), Runner(weights)
    changed = [*ids[:21], ids[21] % 500 + 3, *ids[22:]]  # the eleventh group of two
    runner.run((Text(ids, 1, [1, 2, 3]), 40))
    other.run((Text(changed, 1, [1, 2, 3]), 40))
    first, second = runner.cache.entries[1][1:4].flatten(0, 1), other.cache.entries[1][1:4].flatten(0, 1)
    assert torch.equal(first[:10], second[:10]) and not torch.equal(first[10], second[10])


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_p06_choose(seed: int, count: int) -> None:
    """The best k are those of a plain sort by score and index; with at most k visible it is all of them."""
    # Scores of few values have many ties.
    scores = torch.randint(0, 5, (3, count), generator=torch.Generator().manual_seed(seed)).float()
    visible = [count, count // 2, 0]
    for row, n in enumerate(visible):
        scores[row, n:] = -torch.inf
    for row, n in zip(choose(scores, 8).tolist(), visible, strict=True):
        order = sorted(range(n), key=lambda j: (-scores[visible.index(n), j].item(), j))[:8]
        expected = sorted(order) if n > 8 else list(range(n))
        assert [entry for entry in row if entry >= 0] == expected
        assert row == expected + [-1] * (len(row) - len(expected))


def test_p06_scores_by_hand() -> None:
    """A score is the weighted sum over heads of the positive products; what is not visible has none."""
    queries, weights, keys = normal(3, 2, 32), normal(3, 2, seed=1), normal(70, 32, seed=2)
    found = score(queries, weights, keys, torch.tensor([70, 9, 0]))
    expected = (weights[..., None] * torch.einsum("thd,kd->thk", queries, keys).clamp(min=0)).sum(1)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-5)
    assert (found[1, 9:] == -torch.inf).all() and (found[2] == -torch.inf).all()


def test_p06_candidate_blocks() -> None:
    """The best blocks by their best entry, the newest visible one always among them, ties to the lowest block."""
    scores = torch.full((3, 26), -1.0)
    scores[0, [1, 6, 9, 14]] = torch.tensor([5.0, 4.0, 3.0, 2.0])
    scores[1, 10:] = scores[2] = -torch.inf
    found = candidate_blocks(scores, torch.tensor([26, 10, 0]), TINY)
    assert [row.nonzero().flatten().tolist() for row in found] == [[0, 1, 2, 6], [0, 1, 2], []]


def test_p06_selections_are_causal() -> None:
    """Changing token t changes no logits before t, hence no selection: the indexer sees no later token."""
    weights, ids = tiny_weights(), prompt(60)
    expected = Runner(weights).run((Text(ids, 1, [1, 2, 3, 4]), 60))[0]
    for t in (13, 30, 47):
        changed = [*ids[:t], ids[t] % 500 + 3, *ids[t + 1 :]]
        found = Runner(weights).run((Text(changed, 1, [1, 2, 3, 4]), 60))[0]
        assert torch.equal(found[:t], expected[:t]) and not torch.equal(found[t], expected[t])


def experts_with(bias: torch.Tensor) -> Experts:
    weights = tiny_weights()
    weights["layers.0.ffn.gate.bias"] = bias
    weights["layers.0.ffn.gate.bias_vl"] = bias.flip(0)
    return Experts(TINY, weights, "layers.0.ffn", 8, 2)


def test_p08_gate() -> None:
    """Weights sum to the routing scale; the bias decides who is chosen but not how much; image tokens have their own
    bias; of equal experts the lowest are taken."""
    x = normal(20, 64)
    plain = experts_with(torch.zeros(8))
    chosen, weights = plain.gate(x, None)
    torch.testing.assert_close(weights.sum(-1), torch.full((20,), 1.5), rtol=1e-6, atol=0)
    forced, forced_weights = experts_with(torch.tensor([0, 0, 0, 100.0, 0, 0, 50.0, 0])).gate(x, None)
    assert (forced == torch.tensor([3, 6])).all()
    scores = torch.nn.functional.softplus(x @ plain.gate_weight.T).sqrt()
    expected = 1.5 * scores[:, [3, 6]] / scores[:, [3, 6]].sum(-1, keepdim=True)
    torch.testing.assert_close(forced_weights, expected, rtol=1e-5, atol=1e-6)
    image = torch.arange(20) % 2 == 0
    of_images, _ = experts_with(torch.tensor([0, 0, 0, 100.0, 0, 0, 50.0, 0])).gate(x, image)
    assert (of_images[image] == torch.tensor([4, 1])).all() and (of_images[~image] == torch.tensor([3, 6])).all()
    ties, _ = plain.gate(torch.zeros(1, 64), None)
    assert ties.tolist() == [[0, 1]] and chosen.shape == (20, 2)


def test_p08_clamp() -> None:
    """The inner activations are cut at the limit: left from above, right from both sides, before the weight."""
    experts = experts_with(torch.zeros(8))
    left, right = torch.tensor([3.0, 30.0, -30.0, 3.0]), torch.tensor([2.0, -30.0, 30.0, 30.0])
    x = torch.eye(4)
    found = experts.expert(x, (left[None], torch.ones(1, 1), right[None]), torch.full((4, 1), 0.5))
    silu = torch.nn.functional.silu
    inner = [silu(torch.tensor(3.0)) * 2, silu(torch.tensor(10.0)) * -10, silu(torch.tensor(-30.0)) * 10]
    expected = 0.5 * torch.stack([*inner, silu(torch.tensor(3.0)) * 10])[:, None]
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_p09_three_programs_agree(seed: int) -> None:
    """The dense twin, the numpy oracle and the engine give the same logits for a prompt that is longer than window and
    selection."""
    weights, ids = tiny_weights(seed, torch.float64), prompt(50, seed)
    twin = reference.forward(TINY, weights, ids).logits
    oracle = oracle_numpy.logits(TINY, {name: value.numpy() for name, value in weights.items()}, ids)
    assert relative_error(twin, torch.from_numpy(oracle)) < 1e-12
    engine = Runner(weights).run((Text(ids, 1, [1, 2, 3, 4]), 50))[0]
    assert relative_error(engine, twin) < 1e-12
    narrow = Runner(tiny_weights(seed)).run((Text(ids, 1, [1, 2, 3, 4]), 50))[0]
    assert relative_error(narrow.double(), twin) < 1e-4


def test_p09_images_and_a_subset_of_layers() -> None:
    """Twin and engine also agree on image rows, and where some of the blocks are left out."""
    weights, ids = tiny_weights(dtype=torch.float64), prompt(40)
    image = [False] * 10 + [True] * 7 + [False] * 23
    features = normal(7, 64).double()
    text = Text(ids, 1, [1, 2, 3], image=image, inputs=features)
    engine = Runner(weights).run_chunks(text, [13, 27])
    twin = reference.forward(TINY, weights, ids, torch.tensor(image), features).logits
    assert relative_error(engine, twin) < 1e-12

    some = TINY.with_layers((0, 1, 3, 4, 6))
    engine = Runner(weights, some).run((Text(ids, 1, [1, 2, 3]), 40))[0]
    assert relative_error(engine, reference.forward(some, weights, ids).logits) < 1e-12


@pytest.mark.parametrize("threads", [1, 2])
def test_p56_batch_invariance(threads: int) -> None:
    """Sequences in random steps together, prompts cut anywhere and single tokens between them, give the bits that
    each gives alone in one piece."""
    weights, choices = tiny_weights(), random.Random(threads)
    # With two threads the steps are large and few: idle threads cost more than the work.
    lengths, sizes = ((50, 3, 41, 77, 18), (1, 1, 2, 7, 30)) if threads == 1 else ((48, 1, 41), (17, 30))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        texts = [Text(prompt(n, n), i + 1, list(range(1 + 5 * i, 6 + 5 * i))) for i, n in enumerate(lengths)]
        runner, found = Runner(weights), [list[torch.Tensor]() for _ in texts]
        while unfinished := [text for text in texts if text.done < len(text.ids)]:
            chosen = choices.sample(unfinished, choices.randint(1, len(unfinished)))
            parts = [(text, min(choices.choice(sizes), len(text.ids) - text.done)) for text in chosen]
            for (text, _), logits in zip(parts, runner.run(*parts), strict=True):
                found[texts.index(text)].append(logits)
        for text, pieces in zip(texts, found, strict=True):
            alone = Runner(weights).run((Text(text.ids, 1, [1, 2, 3, 4, 5]), len(text.ids)))[0]
            assert torch.equal(torch.cat(pieces), alone)
    finally:
        torch.set_num_threads(before)
