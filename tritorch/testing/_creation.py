"""make_tensor: random tensors for tests."""

from __future__ import annotations

import math
import warnings
from typing import Any

from tritorch.core.device import device as Device
from tritorch.core.dtype import bool_, dtype as Dtype, float32, uint8
from tritorch.core.info import finfo, iinfo
from tritorch.core.promotion import category
from tritorch.core.tensor import Tensor
from tritorch.ops.random.random import randint
from tritorch.ops.shape.factory import empty
from tritorch.ops.shape.joining import repeat_interleave
from tritorch.ops.shape.memory import view_as_real


def _limits(kind: Dtype) -> tuple[float, float]:
    """What numbers there are: from the first to before the second."""
    if kind is bool_:
        return 0, 2
    if category(kind) == 1:
        info = iinfo(kind)
        return info.min, info.max + 1
    real = finfo(kind.to_real())
    return real.min, real.max


def _interval(
    low: float | None, high: float | None, usual: tuple[float, float], kind: Dtype
) -> tuple[float, float]:
    """The interval asked for, as far as the dtype reaches."""
    low = usual[0] if low is None else low
    high = usual[1] if high is None else high
    if any(isinstance(x, float) and math.isnan(x) for x in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and category(kind) >= 2:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is "
            "deprecated since 2.1 and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
            stacklevel=4,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    first, last = _limits(kind)
    if high < first or low >= last:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {kind} only "
            f"supports [{first}, {last})"
        )
    low, high = max(low, first), min(high, last)
    return (low, high) if category(kind) >= 2 else (math.ceil(low), math.ceil(high))


def make_tensor(
    *shape: Any,
    dtype: Dtype,
    device: str | Device,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of random numbers in [low, high); by default between -9 and 9."""
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"{noncontiguous=} and {memory_format=}"
        )
    rank = category(dtype)
    if requires_grad and rank < 2:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got "
            f"{dtype=}"
        )
    usual = (0, 2) if dtype is bool_ else (0, 10) if dtype is uint8 else (-9, 10 - (rank >= 2))
    first, last = _interval(low, high, usual, dtype)
    if rank < 2:
        out = randint(int(first), int(last), shape, dtype=dtype, device=device)
    else:
        narrow = dtype.itemsize == 1
        out = empty(shape, dtype=float32 if narrow else dtype, device=device)
        parts = view_as_real(out) if rank == 3 else out
        parts.uniform_(first, last) if first < last else parts.fill_(first)
        out = out.to(dtype)
    if noncontiguous and out.numel() > 1:
        out = repeat_interleave(out, 2, -1)[..., ::2]
    elif memory_format is not None:
        out = out.clone(memory_format=memory_format)
    if exclude_zero:
        out[out == 0] = 1 if rank < 2 else finfo(dtype.to_real()).tiny
    return out.requires_grad_() if requires_grad else out
