"""Differences and sums along dims: gradient, trapezoid, cumulative_trapezoid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.core.arguments import Number
from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import bool_, uint8
from tritorch.core.tensor import Tensor
from tritorch.ops.pointwise.arithmetic import times
from tritorch.ops.record.checks import require_tensor
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.publishing import public
from tritorch.ops.shape.joining import cat

# ---- the trapezoid rule --------------------------------------------------------------------------


def _check_dx(name: str, dx: Any) -> Any:
    if isinstance(dx, Tensor):
        dx = dx.item()
    if isinstance(dx, complex):
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")
    if not isinstance(dx, (int, float)):
        raise TypeError(f"{name}(): argument 'dx' must be Number, not {type(dx).__name__}")
    return dx


def _steps(name: str, y: Tensor, x: Tensor, dim: int) -> Tensor:
    """The widths between sample points, as they broadcast against y's pairs."""
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        x = x.reshape([-1 if i == dim else 1 for i in range(y.ndim)])
    elif x.ndim < y.ndim:
        x = x.reshape((1,) * (y.ndim - x.ndim) + tuple(x.shape))
    n = x.shape[dim]
    count = max(n - 1, 0)
    return x.narrow(dim, min(1, n), count) - x.narrow(dim, 0, count)


def _prepare(name: str, y: Any, x: Any, dx: Any, dim: int) -> tuple[int, Any]:
    """The dim, and the widths: a tensor or a number."""
    require_tensor(y, name, "y", 1)
    if x is not None and not isinstance(x, Tensor):
        raise TypeError(
            f"{name}(): argument 'x' (position 2) must be Tensor, not {type(x).__name__}"
        )
    if x is not None and dx is not None:
        raise TypeError(f"{name}() takes x or dx, not both")
    if x is not None and bool_ in (y.dtype, x.dtype):
        raise RuntimeError(
            f"{name}: received a bool input for `x` or `y`, but bool is not supported"
        )
    if y.dtype is bool_:
        raise RuntimeError(f"{name}: received a bool input for `y`, but bool is not supported")
    if not y.ndim and name.startswith("cumulative"):
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, y.ndim, allow_scalar=False)
    if x is None:
        return dim, _check_dx(name, 1 if dx is None else dx)
    return dim, _steps(name, y, x, dim)


def _pairs(y: Tensor, dim: int) -> Tensor:
    """The sum of each two neighbours."""
    n = y.shape[dim]
    count = max(n - 1, 0)
    return y.narrow(dim, 0, count) + y.narrow(dim, min(1, n), count)


@public(method=False)
@ends_with("{'mul.Scalar' if x is None else 'div.Scalar'}")
def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Number | None = None, dim: int = -1
) -> Tensor:
    """The integral along a dim by the trapezoid rule; sample points x, or steps of dx."""
    dim, steps = _prepare("trapezoid", y, x, dx, dim)
    if y.shape[dim] == 0:
        return y.new_zeros([n for i, n in enumerate(y.shape) if i != dim])
    if isinstance(steps, Tensor):
        return times((steps * _pairs(y, dim)).sum(dim), 0.5)
    ends = y.select(dim, 0) + y.select(dim, -1)
    return times(y.sum(dim) - times(ends, 0.5), steps)


@public(method=False)
def trapz(y: Tensor, x: Tensor | None = None, *, dx: Number | None = None, dim: int = -1) -> Tensor:
    """trapezoid, by NumPy's old name."""
    return trapezoid(y, x, dx=dx, dim=dim)


@public(method=False)
@ends_with("{'cumsum' if dx is None and x is None else ''}")
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Number | None = None, dim: int = -1
) -> Tensor:
    """The running integrals along a dim by the trapezoid rule."""
    dim, steps = _prepare("cumulative_trapezoid", y, x, dx, dim)
    if isinstance(steps, Tensor):
        return times((steps * _pairs(y, dim)).cumsum(dim), 0.5)
    return times(_pairs(y, dim), steps / 2.0).cumsum(dim)  # halved first: sums may pass the range


