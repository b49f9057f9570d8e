"""Weights and checkpoints: P-80, P-81 and P-83."""

import json
import math
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import reference
from deepseek_engine import check, weights
from deepseek_engine.config import PRESETS, ConfigError
from deepseek_engine.model import Model
from deepseek_engine.quantised import FP4_ROW, FP8_BLOCK, FP8_ROW, Form, Quantised
from deepseek_engine.weights import Checkpoint, Weights, WeightsError
from steps import TINY, Runner, Text, prompt, relative_error

ALL = ("backbone", "engram", "draft")
FILE = "model-00001-of-00001.safetensors"
PACKED = replace(TINY, dtype="bfloat16", quantised=True)


def packed_weights() -> Weights:
    """Random weights in the form of the released checkpoint: random codes and moderate scales."""
    generator, drawn = torch.Generator().manual_seed(0), Weights()
    plain = weights.random(PACKED, 0, parts=ALL)
    for row in weights.parameters(PACKED):
        stored = list(row.stored(PACKED).values())
        if len(stored) == 1:
            drawn[row.name] = plain.plain(row.name).to(torch.bfloat16 if stored[0][0] == "BF16" else torch.float32)
        else:
            codes = torch.randint(0, 256, stored[0][1], dtype=torch.uint8, generator=generator)
            if row.form.packed == 1:
                codes[(codes & 127) == 127] = 0  # no NaN
            scale = torch.randint(117, 119, stored[1][1], dtype=torch.uint8, generator=generator)
            drawn[row.name] = Quantised(codes, scale, row.form)
    return drawn


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint")
    weights.export(weights.random(TINY, 0, parts=ALL), TINY, path)
    return path


@pytest.fixture(scope="module")
def packed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed")
    weights.export(packed_weights(), PACKED, path)
    return path


def equal(left: Weights, right: Weights) -> bool:
    def parts(value: Tensor | Quantised) -> tuple[Tensor, ...]:
        return (value.stored, value.scale) if isinstance(value, Quantised) else (value,)

    return left.keys() == right.keys() and all(
        torch.equal(a, b) for name in left for a, b in zip(parts(left[name]), parts(right[name]), strict=True)
    )


def test_p80_round_trip(folder: Path, tmp_path: Path) -> None:
    """What was written is read back bit for bit, and written again it is the same file."""
    checkpoint = Checkpoint(folder)
    loaded = checkpoint.load(parts=ALL)
    assert checkpoint.config == TINY and equal(loaded, weights.random(TINY, 0, parts=ALL))
    assert set(checkpoint.load()) == {row.name for row in weights.parameters(TINY) if row.part != "draft"}
    weights.export(loaded, checkpoint.config, tmp_path)
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_p80_round_trip_of_the_released_form(packed_folder: Path, tmp_path: Path) -> None:
    """Kept in their bytes, quantised matrices are written as they were read."""
    checkpoint = Checkpoint(packed_folder)
    loaded = checkpoint.load(torch.bfloat16, ALL, keep_quantised=True)
    weights.export(loaded, checkpoint.config, tmp_path)
    for path in packed_folder.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_p81_quantised_and_dequantised_weights_compute_the_same(packed_folder: Path) -> None:
    """A model whose matrices stay in their bytes gives the bits of one that was dequantised when it was loaded, and the
    twin's numbers."""
    checkpoint, ids = Checkpoint(packed_folder), prompt(40)
    dense = checkpoint.load()
    logits = Runner(dense, checkpoint.config).run((Text(ids, 1, [1, 2, 3]), 40))[0]
    kept = checkpoint.load(keep_quantised=True)
    assert torch.equal(Runner(kept, checkpoint.config).run((Text(ids, 1, [1, 2, 3]), 40))[0], logits)
    assert relative_error(logits, reference.forward(checkpoint.config, dense, ids).logits) < 1e-4


