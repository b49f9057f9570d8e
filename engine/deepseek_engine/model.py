"""The model: hyper-connected blocks of attention and experts, from token ids to logits.

Knows nothing of sequences, requests or sampling: a step comes in as `StepInput`, what stays is in `Cache`. Shapes: T
tokens, S streams, H hidden size, D head size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from . import ops
from .cache import Cache, StepInput, read_last, write_ring
from .config import ModelConfig
from .engram import Engram, HashLayout
from .quantised import dense
from .weights import Matrix, Weights


class HyperConnection:
    """How one sub-layer reads and writes the S streams (mHC, shifted: its reading mix serves the next sub-layer)."""

    def __init__(self, config: ModelConfig, weights: Weights, prefix: str) -> None:
        self.config = config
        self.fn = weights[f"{prefix}_fn"]
        self.base = weights.plain(f"{prefix}_base")
        self.scale = weights.plain(f"{prefix}_scale")

    def mixes(self, streams: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """From [T, S, H]: how the next sub-layer reads [T, S], how the output is added [T, S], and how the streams mix
        [T, S, S]."""
        count, eps = self.config.hc_mult, self.config.hc_eps
        x = ops.wide(streams.flatten(1))
        norm = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.config.rms_norm_eps)
        read, add, mix = (ops.linear(x, self.fn) * norm).split([count, count, count * count], dim=-1)
        read_base, add_base, mix_base = self.base.split([count, count, count * count])
        read = ops.sigmoid(read * self.scale[0] + read_base) + eps
        add = 2 * ops.sigmoid(add * self.scale[1] + add_base)
        mix = (mix * self.scale[2] + mix_base).unflatten(-1, (count, count))
        return read, add, ops.sinkhorn(mix, self.config.hc_sinkhorn_iters, eps)


def collapse(streams: Tensor, read: Tensor) -> Tensor:
    """The input of a sub-layer, [T, H], from streams [T, S, H] and a reading mix [T, S]."""
    return (read[..., None] * ops.wide(streams)).sum(1).to(streams.dtype)


def expand(output: Tensor, streams: Tensor, add: Tensor, mix: Tensor) -> Tensor:
    """The streams after a sub-layer, [T, S, H]: stream n takes `add[n]` of the output and `mix[m, n]` of stream m."""
    mixed = torch.bmm(mix.transpose(1, 2), ops.wide(streams))
    return (add[..., None] * ops.wide(output)[:, None] + mixed).to(streams.dtype)


class Compressor:
    """Makes one entry and one index key of every `ratio` tokens. Groups do not overlap."""

    def __init__(self, config: ModelConfig, layer: int, weights: Weights, prefix: str, frequency: Tensor) -> None:
        self.layer, self.ratio, self.eps = layer, config.ratio(layer), config.rms_norm_eps
        self.frequency = frequency
        self.wkv = weights[f"{prefix}.compressor.wkv.weight"]
        self.wgate = weights[f"{prefix}.compressor.wgate.weight"] if self.ratio > 1 else None
        self.norm = weights.plain(f"{prefix}.compressor.norm.weight")
        self.wk = weights[f"{prefix}.indexer.wk.weight"]
        self.k_norm = weights.plain(f"{prefix}.indexer.k_norm.weight")

    def __call__(self, x: Tensor, step: StepInput, cache: Cache) -> None:
        """Writes what the tokens complete; x is [T, H]."""
        completing = ((step.pos + 1) % self.ratio == 0).nonzero().squeeze(1)
        projected = ops.wide(ops.linear(x, self.wkv))
        if self.wgate is None:
            pooled = projected
        else:
            new = torch.stack([projected, ops.wide(ops.linear(x, self.wgate))], dim=1)
            ring = cache.groups[self.layer]
            pooled = pool(read_last(ring, new, step, completing, self.ratio)[0])
            write_ring(ring, new, step)
        # The index key is made of the entry before it is turned. A group has the position of its first token.
        entry = ops.rmsnorm(pooled, self.norm, self.eps).to(x.dtype)
        start = step.pos[completing] - (self.ratio - 1)
        index_key = ops.rmsnorm(ops.linear(entry, self.wk), self.k_norm, self.eps)
        index_key = ops.rope(index_key, start, self.frequency)
        cache.write_entries(self.layer, step, completing, ops.rope(entry, start, self.frequency), index_key)


def pool(group: Tensor) -> Tensor:
    """The mean of each group's projections, weighted per channel by its gates: [groups, ratio, 2, D] to [groups, D]."""
    projected, gates = group.unbind(2)
    return (torch.softmax(gates, dim=1) * projected).sum(1)


