"""The weights: one table of names, shapes and forms; random ones, those of a checkpoint folder, and writing them.

Names are those of the released checkpoint. Everything is checked against the headers of the files before a tensor is
read, and what does not fit is refused by name.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from .config import ModelConfig
from .quantised import BF16, E8M0_NAN, F32, FP4_ROW, FP8_BLOCK, FP8_ROW, Form, Quantised

Matrix = Tensor | Quantised


class Weights(dict[str, Matrix]):
    """Weights by the names of the table."""

    def plain(self, name: str) -> Tensor:
        """A weight that no checkpoint quantises."""
        value = self[name]
        if isinstance(value, Quantised):
            raise TypeError(f"{name} is quantised")
        return value


INDEX = "model.safetensors.index.json"


class WeightsError(ValueError):
    """A checkpoint that is not the model's; the text names the tensor."""


_TORCH = {
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E8M0": torch.float8_e8m0fnu,
    "I8": torch.int8,
}
_PLAIN = {"bfloat16": "BF16", "float32": "F32", "float64": "F64"}


@dataclass(frozen=True)
class Parameter:
    """One row of the table. part: `backbone`, `engram` (the tables) or `draft`. init: see `random`."""

    name: str
    shape: tuple[int, ...]
    form: Form = BF16
    part: str = "backbone"
    init: str = "linear"

    def dtype(self, wanted: torch.dtype) -> torch.dtype:
        """The type in which it is computed with: what checkpoints keep in fp32 is never narrower."""
        return torch.promote_types(wanted, torch.float32) if self.form == F32 else wanted

    def stored(self, config: ModelConfig) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The tensors of a checkpoint that hold it: name to type and shape."""
        if not config.quantised:
            return {self.name: ("F32" if self.form == F32 else _PLAIN[config.dtype], self.shape)}
        if self.form.group is None:
            return {self.name: (self.form.dtype, self.shape)}
        rows, inputs = self.shape
        scales = (math.ceil(rows / self.form.group[0]), math.ceil(inputs / self.form.group[1]))
        return {
            self.name: (self.form.dtype, (rows, inputs // self.form.packed)),
            scale_name(self.name): ("F8_E8M0", scales),
        }


def scale_name(name: str) -> str:
    return f"{name.removesuffix('.weight')}.scale"


def parameters(config: ModelConfig) -> Iterator[Parameter]:
    """The table: every parameter of the blocks that exist and of the draft head."""
    vocab, hidden = config.vocab_size, config.hidden_size
    yield Parameter("embed.weight", (vocab, hidden), init="normal")
    if not config.tie_word_embeddings:
        yield Parameter("head.weight", (vocab, hidden), init="head")
    yield Parameter("norm.weight", (hidden,), init="one")
    for layer in config.layers:
        yield from _block(config, f"layers.{layer}", layer, config.n_routed_experts, "backbone")
    for draft in range(config.num_nextn_predict_layers):
        layer = config.num_hidden_layers + draft
        yield from _block(config, f"mtp.{draft}", layer, config.dspark_n_routed_experts, "draft")
    yield from _draft_head(config)


def _block(config: ModelConfig, prefix: str, layer: int, experts: int, part: str) -> Iterator[Parameter]:
    hidden, streams = config.hidden_size, config.hc_mult
    mixes = (2 + streams) * streams

    def row(name: str, *shape: int, form: Form = BF16, init: str = "linear", part: str = part) -> Parameter:
        return Parameter(f"{prefix}.{name}", shape, form, part, init)

    for place in ("attn", "ffn"):
        yield row(f"{place}_norm.weight", hidden, init="one")
        yield row(f"hc_{place}_fn", mixes, streams * hidden, form=F32, init="mix")
        yield row(f"hc_{place}_base", mixes, form=F32, init="base")
        yield row(f"hc_{place}_scale", 3, form=F32, init="half")

    heads, head_dim, rank = config.num_attention_heads, config.head_dim, config.q_lora_rank
    yield row("attn.attn_sink", heads, form=F32, init="normal")
    yield row("attn.wq_a.weight", rank, hidden, form=FP8_BLOCK)
    yield row("attn.q_norm.weight", rank, init="one")
    yield row("attn.wq_b.weight", heads * head_dim, rank, form=FP8_BLOCK)
    yield row("attn.wkv.weight", head_dim, hidden, form=FP8_BLOCK)
    yield row("attn.kv_norm.weight", head_dim, init="one")
    outputs = config.o_groups * config.o_lora_rank
    yield row("attn.wo_a.weight", outputs, heads * head_dim // config.o_groups, form=FP8_BLOCK)
    yield row("attn.wo_b.weight", hidden, outputs, form=FP8_BLOCK)

    if layer in config.kv_source_layer_ids:
        yield row("attn.compressor.wkv.weight", head_dim, hidden)
        if config.ratio(layer) > 1:
            yield row("attn.compressor.wgate.weight", head_dim, hidden)
        yield row("attn.compressor.norm.weight", head_dim, init="one")
        yield row("attn.indexer.wk.weight", config.index_head_dim, head_dim)
        yield row("attn.indexer.k_norm.weight", config.index_head_dim, init="one")
    if layer in config.index_source_layer_ids:
        yield row("attn.indexer.wq_b.weight", config.index_n_heads * config.index_head_dim, rank, form=FP8_BLOCK)
        yield row("attn.indexer.weights_proj.weight", config.index_n_heads, hidden)

    inner = config.moe_intermediate_size
    yield row("ffn.gate.weight", experts, hidden)
    yield row("ffn.gate.bias", experts, form=F32, init="tenth")
    yield row("ffn.gate.bias_vl", experts, form=F32, init="tenth")
    names = [(f"ffn.experts.{expert}", FP4_ROW) for expert in range(experts)] + [("ffn.shared_experts", FP8_BLOCK)]
    for name, form in names:
        yield row(f"{name}.w1.weight", inner, hidden, form=form)
        yield row(f"{name}.w2.weight", hidden, inner, form=form)
        yield row(f"{name}.w3.weight", inner, hidden, form=form)

    if layer in config.engram_layer_ids:
        rows = config.engram_num_embeddings[config.engram_layer_ids.index(layer)]
        columns = (config.engram_max_ngram_size - 1) * config.engram_n_heads
        yield row("engram.embed.weight", rows, config.engram_head_dim, form=FP8_ROW, init="normal", part="engram")
        yield row("engram.wkv.weight", (streams + 1) * hidden, columns * config.engram_head_dim, form=FP8_BLOCK)
        yield row("engram.q_weight", streams, hidden, init="one")
        yield row("engram.k_weight", streams, hidden, init="one")


def _draft_head(config: ModelConfig) -> Iterator[Parameter]:
    vocab, hidden, rank = config.vocab_size, config.hidden_size, config.dspark_markov_rank
    features = len(config.dspark_target_layer_ids) * hidden
    last = f"mtp.{config.num_nextn_predict_layers - 1}"
    yield Parameter("mtp.0.main_proj.weight", (hidden, features), FP8_BLOCK, "draft")
    yield Parameter("mtp.0.main_norm.weight", (hidden,), BF16, "draft", "one")
    yield Parameter(f"{last}.norm.weight", (hidden,), BF16, "draft", "one")
    yield Parameter(f"{last}.markov_head.embed.weight", (vocab, rank), BF16, "draft", "normal")
    yield Parameter(f"{last}.markov_head.head.weight", (vocab, rank), BF16, "draft")
    yield Parameter(f"{last}.confidence_head.proj.weight", (1, hidden + rank), BF16, "draft")


MODEL_PARTS = ("backbone", "engram")
"""What the model reads."""


def random(
    config: ModelConfig, seed: int, dtype: torch.dtype = torch.float32, parts: Collection[str] = MODEL_PARTS
) -> Weights:
    """Random weights. A tensor depends on seed and name alone; it is drawn in fp64, whatever `dtype`."""
    rows = (row for row in parameters(config) if row.part in parts)
    return Weights((row.name, _draw(row, config, seed).to(row.dtype(dtype))) for row in rows)


def _draw(row: Parameter, config: ModelConfig, seed: int) -> Tensor:
    if row.init == "one":
        return torch.ones(row.shape, dtype=torch.float64)
    if row.init == "half":
        return torch.full(row.shape, 0.5, dtype=torch.float64)
    if row.init == "base":
        return _mix_base(config.hc_mult, stream=int(row.name.split(".")[1]) % config.hc_mult)
    digest = hashlib.blake2b(f"{seed}:{row.name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
    values = torch.randn(row.shape, generator=generator, dtype=torch.float64)
    fan_in = row.shape[-1] ** -0.5
    # The head is enlarged so that distributions have peaks.
    return values * {"linear": fan_in, "head": 4 * fan_in, "normal": 1.0, "mix": 0.02, "tenth": 0.1}[row.init]


def _mix_base(count: int, stream: int) -> Tensor:
    """Mixes that read one stream, add to all, and keep the streams apart."""
    pre = torch.full((count,), -3.0, dtype=torch.float64)
    pre[stream] = 3.0
    keep = torch.full((count, count), -3.0, dtype=torch.float64).fill_diagonal_(3.0)
    return torch.cat([pre, torch.zeros(count, dtype=torch.float64), keep.flatten()])


class Checkpoint:
    """A folder of safetensors files with `config.json`: opened and checked, nothing read yet.

    Raises:
        WeightsError: a tensor is missing, unexpected, in two places, or of another shape or type.
        ConfigError: `config.json` is not that of a model which the engine computes.
    """

    def __init__(self, folder: Path, layers: tuple[int, ...] | None = None) -> None:
        config = ModelConfig.from_file(folder / "config.json")
        self.config = config if layers is None else config.with_layers(layers)
        self.folder = folder
        self.places = _without_prefix(_index(folder))
        # Also where some layers are asked for, the folder has to be that of the whole model.
        _check_names(self.places, (name for row in parameters(config) for name in row.stored(config)))
        self._check_headers()

    def load(
        self,
        dtype: torch.dtype = torch.float32,
        parts: Collection[str] = MODEL_PARTS,
        *,
        keep_quantised: bool = False,
    ) -> Weights:
        """The weights of the blocks that were asked for, by the names of the table.

        With `keep_quantised` the quantised matrices stay in their bytes.

        Raises:
            WeightsError: a scale is NaN, or a file cannot be read.
        """
        weights = Weights()
        with ExitStack() as stack:
            files = _Files(self.folder, stack)
            for row in parameters(self.config):
                if row.part in parts:
                    stored = [files.read(*self.places[name]) for name in row.stored(self.config)]
                    weights[row.name] = _value(row, stored, dtype, keep_quantised)
        return weights

    def _check_headers(self) -> None:
        with ExitStack() as stack:
            files = _Files(self.folder, stack)
            for row in parameters(self.config):
                for name, expected in row.stored(self.config).items():
                    file, stored_name = self.places[name]
                    if file not in files.opened:
                        self._check_names_of(file, set(files.open(file).keys()))
                    header = files.open(file).get_slice(stored_name)
                    found = header.get_dtype(), tuple(header.get_shape())
                    if found != expected:
                        sizes = f"{found[0]} {list(found[1])}, expected {expected[0]} {list(expected[1])}"
                        raise WeightsError(f"{stored_name}: is {sizes}")

    def _check_names_of(self, file: str, held: set[str]) -> None:
        indexed = {stored_name for place, stored_name in self.places.values() if place == file}
        for name in sorted(indexed - held):
            raise WeightsError(f"{name}: is not in {file}, where the index has it")
        for name in sorted(held - indexed):
            raise WeightsError(f"{name}: is in {file}, but not by the index")


def _value(row: Parameter, stored: list[Tensor], dtype: torch.dtype, keep_quantised: bool) -> Matrix:
    if len(stored) == 1:
        return stored[0].to(row.dtype(dtype))
    matrix = Quantised(stored[0].view(torch.uint8), stored[1].view(torch.uint8), row.form)
    if (matrix.scale == E8M0_NAN).any():
        raise WeightsError(f"{scale_name(row.name)}: has a NaN")
    return matrix if keep_quantised else matrix.dense(dtype)


class _Files:
    """Opened safetensors files, closed with the stack."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.stack = stack
        self.opened: dict[str, safe_open] = {}

    def open(self, name: str) -> safe_open:
        if name not in self.opened:
            try:
                self.opened[name] = self.stack.enter_context(safe_open(self.folder / name, framework="pt"))
            except (OSError, SafetensorError) as error:
                raise WeightsError(f"{name}: {error}") from error
        return self.opened[name]

    def read(self, file: str, name: str) -> Tensor:
        try:
            return self.open(file).get_tensor(name)
        except SafetensorError as error:
            raise WeightsError(f"{name}: {error}") from error


