"""Linear and bilinear maps, and pixel shuffles (torch.nn.functional)."""

from __future__ import annotations

import math
from typing import Any

from tritorch.arrays import arrays
from tritorch.arrays.strides import looks_channels_last
from tritorch.core.layout import contiguous_format
from tritorch.core.published import PUBLIC, autocast
from tritorch.core.tensor import Tensor
from tritorch.host import threads
from tritorch.host.linalg import blas
from tritorch.host.pointwise.narrow import like, widen
from tritorch.ops.linalg.matmul import (
    BLAS_TYPES as _FLOATS,
    einsum,
    require_like_addend,
    require_same_dtype,
)
from tritorch.ops.pointwise.arithmetic import conj
from tritorch.ops.record.ends import ends_as, ends_with
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.outputs import cpp_name, exact_out
from tritorch.ops.record.publishing import functional, functional_with_out
from tritorch.ops.shape.copying import clone
from tritorch.ops.shape.shape import expand, reshape


@arrays.by_steps
def _cpu_linear(x: Any, w: Any, b: Any) -> Any:
    shape = (*x.shape[:-1], w.shape[0])
    if x.dtype not in _FLOATS:
        x, w, b, narrow = widen(x), widen(w), None if b is None else widen(b), x
        return like(_cpu_linear(x, w, b), narrow)
    rows = x.reshape(math.prod(shape[:-1]), x.shape[-1])
    found = None if b is None else blas.with_bias(rows, w.T, b)
    if found is not None:
        return found.reshape(shape)
    # NumPy's dot takes one element for a factor, and forgets that 0 * inf is NaN.
    out = blas.dot(rows, w.T) if rows.size > 1 < w.size else blas.matmul(rows, w.T)
    if b is not None:
        threads.elementwise(arrays.add, out, out, b)
    return out.reshape(shape)


def _gpu_linear(x: Any, w: Any, b: Any) -> Any:
    from tritorch.gpu.linalg import matmul
    from tritorch.gpu.pointwise import pointwise

    rows = x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))
    if x.dtype.is_complex:
        out = matmul.mm(rows, w.transpose(0, 1))
        if b is not None:
            pointwise.call("add", (out, b), matmul.accumulator(x.dtype), x.dtype, out)
    else:
        out = matmul.linear(rows, w, b)
    return out.reshape((*x.shape[:-1], w.shape[0]))


def _rows(x: Tensor) -> Tensor:
    return x if x.ndim == 2 else reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


# The weight's gradient is a product laid out like the weight, not the transpose of one.
_linear = Operator(
    "linear", "x w b",
    cpu=_cpu_linear, gpu=_gpu_linear,
    composed=lambda x, w, b: x.matmul(w.t()) if b is None else x.matmul(w.t()) + b, fuses="linear",
    grad=Gradient(
        (
            lambda g, w: g.matmul(conj(w)),
            lambda g, x: _rows(g).t().mm(conj(_rows(x))),
            lambda g: _rows(g).sum(0),
        ),
        node="{'squeeze_.dim' if len(x.shape) == 1 else ('mm', 'addmm')[b is not None] if "
            "len(x.shape) == 2 else ('_unsafe_view', 'view')[b is not None]}",
    ),
    rules=Rules(
        infer=lambda x, w, b: x.new((*x.shape[:-1], w.shape[0])), axes="...k,nk,n->...n",
        batch="linear",
    ),
)  # fmt: skip