@dataclass
class Selection:
    """What an index source chose. entries: [T, top-k], ascending, padded with -1. candidates: for each sequence the
    blocks of entries [tokens, blocks] that later index sources may choose from, bool."""

    entries: Tensor
    candidates: list[Tensor]


class Indexer:
    """Scores entries for each token and chooses the best."""

    def __init__(self, config: ModelConfig, layer: int, weights: Weights, prefix: str, frequency: Tensor) -> None:
        self.config, self.layer, self.source = config, layer, config.kv_source(layer)
        self.frequency = frequency
        self.wq_b = weights[f"{prefix}.indexer.wq_b.weight"]
        self.weights_proj = weights[f"{prefix}.indexer.weights_proj.weight"]

    def __call__(self, x: Tensor, qr: Tensor, step: StepInput, cache: Cache, before: Selection | None) -> Selection:
        """x: [T, H]; qr: [T, q rank]; before: the selection of the index source before this one."""
        config = self.config
        heads = config.index_n_heads
        queries = ops.linear(qr, self.wq_b).unflatten(-1, (heads, config.index_head_dim))
        queries = ops.rope(queries, step.pos, self.frequency)
        weights = ops.linear(x, self.weights_proj) * (config.index_head_dim * heads) ** -0.5
        visible = (step.pos + 1) // config.ratio(self.layer)
        chosen = torch.full((x.shape[0], config.index_topk), -1, dtype=torch.int64, device=x.device)
        is_candidate_source = self.layer == config.candidate_source_layer_id
        candidates = before.candidates if before and not is_candidate_source else []
        restricted = self.layer > config.candidate_source_layer_id
        made: list[Tensor] = []
        for sequence, (start, stop) in enumerate(step.spans()):
            keys = cache.read_index_keys(self.source, step, sequence, int(visible[stop - 1]))
            blocks: list[Tensor] = []
            for rows in tiles(start, stop):
                scores = score(queries[rows], weights[rows], keys, visible[rows])
                if is_candidate_source:
                    blocks.append(candidate_blocks(scores, visible[rows], config))
                elif restricted:
                    allowed = candidates[sequence][rows.start - start : rows.stop - start]
                    allowed = allowed.repeat_interleave(config.candidate_block_size, 1)[:, : scores.shape[1]]
                    scores = scores.masked_fill(~allowed, -torch.inf)
                best = choose(scores, config.index_topk)
                chosen[rows, : best.shape[1]] = best
            if is_candidate_source:
                made.append(torch.cat(blocks))
        return Selection(chosen, made or candidates)


def score(queries: Tensor, weights: Tensor, keys: Tensor, visible: Tensor) -> Tensor:
    """Index scores [T, n]: the weighted sum over heads of what of the products is positive; -inf from `visible` [T] on.

    queries: [T, heads, d]. weights: [T, heads]. keys: [n, d].
    """
    products = ops.linear(queries.flatten(0, 1), keys).unflatten(0, queries.shape[:2])
    scores = (ops.wide(weights)[..., None] * ops.wide(products).relu()).sum(1)
    return scores.masked_fill(torch.arange(keys.shape[0], device=keys.device) >= visible[:, None], -torch.inf)


