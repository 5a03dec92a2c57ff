"""index_reduce, nonzero_static, renorm and hash_tensor."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tritorch.core import defaults, published
from tritorch.core.dims import wrap_dim, wrap_dims
from tritorch.core.dtype import bool_, dtype, float32, float64, int32, int64, uint64
from tritorch.core.layout import contiguous_format
from tritorch.core.promotion import category, not_implemented, scalar_name
from tritorch.core.published import autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.index.gather import scatter_reduce_grad
from tritorch.ops.record import checks
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import require_tensor
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.infer import reduced, same
from tritorch.ops.record.operator import Operator, lies
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import public, write_out
from tritorch.ops.record.sizes import into_places
from tritorch.ops.reduce.reduction import vector_norm
from tritorch.ops.shape.factory import full
from tritorch.ops.shape.joining import stack
from tritorch.ops.shape.ranges import arange

# ---- index_reduce --------------------------------------------------------------------------------


def _expanded(index: Tensor, source: Tensor, dim: int) -> Tensor:
    """The index of each element of source, as scatter_reduce takes it."""
    shape = [-1 if i == dim else 1 for i in range(source.ndim)]
    return index.reshape(shape).expand(source.shape)


_index_reduce = Operator(
    "index_reduce", "x index src", "dim reduce include_self",
    schema="index_reduce(x, dim, index, src, reduce, include_self=include_self)",
    cpu=lambda x, i, s, dim, r, inc: backend("cpu", "indexing").index_reduce(x, dim, i, s, r, inc),
    gpu=lambda x, i, s, dim, r, inc: backend("gpu", "indexing").index_reduce(x, dim, i, s, r, inc),
    grad=Gradient(
        joint=lambda g, x, index, src, out, dim, reduce, include_self: scatter_reduce_grad(
            g, x, _expanded(index, src, dim), src, out, dim, reduce, include_self
        ),
    ),
    layout="row-major",
    rules=Rules(
        infer=same, axes=lambda x, i, s, dim, *rest: into_places(len(x.shape), dim, vector=True),
        batch="along_index",
    ),
)  # fmt: skip


@functools.cache
def _say_beta() -> None:
    defaults.warn("index_reduce() is in beta and the API may change at any time.", stacklevel=4)


def _check_index_reduce(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str) -> None:
    for position, (value, name) in enumerate(((index, "index"), (source, "source")), start=3):
        require_tensor(value, "index_reduce", name, position)
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    if index.ndim > 1:
        raise IndexError(
            f"index_reduce_(): Index is supposed to be a vector, but got dim: {index.ndim} with "
            f"type: {scalar_name(index.dtype)} and size: {list(index.shape)}"
        )
    if index.dtype not in (int32, int64):
        raise RuntimeError(
            f"index_reduce_(): Expected dtype int32/int64 for index but got: "
            f"{scalar_name(index.dtype)}"
        )
    if source.dtype is not x.dtype:
        raise RuntimeError(
            f"index_reduce_(): self ({scalar_name(x.dtype)}) and source "
            f"({scalar_name(source.dtype)}) must have the same scalar type"
        )
    rest = lambda t: [n for i, n in enumerate(t.shape) if i != dim]
    if source.ndim != x.ndim or rest(source) != rest(x):
        raise RuntimeError(
            f"source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(x.shape)} source.shape = {list(source.shape)}"
        )
    count = source.shape[dim] if source.ndim else 1
    if index.numel() != count:
        raise RuntimeError(
            f"index_reduce_(): Number of indices ({index.numel()}) should be equal to "
            f"source.size(dim): ({count}), for dim: {dim}"
        )
    if (x.is_cuda or x.ndim < 2) and (x.dtype is bool_ or x.is_complex()):
        raise not_implemented("index_func_", x.dtype)
    if not source.numel():
        return
    if x.dtype is bool_ and reduce == "mean":
        raise not_implemented("div_floor_cpu", x.dtype)
    if x.is_complex() and reduce in ("amax", "amin"):
        raise not_implemented("maximum_cpu" if reduce == "amax" else "minimum_cpu", x.dtype)
    checks.values(_require_places, (index,), x.shape[dim] if x.ndim else 1)


@checks.looks_at_values
def _require_places(array: Any, n: int) -> None:
    if type(array) is np.ndarray and array.size:
        if array.min() < 0 or array.max() >= n:
            raise IndexError("index out of range in self")


@public(out=True, inplace=True)
@exact_out("structured")
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *,
    include_self: bool = True,
) -> Tensor:  # fmt: skip
    """A copy of input with slices of source reduced into those at indices of a dim."""
    require_tensor(input, "index_reduce", "input", 1)
    dim = wrap_dim(dim, input.ndim)
    _check_index_reduce(input, dim, index, source, reduce)
    _say_beta()
    if not source.numel():
        return input.clone(memory_format=contiguous_format)
    flat = lambda t: t if t.ndim else t.reshape(1)
    tensors = flat(input), flat(index).to(int64), flat(source)
    out = _index_reduce.call(tensors, (dim, reduce, bool(include_self)))
    return out if input.ndim else out.reshape(())


# ---- nonzero_static ------------------------------------------------------------------------------


@public()
def nonzero_static(
    input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None
) -> Tensor:
    """The first `size` indices of elements that are not 0, filled up; never waits for a device."""
    require_tensor(input, "nonzero_static", "input", 1)
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    if out is not None and out.dtype is not int64:
        raise RuntimeError(
            f"nonzero_static: Expected out tensor to have scalar type Long but got scalar type"
            f"{scalar_name(out.dtype)}"
        )
    found = _first_places(input.detach(), size, fill_value)
    return found if out is None else write_out(found, out)


def _first_places(x: Tensor, size: int, fill_value: int) -> Tensor:
    if not x.ndim or not x.numel():
        return full((size, x.ndim), fill_value, dtype=int64, device=x.device)
    hit = x.reshape(-1) != 0
    n = hit.shape[0]
    rank = hit.to(int64).cumsum(0) - 1
    # All others write to one place behind the end.
    target = published.public.where(hit & (rank < size), rank, size)
    numbers = arange(n, device=x.device)
    empty = full((size + 1,), -1, dtype=int64, device=x.device)
    flat = empty.scatter(0, target, numbers).narrow(0, 0, size)
    columns, step = [], n
    for length in x.shape:
        step //= length
        columns.append(flat.div(step, rounding_mode="floor").remainder(length))
    return stack(columns, 1).masked_fill((flat < 0).unsqueeze(1), fill_value)


# ---- renorm --------------------------------------------------------------------------------------


@public(out=True, inplace=True)
@lies("row-major")
@autocast("cuda:float32")
@exact_out("structured")
@ends_with("renorm")
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Slices along a dim, those with a p-norm above maxnorm scaled down to it."""
    require_tensor(input, "renorm", "input", 1)
    for name, value in (("p", p), ("maxnorm", maxnorm)):
        if isinstance(value, complex):
            raise RuntimeError(f"renorm: {name} must be real-valued")
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if input.ndim < 2:
        raise RuntimeError(
            f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions"
        )
    dim = wrap_dim(dim, input.ndim)
    if category(input.dtype) < 2:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
            f"{scalar_name(input.dtype)}"
        )
    if not input.numel():
        return input.clone(memory_format=contiguous_format)
    others = tuple(i for i in range(input.ndim) if i != dim)
    wide = input.to(float32) if input.dtype.itemsize < 4 else input
    norm = vector_norm(wide, p, others, True)
    factor = published.public.where(norm > maxnorm, maxnorm / (norm + 1e-7), 1.0)
    return input * factor.to(input.dtype)


