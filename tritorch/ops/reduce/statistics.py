"""Statistics of samples: covariance and correlation, quantiles, histograms, combinations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.meta import MetaArray
from tritorch.core import defaults, published
from tritorch.core.dims import wrap_dim
from tritorch.core.dispatching import entered
from tritorch.core.dtype import bool_, float32, float64, int64
from tritorch.core.promotion import category, not_implemented, scalar_name
from tritorch.core.published import autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.record import checks
from tritorch.ops.record.checks import any_true, require_tensor
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.maker import Constant
from tritorch.ops.record.operator import Operator, laid_out
from tritorch.ops.record.publishing import public, refuse_grad_with_out, write_out
from tritorch.ops.reduce.reduction import named_results
from tritorch.ops.shape.factory import make_complex, tensor
from tritorch.ops.shape.ranges import linspace

# ---- covariance ----------------------------------------------------------------------------------


def _check_weights(name: str, weights: Tensor, n: int, is_count: bool) -> None:
    if weights.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
            f"{weights.ndim} dimensions"
        )
    if (category(weights.dtype) != 1) if is_count else (category(weights.dtype) != 2):
        wanted = "integral" if is_count else "floating point"
        raise RuntimeError(
            f"cov(): expected {name} to have {wanted} dtype but got {name} with "
            f"{scalar_name(weights.dtype)} dtype"
        )
    if weights.numel() != n:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input "
            f"but got {weights.numel()} != {n}"
        )
    if any_true(weights.detach() < 0):
        raise RuntimeError(f"cov(): {name} cannot be negative")


@public()
@ends_with("squeeze")
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The covariances of the rows of a matrix, or the variance of a vector."""
    require_tensor(input, "cov", "input", 1)
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    if input.dtype is bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = input.reshape(1, -1) if input.ndim < 2 else input
    n = rows.shape[1]
    weights: Any = None
    if fweights is not None:
        _check_weights("fweights", fweights, n, True)
        weights = fweights
    if aweights is not None:
        _check_weights("aweights", aweights, n, False)
        weights = aweights if weights is None else weights * aweights
    total: Any = n
    norm: Any = n - correction
    if weights is not None:
        total = weights.sum()
        if n and any_true(total == 0):
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        norm = total - correction
        if aweights is not None and correction:
            norm = total - correction * (weights * aweights).sum() / total
    sums = (rows if weights is None else rows * weights).sum(1)
    centred = rows - (sums / total).unsqueeze(1)
    if any_true(norm <= 0) if isinstance(norm, Tensor) else norm <= 0:
        defaults.warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number "
            "of observations.",
            stacklevel=2,
        )
        norm = norm.clamp(0) if isinstance(norm, Tensor) else 0
    weighted = centred if weights is None else centred * weights
    found = centred @ weighted.to(centred.dtype).t().conj()
    return (found / norm).squeeze()


@public()
@ends_with("clamp")
def corrcoef(input: Tensor) -> Tensor:
    """The correlations of the rows of a matrix."""
    require_tensor(input, "corrcoef", "input", 1)
    if input.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    found = cov(input)
    if found.ndim == 0:
        return found / found
    variance = found.diagonal()
    deviation = (variance.real if found.is_complex() else variance).sqrt()
    found = found / deviation.unsqueeze(1) / deviation
    if found.is_complex():
        return make_complex(found.real.clamp(-1, 1), found.imag.clamp(-1, 1))
    return found.clamp(-1, 1)


# ---- quantiles -----------------------------------------------------------------------------------


def _ranked_on_cpu(x: Any, ranks: tuple[int, ...], places: bool) -> tuple[Any, Any]:
    """What would be at ranks of the sorted rows, and where it is, by selection; NaN is last.

    A row with NaN gives NaN for every rank.
    """
    n = x.shape[-1]
    kth = sorted({*ranks, n - 1})
    at = list(ranks)
    if not places:
        part = np.partition(x, kth, axis=-1)
        values = part[..., at]
        nan = np.isnan(part[..., -1:])
        return np.where(nan, x.dtype.type(np.nan), values), np.empty(0, np.int64)
    order = np.argpartition(x, kth, axis=-1)
    index = np.where(
        np.isnan(np.take_along_axis(x, order[..., -1:], -1)), order[..., -1:], order[..., at]
    )
    return np.take_along_axis(x, index, -1), index


def _ranked_results(x: MetaArray, ranks: tuple[int, ...], places: bool) -> Any:
    shape = (*x.shape[:-1], len(ranks))
    return x.new(shape), x.new(shape if places else (0,), int64)


