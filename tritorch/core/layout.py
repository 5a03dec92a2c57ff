"""Layouts and memory formats: how a tensor's elements lie in memory. Schemes of quantization:
how floats are integers there."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tritorch import _C
from tritorch.arrays.strides import contiguous_strides, copy_strides
from tritorch.arrays.symbolic import SymInt
from tritorch.core.naming import as_native, qualified


class layout:
    """`strided`, a sparse one, or `jagged`."""

    __slots__ = ("name",)
    _told_by_value = True

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return qualified(self.name)

    def __reduce__(self) -> str:
        return self.name


layout.__module__ = "tritorch"
strided: layout = layout("strided")
_C.register_part("strided", strided)
sparse_coo: layout = layout("sparse_coo")
sparse_csr: layout = layout("sparse_csr")
sparse_csc: layout = layout("sparse_csc")
sparse_bsr: layout = layout("sparse_bsr")
sparse_bsc: layout = layout("sparse_bsc")
jagged: layout = layout("jagged")
as_native(layout, "torch.layout", makes=False)


class memory_format:
    """The order in which dense memory holds a tensor's dims."""

    __slots__ = ("name",)
    _told_by_value = True

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return qualified(self.name)

    def __reduce__(self) -> str:
        return self.name


memory_format.__module__ = "tritorch"
contiguous_format: memory_format = memory_format("contiguous_format")
preserve_format: memory_format = memory_format("preserve_format")
channels_last: memory_format = memory_format("channels_last")
channels_last_3d: memory_format = memory_format("channels_last_3d")
as_native(memory_format, "torch.memory_format", makes=False)


def format_strides(shape: Sequence[int], format: memory_format) -> tuple[int, ...]:
    """The strides of a dense tensor in a memory format."""
    if format in (contiguous_format, preserve_format):
        return contiguous_strides(shape)
    needed = 4 if format is channels_last else 5
    if len(shape) != needed:
        raise RuntimeError(f"required rank {needed} tensor to use {format.name} format")
    order = (0, *range(2, needed), 1)  # outermost to innermost
    strides = [0] * needed
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


def is_in_format(shape: Sequence[int], strides: Sequence[int], format: memory_format) -> bool:
    """Whether strides are those of a format; dims of size 1 may have any, in the usual format all
    of what has no elements."""
    if format is contiguous_format and math.prod(shape) == 0:
        return True
    if format in (channels_last, channels_last_3d):
        needed = 4 if format is channels_last else 5
        if len(shape) != needed:
            return False
    expected = format_strides(shape, format)
    return all(n == 1 or s == e for n, s, e in zip(shape, strides, expected))


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements lie side by side, in whatever order of dims."""
    expected = 1
    for step, n in sorted((step, n) for n, step in zip(shape, strides) if n != 1):
        if step != expected:
            return False
        expected *= n
    return True


def dense_strides_like(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides of a copy: the original's where it is dense without overlap, else dense in its order
    of dims."""
    if SymInt in map(type, (*shape, *strides)):
        return copy_strides(tuple(shape), tuple(strides))
    return _C.copy_strides(shape, strides)


class qscheme:
    """A scheme by which a tensor is quantized."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return qualified(self._name)

    def __reduce__(self) -> str:
        return self._name


qscheme.__module__ = "tritorch"
per_tensor_affine = qscheme("per_tensor_affine")
per_channel_affine = qscheme("per_channel_affine")
per_tensor_symmetric = qscheme("per_tensor_symmetric")
per_channel_symmetric = qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")
as_native(qscheme, "torch.qscheme", makes=False)

# In the order of their numbers, which TorchScript and archives have.
SCHEMES = (
    per_tensor_affine,
    per_channel_affine,
    per_tensor_symmetric,
    per_channel_symmetric,
    per_channel_affine_float_qparams,
)
