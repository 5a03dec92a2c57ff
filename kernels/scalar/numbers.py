"""Real and complex numbers of one kernel: a tuple of one part, or of two.

In memory complex numbers are pairs of reals (PAIR); offsets count numbers.
"""

import triton
import triton.language as tl

from ..pointwise import maximum
from .complex import div
from .elementary import negated, quotient


@triton.jit
def part(ptr, mask):
    """One part; 0 where the mask says no."""
    if mask is None:
        return tl.load(ptr)
    else:
        return tl.load(ptr, mask=mask, other=0.0)


@triton.jit
def load(ptr, at, mask, PAIR: tl.constexpr):
    """Numbers; zeros where the mask says no."""
    if PAIR:
        return (part(ptr + 2 * at, mask), part(ptr + 2 * at + 1, mask))
    else:
        return (part(ptr + at, mask),)


@triton.jit
def store(ptr, at, x, mask):
    """Stores numbers where the mask says yes."""
    if len(x) == 2:
        tl.store(ptr + 2 * at, x[0], mask=mask)
        tl.store(ptr + 2 * at + 1, x[1], mask=mask)
    else:
        tl.store(ptr + at, x[0], mask=mask)


@triton.jit
def number_of(x, PAIR: tl.constexpr):
    """A real as a number of one or two parts."""
    if PAIR:
        return (x, tl.zeros_like(x))
    else:
        return (x,)


@triton.jit
def neg(x):
    if len(x) == 2:
        return (negated(x[0]), negated(x[1]))
    else:
        return (negated(x[0]),)


@triton.jit
def conj(x):
    if len(x) == 2:
        return (x[0], negated(x[1]))
    else:
        return x


@triton.jit
def plus(x, y):
    if len(x) == 2:
        return (x[0] + y[0], x[1] + y[1])
    else:
        return (x[0] + y[0],)


@triton.jit
def minus(x, y):
    if len(x) == 2:
        return (x[0] - y[0], x[1] - y[1])
    else:
        return (x[0] - y[0],)


@triton.jit
def times(x, y):
    if len(x) == 2:
        return (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0])
    else:
        return (x[0] * y[0],)


@triton.jit
def scaled(x, factor):
    """Times a real."""
    if len(x) == 2:
        return (x[0] * factor, x[1] * factor)
    else:
        return (x[0] * factor,)


@triton.jit
def shrunk(x, divisor):
    """Divided by a real."""
    if len(x) == 2:
        return (quotient(x[0], divisor), quotient(x[1], divisor))
    else:
        return (quotient(x[0], divisor),)


@triton.jit
def over(x, y):
    """x / y."""
    if len(x) == 2:
        return div(x[0], x[1], y[0], y[1])
    else:
        return (quotient(x[0], y[0]),)


@triton.jit
def where(condition, x, y):
    if len(x) == 2:
        return (tl.where(condition, x[0], y[0]), tl.where(condition, x[1], y[1]))
    else:
        return (tl.where(condition, x[0], y[0]),)


@triton.jit
def square(x):
    """|x|^2."""
    if len(x) == 2:
        return x[0] * x[0] + x[1] * x[1]
    else:
        return x[0] * x[0]


@triton.jit
def height(x):
    """|re| + |im|, by which LAPACK chooses pivots."""
    if len(x) == 2:
        return tl.abs(x[0]) + tl.abs(x[1])
    else:
        return tl.abs(x[0])


@triton.jit
def top_of(x):
    """The larger magnitude of its parts; NaN if one is."""
    if len(x) == 2:
        return maximum(tl.abs(x[0]), tl.abs(x[1]))
    else:
        return tl.abs(x[0])


@triton.jit
def is_zero(x):
    if len(x) == 2:
        return (x[0] == 0) & (x[1] == 0)
    else:
        return x[0] == 0


@triton.jit
def column(x):
    """A vector as a column."""
    if len(x) == 2:
        return (x[0][:, None], x[1][:, None])
    else:
        return (x[0][:, None],)


@triton.jit
def row(x):
    """A vector as a row."""
    if len(x) == 2:
        return (x[0][None, :], x[1][None, :])
    else:
        return (x[0][None, :],)


@triton.jit
def total(x, AXIS: tl.constexpr):
    """The sum along an axis."""
    if len(x) == 2:
        return (tl.sum(x[0], AXIS), tl.sum(x[1], AXIS))
    else:
        return (tl.sum(x[0], AXIS),)