# ---- hash_tensor ---------------------------------------------------------------------------------


def _hash_on_cpu(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    is_float = x.dtype.kind not in "biu"
    bits = np.ascontiguousarray(x.astype(np.float64 if is_float else np.int64)).view(np.uint64)
    bits = bits.reshape(x.shape)
    exclusive: Any = np.bitwise_xor
    return np.asarray(exclusive.reduce(bits, axis=dims, keepdims=keepdim))


def _hash_on_gpu(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    kind: dtype = float64 if x.dtype.is_floating_point else int64
    bits = x.astype(kind)
    bits = bits.view_dtype(int64) if kind is float64 else bits
    out = backend("gpu", "reduction").reduce(
        bits, dims, keepdim, int64, int64, "same", "exclusive", 0
    )
    return out.view_dtype(uint64)


_hash = Operator(
    "hash_tensor",
    "x",
    "dims keepdim",
    schema="hash_tensor(x, dims, keepdim=keepdim)",
    cpu=_hash_on_cpu,
    gpu=_hash_on_gpu,
    rules=Rules(
        infer=lambda x, dims, keepdim: x.new(reduced(x.shape, dims, keepdim), uint64),
        axes="along",
        batch="dims",
    ),
)


@public()
def hash_tensor(
    input: Tensor, dim: Any = (), *, keepdim: bool = False, mode: int = 0,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The exclusive or of all elements' bits, as 64-bit numbers, over dims."""
    require_tensor(input, "hash_tensor", "input", 1)
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if input.is_complex():
        raise not_implemented("xor_sum_cpu", input.dtype)
    if out is not None and out.dtype is not uint64:
        raise RuntimeError(
            f"Expected result to be of dtype uint64, but got {scalar_name(out.dtype)}"
        )
    everything = dim is None or (not isinstance(dim, int) and not len(dim))
    if not input.numel() and everything:
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify "
            "the reduction dim with the 'dim' argument."
        )
    dims = wrap_dims(dim, input.ndim)
    for d in dims:
        if input.ndim and input.shape[d] == 0:
            raise IndexError(f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
    x = input.detach()
    found = _hash.call((x if x.ndim else x.reshape(1),), (dims if x.ndim else (0,), bool(keepdim)))
    found = found if input.ndim else found.reshape(())
    return found if out is None else write_out(found, out)
