"""Device functions that Triton kernels import from PyTorch: extrema that keep NaN, reductions with
places, Welford's sums, integer quotients.  Importing this imports Triton."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.language import math as math
from triton.language.extra import libdevice as libdevice


def set_driver_to_gpu() -> None:
    """Nothing: the driver that Triton sees is the package's own, of the GPU."""


@triton.jit
def promote_to_tensor(x):
    """x as a tensor, if it is a number."""
    return x + tl.zeros((1,), tl.int1)


@triton.jit
def is_floating(x):
    """True if x is of a float type."""
    return promote_to_tensor(x).dtype.is_floating()


@triton.jit
def div_floor_integer(a, b):
    """The quotient of integers, rounded down."""
    quotient = a // b
    remainder = a % b
    fixed = tl.where(remainder != 0, quotient - 1, quotient)
    return tl.where((a < 0) != (b < 0), fixed, quotient)


@triton.jit
def remainder_integer(a, b):
    """The remainder with the sign of b."""
    remainder = a % b
    return tl.where((remainder != 0) & ((a < 0) != (b < 0)), remainder + b, remainder)


@triton.jit
def minimum(a, b):
    """The smaller one; NaN if either is."""
    mask = a < b
    if is_floating(a):
        mask |= a != a
    return tl.where(mask, a, b)


@triton.jit
def maximum(a, b):
    """The larger one; NaN if either is."""
    mask = a > b
    if is_floating(a):
        mask |= a != a
    return tl.where(mask, a, b)


@triton.jit
def min2(a, dim):
    """The least along a dim; NaN if any is."""
    return tl.reduce(a, dim, minimum)


@triton.jit
def max2(a, dim):
    """The largest along a dim; NaN if any is."""
    return tl.reduce(a, dim, maximum)


@triton.jit
def _with_index(mask, a_value, a_index, b_value, b_index):
    """a where mask holds, else b, with its place; of equal ones the first, NaN before all."""
    equal = a_value == b_value
    if is_floating(a_value):
        a_isnan = a_value != a_value
        b_isnan = b_value != b_value
        mask |= a_isnan & (not b_isnan)
        equal |= a_isnan & b_isnan
    mask |= equal & (a_index < b_index)
    return tl.where(mask, a_value, b_value), tl.where(mask, a_index, b_index)


@triton.jit
def minimum_with_index(a_value, a_index, b_value, b_index):
    """The smaller value with its place; of equal ones the first, NaN before all."""
    return _with_index(a_value < b_value, a_value, a_index, b_value, b_index)


@triton.jit
def maximum_with_index(a_value, a_index, b_value, b_index):
    """The larger value with its place; of equal ones the first, NaN before all."""
    return _with_index(a_value > b_value, a_value, a_index, b_value, b_index)


@triton.jit
def min_with_index(value, index, dim):
    """The least along a dim, and its place."""
    return tl.reduce((value, index), dim, minimum_with_index)


@triton.jit
def max_with_index(value, index, dim):
    """The largest along a dim, and its place."""
    return tl.reduce((value, index), dim, maximum_with_index)


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def prod(input, axis):
    """The product along a dim."""
    return tl.reduce(input, axis, _times)


@triton.jit
def _either(a, b):
    return a | b


@triton.jit
def any(a, dim):
    """True where any element along a dim is."""
    return tl.reduce(a, dim, _either)


@triton.jit
def welford_reduce(value, mean, m2, weight, first_iteration):
    """A mean, a sum of squares around it and a count, with one more value."""
    if first_iteration:
        new_weight = tl.full(weight.shape, 1, weight.dtype)
        new_mean = value
        new_m2 = tl.zeros_like(m2)
    else:
        delta = value - mean
        new_weight = weight + 1
        new_mean = mean + delta / new_weight
        new_m2 = m2 + delta * (value - new_mean)
    return new_mean, new_m2, new_weight


@triton.jit
def welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    """Two of these as one."""
    delta = mean_2 - mean_1
    new_weight = weight_1 + weight_2
    share = tl.where(new_weight == 0.0, 0.0, weight_2 / new_weight)
    return (
        mean_1 + delta * share,
        m2_1 + m2_2 + delta * delta * weight_1 * share,
        new_weight,
    )


@triton.jit
def welford(mean, m2, weight, dim):
    """All along a dim as one."""
    return tl.reduce((mean, m2, weight), dim, welford_combine)


def get_constexprs(kernel: Any) -> list[int]:
    """The places of a kernel's parameters that are constants of its compilation."""
    return [p.num for p in kernel.params if p.is_constexpr]