_ranked = Operator(
    "ranked", "x", "ranks places",
    schema="(Tensor x, int[] ranks, bool places) -> (Tensor, Tensor)", cpu=_ranked_on_cpu,
    grad=Gradient(
        lambda g, x_shape, out1: g[0].new_zeros(x_shape).scatter_add(-1, out1, g[0]), outputs=0b01,
    ),
    layout="row-major", rules=Rules(infer=_ranked_results, axes="...a@->...k,...k", batch="rows"),
)  # fmt: skip
_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _check_quantile(input: Tensor, q: Any, interpolation: str) -> None:
    if input.numel() == 0:
        raise RuntimeError("quantile() input tensor must be non-empty")
    if input.dtype not in (float32, float64):
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if isinstance(q, Tensor):
        if q.ndim > 1:
            raise RuntimeError("quantile() q must be a scalar or 1D tensor")
        if q.dtype is not input.dtype:
            raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
        if q.device != input.device:
            raise RuntimeError("quantile() q tensor must be on the same device as the input tensor")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )


def _by_selection(x: Tensor, ranks: Tensor, interpolation: str) -> tuple[Tensor, Tensor]:
    """The values below and above each rank; ranks are the same for all rows."""
    exact = ranks._array
    below, above = (f(exact).astype(np.int64).tolist() for f in (np.floor, np.ceil))
    if interpolation == "nearest":
        below = np.rint(exact).astype(np.int64).tolist()
    elif interpolation == "higher":
        below = above
    places = x._tangent is not None or (_C.is_grad_enabled() and x._requires_grad)
    if interpolation in ("linear", "midpoint"):
        both = _ranked.call((x,), ((*below, *above), places))[0]
        return both.narrow(-1, 0, len(below)), both.narrow(-1, len(below), len(below))
    low = _ranked.call((x,), (tuple(below), places))[0]
    return low, low


def _by_sorting(
    x: Tensor, q: Tensor, interpolation: str, ignore_nan: bool
) -> tuple[Tensor, Tensor, Tensor]:
    ordered = x.sort(-1)[0]
    nan = x.isnan()
    if ignore_nan:
        count = x.shape[-1] - nan.sum(-1, keepdim=True)
        ranks = (q * (count - 1).to(x.dtype)).clamp_min(0)
    else:
        ranks = (q * (x.shape[-1] - 1)).expand(*x.shape[:-1], q.shape[0])
        ranks = ranks.masked_fill(nan.any(-1, keepdim=True), x.shape[-1] - 1)
    fixed = ranks.detach()
    if interpolation == "nearest":
        below = above = fixed.round()
    else:
        below, above = fixed.floor(), fixed.ceil()
        if interpolation == "higher":
            below = above
    low = ordered.gather(-1, below.to(int64))
    high = low if interpolation in _INTERPOLATIONS[1:3] else ordered.gather(-1, above.to(int64))
    return low, high, ranks - below


@checks.looks_at_values
def _require_levels(array: Any) -> None:
    if type(array) is np.ndarray and not ((array >= 0) & (array <= 1)).all():
        raise RuntimeError("quantile() q values must be in the range [0, 1]")


def _has_nan(x: Tensor) -> bool:
    return bool(np.isnan(x._array).any())


def _quantile(
    input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool
) -> Tensor:
    name = "nanquantile" if ignore_nan else "quantile"
    require_tensor(input, name, "input", 1)
    if not isinstance(q, (Tensor, float, int)):
        raise TypeError(
            f"{name}(): argument 'q' (position 2) must be Tensor, not {type(q).__name__}"
        )
    if not isinstance(q, Tensor) and not 0 <= q <= 1:
        raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q}")
    _check_quantile(input, q, interpolation)
    wrapped = None if dim is None else wrap_dim(dim, input.ndim)
    if not isinstance(q, Tensor):
        q = tensor(float(q), dtype=input.dtype, device=input.device)
    # Ranks that are read make the quicker way, which what is noted cannot take: they may change.
    on_cpu = type(input._array) is type(q._array) is np.ndarray and entered.note is None
    checks.values(_require_levels, (q,))
    levels = q.reshape(-1)
    x = input.reshape(-1) if wrapped is None or not input.ndim else input.movedim(wrapped, -1)
    if on_cpu and not (ignore_nan and _has_nan(x)):
        ranks = levels * (x.shape[-1] - 1)
        low, high = _by_selection(x, ranks.detach(), interpolation)
        weight = ranks - ranks.detach().floor()
    else:
        low, high, weight = _by_sorting(x, levels, interpolation, ignore_nan)
    if interpolation == "linear":
        low = published.public.lerp(low, high, weight.expand(low.shape))
    elif interpolation == "midpoint":
        low = published.public.lerp(low, high, 0.5)
    low = laid_out("row-major", low)
    if keepdim:
        low = low.reshape(*(1,) * input.ndim, -1) if wrapped is None else (
            low.unsqueeze(wrapped) if input.ndim else low)  # fmt: skip
    return low.movedim(-1, 0) if q.ndim else low.squeeze(-1)


