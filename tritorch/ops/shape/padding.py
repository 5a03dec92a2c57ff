"""Padding (torch.nn.functional.pad)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch.arrays.sym_functions import sym_max
from tritorch.arrays.symbolic import SymInt
from tritorch.core.published import PUBLIC, autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.record.checks import convert_number, require_kernel, require_tensor
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.operator import Operator, laid_out
from tritorch.ops.record.publishing import functional
from tritorch.ops.record.sizes import padded
from tritorch.ops.shape.parts import narrow


def _padded(shape: Sequence[int], padding: Sequence[int]) -> list[int]:
    """A shape with `padding` before and after each of the last dims, the last dim first."""
    out = list(shape)
    for i in range(len(padding) // 2):
        out[-1 - i] += padding[2 * i] + padding[2 * i + 1]
    return out


_pad = Operator(
    "pad",
    "x",
    "padding mode value",
    cpu="shaping.pad",
    grad=Gradient(
        lambda g, x_shape, padding, mode: _back.call((g,), (x_shape, padding, mode)),
        node="{dict(constant='constant_pad_nd', circular='torch::autograd::CopySlices', reflect="
        "'reflection_pad{}d', replicate='replication_pad{}d')[mode].format(len(padding) // 2)}",
    ),
    layout="format",
    rules=Rules(
        infer=lambda x, padding, mode, value: x.new(_padded(x.shape, padding)),
        axes=lambda x, padding, *rest: padded(len(x.shape), len(padding) // 2),
        batch="rows",
    ),
)
_back: Operator = Operator(
    "pad_backward",
    "y",
    "shape padding mode",
    schema="(Tensor y, SymInt[] shape, SymInt[] padding, str mode) -> Tensor",
    kind="internal",
    cpu="shaping.pad_backward",
    grad=lambda g, padding, mode: _pad.call((g,), (padding, mode, 0.0)),
    layout="format",
    rules=Rules(
        infer=lambda y, shape, *rest: y.new(shape),
        axes=lambda y, shape, padding, *rest: padded(len(shape), len(padding) // 2),
        batch="rows",
    ),
)


def _amounts(input: Tensor, pad: Sequence[int]) -> tuple[int, ...]:
    amounts = tuple([n if type(n) is SymInt else int(n) for n in pad])
    if len(amounts) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(amounts) // 2 > input.ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(amounts)} and input of dimension {input.ndim}"
        )
    return amounts


@functional
@autocast("cpu:float32-if-it-reads")
def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Elements added (or, where negative, cut) at both ends of the last dims."""
    require_tensor(input, "pad", "input", 1)
    if value is not None and not isinstance(value, (int, float, np.generic)):
        kind = type(value).__name__
        raise TypeError(f"pad(): argument 'value' (position 4) must be float, not {kind}")
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else float(value))
    amounts = _amounts(input, pad)
    n = len(amounts) // 2
    if value is not None and value != 0:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if input.ndim not in (n + 1, n + 2) or n > 3:
        raise NotImplementedError(
            "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now"
        )
    if mode != "circular":
        at = input.ndim - n - 1  # of the channels
        if 0 in input.shape[at:]:
            raise RuntimeError(
                f"Expected {n + 1}D or {n + 2}D (batch mode) tensor with possibly 0 batch size and "
                f"other non-zero dimensions for input, but got: {list(input.shape)}"
            )
        require_kernel(f"{'reflection' if mode == 'reflect' else 'replication'}_pad{n}d",
                       input, "bool")  # fmt: skip
    for i in range(n):
        size = input.shape[-1 - i]
        before, after = amounts[2 * i : 2 * i + 2]
        if mode == "reflect" and (before >= size or after >= size):
            raise RuntimeError(
                "Argument #4: Padding size should be less than the corresponding input "
                f"dimension, but got: padding ({before}, {after}) at dimension "
                f"{input.ndim - 1 - i} of input {list(input.shape)}"
            )
        if mode == "circular" and (before > size or after > size):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if size + before + after < 0 or (mode == "circular" and size + before + after <= 0):
            raise RuntimeError("Negative padding value is resulting in an empty dimension.")
        if size == 0:
            raise RuntimeError(
                f"Expected {input.ndim}D tensor with non-zero spatial dimensions, but got: "
                f"{list(input.shape)}"
            )
    x = input if input.ndim == n + 2 else input.unsqueeze(0)
    out = _run(x, amounts, mode, 0.0)
    out = laid_out("row-major", out) if mode == "circular" else out
    return out if input.ndim == n + 2 else out.squeeze(0)


def _constant(input: Tensor, amounts: tuple[int, ...], value: Any) -> Tensor:
    for i in range(len(amounts) // 2):
        size = input.shape[-1 - i] + amounts[2 * i] + amounts[2 * i + 1]
        if size < 0:
            dim = input.ndim - 1 - i
            raise RuntimeError(
                f"The input size {input.shape[dim]}, plus negative padding {amounts[2 * i]} and "
                f"{amounts[2 * i + 1]} resulted in a negative output size, which is invalid. Check "
                f"dimension {dim} of your input."
            )
    return laid_out("format", _run(input, amounts, "constant", value), input)


def _run(x: Tensor, amounts: tuple[int, ...], mode: str, value: Any) -> Tensor:
    """Cuts first, then pads; but an edge that is replicated may have been cut away itself."""
    if mode == "replicate":
        return _pad.call((x,), (amounts, mode, value))
    for i in range(len(amounts) // 2):
        before, after = amounts[2 * i : 2 * i + 2]
        if before < 0 or after < 0:
            dim, start = x.ndim - 1 - i, max(-before, 0)
            x = narrow(x, dim, start, x.shape[dim] - start - max(-after, 0))
    grow = tuple([(n if n > 0 else 0) if type(n) is int else sym_max(n, 0) for n in amounts])
    if not any(grow):
        return x.clone()
    return _pad.call((x,), (grow, mode, value))


@functional
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """pad with a constant."""
    return _constant(input, _amounts(input, pad), convert_number(value, input.dtype))


PUBLIC["constant_pad_nd"] = constant_pad_nd
