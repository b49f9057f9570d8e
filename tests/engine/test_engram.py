"""Engram, P-07: the published constants, look-back and gate."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tokenizer_file
from deepseek_engine.config import PRESETS
from deepseek_engine.engram import HashLayout, compressed_vocabulary, look_back
from steps import Runner, prompt, tiny_weights


def test_p07_constants_of_the_released_model() -> None:
    """Moduli and multipliers are those of the model's published tables."""
    layouts = HashLayout.of(PRESETS["flash"])
    assert layouts[1].moduli[:3] == (16000057, 16000079, 16000081)
    assert layouts[1].multipliers == (76632096046245, 4839876093313, 35959672319349, 73987337458391)
    assert layouts[14].multipliers == (67716810739261, 51510806800915, 30921347202721, 82619226485591)
    moduli = layouts[1].moduli + layouts[14].moduli
    assert len(set(moduli)) == 48


@pytest.fixture(scope="module")
def released_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tokenizer of DeepSeek-V4.1, from the codec's data files."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer_file.write("v41", path)
    return path


def test_p07_compressed_vocabulary(released_tokenizer: Path) -> None:
    """129,280 ids become 99,092; spellings that differ in case, accents or white space alone become one."""
    compressed = compressed_vocabulary(released_tokenizer)
    assert (len(compressed), compressed.max() + 1) == (129280, 99092)
    assert compressed[2] == 2
    assert compressed[[19923, 44388, 21330, 3699, 49]].tolist() == [15844, 15844, 231, 718, 49]


def test_p07_hash_by_hand() -> None:
    """Rows are those of the formula computed with Python's integers."""
    layout = HashLayout.of(PRESETS["flash"])[1]
    tokens = [99091, 17, 99091, 5]
    rows = layout.row_ids(torch.tensor([tokens]))[0].tolist()
    hashed, expected, offset = tokens[0] * layout.multipliers[0], list[int](), 0
    for order in range(1, 4):
        hashed ^= tokens[order] * layout.multipliers[order]
        assert 0 <= hashed < 2**63
        for modulus in layout.moduli[8 * (order - 1) : 8 * order]:
            expected.append(hashed % modulus + offset)
            offset += modulus
    assert rows == expected and offset == layout.rows


@given(st.lists(st.tuples(st.integers(3, 511), st.booleans()), min_size=1, max_size=30), st.data())
def test_p07_look_back(tokens: list[tuple[int, bool]], data: st.DataObject) -> None:
    """A part of a sequence looks back as the whole does: across chunks and turns, never across an image."""
    ids, image = np.array([token for token, _ in tokens]), np.array([flag for _, flag in tokens])
    start = data.draw(st.integers(0, len(ids) - 1))
    stop = data.draw(st.integers(start + 1, len(ids)))
    found = look_back(ids[:stop], image[:stop], start, stop, 3, 2)
    for row, position in zip(found.tolist(), range(start, stop), strict=True):
        expected: list[int] = []
        for at in range(position, position - 3, -1):
            blocked = at < 0 or image[max(at, 0) : position + 1].any()
            expected.append(2 if blocked else int(ids[at]))
        assert row == expected


def test_p07_image_rows_do_not_change() -> None:
    """The gate is zero on image tokens: their streams are the same with and without the memory."""
    weights = tiny_weights()
    runner = Runner(weights)
    engram = runner.model.blocks[1].engram
    assert engram is not None
    streams = torch.randn(6, 4, 64, generator=torch.Generator().manual_seed(0))
    image = torch.tensor([False, True, True, False, False, True])
    ngram = torch.from_numpy(look_back(np.array(prompt(6)), image.numpy(), 0, 6, 3, 2))
    after = engram(streams, ngram, image)
    assert torch.equal(after[image], streams[image])
    assert (after[~image] != streams[~image]).any(-1).all()


def test_p07_gate() -> None:
    """The gate is 1/2 where keys and streams are orthogonal, above where they agree, below where they oppose."""
    engram = Runner(tiny_weights()).model.blocks[1].engram
    assert engram is not None
    x = torch.randn(3, 4, 64, generator=torch.Generator().manual_seed(0))
    orthogonal = torch.cat([-x[..., 32:], x[..., :32]], -1)
    assert ((engram.gate(x, orthogonal) - 0.5).abs() < 2e-3).all()
    assert (engram.gate(x, x) > 0.94).all() and (engram.gate(x, -x) < 0.06).all()
