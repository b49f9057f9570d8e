"""An oracle of the model in numpy: one token after the other, one head and one entry after the other.

Shares no code with the engine or with `reference.py`, the hash of Engram included; fp64 throughout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from deepseek_engine.config import ModelConfig

Array = np.ndarray


def logits(config: ModelConfig, weights: Mapping[str, Array], ids: Sequence[int]) -> Array:
    """Logits of every position, [T, vocabulary]."""
    oracle = _Oracle(config, weights)
    return np.stack([oracle.token(list(ids[: position + 1])) for position in range(len(ids))])


def sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.5 * x))


def best(scores: dict[int, float], count: int) -> list[int]:
    """The keys of the `count` largest values, of equals the lowest key; ascending."""
    return sorted(sorted(scores, key=lambda key: (-scores[key], key))[:count])


class _Oracle:
    def __init__(self, config: ModelConfig, weights: Mapping[str, Array]) -> None:
        self.c, self.w = config, weights
        self.keys: dict[int, list[Array]] = {layer: [] for layer in config.layers}
        self.inputs: dict[int, list[Array]] = {layer: [] for layer in config.layers}
        self.entries: dict[int, list[Array]] = {layer: [] for layer in config.layers}
        self.index_keys: dict[int, list[Array]] = {layer: [] for layer in config.layers}

    def norm(self, x: Array, name: str) -> Array:
        return self.w[name] * x / math.sqrt(np.mean(x * x) + self.c.rms_norm_eps)

    def turn(self, x: Array, position: int, layer: int) -> Array:
        c, dim = self.c, self.c.qk_rope_head_dim
        out, offset = x.copy(), len(x) - dim
        compressed = c.compress_ratios[layer] > 0
        theta = c.compress_rope_theta if compressed else c.rope_theta
        for pair in range(dim // 2):
            f = theta ** (-2 * pair / dim)
            if compressed:
                s = c.rope_scaling
                at = [
                    dim * math.log(s.original_max_position_embeddings / (b * 2 * math.pi)) / (2 * math.log(theta))
                    for b in (s.beta_fast, s.beta_slow)
                ]
                low, high = max(math.floor(at[0]), 0), min(math.ceil(at[1]), dim - 1)
                ramp = min(max((pair - low) / max(high - low, 1e-3), 0.0), 1.0)
                f = f * (ramp / s.factor + 1 - ramp)
            a, b = x[offset + 2 * pair], x[offset + 2 * pair + 1]
            cos, sin = math.cos(position * f), math.sin(position * f)
            out[offset + 2 * pair], out[offset + 2 * pair + 1] = a * cos - b * sin, a * sin + b * cos
        return out

    def token(self, ids: list[int]) -> Array:
        c, position = self.c, len(ids) - 1
        streams = np.stack([self.w["embed.weight"][ids[-1]]] * c.hc_mult)
        read = np.eye(c.hc_mult)[0]
        for layer in c.layers:
            if layer in c.engram_layer_ids:
                streams = self.engram(streams, ids, layer)
            for place in ("attn", "ffn"):
                name = f"layers.{layer}.hc_{place}"
                flat = streams.ravel()
                z = self.w[f"{name}_fn"] @ flat / math.sqrt(np.mean(flat * flat) + c.rms_norm_eps)
                scale, base, n = self.w[f"{name}_scale"], self.w[f"{name}_base"], c.hc_mult
                x = self.norm(read @ streams, f"layers.{layer}.{place}_norm.weight")
                y = self.attention(x, position, layer) if place == "attn" else self.experts(x, layer)
                read = sigmoid(z[:n] * scale[0] + base[:n]) + c.hc_eps
                add = 2 * sigmoid(z[n : 2 * n] * scale[1] + base[n : 2 * n])
                mix = self.sinkhorn((z[2 * n :] * scale[2] + base[2 * n :]).reshape(n, n))
                streams = np.outer(add, y) + mix.T @ streams
        return self.w["head.weight"] @ self.norm(read @ streams, "norm.weight")

    def sinkhorn(self, a: Array) -> Array:
        eps = self.c.hc_eps
        a = np.exp(a) / np.exp(a).sum(1, keepdims=True) + eps
        a = a / (a.sum(0, keepdims=True) + eps)
        for _ in range(self.c.hc_sinkhorn_iters - 1):
            a = a / (a.sum(1, keepdims=True) + eps)
            a = a / (a.sum(0, keepdims=True) + eps)
        return a

    def engram(self, streams: Array, ids: list[int], layer: int) -> Array:
        c, name = self.c, f"layers.{layer}.engram"
        bound = max(1, (2**63 - 1) // c.engram_compressed_vocab_size // 2)
        drawn = np.random.default_rng(10007 * layer).integers(0, bound, size=c.engram_max_ngram_size, dtype=np.int64)
        tokens = [ids[-1 - n] if n < len(ids) else c.engram_pad_token_id for n in range(c.engram_max_ngram_size)]
        assert c.engram_layer_ids == (layer,), "the primes below are those of a model with one Engram layer"
        rows, offset, hashed, taken = [], 0, tokens[0] * (int(drawn[0]) * 2 + 1), set[int]()
        for order in range(1, c.engram_max_ngram_size):
            hashed ^= tokens[order] * (int(drawn[order]) * 2 + 1)
            prime = c.engram_vocab_size - 1
            for _ in range(c.engram_n_heads):
                prime += 1
                while prime in taken or any(prime % d == 0 for d in range(2, math.isqrt(prime) + 1)):
                    prime += 1
                taken.add(prime)
                rows.append(hashed % prime + offset)
                offset += prime
        kv = self.w[f"{name}.wkv.weight"] @ np.concatenate([self.w[f"{name}.embed.weight"][row] for row in rows])
        value, out = kv[-c.hidden_size :], streams.copy()
        for n in range(c.hc_mult):
            x, key = streams[n], kv[n * c.hidden_size : (n + 1) * c.hidden_size]
            d = (x * self.w[f"{name}.q_weight"][n]) @ (key * self.w[f"{name}.k_weight"][n])
            d /= math.sqrt(np.mean(x * x) + c.rms_norm_eps) * math.sqrt(np.mean(key * key) + c.rms_norm_eps)
            d /= math.sqrt(c.hidden_size)
            out[n] += sigmoid(np.sign(d) * math.sqrt(max(abs(d), 1e-6))) * value
        return out

    def attention(self, x: Array, position: int, layer: int) -> Array:
        c, name, ratio = self.c, f"layers.{layer}.attn", self.c.compress_ratios[layer]
        qr = self.norm(self.w[f"{name}.wq_a.weight"] @ x, f"{name}.q_norm.weight")
        queries = (self.w[f"{name}.wq_b.weight"] @ qr).reshape(c.num_attention_heads, c.head_dim)
        key = self.norm(self.w[f"{name}.wkv.weight"] @ x, f"{name}.kv_norm.weight")
        self.keys[layer].append(self.turn(key, position, layer))
        keys = self.keys[layer][-c.sliding_window :]
        if ratio:
            source = max(s for s in c.kv_source_layer_ids if s <= layer)
            self.inputs[layer].append(x)
            if source == layer and (position + 1) % ratio == 0:
                self.compress(layer, position + 1 - ratio)
            if layer in c.index_source_layer_ids:
                self.selected = self.select(x, qr, position, layer, source)
            keys = keys + [self.entries[source][j] for j in self.selected]
        outputs = []
        for head in range(c.num_attention_heads):
            q = self.turn(queries[head], position, layer)
            weights = np.exp([q @ key / math.sqrt(c.head_dim) for key in keys])
            total = weights.sum() + math.exp(self.w[f"{name}.attn_sink"][head])
            output = sum(weight / total * key for weight, key in zip(weights, keys, strict=True))
            outputs.append(self.turn(output, -position, layer))
        rank = c.o_lora_rank
        groups = np.concatenate(outputs).reshape(c.o_groups, -1)
        low = [self.w[f"{name}.wo_a.weight"][g * rank : (g + 1) * rank] @ groups[g] for g in range(c.o_groups)]
        return self.w[f"{name}.wo_b.weight"] @ np.concatenate(low)

    def compress(self, layer: int, start: int) -> None:
        name, group = f"layers.{layer}.attn", self.inputs[layer][start:]
        parts = [self.w[f"{name}.compressor.wkv.weight"] @ x for x in group]
        entry = parts[0]
        if len(group) > 1:
            gates = [np.exp(self.w[f"{name}.compressor.wgate.weight"] @ x) for x in group]
            entry = sum(g * u for g, u in zip(gates, parts, strict=True)) / sum(gates)
        entry = self.norm(entry, f"{name}.compressor.norm.weight")
        self.entries[layer].append(self.turn(entry, start, layer))
        key = self.norm(self.w[f"{name}.indexer.wk.weight"] @ entry, f"{name}.indexer.k_norm.weight")
        self.index_keys[layer].append(self.turn(key, start, layer))

    def select(self, x: Array, qr: Array, position: int, layer: int, source: int) -> list[int]:
        c, name = self.c, f"layers.{layer}.attn.indexer"
        queries = (self.w[f"{name}.wq_b.weight"] @ qr).reshape(c.index_n_heads, c.index_head_dim)
        weights = self.w[f"{name}.weights_proj.weight"] @ x / math.sqrt(c.index_head_dim * c.index_n_heads)
        scores: dict[int, float] = {}
        for j, key in enumerate(self.index_keys[source]):
            products = [self.turn(query, position, layer) @ key for query in queries]
            scores[j] = sum(w * max(p, 0.0) for w, p in zip(weights, products, strict=True))
        if layer == c.candidate_source_layer_id and scores:
            blocks: dict[int, float] = {}
            for j, value in scores.items():
                block = j // c.candidate_block_size
                blocks[block] = max(blocks.get(block, -math.inf), value)
            blocks[max(blocks)] = math.inf
            self.candidates = best(blocks, c.candidate_topk_blocks)
        if layer > c.candidate_source_layer_id:
            scores = {j: value for j, value in scores.items() if j // c.candidate_block_size in self.candidates}
        return best(scores, c.index_topk)

    def experts(self, x: Array, layer: int) -> Array:
        c, name = self.c, f"layers.{layer}.ffn"
        s = np.sqrt(np.log1p(np.exp(self.w[f"{name}.gate.weight"] @ x)))
        chosen = best(dict(enumerate(s + self.w[f"{name}.gate.bias"])), c.num_experts_per_tok)
        y = self.expert(x, f"{name}.shared_experts")
        for e in chosen:
            share = s[e] / (s[chosen].sum() + 1e-20) * c.routed_scaling_factor
            y = y + share * self.expert(x, f"{name}.experts.{e}")
        return y

    def expert(self, x: Array, name: str) -> Array:
        limit = self.c.swiglu_limit
        left = np.minimum(self.w[f"{name}.w1.weight"] @ x, limit)
        right = np.clip(self.w[f"{name}.w3.weight"] @ x, -limit, limit)
        return self.w[f"{name}.w2.weight"] @ (left * sigmoid(left) * right)
