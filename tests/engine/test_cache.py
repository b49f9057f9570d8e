"""Pages, rings and what they hold, however a prompt is cut: P-10 to P-15."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from deepseek_engine.cache import Cache, Pool
from steps import LIMITS, TINY, Runner, Text, contents, prompt, relative_error, tiny_weights

CHUNKS = [[1] * 50, [5] * 10, [16, 16, 16, 2], [33, 17], [7, 1, 1, 20, 3, 18]]


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_p10_chunked_prefill_is_whole_prefill(chunks: list[int], dtype: torch.dtype, bound: float) -> None:
    """The logits of every token and everything in the cache are those of the dense twin, for any cut of the prompt."""
    weights, ids = tiny_weights(dtype=dtype), prompt(50)
    runner, text = Runner(weights), Text(ids, 2, [3, 1, 4, 9])
    twin = reference.forward(TINY, weights, ids)
    assert relative_error(runner.run_chunks(text, chunks), twin.logits) < bound
    found = contents(runner, text)
    for source in TINY.kv_sources:
        assert relative_error(found[f"entries.{source}"], twin.entries[source]) < bound
        assert relative_error(found[f"index_keys.{source}"], twin.index_keys[source]) < bound
    for layer in TINY.layers:
        ring = found[f"window.{layer}"]
        assert relative_error(ring, twin.windows[layer][-len(ring) :]) < bound


def test_p11_prefill_then_decode_is_prefill_of_the_longer_prompt() -> None:
    """Token by token behind a prefill, the logits are those of the dense twin of the whole."""
    weights, ids = tiny_weights(), prompt(60)
    text = Text(ids, 1, [1, 2, 3, 4])
    found = Runner(weights).run_chunks(text, [37] + [1] * 23)
    assert relative_error(found, reference.forward(TINY, weights, ids).logits) < 1e-5


@given(st.permutations(range(1, 41)), st.integers(1, 5))
@settings(max_examples=10, deadline=None)
def test_p12_pages_may_lie_anywhere(pages: list[int], slot: int) -> None:
    """A random block table and slot give the bits of the first pages in order."""
    weights, ids = tiny_weights(), prompt(50)
    one, two = Runner(weights), Runner(weights)
    straight, random = Text(ids, 1, [1, 2, 3, 4]), Text(ids, slot, pages[:4])
    chunks = [21, 20, 9]
    assert torch.equal(one.run_chunks(straight, chunks), two.run_chunks(random, chunks))
    left, right = contents(one, straight), contents(two, random)
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_p13_a_batch_of_ragged_requests_is_each_alone() -> None:
    """Sequences of different lengths in one step give what the dense twin gives for each."""
    weights, runner = tiny_weights(), Runner(tiny_weights())
    texts = [
        Text(prompt(length, length), n + 1, [4 * n + i for i in range(1, 5)])
        for n, length in enumerate((3, 50, 17, 1, 32))
    ]
    logits = runner.run(*((text, len(text.ids)) for text in texts))
    for text, found in zip(texts, logits, strict=True):
        assert relative_error(found, reference.forward(TINY, weights, text.ids).logits) < 1e-5


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
@settings(max_examples=15, deadline=None)
def test_p14_p15_rings_hold_the_last_positions(chunks: list[int]) -> None:
    """After chunks of any sizes, odd ones too, rings of the window and of unfinished groups hold the very bits of the
    last positions, and a slot that held NaN before leaks none."""
    total = sum(chunks)
    pages = list(range(1, 2 + total // 16))
    whole, cut = Runner(tiny_weights()), Runner(tiny_weights())
    one, two = Text(prompt(total), 1, pages), Text(prompt(total), 1, pages)
    assert torch.equal(whole.run_chunks(one, [total]), cut.run_chunks(two, chunks))
    left, right = contents(whole, one), contents(cut, two)
    assert all(torch.equal(left[name], right[name]) for name in left)
    assert all(value.isfinite().all() for value in right.values())


def test_p14_a_slot_and_pages_that_are_used_again_leak_nothing() -> None:
    """A second sequence in the slot and the pages of a longer one gives the bits of a fresh cache."""
    used, fresh = Runner(tiny_weights()), Runner(tiny_weights())
    used.run_chunks(Text(prompt(64, 1), 1, [1, 2, 3, 4]), [40, 24])
    for chunks in ([1] * 30, [30], [3, 27]):
        again, first = Text(prompt(30, 2), 1, [2, 4]), Text(prompt(30, 2), 1, [2, 4])
        assert torch.equal(used.run_chunks(again, chunks), fresh.run_chunks(first, chunks))


@pytest.mark.parametrize("back", [1, 3, 6])
@pytest.mark.parametrize("done", [20, 41])
def test_p15_tokens_can_be_taken_back(done: int, back: int) -> None:
    """A sequence that takes back up to `max_backtracking_tokens` and goes on with others has the bits of one that never
    had them."""
    assert back <= LIMITS.max_backtracking_tokens
    ids, other = prompt(done), prompt(done + 15, 1)
    runner, plain = Runner(tiny_weights()), Runner(tiny_weights())
    text = Text(ids, 1, [1, 2, 3, 4])
    runner.run_chunks(text, [done - 7, 4, 3])
    kept = ids[: done - back]
    text.ids, text.done = kept + other[:15], done - back
    straight = Text(kept + other[:15], 1, [1, 2, 3, 4])
    expected = plain.run_chunks(straight, [len(kept), 15])[len(kept) :]
    assert torch.equal(runner.run_chunks(text, [1] * 15), expected)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=60))
def test_a_pool_gives_every_number_once(moves: Sequence[tuple[bool, int]]) -> None:
    """Numbers that are taken are distinct and not 0, none is given out twice, and the one free longest comes first."""
    pool, held, order = Pool(12), list[list[int]](), list(range(1, 12))
    for take, count in moves:
        if take:
            numbers = pool.take(count)
            assert (numbers is None) == (count > len(order))
            if numbers is not None:
                assert numbers == order[:count]
                del order[:count]
                held.append(numbers)
        elif held:
            numbers = held.pop(count % len(held))
            pool.give_back(numbers)
            order += numbers
        assert (pool.free, pool.taken) == (len(order), sum(map(len, held)))
    if held and held[0]:
        pool.give_back(held[0])
        with pytest.raises(KeyError):
            pool.give_back(held[0])


def test_a_ring_has_room_for_window_and_backtracking() -> None:
    """Rings hold the window and what can be taken back; the dummy slot and page are there beside those given out."""
    cache = Cache(TINY, LIMITS)
    assert cache.windows[0].shape == (7, 8 + 6, 32)
    assert cache.groups[1].shape == (7, 2 + 5, 2, 32)
    assert (cache.entries[1].shape, cache.entries[4].shape) == ((41, 8, 32), (41, 16, 32))
