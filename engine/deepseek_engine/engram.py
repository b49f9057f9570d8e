"""Engram: a memory of n-grams. The compressed vocabulary, the layout of the tables, the hash and the gate.

Row numbers depend on token ids alone. Tables can be larger than a device: `Table.gather` is all that is asked of one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from . import ops
from .config import ConfigError, ModelConfig
from .weights import Weights


def compressed_vocabulary(tokenizer_file: Path) -> np.ndarray:
    """The compressed id of every id, int64 [V]: ids whose texts differ only in case, accents or white space are one.

    New ids are given in order of first appearance.

    Raises:
        ConfigError: the file is no tokenizer, or the package `tokenizers` is not installed.
    """
    try:
        from tokenizers import Regex, Tokenizer, normalizers
    except ImportError as error:
        raise ConfigError("released checkpoints need: pip install 'deepseek-recipe-engine[tokenizer]'") from error
    try:
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
    except Exception as error:  # the library has no class of its own for it
        raise ConfigError(f"{tokenizer_file}: {error}") from error
    protected = "\ue000"  # a lone space must survive `Strip`
    normalise = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.NFD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(r"[ \t\r\n]+"), " "),
            normalizers.Replace(Regex(r"^ $"), protected),
            normalizers.Strip(),
            normalizers.Replace(protected, " "),
        ]
    )
    first_seen: dict[str, int] = {}
    compressed = np.empty(tokenizer.get_vocab_size(), dtype=np.int64)
    for token in range(len(compressed)):
        text = tokenizer.decode([token], skip_special_tokens=False)
        key = tokenizer.id_to_token(token) or "" if "\ufffd" in text else normalise.normalize_str(text) or text
        compressed[token] = first_seen.setdefault(key, len(first_seen))
    return compressed


def look_back(compressed: np.ndarray, image: np.ndarray, start: int, stop: int, size: int, pad: int) -> np.ndarray:
    """The last `size` compressed ids of the positions `[start, stop)`, newest first: int64 [stop - start, size].

    compressed: int64, image: bool, of the positions from 0 to at least `stop`. Before the sequence, at an image token
    and before one there is `pad`.
    """
    columns: list[np.ndarray] = []
    positions = np.arange(start, stop)
    open_ = np.ones(stop - start, dtype=bool)
    for distance in range(size):
        at = positions - distance
        open_ = open_ & (at >= 0) & ~image[np.maximum(at, 0)]
        columns.append(np.where(open_, compressed[np.maximum(at, 0)], pad))
    return np.stack(columns, axis=1)


@dataclass(frozen=True)
class HashLayout:
    """Where the n-grams of one layer lie in its table. Columns are orders 2, 3, ..., each with all heads."""

    multipliers: tuple[int, ...]
    moduli: tuple[int, ...]
    heads: int

    @property
    def rows(self) -> int:
        """Rows of the table: each column has its own range."""
        return sum(self.moduli)

    def row_ids(self, ngram: Tensor) -> Tensor:
        """Table rows, int64 [T, columns], of the ids that `look_back` gives, [T, max n-gram]."""
        mixed = ngram * torch.tensor(self.multipliers, device=ngram.device)  # below 2^63, see `of`
        orders = itertools.accumulate(mixed.unbind(1), torch.bitwise_xor)
        columns = torch.stack(list(orders)[1:], dim=1).repeat_interleave(self.heads, dim=1)
        moduli = torch.tensor(self.moduli, device=ngram.device)
        return columns % moduli + (moduli.cumsum(0) - moduli)

    @classmethod
    def of(cls, config: ModelConfig) -> dict[int, HashLayout]:
        """The layout of each Engram layer. Moduli are primes that no two columns of the model share.

        Raises:
            ConfigError: the rows are not those that the configuration gives.
        """
        layouts: dict[int, HashLayout] = {}
        used: set[int] = set()
        bound = max(1, (2**63 - 1) // config.engram_compressed_vocab_size // 2)
        for layer, rows in zip(config.engram_layer_ids, config.engram_num_embeddings, strict=True):
            moduli: list[int] = []
            for _ in range(2, config.engram_max_ngram_size + 1):
                primes = _primes_above(config.engram_vocab_size - 1)
                moduli += itertools.islice((prime for prime in primes if prime not in used), config.engram_n_heads)
                used.update(moduli)
            draws = np.random.default_rng(10007 * layer).integers(0, bound, config.engram_max_ngram_size, np.int64)
            multipliers = tuple(2 * int(draw) + 1 for draw in draws)
            layouts[layer] = cls(multipliers, tuple(moduli), config.engram_n_heads)
            if layouts[layer].rows != rows:
                raise ConfigError(f"'engram_num_embeddings' has {rows}, the layout gives {layouts[layer].rows}")
        return layouts


def _primes_above(number: int) -> Iterator[int]:
    for candidate in itertools.count(number + 1):
        if candidate > 1 and all(candidate % divisor for divisor in range(2, int(candidate**0.5) + 1)):
            yield candidate


class Engram:
    """The memory of one layer: adds what the tables hold about the last tokens to the streams."""

    def __init__(self, config: ModelConfig, layout: HashLayout, weights: Weights, prefix: str) -> None:
        self.layout = layout
        self.eps = config.rms_norm_eps
        self.table = weights[f"{prefix}.embed.weight"]
        self.wkv = weights[f"{prefix}.wkv.weight"]
        self.q_weight = weights.plain(f"{prefix}.q_weight")
        self.k_weight = weights.plain(f"{prefix}.k_weight")

    def __call__(self, streams: Tensor, ngram: Tensor, image_rows: Tensor | None) -> Tensor:
        """streams: [T, S, H]. ngram: int64 [T, max n-gram]. Streams of image rows do not change."""
        _, count, hidden = streams.shape
        memory = self.table[self.layout.row_ids(ngram)].flatten(1).to(streams.dtype)
        keys, value = ops.linear(memory, self.wkv).split([count * hidden, hidden], dim=-1)
        gate = self.gate(streams, keys.unflatten(-1, (count, hidden)))
        if image_rows is not None:
            gate = gate.masked_fill(image_rows[:, None], 0)
        return streams + gate[..., None] * value[:, None]

    def gate(self, streams: Tensor, keys: Tensor) -> Tensor:
        """How much of the memory each stream takes, [T, S] in (0, 1); streams and keys are [T, S, H]."""
        x, key = ops.wide(streams), ops.wide(keys)
        match = (x * ops.wide(self.q_weight) * key * ops.wide(self.k_weight)).sum(-1)
        for norm in (x, key):
            match = match * torch.rsqrt(norm.square().mean(-1) + self.eps)
        match = match * streams.shape[-1] ** -0.5
        return ops.sigmoid(match.sign() * match.abs().clamp(min=1e-6).sqrt())
