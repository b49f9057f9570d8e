"""The small operations that the model is made of. Knows tensors only: no parameter names, no caches.

Every row of a result depends on the same row of the arguments alone, to the last bit: a request's numbers do not change
with what is computed beside it. Products therefore run in tiles of one size, and `sigmoid`, `silu` and `softplus` are
written with `exp` and `log`, since torch's own give other bits at the end of a tensor than in its middle.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .config import RopeScaling
from .quantised import Quantised, dense

TILE = 64
"""Rows of every matrix product. BLAS sums in another order where a matrix has another number of rows."""


def wide(x: Tensor) -> Tensor:
    """`x` in at least fp32."""
    return x if x.dtype == torch.float64 else x.float()


def linear(x: Tensor, weight: Tensor | Quantised) -> Tensor:
    """`x` [T, in] times `weight` [out, in]: [T, out], in tiles of `TILE` rows padded with zeros."""
    out = x.new_empty(x.shape[0], weight.shape[0])
    transposed = dense(weight, x.dtype).t()
    for start in range(0, x.shape[0], TILE):
        rows = x[start : start + TILE].contiguous()
        padded = rows if rows.shape[0] == TILE else F.pad(rows, (0, 0, 0, TILE - rows.shape[0]))
        out[start : start + TILE] = (padded @ transposed)[: rows.shape[0]]
    return out


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def silu(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


def softplus(x: Tensor) -> Tensor:
    return x.clamp(min=0) + torch.log(1 + torch.exp(-x.abs()))


def rmsnorm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """`x` [..., n] over its root mean square, times `weight` [n]. In at least fp32; the result has the type of `x`."""
    y = wide(x)
    return (wide(weight) * y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


def rope_frequencies(dim: int, theta: float, scaling: RopeScaling | None) -> Tensor:
    """Angles per position of the `dim // 2` pairs, in fp64. With `scaling`, slow pairs turn slower (YaRN)."""
    pair = torch.arange(dim // 2, dtype=torch.float64)
    frequency = theta ** (-2 * pair / dim)
    if scaling is None:
        return frequency

    def pair_of(rotations: float) -> float:
        """The pair that turns so often within the original length."""
        original = scaling.original_max_position_embeddings
        return dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(pair_of(scaling.beta_fast)), 0)
    high = min(math.ceil(pair_of(scaling.beta_slow)), dim - 1)
    ramp = ((pair - low) / max(high - low, 1e-3)).clamp(0, 1)
    return frequency / scaling.factor * ramp + frequency * (1 - ramp)


def rope(x: Tensor, positions: Tensor, frequency: Tensor, *, inverse: bool = False) -> Tensor:
    """Turns the pairs (2i, 2i+1) of the last `2 * len(frequency)` elements of `x` by position times frequency.

    `x` is [T, n] or [T, heads, n]; `positions` is [T]. `inverse` turns back.
    """
    dim = 2 * frequency.shape[0]
    plain, turned = wide(x).split([x.shape[-1] - dim, dim], dim=-1)
    angle = positions[:, None].to(turned.dtype) * frequency.to(turned.dtype)
    cos, sin = torch.cos(angle), torch.sin(-angle if inverse else angle)
    if x.dim() == 3:
        cos, sin = cos[:, None], sin[:, None]
    even, odd = turned[..., 0::2], turned[..., 1::2]
    pairs = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return torch.cat([plain, pairs.flatten(-2)], dim=-1).to(x.dtype)


def sinkhorn(logits: Tensor, iterations: int, eps: float) -> Tensor:
    """Matrices [..., S, S] whose rows and columns sum to one up to `eps`, from their logits."""
    matrix = torch.softmax(logits, dim=-1) + eps
    matrix = matrix / (matrix.sum(-2, keepdim=True) + eps)
    for _ in range(iterations - 1):
        matrix = matrix / (matrix.sum(-1, keepdim=True) + eps)
        matrix = matrix / (matrix.sum(-2, keepdim=True) + eps)
    return matrix


def stable_topk(scores: Tensor, k: int) -> Tensor:
    """Indices [..., min(k, n)] of the largest of `scores` [..., n], best first; of equals the lowest first."""
    return torch.sort(scores, dim=-1, descending=True, stable=True).indices[..., :k]


def sink_attention(queries: Tensor, keys: Tensor, visible: Tensor, sink: Tensor) -> Tensor:
    """Attention in which a key is its own value, and each head's sink takes a share without a value.

    queries: [T, heads, D]. keys: [T, n, D], a query's own; those that are not visible must be zero, since nothing may
    come of NaN. visible: [T, n] bool. sink: [heads] logits, not scaled. Returns [T, heads, D]; zero where no key is
    visible.
    """
    scores = torch.bmm(queries, keys.transpose(1, 2)) * queries.shape[-1] ** -0.5
    scores = scores.masked_fill(~visible[:, None], -torch.inf)
    top = torch.maximum(scores.amax(-1), sink)
    weights = torch.exp(scores - top[..., None])
    total = weights.sum(-1) + torch.exp(sink - top)
    return torch.bmm(weights / total[..., None], keys)
