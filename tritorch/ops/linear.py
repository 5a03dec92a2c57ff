"""Linear and bilinear maps, and pixel shuffles (torch.nn.functional)."""

from __future__ import annotations

import math

from tritorch.core.tensor import Tensor
from tritorch.ops.activation import functional, functional_with_out
from tritorch.ops.declare import PUBLIC
from tritorch.ops.shape import reshape


@functional_with_out
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b."""
    if weight.ndim == 1:
        out = input.matmul(weight)
    else:
        if input.ndim == 0 or input.shape[-1] != weight.shape[-1]:
            rows = math.prod(input.shape[:-1]) if input.ndim else 1
            inner = input.shape[-1] if input.ndim else 1
            raise RuntimeError(
                f"mat1 and mat2 shapes cannot be multiplied ({rows}x{inner} and "
                f"{weight.shape[1]}x{weight.shape[0]})"
            )
        out = input.matmul(weight.t())
    return out if bias is None else out + bias


@functional
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1^T W x2 + b."""
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and "
            f"{list(input2.shape)}"
        )
    lead = tuple(input1.shape[:-1])
    a = reshape(input1, (math.prod(lead), input1.shape[-1]))
    b = reshape(input2, (math.prod(lead), input2.shape[-1]))
    out = PUBLIC["einsum"]("bi,oij,bj->bo", a, weight, b)
    out = reshape(out, (*lead, weight.shape[0]))
    return out if bias is None else out + bias


PUBLIC["bilinear"] = bilinear


@functional
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels rearranged into space."""
    r = upscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with "
            f"{input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, c, h, w = input.shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    n = len(lead)
    split = reshape(input, (*lead, c // (r * r), r, r, h, w))
    moved = split.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return reshape(moved, (*lead, c // (r * r), h * r, w * r))


@functional
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Space rearranged into channels."""
    r = downscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with "
            f"{input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, c, h, w = input.shape
    for size, name in ((h, "height"), (w, "width")):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"{size} is not divisible by {r}"
            )
    n = len(lead)
    split = reshape(input, (*lead, c, h // r, r, w // r, r))
    moved = split.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return reshape(moved, (*lead, c * r * r, h // r, w // r))


@functional
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of groups interleaved."""
    if input.ndim < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{list(input.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    c = input.shape[1]
    if c % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
        )
    split = reshape(input, (input.shape[0], groups, c // groups, *input.shape[2:]))
    return reshape(split.transpose(1, 2), input.shape)


for _function in (pixel_shuffle, pixel_unshuffle, channel_shuffle):
    PUBLIC[_function.__name__] = _function