# ---- gradient ------------------------------------------------------------------------------------


def _spacings(input: Tensor, spacing: Any, dim: Any) -> tuple[list[int], list[Any]]:
    """The dims, and a number or a tensor of places for each."""
    if isinstance(dim, int):
        dim = (dim,)
    n = input.ndim if dim is None else len(dim)
    if isinstance(spacing, Tensor) and spacing.ndim == 0:
        spacing = spacing.item()
    if spacing is None:
        spacing = 1
    if isinstance(spacing, (list, tuple)):
        given = list(spacing)
        if len(given) != n:
            told = (
                f"'self.dim() = {n}', since dim argument was not given" if dim is None else
                f"'dim.size() = {n}'"
            )  # fmt: skip
            raise RuntimeError(
                f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
                f"equal to {told}, but got a list of length {len(given)}"
            )
    elif isinstance(spacing, (int, float, complex)):
        given = [spacing] * n
    else:
        raise TypeError(
            f"gradient(): argument 'spacing' must be a number, or a tuple of numbers or tensors, "
            f"not {type(spacing).__name__}"
        )
    for item in given:
        if isinstance(item, Tensor) and item.ndim != 1:
            raise RuntimeError(
                f"torch.gradient expected each element of spacing to have one dimension, but got "
                f"an element with {item.ndim} dimensions!"
            )
    dims = [wrap_dim(d, input.ndim) for d in (range(input.ndim) if dim is None else dim)]
    twice = next((d for d in dims if dims.count(d) > 1), None)
    if twice is not None:
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return dims, given


def _along(x: Tensor, dim: int, spacing: Any, edge_order: int) -> Tensor:
    """Central differences along a dim, one-sided ones at its ends."""
    n = x.shape[dim]
    at = lambda i: x.narrow(dim, i if i >= 0 else n + i, 1)
    inner = lambda i: x.narrow(dim, i, n - 2)
    if not isinstance(spacing, Tensor):
        h = spacing
        middle = (inner(2) - inner(0)) / (2 * h)
        if edge_order == 1:
            first, last = (at(1) - at(0)) / h, (at(-1) - at(-2)) / h
        else:
            first = (-1.5 * at(0) + 2 * at(1) - 0.5 * at(2)) / h
            last = (1.5 * at(-1) - 2 * at(-2) + 0.5 * at(-3)) / h
    else:
        shape = [-1 if i == dim else 1 for i in range(x.ndim)]
        steps = (spacing.narrow(0, 1, n - 1) - spacing.narrow(0, 0, n - 1)).reshape(shape)
        h = lambda i: steps.narrow(dim, i if i >= 0 else n - 1 + i, 1)
        left, right = steps.narrow(dim, 0, n - 2), steps.narrow(dim, 1, n - 2)
        both = left + right
        middle = (
            -right / (left * both) * inner(0)
            + (right - left) / (left * right) * inner(1)
            + left / (right * both) * inner(2)
        )
        if edge_order == 1:
            first, last = (at(1) - at(0)) / h(0), (at(-1) - at(-2)) / h(-1)
        else:
            first = _one_sided(at(0), at(1), at(2), h(0), h(1))
            last = -_one_sided(at(-1), at(-2), at(-3), h(-1), h(-2))
    return cat([first, middle, last], dim)


def _one_sided(a: Tensor, b: Tensor, c: Tensor, near: Tensor, far: Tensor) -> Tensor:
    """The slope at the first of three points."""
    both = near + far
    return -(2 * near + far) / (near * both) * a + both / (near * far) * b - near / (far * both) * c


@public(method=False)
def gradient(
    input: Tensor, *, spacing: Any = None, dim: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Derivatives along dims, by differences of second order (at the ends: of edge_order)."""
    require_tensor(input, "gradient", "input", 1)
    if input.dtype is uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    dims, spacings = _spacings(input, spacing, dim)
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if input.ndim == 0:
        return ()
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )
    return tuple(_along(input, d, step, edge_order) for d, step in zip(dims, spacings))
