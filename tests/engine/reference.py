"""The dense twin of the model: a whole prompt at once, every score computed, nothing cached, no tiles.

Written from the formulas with torch's own functions; shares only the hash of Engram with the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from deepseek_engine.config import ModelConfig
from deepseek_engine.engram import HashLayout, look_back


@dataclass
class Reference:
    """What a prompt gives. Tensors are [T, ...] or [entries, ...]."""

    logits: Tensor = field(default_factory=lambda: torch.empty(0))
    windows: dict[int, Tensor] = field(default_factory=dict)
    entries: dict[int, Tensor] = field(default_factory=dict)
    index_keys: dict[int, Tensor] = field(default_factory=dict)
    selected: dict[int, Tensor] = field(default_factory=dict)  # bool [T, entries], by index source


def forward(
    config: ModelConfig,
    weights: Mapping[str, Tensor],
    ids: list[int],
    image_rows: Tensor | None = None,
    inputs: Tensor | None = None,
) -> Reference:
    twin = _Twin(config, weights, len(ids), image_rows)
    return twin.forward(torch.tensor(ids), inputs)


class _Twin:
    def __init__(self, config: ModelConfig, weights: Mapping[str, Tensor], length: int, image: Tensor | None) -> None:
        self.c, self.w, self.length = config, weights, length
        self.image = torch.zeros(length, dtype=torch.bool) if image is None else image
        self.position = torch.arange(length)
        self.result = Reference()

    def norm(self, x: Tensor, weight: Tensor | float = 1.0) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + self.c.rms_norm_eps).sqrt() * weight

    def rope(self, x: Tensor, position: Tensor, layer: int, sign: float = 1.0) -> Tensor:
        c, half = self.c, self.c.qk_rope_head_dim // 2
        i = torch.arange(half, dtype=torch.float64)
        theta = c.compress_rope_theta if c.ratio(layer) else c.rope_theta
        f = theta ** (-i / half)
        if c.ratio(layer):
            s = c.rope_scaling
            turn = [
                2 * half * np.log(s.original_max_position_embeddings / (beta * 2 * np.pi)) / (2 * np.log(theta))
                for beta in (s.beta_fast, s.beta_slow)
            ]
            low, high = max(np.floor(turn[0]), 0), min(np.ceil(turn[1]), 2 * half - 1)
            ramp = ((i - low) / max(high - low, 1e-3)).clamp(0, 1)
            f = f / s.factor * ramp + f * (1 - ramp)
        angle = sign * position[:, None].to(x.dtype) * f.to(x.dtype)
        turn_by = torch.polar(torch.ones_like(angle), angle)
        while turn_by.dim() < x.dim():
            turn_by = turn_by[:, None]
        pairs = torch.view_as_complex(x[..., -2 * half :].unflatten(-1, (half, 2)).contiguous())
        return torch.cat([x[..., : -2 * half], torch.view_as_real(pairs * turn_by).flatten(-2)], -1)

    def mixes(self, streams: Tensor, name: str) -> tuple[Tensor, Tensor, Tensor]:
        c, count = self.c, self.c.hc_mult
        base, scale = self.w[f"{name}_base"], self.w[f"{name}_scale"]
        z = self.norm(streams.flatten(1)) @ self.w[f"{name}_fn"].T
        pre = torch.sigmoid(z[:, :count] * scale[0] + base[:count]) + c.hc_eps
        post = 2 * torch.sigmoid(z[:, count : 2 * count] * scale[1] + base[count : 2 * count])
        a = (z[:, 2 * count :] * scale[2] + base[2 * count :]).view(-1, count, count).softmax(-1) + c.hc_eps
        for step in range(c.hc_sinkhorn_iters):
            if step:
                a = a / (a.sum(2, keepdim=True) + c.hc_eps)
            a = a / (a.sum(1, keepdim=True) + c.hc_eps)
        return pre, post, a

    def engram(self, streams: Tensor, ids: Tensor, layer: int) -> Tensor:
        c, name = self.c, f"layers.{layer}.engram"
        size, pad = c.engram_max_ngram_size, c.engram_pad_token_id
        ngram = look_back(ids.numpy(), self.image.numpy(), 0, self.length, size, pad)
        rows = HashLayout.of(c)[layer].row_ids(torch.from_numpy(ngram))
        kv = self.w[f"{name}.embed.weight"][rows].flatten(1) @ self.w[f"{name}.wkv.weight"].T
        key, value = kv[:, : -c.hidden_size].view_as(streams), kv[:, -c.hidden_size :]
        query = self.norm(streams) * self.w[f"{name}.q_weight"]
        d = (query * self.norm(key) * self.w[f"{name}.k_weight"]).sum(-1) / c.hidden_size**0.5
        gate = torch.sigmoid(d.sign() * d.abs().clamp(min=1e-6).sqrt())
        return streams + torch.where(self.image[:, None], 0, gate)[..., None] * value[:, None]

    def attention(self, x: Tensor, layer: int) -> Tensor:
        c, name = self.c, f"layers.{layer}.attn"
        w = {key.removeprefix(f"{name}."): value for key, value in self.w.items() if key.startswith(f"{name}.")}
        qr = self.norm(x @ w["wq_a.weight"].T, w["q_norm.weight"])
        q = self.rope((qr @ w["wq_b.weight"].T).view(self.length, -1, c.head_dim), self.position, layer)
        k = self.rope(self.norm(x @ w["wkv.weight"].T, w["kv_norm.weight"]), self.position, layer)
        self.result.windows[layer] = k
        age = self.position[:, None] - self.position
        keys, seen = k, (age >= 0) & (age < c.sliding_window)
        if c.ratio(layer):
            if layer in c.kv_source_layer_ids:
                self.compress(x, layer, w)
            if layer in c.index_source_layer_ids:
                self.select(x, qr, layer, w)
            keys = torch.cat([keys, self.result.entries[c.kv_source(layer)]])
            seen = torch.cat([seen, self.result.selected[c.index_source(layer)]], 1)
        s = torch.einsum("thd,kd->thk", q, keys) / c.head_dim**0.5
        s = s.masked_fill(~seen[:, None], -torch.inf)
        sink = w["attn_sink"][None, :, None].expand(self.length, -1, 1)
        p = torch.cat([s, sink], -1).softmax(-1)[..., :-1]
        o = self.rope(torch.einsum("thk,kd->thd", p, keys), self.position, layer, sign=-1.0)
        first = w["wo_a.weight"].view(c.o_groups, c.o_lora_rank, -1)
        low = torch.einsum("tgi,gri->tgr", o.reshape(self.length, c.o_groups, -1), first)
        return low.flatten(1) @ w["wo_b.weight"].T

    def compress(self, x: Tensor, layer: int, w: dict[str, Tensor]) -> None:
        ratio = self.c.ratio(layer)
        count = self.length // ratio
        u = (x @ w["compressor.wkv.weight"].T)[: count * ratio].view(count, ratio, self.c.head_dim)
        if ratio > 1:
            g = (x @ w["compressor.wgate.weight"].T)[: count * ratio].view(count, ratio, self.c.head_dim)
            u = u * g.softmax(1)
        entry = self.norm(u.sum(1), w["compressor.norm.weight"])
        start = torch.arange(count) * ratio
        self.result.entries[layer] = self.rope(entry, start, layer)
        key = self.norm(entry @ w["indexer.wk.weight"].T, w["indexer.k_norm.weight"])
        self.result.index_keys[layer] = self.rope(key, start, layer)

    def select(self, x: Tensor, qr: Tensor, layer: int, w: dict[str, Tensor]) -> None:
        c, keys = self.c, self.result.index_keys[self.c.kv_source(layer)]
        q = (qr @ w["indexer.wq_b.weight"].T).view(self.length, c.index_n_heads, c.index_head_dim)
        q = self.rope(q, self.position, layer)
        weight = x @ w["indexer.weights_proj.weight"].T / (c.index_head_dim * c.index_n_heads) ** 0.5
        scores = torch.einsum("th,thk->tk", weight, torch.einsum("thd,kd->thk", q, keys).relu())
        count, size = len(keys), c.candidate_block_size
        selected = torch.zeros_like(scores, dtype=torch.bool)
        if layer == c.candidate_source_layer_id:
            self.candidates = torch.zeros_like(selected)
        for t in range(self.length):
            visible = list(range((t + 1) // c.ratio(layer)))
            if layer > c.candidate_source_layer_id:
                visible = [j for j in visible if self.candidates[t, j]]
            best = sorted(visible, key=lambda j: (-scores[t, j].item(), j))[: c.index_topk]
            selected[t, best] = True
            if layer == c.candidate_source_layer_id and visible:
                block = {
                    b: max(scores[t, j].item() for j in visible if j // size == b) for b in {j // size for j in visible}
                }
                block[visible[-1] // size] = float("inf")
                for b in sorted(block, key=lambda b: (-block[b], b))[: c.candidate_topk_blocks]:
                    self.candidates[t, b * size : min((b + 1) * size, count)] = True
        self.result.selected[layer] = selected

    def experts(self, x: Tensor, layer: int) -> Tensor:
        c, name = self.c, f"layers.{layer}.ffn"
        s = torch.nn.functional.softplus(x @ self.w[f"{name}.gate.weight"].T).sqrt()
        bias = torch.where(self.image[:, None], self.w[f"{name}.gate.bias_vl"], self.w[f"{name}.gate.bias"])
        order = torch.sort(s + bias, dim=-1, descending=True, stable=True).indices[:, : c.num_experts_per_tok]
        g = torch.zeros_like(s).scatter(1, order, s.gather(1, order))
        g = g / (g.sum(1, keepdim=True) + 1e-20) * c.routed_scaling_factor
        y = self.expert(x, f"{name}.shared_experts")
        for expert in range(c.n_routed_experts):
            y = y + g[:, expert, None] * self.expert(x, f"{name}.experts.{expert}")
        return y

    def expert(self, x: Tensor, name: str) -> Tensor:
        limit = self.c.swiglu_limit
        left = (x @ self.w[f"{name}.w1.weight"].T).clamp(max=limit)
        right = (x @ self.w[f"{name}.w3.weight"].T).clamp(-limit, limit)
        return (torch.nn.functional.silu(left) * right) @ self.w[f"{name}.w2.weight"].T

    def forward(self, ids: Tensor, inputs: Tensor | None) -> Reference:
        hidden = self.w["embed.weight"][ids]
        if inputs is not None:
            hidden[self.image] = inputs
        streams = hidden[:, None].repeat(1, self.c.hc_mult, 1)
        pre = torch.nn.functional.one_hot(torch.zeros_like(ids), self.c.hc_mult).to(hidden.dtype)
        for layer in self.c.layers:
            if layer in self.c.engram_layer_ids:
                streams = self.engram(streams, ids, layer)
            for name, sub_layer in (("attn", self.attention), ("ffn", self.experts)):
                next_pre, post, comb = self.mixes(streams, f"layers.{layer}.hc_{name}")
                x = torch.einsum("ts,tsh->th", pre, streams)
                y = sub_layer(self.norm(x, self.w[f"layers.{layer}.{name}_norm.weight"]), layer)
                streams = post[..., None] * y[:, None] + torch.einsum("tmn,tmh->tnh", comb, streams)
                pre = next_pre
        y = self.norm(torch.einsum("ts,tsh->th", pre, streams), self.w["norm.weight"])
        self.result.logits = y @ self.w["embed.weight" if self.c.tie_word_embeddings else "head.weight"].T
        return self.result
