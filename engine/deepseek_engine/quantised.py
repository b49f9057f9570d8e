"""Quantised matrices: how the released checkpoint stores its large ones, and their values.

Knows no model. A matrix can stay in its bytes and be dequantised where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

E8M0_NAN = 255


@dataclass(frozen=True)
class Form:
    """How a tensor is stored: its type, the rows and inputs that share a scale, and the values in a byte."""

    dtype: str
    group: tuple[int, int] | None = None
    packed: int = 1


BF16 = Form("BF16")
F32 = Form("F32")
FP8_BLOCK = Form("F8_E4M3", (32, 32))
FP8_ROW = Form("F8_E4M3", (1, 32))
FP4_ROW = Form("I8", (1, 32), packed=2)

# Values of E2M1 by their four bits; the highest is the sign.
_FP4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])


@dataclass(frozen=True)
class Quantised:
    """A matrix [rows, inputs] in its bytes.

    stored: uint8 [rows, inputs / values in a byte]. scale: uint8, one E8M0 exponent for each group, `2^(byte - 127)`,
    groups counted from the top left, the last ones cut.
    """

    stored: Tensor
    scale: Tensor
    form: Form

    @property
    def shape(self) -> tuple[int, int]:
        return self.stored.shape[0], self.stored.shape[1] * self.form.packed

    def dense(self, dtype: torch.dtype) -> Tensor:
        """All values [rows, inputs]. They are exact in fp32, but for scales at the ends of its range."""
        height = self.form.group[0] if self.form.group else 1
        scale = self.scale.repeat_interleave(height, 0)[: self.stored.shape[0]]
        return _values(self.stored, scale, self.form).to(dtype)

    def __getitem__(self, rows: Tensor) -> Tensor:
        """The values of some rows, [..., inputs] in fp32. Each row must have its own scales."""
        if self.form.group is None or self.form.group[0] != 1:
            raise TypeError("rows of this form share their scales")
        return _values(self.stored[rows], self.scale[rows], self.form)


def dense(matrix: Tensor | Quantised, dtype: torch.dtype) -> Tensor:
    """The values of a matrix, however it is kept."""
    return matrix.dense(dtype) if isinstance(matrix, Quantised) else matrix


def _values(stored: Tensor, scale: Tensor, form: Form) -> Tensor:
    """fp32 [..., inputs] of bytes and of their rows' scales."""
    if form.packed == 2:
        low_first = torch.stack([stored & 15, stored >> 4], dim=-1).flatten(-2)
        values = _FP4.to(stored.device)[low_first.long()]
    else:
        values = stored.view(torch.float8_e4m3fn).float()
    width = form.group[1] if form.group else 1
    powers = scale.view(torch.float8_e8m0fnu).float()
    return values * powers.repeat_interleave(width, -1)[..., : values.shape[-1]]