def test_p80_some_layers(folder: Path, tmp_path: Path) -> None:
    """Some of the layers load with their own numbers and compute as the twin of those layers."""
    layers, ids = (0, 1, 2, 4, 6), prompt(30)
    checkpoint = Checkpoint(folder, layers)
    assert checkpoint.config == TINY.with_layers(layers)
    loaded = checkpoint.load()
    assert not any(name.startswith(("layers.3.", "layers.5.")) for name in loaded)
    logits = Runner(loaded, checkpoint.config).run((Text(ids, 1, [1, 2]), 30))[0]
    assert relative_error(logits, reference.forward(checkpoint.config, loaded, ids).logits) < 1e-4
    some = checkpoint.load(parts=ALL)
    weights.export(some, checkpoint.config, tmp_path)
    assert equal(Checkpoint(tmp_path).load(parts=ALL), some)


def rewrite(source: Path, target: Path, change: Callable[[dict[str, Tensor]], None], *, index: bool = True) -> None:
    """A copy of a checkpoint with its tensors changed, and with the index that belongs to them."""
    shutil.copytree(source, target)
    tensors = load_file(source / FILE)
    change(tensors)
    save_file(tensors, target / FILE)
    if index:
        (target / weights.INDEX).write_text(json.dumps({"weight_map": dict.fromkeys(tensors, FILE)}))


def without(name: str) -> Callable[[dict[str, Tensor]], None]:
    def change(tensors: dict[str, Tensor]) -> None:
        del tensors[name]

    return change