def _quantile_out(result: Tensor, out: Tensor | None, inputs: Sequence[Any]) -> Tensor:
    if out is None:
        return result
    refuse_grad_with_out("quantile", *inputs, out)
    if out.dtype is not result.dtype:
        raise RuntimeError("quantile() out tensor must be same dtype as the input tensor")
    return write_out(result, out)


@public()
@autocast("cpu:float32")
@ends_with("{'squeeze_.dim' if not keepdim else ''}")
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear", out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """What lies above a share q of the values, over a dim or over all."""
    found = _quantile(input, q, dim, keepdim, interpolation, False)
    return _quantile_out(found, out, (input, q))


@public()
@autocast("cpu:float32")
@ends_with("{'squeeze_.dim' if not keepdim else ''}")
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear", out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """quantile of what is not NaN."""
    found = _quantile(input, q, dim, keepdim, interpolation, True)
    return _quantile_out(found, out, (input, q))


# ---- combinations --------------------------------------------------------------------------------


@public()
@ends_with("{'stack' if r > 1 else ''}")
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of r elements of a vector, in order."""
    require_tensor(input, "combinations", "input", 1)
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty((0,))
    n = input.shape[0]
    pool = n + r - 1 if with_replacement and n else n
    # Of twice 60 things there are more than 2^60 choices of 60.
    if min(r, pool - r) >= 60 or math.comb(pool, r) * r >= 1 << 60:
        raise RuntimeError("numel: integer multiplication overflow")
    index = _choices(n, int(r), bool(with_replacement), input.device)
    return input.index_select(0, index.reshape(-1)).reshape(index.shape)


def _chosen(n: int, r: int, with_replacement: bool) -> Any:
    """The places of each choice of r of n things."""
    if r == 2:  # by far the most frequent, and without a loop
        first, second = np.triu_indices(n, 0 if with_replacement else 1)
        return np.ascontiguousarray(np.stack([first, second], 1).astype(np.int64))
    choose: Any = (
        itertools.combinations_with_replacement if with_replacement else itertools.combinations
    )
    flat = np.fromiter(itertools.chain.from_iterable(choose(range(n), r)), np.int64)
    return flat.reshape(-1, r)


_choices = Constant(
    "choices", "n r with_replacement", _chosen,
    schema="(int n, int r, bool with_replacement, Device device) -> Tensor",
)  # fmt: skip


# ---- histograms ----------------------------------------------------------------------------------

_one_dim = named_results("histogram", "hist", "bin_edges")
_many_dims = named_results("histogramdd", "hist", "bin_edges", out=False)


def _type_name(x: Tensor) -> str:
    return {"int64": "long int", "float32": "float", "float64": "double"}.get(
        x.dtype.name, x.dtype.name
    )


def _check_histogram(x: Tensor, bins: Sequence[Any], weight: Tensor | None) -> None:
    """x: points in rows, of the last dim's dims."""
    for d, item in enumerate(bins):
        if not isinstance(item, Tensor):
            if item <= 0:
                raise RuntimeError(
                    f"torch.histogram(): bins must be > 0, but got {item} for dimension {d}"
                )
            continue
        if item.dtype is not x.dtype:
            raise RuntimeError(
                f"torch.histogramdd: input tensor and bins tensors should have the same dtype, but "
                f"got input with dtype {_type_name(x)} and bins for dimension {d} with dtype "
                f"{_type_name(item)}"
            )
        if item.ndim != 1:
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have one dimension, but got {item.ndim} "
                f"dimensions in the bins tensor for dimension {d}"
            )
        if item.numel() == 0:
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have at least 1 element, but got 0 "
                f"elements in the bins tensor for dimension {d}"
            )
        if item.numel() == 1:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got 0 for dimension {d}")
    if weight is not None:
        if weight.dtype is not x.dtype:
            raise RuntimeError(
                f"torch.histogramdd: if weight tensor is provided, input tensor and weight tensor "
                f"should have the same dtype, but got input({_type_name(x)}), and "
                f"weight({_type_name(weight)})"
            )
        if weight.shape != x.shape[:-1]:
            raise RuntimeError(
                f"torch.histogramdd: if weight tensor is provided it should have the same shape as "
                f"the input tensor excluding its innermost dimension, but got input with shape "
                f"{list(x.shape)} and weight with shape {list(weight.shape)}"
            )
    if x.dtype not in (float32, float64):
        raise not_implemented("histogramdd", x.dtype)