def choose(scores: Tensor, k: int) -> Tensor:
    """The entries with the `k` best scores [T, n] above -inf, ascending, padded with -1; of equals the lowest."""
    best = ops.stable_topk(scores, k)
    last = scores.shape[-1]
    kept = best.masked_fill(scores.gather(-1, best) == -torch.inf, last).sort(-1).values
    return kept.masked_fill(kept == last, -1)


def candidate_blocks(scores: Tensor, visible: Tensor, config: ModelConfig) -> Tensor:
    """The best blocks of entries, bool [T, blocks], of index scores [T, n]; the newest entry's block is always in."""
    size, count = config.candidate_block_size, scores.shape[-1]
    padded = torch.nn.functional.pad(scores, (0, -count % size), value=-torch.inf)
    block_scores = padded.unflatten(-1, (-1, size)).amax(-1)
    newest = (visible - 1).clamp(min=0)[:, None] // size
    has_newest = (visible > 0)[:, None]
    if block_scores.shape[-1]:
        forced = torch.where(has_newest, torch.inf, block_scores.gather(-1, newest))
        block_scores = block_scores.scatter(-1, newest, forced)
    best = ops.stable_topk(block_scores, config.candidate_topk_blocks)
    taken = torch.zeros_like(block_scores, dtype=torch.bool).scatter(-1, best, True)
    return taken & (block_scores > -torch.inf)


class Attention:
    """One softmax over the last `sliding_window` tokens and the chosen entries of the shared compressed cache."""

    def __init__(self, config: ModelConfig, layer: int, weights: Weights, prefix: str) -> None:
        self.config, self.layer, self.ratio = config, layer, config.ratio(layer)
        self.frequency = frequencies(config, layer)
        self.sink = weights.plain(f"{prefix}.attn_sink")
        self.wq_a = weights[f"{prefix}.wq_a.weight"]
        self.q_norm = weights.plain(f"{prefix}.q_norm.weight")
        self.wq_b = weights[f"{prefix}.wq_b.weight"]
        self.wkv = weights[f"{prefix}.wkv.weight"]
        self.kv_norm = weights.plain(f"{prefix}.kv_norm.weight")
        self.wo_a = weights[f"{prefix}.wo_a.weight"]
        self.wo_b = weights[f"{prefix}.wo_b.weight"]
        self.compressor: Compressor | None = None
        self.indexer: Indexer | None = None
        if layer in config.kv_source_layer_ids:
            self.compressor = Compressor(config, layer, weights, prefix, self.frequency)
        if layer in config.index_source_layer_ids:
            self.indexer = Indexer(config, layer, weights, prefix, self.frequency)

    def __call__(
        self, x: Tensor, step: StepInput, cache: Cache, selection: Selection | None
    ) -> tuple[Tensor, Selection | None]:
        """x: [T, H]. Returns [T, H] and the selection that the next blocks read."""
        config = self.config
        qr = ops.rmsnorm(ops.linear(x, self.wq_a), self.q_norm, config.rms_norm_eps)
        queries = ops.linear(qr, self.wq_b).unflatten(-1, (config.num_attention_heads, config.head_dim))
        queries = ops.rope(queries, step.pos, self.frequency)
        new = ops.rmsnorm(ops.linear(x, self.wkv), self.kv_norm, config.rms_norm_eps)
        new = ops.rope(new, step.pos, self.frequency)
        if self.compressor:
            self.compressor(x, step, cache)
        if self.indexer:
            selection = self.indexer(x, qr, step, cache, selection)

        output = torch.empty_like(queries)
        for rows in tiles(0, x.shape[0]):
            keys, visible = self._keys(new, step, rows, cache, selection)
            output[rows] = ops.sink_attention(queries[rows], keys, visible, self.sink.to(x.dtype))
        write_ring(cache.windows[self.layer], new, step)
        return self._project(ops.rope(output, step.pos, self.frequency, inverse=True)), selection

    def _keys(
        self, new: Tensor, step: StepInput, rows: slice, cache: Cache, selection: Selection | None
    ) -> tuple[Tensor, Tensor]:
        """Keys [rows, n, D] and which are visible [rows, n]: the window, oldest first, then the entries, ascending."""
        window, exists = read_last(cache.windows[self.layer], new, step, rows, self.config.sliding_window)
        if not self.ratio:
            return window, exists
        assert selection is not None
        chosen = selection.entries[rows]
        entries = cache.read_entries(self.config.kv_source(self.layer), step, rows, chosen)
        return torch.cat([window, entries], dim=1), torch.cat([exists, chosen >= 0], dim=1)

    def _project(self, output: Tensor) -> Tensor:
        """[T, heads, D] to [T, H]: each group of heads to its low rank, then all together."""
        groups = self.config.o_groups
        by_group = output.unflatten(1, (groups, -1)).flatten(2)
        first = dense(self.wo_a, output.dtype).unflatten(0, (groups, -1))
        low = [ops.linear(by_group[:, group], first[group]) for group in range(groups)]
        return ops.linear(torch.cat(low, dim=-1), self.wo_b)