def _index(folder: Path) -> dict[str, str]:
    """Tensor name to file name."""
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        places = index["weight_map"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WeightsError(f"{INDEX}: {error!r}") from error
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise WeightsError(f"{INDEX}: 'weight_map' is not a map of names")
    for file in places.values():
        if Path(file).name != file:
            raise WeightsError(f"{INDEX}: {file!r} is not a file of this folder")
    return places


def _without_prefix(places: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Name without the optional `model.` to file and stored name."""
    found: dict[str, tuple[str, str]] = {}
    for stored, file in places.items():
        name = stored.removeprefix("model.")
        if name in found:
            raise WeightsError(f"{name}: is there with and without the prefix 'model.'")
        found[name] = (file, stored)
    return found


# The vision tower is not computed; a draft block's copies of the shared matrices are not read.
_UNREAD = re.compile(r"(vision|aligner)\..*|image_(start|end|newline)|mtp\.\d+\.(embed|head)\.(weight|scale)")


def _check_names(found: Collection[str], expected: Iterable[str]) -> None:
    # Stops at the first that is missing: what is expected can be without bounds, what is found cannot.
    known: set[str] = set()
    for name in expected:
        if name not in found:
            raise WeightsError(f"{name}: is missing")
        known.add(name)
    for name in found:
        if name not in known and not _UNREAD.fullmatch(name):
            raise WeightsError(f"{name}: is no tensor of this model")


def export(weights: Mapping[str, Matrix], config: ModelConfig, folder: Path) -> None:
    """Writes a checkpoint of these weights: one file, the index and `config.json`.

    Where the configuration is quantised, the matrices must be `Quantised`: this writes bytes, it quantises nothing.

    Raises:
        WeightsError: a weight of the model is missing, unexpected, or of another shape or form.
    """
    rows = {row.name: row for row in parameters(config)}
    _check_names(weights, rows)
    tensors: dict[str, Tensor] = {}
    for name, row in rows.items():
        expected, values = row.stored(config), _stored(weights[name])
        if len(expected) != len(values):
            raise WeightsError(f"{name}: is {'' if len(values) > 1 else 'not '}quantised, unlike the configuration")
        for (stored_name, (dtype, shape)), value in zip(expected.items(), values, strict=True):
            if tuple(value.shape) != shape:
                raise WeightsError(f"{stored_name}: is {list(value.shape)}, expected {list(shape)}")
            same_bytes = value.dtype == torch.uint8
            tensors[stored_name] = (value.view(_TORCH[dtype]) if same_bytes else value.to(_TORCH[dtype])).contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    file = "model-00001-of-00001.safetensors"
    save_file(tensors, folder / file)
    size = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": dict.fromkeys(tensors, file)}
    (folder / INDEX).write_text(json.dumps(index, indent=1), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config.to_dict(), indent=1), encoding="utf-8")


def _stored(value: Matrix) -> tuple[Tensor, ...]:
    return (value.stored, value.scale) if isinstance(value, Quantised) else (value,)