NORM, BASE, W1 = "layers.3.attn.q_norm.weight", "layers.0.hc_attn_base", "layers.2.ffn.experts.5.w1"
FAULTS: dict[str, tuple[Callable[[dict[str, Tensor]], None], str]] = {
    "missing": (without(NORM), f"{NORM}: is missing"),
    "missing scale": (without(f"{W1}.scale"), f"{W1}.scale: is missing"),
    "extra": (lambda t: t.update(a=t[NORM].clone()), "a: is no tensor of this model"),
    "misshaped": (lambda t: t.update({NORM: torch.ones(31, dtype=torch.bfloat16)}), f"{NORM}: is BF16 [31], expected"),
    "other type": (lambda t: t.update({BASE: t[BASE].bfloat16()}), f"{BASE}: is BF16 [24], expected F32 [24]"),
    "two prefixes": (lambda t: t.update({f"model.{NORM}": t[NORM].clone()}), f"{NORM}: is there with and without"),
    "plain matrix": (
        lambda t: t.update({f"{W1}.weight": torch.zeros(32, 64)}),
        f"{W1}.weight: is F32 [32, 64], expected I8 [32, 32]",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_p80_faults_are_refused_by_name(
    packed_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """A missing, extra, misshaped, wrongly typed or twice named tensor is refused before anything is read."""
    change, text = FAULTS[name]
    rewrite(packed_folder, tmp_path / "bad", change)
    with pytest.raises(WeightsError) as error:
        Checkpoint(tmp_path / "bad")
    assert text in str(error.value)
    assert check.main([str(tmp_path / "bad")]) == 2
    assert text in capsys.readouterr().err


def test_p80_index_and_files_must_agree(folder: Path, tmp_path: Path) -> None:
    """A tensor that index and file disagree on, a file that is missing or cut off, and a path outside are refused."""
    rewrite(folder, tmp_path / "a", without(NORM), index=False)
    with pytest.raises(WeightsError, match=f"{NORM}: is not in {FILE}"):
        Checkpoint(tmp_path / "a")
    rewrite(folder, tmp_path / "b", lambda t: t.update(a=torch.ones(1)), index=False)
    with pytest.raises(WeightsError, match=f"a: is in {FILE}, but not by the index"):
        Checkpoint(tmp_path / "b")
    shutil.copytree(folder, tmp_path / "c")
    (tmp_path / "c" / FILE).write_bytes((folder / FILE).read_bytes()[:-10])
    with pytest.raises(WeightsError, match=FILE):
        Checkpoint(tmp_path / "c")
    (tmp_path / "c" / FILE).unlink()
    with pytest.raises(WeightsError, match=FILE):
        Checkpoint(tmp_path / "c")
    for content in ("", "[]", '{"weight_map": 1}', '{"weight_map": {"a": 1}}', '{"weight_map": {"a": "../b"}}'):
        (tmp_path / "c" / weights.INDEX).write_text(content)
        with pytest.raises(WeightsError, match="index"):
            Checkpoint(tmp_path / "c")


def test_p80_damaged_files_are_refused(folder: Path, tmp_path: Path) -> None:
    """Whatever bytes are changed, cut or added in a header, the index or the configuration, nothing but a refusal comes
    of it, if the file is still not a checkpoint."""
    choices, outcomes = random.Random(0), Counter[str]()
    whole = {path.name: path.read_bytes() for path in shutil.copytree(folder, tmp_path / "bad").iterdir()}
    header = 8 + int.from_bytes(whole[FILE][:8], "little")
    for _ in range(100):
        name = choices.choice(sorted(whole))
        damaged = bytearray(whole[name])
        at = choices.randrange(header if name == FILE else len(damaged))
        cut = choices.choice((0, 1, 1, 20))
        damaged[at : at + cut] = choices.randbytes(choices.choice((0, 1, 1, 3)))
        (tmp_path / "bad" / name).write_bytes(damaged)
        try:
            Checkpoint(tmp_path / "bad")
        except (WeightsError, ConfigError) as error:
            outcomes["refused"] += bool(str(error))
        (tmp_path / "bad" / name).write_bytes(whole[name])
    assert outcomes["refused"] > 80


def test_p80_prefix_and_unread_tensors(folder: Path, tmp_path: Path) -> None:
    """Names may begin with `model.`; the vision tower and a draft block's copies of shared matrices are passed over."""

    def change(tensors: dict[str, Tensor]) -> None:
        for name in list(tensors):
            tensors[f"model.{name}"] = tensors.pop(name)
        for name in ("model.vision.norm.weight", "aligner.w1.weight", "image_start", "mtp.0.embed.weight"):
            tensors[name] = torch.ones(1)

    rewrite(folder, tmp_path / "prefixed", change)
    assert equal(Checkpoint(tmp_path / "prefixed").load(), weights.random(TINY, 0))


def test_p80_export_refuses_other_weights(tmp_path: Path) -> None:
    """Weights that are not the configuration's are not written."""
    drawn = weights.random(TINY, 0, parts=ALL)
    with pytest.raises(WeightsError, match=r"wq_a.weight: is not quantised"):
        weights.export(drawn, PACKED, tmp_path)
    for change, text in (
        ({NORM: torch.ones(3)}, NORM),
        ({"a": torch.ones(3)}, "a: is no tensor"),
        ({"embed.weight": Quantised(torch.zeros(1, 1).byte(), torch.zeros(1, 1).byte(), FP8_ROW)}, "is quantised"),
    ):
        with pytest.raises(WeightsError, match=text):
            weights.export(Weights(drawn | change), TINY, tmp_path)


def test_p80_check(packed_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The check of a good folder prints its size; that of a folder without a configuration says so."""
    assert check.main([str(packed_folder)]) == 0
    assert "8 layers" in capsys.readouterr().out
    assert check.main([str(packed_folder / "none")]) == 2
    assert "config.json" in capsys.readouterr().err


def e4m3(code: int) -> float:
    sign, exponent, mantissa = -1.0 if code & 128 else 1.0, code >> 3 & 15, code & 7
    if exponent == 15 and mantissa == 7:
        return math.nan
    return sign * (mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7))


def e2m1(code: int) -> float:
    sign, exponent, mantissa = -1.0 if code & 8 else 1.0, code >> 1 & 3, code & 1
    return sign * (mantissa / 2 if exponent == 0 else (1 + mantissa / 2) * 2.0 ** (exponent - 1))


def naive(matrix: Quantised) -> Tensor:
    """Value by value, from the bits."""
    height, width = matrix.form.group or (1, 1)
    rows, inputs = matrix.shape
    values = torch.empty(rows, inputs, dtype=torch.float64)
    for i in range(rows):
        for j in range(inputs):
            byte = int(matrix.stored[i, j // matrix.form.packed])
            value = e4m3(byte) if matrix.form.packed == 1 else e2m1(byte >> 4 if j % 2 else byte & 15)
            values[i, j] = value * 2.0 ** (int(matrix.scale[i // height, j // width]) - 127)
    return values.float()


@pytest.mark.parametrize("form", [FP8_ROW, FP4_ROW])
def test_p81_all_codes_with_all_scales(form: Form) -> None:
    """Every code with every scale has the value that its bits say; the low nibble comes first."""
    codes = torch.arange(256, dtype=torch.uint8).repeat(255, 1)
    scale = torch.arange(255, dtype=torch.uint8)[:, None].repeat(1, 256 * form.packed // 32)
    matrix = Quantised(codes, scale, form)
    expected = naive(matrix)
    assert torch.equal(matrix.dense(torch.float32).nan_to_num(), expected.nan_to_num())
    assert torch.equal(matrix.dense(torch.float32).isnan(), expected.isnan())
    rows = torch.tensor([[3, 3], [254, 0]])
    assert torch.equal(matrix[rows].nan_to_num(), expected[rows].nan_to_num())


@pytest.mark.parametrize(("rows", "inputs"), [(32, 32), (33, 65), (1, 31), (70, 96)])
def test_p81_blocks_are_counted_from_the_top_left(rows: int, inputs: int) -> None:
    """Blocks of 32 by 32 share a scale; those at the right and at the bottom may be cut."""
    generator = torch.Generator().manual_seed(rows)
    codes = torch.randint(0, 127, (rows, inputs), dtype=torch.uint8, generator=generator)
    grid = (math.ceil(rows / 32), math.ceil(inputs / 32))
    matrix = Quantised(codes, torch.randint(100, 150, grid, dtype=torch.uint8, generator=generator), FP8_BLOCK)
    assert torch.equal(matrix.dense(torch.float32), naive(matrix))
    with pytest.raises(TypeError):
        matrix[torch.tensor([0])]


def test_p81_a_scale_that_is_nan_is_refused(packed_folder: Path, tmp_path: Path) -> None:
    """The byte 255 is no scale: the tensor is refused by name when it is read."""

    def change(tensors: dict[str, Tensor]) -> None:
        tensors[f"{W1}.scale"].view(torch.uint8)[3, 1] = 255

    rewrite(packed_folder, tmp_path / "bad", change)
    with pytest.raises(WeightsError, match=f"{W1}.scale: has a NaN"):
        Checkpoint(tmp_path / "bad").load()


class Counted(Weights):
    """Weights that count how often each was asked for."""

    def __init__(self, rows: dict[str, Tensor]) -> None:
        super().__init__(rows)
        self.asked: Counter[str] = Counter()

    def __getitem__(self, name: str) -> Tensor | Quantised:
        self.asked[name] += 1
        return super().__getitem__(name)


def test_p83_the_table_covers_the_released_model() -> None:
    """The model of the released sizes, on the meta device, reads every parameter of the table exactly once; the table
    has 551.9 billion parameters in the backbone, 196.6 in the Engram tables and 14.2 in the draft head."""
    flash = PRESETS["flash"]
    rows = list(weights.parameters(flash))
    assert len({row.name for row in rows}) == len(rows)
    sizes: Counter[str] = Counter()
    for row in rows:
        sizes[row.part] += math.prod(row.shape)
    assert {part: round(size / 1e9, 1) for part, size in sizes.items()} == {
        "backbone": 551.9,
        "engram": 196.6,
        "draft": 14.2,
    }
    counted = Counted({row.name: torch.empty(row.shape, device="meta") for row in rows if row.part != "draft"})
    Model(flash, counted)
    assert counted.asked == Counter(counted.keys())


def test_p83_tiny() -> None:
    """The tiny models have the sizes that the documentation gives, and their own weights for every name."""
    for name, backbone, draft in (("tiny", 897_104, 136_404), ("tiny-tok", 17_379_408, 2_188_492)):
        sizes: Counter[str] = Counter()
        for row in weights.parameters(PRESETS[name]):
            sizes["draft" if row.part == "draft" else "model"] += math.prod(row.shape)
        assert sizes == {"model": backbone, "draft": draft}
    counted = Counted({name: value for name, value in weights.random(TINY, 0).items() if isinstance(value, Tensor)})
    Model(TINY, counted)
    assert counted.asked == Counter(counted.keys())


def test_random_weights_depend_on_seed_and_name_alone() -> None:
    """The same name has the same values in fp32 and fp64 and whatever else is drawn; another seed has others."""
    one, two = weights.random(TINY, 1), weights.random(TINY, 1, torch.float64, ALL)
    assert all(torch.equal(one.plain(name), two.plain(name).float()) for name in one)
    assert not torch.equal(one.plain("embed.weight"), weights.random(TINY, 2).plain("embed.weight"))
