"""Pairs of 4-bit integers in bytes."""

from __future__ import annotations

import tritorch as torch
from tritorch.core.tensor import Tensor


def _check(weight: Tensor) -> None:
    if weight.dim() != 2:
        raise AssertionError(f"weight must be 2D, got {weight.dim()}D")
    if weight.dtype != torch.int8:
        raise AssertionError(f"weight.dtype must be int8, got {weight.dtype}")


def pack_int4_to_int8(weight: Tensor) -> Tensor:
    """Two columns in one: the even column's value is in the low bits."""
    _check(weight)
    if weight.shape[1] % 2:
        raise AssertionError(f"weight.shape[1] must be even, got {weight.shape[1]}")
    return ((weight[:, 1::2] & 0xF) << 4) | (weight[:, 0::2] & 0xF)


def unpack_int8_to_int4(weight: Tensor) -> Tensor:
    """The columns of `pack_int4_to_int8`, as values from 0 to 15."""
    _check(weight)
    return torch.stack((weight & 0xF, (weight >> 4) & 0xF), dim=2).view(weight.shape[0], -1)