class _AsAddmm:
    """The inputs of PyTorch's node of a layer with a bias: bias, input, the weight transposed.
    Where PyTorch has several nodes, that of the result has all inputs here."""

    @staticmethod
    def _biased(node: Any) -> bool:
        return not node._node_absent & 0b100

    @classmethod
    def _applies(cls, node: Any) -> bool:
        return len(node._node_shape) == 2 and cls._biased(node)

    def edges(self, node: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        """For `next_functions`."""
        if self._applies(node):
            return edges[2], edges[0], edges[1]
        return edges if self._biased(node) else edges[:2]

    def shown(self, node: Any, grads: Any) -> tuple[Any, ...]:
        """Gradients as hooks of the node see them."""
        x, w, b = grads
        w = None if w is None else w.t()
        if self._applies(node):
            return b, x, w
        return (x, w, b) if self._biased(node) else (x, w)

    def own(self, node: Any, grads: Any) -> tuple[Any, ...]:
        """What hooks made of them, in the record's order."""
        if self._applies(node):
            b, x, w = grads
        else:
            x, w, b = grads if self._biased(node) else (*grads, None)
        return x, None if w is None else w.t(), b


_linear.order = _AsAddmm()


@functional_with_out
@autocast("lower")
@exact_out("structured")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b."""
    if not (input.ndim and weight.ndim):
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {input.ndim}D and "
            f"{weight.ndim}D"
        )
    if weight.ndim == 1:
        out = input.matmul(weight)
        return out if bias is None else out + bias
    if weight.ndim != 2 or input.ndim == 0 or input.shape[-1] != weight.shape[1]:
        rows = math.prod(input.shape[:-1]) if input.ndim else 1
        inner = input.shape[-1] if input.ndim else 1
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{inner} and "
            f"{weight.shape[1]}x{weight.shape[0]})"
        )
    require_same_dtype("addmm_impl_cpu_", input, weight)
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        if bias is not None:
            require_like_addend(bias, input)
        out = input.matmul(weight.t())
        return out if bias is None else out + bias
    if bias is None or (bias.shape == weight.shape[:1] and bias.dtype is input.dtype):
        return _linear.call((input, weight, bias))
    require_like_addend(bias, input)
    out = _linear.call((input, weight, None))
    out = out + expand(bias, out.shape)
    return ends_as("addmm", out) if input.ndim == 2 else out


@functional
@autocast("cuda:widest")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1^T W x2 + b."""
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and "
            f"{list(input2.shape)}"
        )
    kinds = {"input1": input1, "input2": input2, "weight": weight, "bias": bias}
    given = {name: x for name, x in kinds.items() if x is not None}
    if any(x.dtype is not input1.dtype for x in given.values()):
        raise RuntimeError(
            "All tensors must have the same dtype, got "
            + ", ".join(f"{name}: {cpp_name(x.dtype)}" for name, x in given.items())
        )
    for i, (name, x) in enumerate((("input1", input1), ("input2", input2))):
        if x.shape[-1] != weight.shape[i + 1]:
            raise RuntimeError(
                f"bilinear(): {name} size does not match weight size: got {x.shape[-1]} but "
                f"expected {weight.shape[i + 1]}"
            )
    lead = tuple(input1.shape[:-1])
    a = reshape(input1, (math.prod(lead), input1.shape[-1]))
    b = reshape(input2, (math.prod(lead), input2.shape[-1]))
    out = einsum("bi,oij,bj->bo", a, weight, b)
    out = reshape(out, (*lead, weight.shape[0]))
    return out if bias is None else out + bias


PUBLIC["bilinear"] = bilinear


@functional
@ends_with("pixel_shuffle")
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
    if _channels_last(input):
        split = reshape(input.permute(0, 2, 3, 1), (*lead, h, w, c // (r * r), r, r))
        moved = _moved_copy(split.permute(0, 1, 4, 2, 5, 3))
        return reshape(moved, (*lead, h * r, w * r, c // (r * r))).permute(0, 3, 1, 2)
    n = len(lead)
    split = reshape(input, (*lead, c // (r * r), r, r, h, w))
    moved = split.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return reshape(_moved_copy(moved), (*lead, c // (r * r), h * r, w * r))


def _channels_last(x: Tensor) -> bool:
    return x.ndim == 4 and looks_channels_last(tuple(x.shape), x.stride())


def _moved_copy(x: Tensor) -> Tensor:
    """In its order of dims; always memory of its own."""
    return clone(x, memory_format=contiguous_format)


@functional
@ends_with("pixel_unshuffle")
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
    if _channels_last(input):
        split = reshape(input.permute(0, 2, 3, 1), (*lead, h // r, r, w // r, r, c))
        moved = _moved_copy(split.permute(0, 1, 3, 5, 2, 4))
        return reshape(moved, (*lead, h // r, w // r, c * r * r)).permute(0, 3, 1, 2)
    n = len(lead)
    split = reshape(input, (*lead, c, h // r, r, w // r, r))
    moved = split.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return reshape(_moved_copy(moved), (*lead, c * r * r, h // r, w // r))


@functional
@ends_with("channel_shuffle")
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
    if _channels_last(input):
        last = input.permute(0, 2, 3, 1)
        split = reshape(last, (*last.shape[:3], groups, c // groups))
        return reshape(_moved_copy(split.transpose(3, 4)), last.shape).permute(0, 3, 1, 2)
    split = reshape(input, (input.shape[0], groups, c // groups, *input.shape[2:]))
    return reshape(_moved_copy(split.transpose(1, 2)), input.shape)


@functional
def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """channel_shuffle, by another name."""
    return channel_shuffle(input, groups)


for _function in (pixel_shuffle, pixel_unshuffle, channel_shuffle, native_channel_shuffle):
    PUBLIC[_function.__name__] = _function