def _edges(x: Tensor, d: int, bins: Any, range: Sequence[float] | None) -> Tensor:
    """The edges of the bins of column d."""
    if isinstance(bins, Tensor):
        return bins.detach()
    if range is not None:
        low, high = (float(v) for v in range[2 * d : 2 * d + 2])
    elif x.shape[0]:
        low, high = float(x[:, d].amin()), float(x[:, d].amax())
    else:
        low, high = 0.0, 1.0
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(
            f"torch.histogramdd: dimension {d}'s range [{low:g}, {high:g}] is not finite"
        )
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for "
            f"dimension {d}"
        )
    if low == high:
        low, high = low - 0.5, high + 0.5
    return linspace(low, high, bins + 1, dtype=x.dtype, device=x.device)


def _count(x: Tensor, edges: Sequence[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    """How many rows of x (or what sum of their weights) lie in each cell."""
    sizes = [e.shape[0] - 1 for e in edges]
    total = math.prod(sizes)
    inside: Any = x.new_ones((x.shape[0],), dtype=bool_)
    cell: Any = x.new_zeros((x.shape[0],), dtype=int64)
    for d, e in enumerate(edges):
        column = x[:, d].contiguous()
        place = published.public.searchsorted(e, column, right=True) - 1
        place = place.clamp(0, sizes[d] - 1)  # the last edge belongs to the last bin
        inside = inside & (column >= e[0]) & (column <= e[-1])
        cell = cell * sizes[d] + place
    cell = published.public.where(inside, cell, total)  # what is outside has a bin of its own
    if weight is not None:
        weight = weight.detach().reshape(-1)
    hist = published.public.bincount(cell, weight, total + 1)[:total].to(x.dtype).reshape(sizes)
    if density:
        hist = hist / hist.sum()
        for d, e in enumerate(edges):
            hist = hist / e.diff().reshape([-1 if i == d else 1 for i, _ in enumerate(edges)])
    return hist


def _histogram(
    x: Tensor, bins: Sequence[Any], range: Sequence[float] | None, weight: Any, density: bool
) -> tuple[Tensor, list[Tensor]]:
    x = x.detach()
    _check_histogram(x, bins, weight)
    if range is not None and len(range) != 2 * len(bins):
        raise RuntimeError(
            f"torch.histogramdd: for a {len(bins)}-dimensional histogram range should have "
            f"{2 * len(bins)} elements, but got {len(range)}"
        )
    rows = x.reshape(math.prod(x.shape[:-1]), len(bins))
    edges = [_edges(rows, d, item, range) for d, item in enumerate(bins)]
    return _count(rows, edges, weight, density), edges


@public(out=True)
def histogram(
    input: Tensor, bins: Any = 100, *, range: Sequence[float] | None = None,
    weight: Tensor | None = None, density: bool = False,
) -> Any:  # fmt: skip
    """How many values lie in each bin, and the bins' edges."""
    require_tensor(input, "histogram", "input", 1)
    if isinstance(bins, Tensor) and range is not None:
        raise TypeError("histogram() takes edges or a range, not both")
    points = input.reshape(-1, 1)
    if weight is not None:
        weight = weight.reshape(-1)
    hist, edges = _histogram(points, [bins], range, weight, density)
    return _one_dim(hist, edges[0])


@public(method=False)
def histogramdd(
    input: Tensor, bins: Any, range: Sequence[float] | None = None,
    weight: Tensor | None = None, density: bool = False,
) -> Any:  # fmt: skip
    """How many points, in rows, lie in each cell of a grid, and the grid's edges."""
    require_tensor(input, "histogramdd", "input", 1)
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    n = input.shape[-1]
    if isinstance(bins, Tensor):
        raise TypeError("histogramdd(): argument 'bins' (position 2) must be int, not Tensor")
    bins = [bins] * n if isinstance(bins, int) else list(bins)
    if len(bins) != n:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    hist, edges = _histogram(input, bins, range, weight, density)
    return _many_dims(hist, tuple(edges))