def frequencies(config: ModelConfig, layer: int) -> Tensor:
    """Rotary angles per position: blocks that read a compressed cache have another base and YaRN."""
    if config.ratio(layer):
        return ops.rope_frequencies(config.qk_rope_head_dim, config.compress_rope_theta, config.rope_scaling)
    return ops.rope_frequencies(config.qk_rope_head_dim, config.rope_theta, None)


class Experts:
    """A shared expert for every token, and the routed ones that its gate chooses."""

    def __init__(self, config: ModelConfig, weights: Weights, prefix: str, count: int, k: int) -> None:
        self.config, self.k = config, k
        self.gate_weight = weights[f"{prefix}.gate.weight"]
        self.bias = weights.plain(f"{prefix}.gate.bias")
        self.bias_vl = weights.plain(f"{prefix}.gate.bias_vl")
        names = [f"{prefix}.experts.{expert}" for expert in range(count)]
        self.routed = [self._matrices(weights, name) for name in names]
        self.shared = self._matrices(weights, f"{prefix}.shared_experts")

    @staticmethod
    def _matrices(weights: Weights, name: str) -> tuple[Matrix, ...]:
        return tuple(weights[f"{name}.{matrix}.weight"] for matrix in ("w1", "w2", "w3"))

    def gate(self, x: Tensor, image_rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """The experts of each token and their weights, [T, k] both. The bias chooses but does not weigh."""
        scores = ops.softplus(ops.linear(ops.wide(x), self.gate_weight)).sqrt()
        bias = self.bias
        if image_rows is not None:
            bias = torch.where(image_rows[:, None], self.bias_vl, self.bias)
        experts = ops.stable_topk(scores + bias, self.k)
        chosen = scores.gather(-1, experts)
        share = chosen / (chosen.sum(-1, keepdim=True) + 1e-20)
        return experts, share * self.config.routed_scaling_factor

    def expert(self, x: Tensor, matrices: tuple[Matrix, ...], weight: Tensor) -> Tensor:
        """One expert's part of the output, [T, H], with its weights [T, 1]."""
        w1, w2, w3 = matrices
        limit = self.config.swiglu_limit
        left = ops.wide(ops.linear(x, w1)).clamp(max=limit)
        right = ops.wide(ops.linear(x, w3)).clamp(-limit, limit)
        inner = weight * ops.silu(left) * right
        return ops.wide(ops.linear(inner.to(x.dtype), w2))

    def __call__(self, x: Tensor, image_rows: Tensor | None) -> Tensor:
        experts, weights = self.gate(x, image_rows)
        parts = x.new_zeros(x.shape[0], self.k, x.shape[1])
        for expert in experts.unique().tolist():
            rows, place = (experts == expert).nonzero(as_tuple=True)
            parts[rows, place] = self.expert(x[rows], self.routed[expert], weights[rows, place, None])
        total = parts[:, 0]
        for place in range(1, self.k):  # always summed in the gate's order
            total = total + parts[:, place]
        return (total + self.expert(x, self.shared, torch.ones_like(x[:, :1]))).to(x.dtype)


class Block:
    """One block: Engram where it has one, attention, experts."""

    def __init__(self, config: ModelConfig, layer: int, weights: Weights, layouts: Mapping[int, HashLayout]) -> None:
        prefix = f"layers.{layer}"
        self.eps = config.rms_norm_eps
        self.engram: Engram | None = None
        if layer in layouts:
            self.engram = Engram(config, layouts[layer], weights, f"{prefix}.engram")
        self.attn_connection = HyperConnection(config, weights, f"{prefix}.hc_attn")
        self.attn_norm = weights.plain(f"{prefix}.attn_norm.weight")
        self.attention = Attention(config, layer, weights, f"{prefix}.attn")
        self.ffn_connection = HyperConnection(config, weights, f"{prefix}.hc_ffn")
        self.ffn_norm = weights.plain(f"{prefix}.ffn_norm.weight")
        self.experts = Experts(config, weights, f"{prefix}.ffn", config.n_routed_experts, config.num_experts_per_tok)

    def __call__(
        self, streams: Tensor, read: Tensor, step: StepInput, cache: Cache, selection: Selection | None
    ) -> tuple[Tensor, Tensor, Selection | None]:
        """streams: [T, S, H]. read: [T, S], the mix that the block before it made. Returns both, and the selection."""
        if self.engram:
            streams = self.engram(streams, step.ngram, step.image_rows)
        next_read, add, mix = self.attn_connection.mixes(streams)
        x = ops.rmsnorm(collapse(streams, read), self.attn_norm, self.eps)
        output, selection = self.attention(x, step, cache, selection)
        streams = expand(output, streams, add, mix)

        last_read, add, mix = self.ffn_connection.mixes(streams)
        x = ops.rmsnorm(collapse(streams, next_read), self.ffn_norm, self.eps)
        streams = expand(self.experts(x, step.image_rows), streams, add, mix)
        return streams, last_read, selection


class Model:
    """The backbone."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        self.config = config
        layouts = HashLayout.of(config)
        self.embed = weights.plain("embed.weight")
        self.blocks = [Block(config, layer, weights, layouts) for layer in config.layers]
        self.norm = weights.plain("norm.weight")
        self.head = self.embed if config.tie_word_embeddings else weights.plain("head.weight")

    @torch.inference_mode()
    def __call__(self, step: StepInput, cache: Cache) -> Tensor:
        """Runs a step and writes its state to the cache. Returns the logits of `logit_rows`, [M, vocabulary]."""
        hidden = self.embed[step.ids]
        if step.image_rows is not None and step.inputs is not None:
            hidden[step.image_rows] = step.inputs.to(hidden.dtype)
        streams = hidden[:, None].repeat(1, self.config.hc_mult, 1)
        read = torch.zeros_like(streams[..., 0])
        read[:, 0] = 1  # the first block reads the first stream
        selection: Selection | None = None
        for block in self.blocks:
            streams, read, selection = block(streams, read, step, cache, selection)
        rows = step.logit_rows
        output = ops.rmsnorm(collapse(streams[rows], read[rows]), self.norm, self.config.rms_norm_eps)
        return ops.linear(ops.wide(output), self.head)


def tiles(start: int, stop: int) -> Iterator[slice]:
    """Rows `[start, stop)` in slices of bounded length, so that what is gathered for them is bounded, too."""
    for at in range(start, stop, ops.TILE):
        yield slice(at, min(at + ops.TILE, stop))
