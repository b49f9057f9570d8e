"""Ids as a sequence and buffer, and as lists of shared integers."""

import copy
import io
import pickle
import sys
from collections.abc import Sequence

import numpy as np
import pytest

import deepseek_recipe as d


def of(expected: list[int]) -> d.TokenIds:
    return d.TokenIds(b"".join(id.to_bytes(4, sys.byteorder) for id in expected))


@pytest.mark.parametrize("count", [0, 1, 2, 1000, 70_000])
def test_sequence(count: int) -> None:
    expected = [id * 71_993 % 2**32 for id in range(count)]
    ids = of(expected)
    view = memoryview(bytes(ids)).cast("I")
    assert ids.tolist() == list(ids) == view.tolist() == expected
    assert [ids[at] for at in range(count)] == expected and list(reversed(ids)) == expected[::-1]
    assert ids[-3:].tolist() == expected[-3:] and ids[:0].tolist() == []
    assert isinstance(ids, Sequence) and (ids.format, ids.readonly) == ("I", True)
    assert (len(ids), ids.nbytes) == (count, 4 * count)
    assert ids == view == of(expected) and ids != expected and ids != of([*expected, 0])
    for id in expected[-1:]:
        assert id in ids and (ids.index(id), ids.index(id, -1), ids.count(id)) == (count - 1, count - 1, 1)
    for again in (copy.copy(ids), copy.deepcopy(ids), pickle.loads(pickle.dumps(ids))):
        assert type(again) is d.TokenIds and again == ids
    assert repr(ids) == f"TokenIds(<{count} ids>)"
    for place in (count, -count - 1):
        with pytest.raises(IndexError):
            ids[place]


def test_buffer_outlives_the_ids() -> None:
    ids = of([1, 2, 128_821])
    array, view = np.asarray(ids), memoryview(ids)
    assert array.dtype == np.uint32 and not array.flags.owndata and not array.flags.writeable
    del ids
    assert array.tolist() == view.tolist() == [1, 2, 128_821]


def test_misuse() -> None:
    ids = of([1, 2])
    with pytest.raises(TypeError):
        hash(ids)
    with pytest.raises(TypeError):
        ids[0] = 3  # type: ignore[index]
    with pytest.raises(TypeError):
        io.BytesIO(b"12345678").readinto(ids)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        ids.nothing  # noqa: B018
    with pytest.raises(ValueError):
        ids.index(3)
    with pytest.raises(ValueError):
        d.TokenIds(b"12345")
    with pytest.raises(TypeError):
        d.TokenIds([1])  # type: ignore[arg-type]


def test_integers_are_shared_and_their_references_counted() -> None:
    ids = of([70_000, 70_001, 70_000])
    first, second = ids.tolist(), ids.tolist()
    assert first[0] is second[0] is first[2] and first[1] is second[1]
    counts = [sys.getrefcount(first[0])]
    lists = [ids.tolist() for _ in range(50)]
    counts.append(sys.getrefcount(first[0]))
    del lists
    counts.append(sys.getrefcount(first[0]))
    assert counts[1:] == [counts[0] + 100, counts[0]]
