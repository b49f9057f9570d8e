"""What a sequence leaves behind for its next tokens: pages of compressed entries, and a state slot of rings.

Page 0 and slot 0 are never given out. Which pages and slot a sequence has is the scheduler's matter; the model reaches
them through `StepInput`.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from .config import ModelConfig
from .limits import EngineConfig


class Pool:
    """Numbers 1 to `size - 1` to give out, the one that has been free longest first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = deque(range(1, size))
        self._taken: set[int] = set()

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def taken(self) -> int:
        return len(self._taken)

    def take(self, count: int) -> list[int] | None:
        """`count` numbers, or None where fewer are free."""
        if count > len(self._free):
            return None
        numbers = [self._free.popleft() for _ in range(count)]
        self._taken.update(numbers)
        return numbers

    def give_back(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._taken.remove(number)  # KeyError: given back twice
            self._free.append(number)


@dataclass
class StepInput:
    """All that the model sees of a step: T tokens of N sequences, flattened. All tensors but `image_rows` are int64.

    A sequence's tokens stand together, in the order of their positions, without a gap. Everything before the first one
    has been computed in earlier steps.

    ids, pos, seq: [T] token ids, positions, the token's sequence in this step (0 to N - 1). q_start: [N + 1], where
    each sequence begins, then T. slot: [N] state slots. tables: [N, pages] page ids, padded with 0. ngram: [T, max
    n-gram], see `engram.look_back`. logit_rows: [M] tokens whose logits are wanted. image_rows: [T] bool, tokens of
    images, whose embeddings are the rows of `inputs` [images, H] in order.
    """

    ids: Tensor
    pos: Tensor
    seq: Tensor
    q_start: Tensor
    slot: Tensor
    tables: Tensor
    ngram: Tensor
    logit_rows: Tensor
    image_rows: Tensor | None = None
    inputs: Tensor | None = None

    def __post_init__(self) -> None:
        first, last = self.q_start[:-1], self.q_start[1:] - 1
        self.first_row = first[self.seq]
        self.first_pos = self.pos[first][self.seq]
        self.last_pos = self.pos[last][self.seq]
        self.row_slot = self.slot[self.seq]

    def spans(self) -> list[tuple[int, int]]:
        """Rows `[start, stop)` of each sequence."""
        starts = self.q_start.tolist()
        return list(itertools.pairwise(starts))


class Cache:
    """The tensors of all pages and slots.

    windows: by layer, [slots, R, D] keys of the last R positions, the one of position p at `p % R`. entries and
    index_keys: by source, [pages, page size / ratio, D or index D]. groups: by source with a ratio above 1, [slots, R',
    2, D] projections and gates of the last tokens, for groups that a step leaves unfinished.
    """

    def __init__(
        self,
        config: ModelConfig,
        limits: EngineConfig,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=dtype, device=device)

        self.config = config
        self.page_size = limits.page_size
        slots, pages, spare = limits.num_slots, limits.num_pages, limits.max_backtracking_tokens
        ring = config.sliding_window + spare
        self.windows = {layer: zeros(slots, ring, config.head_dim) for layer in config.layers}
        self.entries: dict[int, Tensor] = {}
        self.index_keys: dict[int, Tensor] = {}
        self.groups: dict[int, Tensor] = {}
        for source in config.kv_sources:
            ratio = config.ratio(source)
            self.entries[source] = zeros(pages, limits.page_size // ratio, config.head_dim)
            self.index_keys[source] = zeros(pages, limits.page_size // ratio, config.index_head_dim)
            if ratio > 1:
                self.groups[source] = zeros(slots, ratio + max(0, spare - 1), 2, config.head_dim)

    def write_entries(self, source: int, step: StepInput, rows: Tensor, entries: Tensor, index_keys: Tensor) -> None:
        """Stores the entries that the tokens `rows` complete."""
        pos = step.pos[rows]
        page = step.tables[step.seq[rows], pos // self.page_size]
        place = pos % self.page_size // self.config.ratio(source)
        self.entries[source][page, place] = entries
        self.index_keys[source][page, place] = index_keys

    def read_entries(self, source: int, step: StepInput, rows: slice, chosen: Tensor) -> Tensor:
        """Entries [rows, k, D] of the numbers `chosen` [rows, k]; zero where -1."""
        pos = chosen.clamp(min=0) * self.config.ratio(source)
        page = step.tables[step.seq[rows, None], pos // self.page_size]
        values = self.entries[source][page, pos % self.page_size // self.config.ratio(source)]
        return values.masked_fill((chosen < 0)[..., None], 0)

    def read_index_keys(self, source: int, step: StepInput, sequence: int, count: int) -> Tensor:
        """The first `count` index keys of a sequence, [count, index D]."""
        per_page = self.page_size // self.config.ratio(source)
        pages = step.tables[sequence, : -(-count // per_page)]
        return self.index_keys[source][pages].flatten(0, 1)[:count]


def read_last(ring: Tensor, new: Tensor, step: StepInput, rows: Tensor | slice, count: int) -> tuple[Tensor, Tensor]:
    """Values of the `count` positions up to each of `rows`, oldest first: those of this step from `new`, older ones
    from the ring.

    ring: [slots, R, ...]. new: [T, ...]. Returns [rows, count, ...] and whether the position exists, [rows, count];
    where it does not, the value is zero.
    """
    pos = step.pos[rows, None] + torch.arange(1 - count, 1, device=ring.device)
    distance = pos - step.first_pos[rows, None]
    here = new[(step.first_row[rows, None] + distance).clamp(min=0)]
    before = ring[step.row_slot[rows, None], pos % ring.shape[1]]
    exists = pos >= 0
    shape = (*pos.shape, *[1] * (new.dim() - 1))
    values = torch.where((distance >= 0).view(shape), here, before)
    return values.masked_fill(~exists.view(shape), 0), exists


def write_ring(ring: Tensor, new: Tensor, step: StepInput) -> None:
    """Stores the values of the step's last positions. Only after everything of this step was read."""
    size = ring.shape[1]
    kept = step.pos > step.last_pos - size
    ring[step.row_slot[kept], step.pos[kept] % size] = new[kept]
