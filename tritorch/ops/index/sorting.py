"""Sorting and what follows from it: topk, medians, modes, unique values, searching."""

from __future__ import annotations

from typing import Any

from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import bool_, int32, int64
from tritorch.core.promotion import (
    category,
    not_implemented,
    promote_types,
    result_type,
    scalar_name,
)
from tritorch.core.published import adds_results, computes
from tritorch.core.tensor import Tensor
from tritorch.ops.record.checks import require_kernel, require_tensor
from tritorch.ops.record.ends import ends_as
from tritorch.ops.record.groups import Gradient, Rules, Without
from tritorch.ops.record.infer import reduced, unknown_size, with_indices
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import public
from tritorch.ops.record.sizes import picked
from tritorch.ops.reduce.reduction import _at_index, named_results, share_evenly
from tritorch.ops.shape.factory import zeros
from tritorch.ops.shape.joining import cat
from tritorch.ops.shape.ranges import arange
from tritorch.ops.shape.shape import reshape


def _scatter_back(g: Any, x_shape: Any, out1: Tensor, dim: int) -> Tensor:
    return g[0].new_zeros(x_shape).scatter(dim, out1, g[0])


_sort = Operator(
    "sort",
    "x",
    "dim descending",
    cpu="sorting.sort",
    grad=_scatter_back,
    layout="copy",
    rules=Rules(infer=lambda x, *rest: with_indices(x, x.shape), axes="along", batch="dims"),
)
_topk = Operator(
    "topk",
    "x",
    "k dim largest",
    cpu="sorting.topk",
    grad=_scatter_back,
    layout="row-major",
    rules=Rules(
        infer=lambda x, k, dim, largest: with_indices(x, (*x.shape[:dim], k, *x.shape[dim + 1 :])),
        axes=lambda x, k, dim, largest: picked(len(x.shape), dim, 2),
        batch="dims",
    ),
)
_kthvalue = Operator(
    "kthvalue", "x", "k dim",
    cpu="sorting.kthvalue",
    grad=lambda g, x_shape, out1, dim: _at_index(g, x_shape, out1, dim, False), layout="row-major",
    without=Without("bool", kernel="kthvalue_cpu"),
    rules=Rules(
        infer=lambda x, k, dim: with_indices(x, reduced(x.shape, dim, False)), axes="along",
        batch="dims",
    ),
)  # fmt: skip
_median, _nanmedian, _mode = (
    Operator(
        name,
        "x",
        "dim",
        cpu=f"sorting.{name}",
        grad=lambda g, x_shape, out1, dim: _at_index(g, x_shape, out1, dim, False),
        layout="row-major",
        without=Without(without, kernel="median_out"),
        rules=Rules(
            infer=lambda x, dim: with_indices(x, reduced(x.shape, dim, False)),
            axes="along",
            batch="dims",
        ),
    )
    for name, without in (("median", "bool"), ("nanmedian", "bool"), ("mode", ""))
)
_of_all = {
    name: Operator(
        f"{name}_all", "x",
        schema=f"{name}(x)", composed=lambda x, op=op: op.call((reshape(x, -1),), (0,))[0],
        grad=Gradient(share_evenly, node=name.title()), rules=Rules(axes="elementwise")
    )
    for name, op in (("median", _median), ("nanmedian", _nanmedian))
}  # fmt: skip
_sorted = named_results("sort", "values", "indices")


def _refuse_complex(name: str, x: Tensor) -> None:
    if x.is_complex():
        raise not_implemented(name, x.dtype)


@public(out=True)
@exact_out("structured")
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Sorted along a dim, with indices; always stable, NaN last."""
    if input.is_complex():
        raise RuntimeError(" Sort does not support complex dtypes on CPU")
    dim = wrap_dim(dim, input.ndim)
    if input.ndim == 0:
        return _sorted(input.clone(), zeros((), dtype=int64, device=input.device))
    found = _sort.call((input,), (dim, bool(descending)))
    return _sorted(*(ends_as("sort.stable", found) if stable else found))


@public(out=True)
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that sort along a dim."""
    return sort(input, dim, descending)[1]


@public(out=True)
@exact_out("structured")
def msort(input: Tensor) -> Tensor:
    """Sorted along the first dim."""
    return sort(input, 0)[0]


_topped = named_results("topk", "values", "indices")


@public(out=True)
@exact_out("structured")
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k largest (or smallest) along a dim, with indices."""
    if input.is_complex():
        raise RuntimeError(" topk does not support complex dtypes on CPU")
    if input.dtype is bool_:
        raise RuntimeError("topk does not support bool dtypes on CPU")
    dim = wrap_dim(dim, input.ndim)
    shape = input._array.shape
    size = shape[dim] if shape else 1
    if not 0 <= k <= size:
        raise RuntimeError("selected index k out of range")
    if input.ndim == 0:
        return _topped(input.clone(), zeros((), dtype=int64, device=input.device))
    return _topped(*_topk.call((input,), (int(k), dim, bool(largest))))


_kth = named_results("kthvalue", "values", "indices")


def _keep(results: Any, dim: int, keepdim: bool, overload: str) -> Any:
    if not keepdim:
        return results
    return ends_as(overload, tuple(r.unsqueeze(dim) for r in results))


@public(out=True)
@exact_out("output values must be of same type as input")
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest along a dim, with its index."""
    _refuse_complex("kthvalue_cpu", input)
    dim = wrap_dim(dim, input.ndim)
    size = input.shape[dim] if input.ndim else 1
    if input.ndim and size == 0:
        raise IndexError(f"kthvalue(): Expected reduction dim {dim} to have non-zero size.")
    if not 1 <= k <= size:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}")
    if input.ndim == 0:
        return _kth(input.clone(), zeros((), dtype=int64, device=input.device))
    return _kth(*_keep(_kthvalue.call((input,), (int(k), dim)), dim, keepdim, "kthvalue"))


def _middle(name: str, op: Operator) -> Any:
    result = named_results(name, "values", "indices")

    def function(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        _refuse_complex(name, input)
        if dim is None and name != "mode":
            if input.numel() == 0:
                return (
                    input.new_full((), float("nan"))
                    if category(input.dtype) == 2
                    else input.new_zeros(())
                )
            return _of_all[name].call((input,), ())
        wrapped = wrap_dim(-1 if dim is None else dim, input.ndim)
        if input.ndim == 0:
            values, indices = op.call((reshape(input, 1),), (0,))
            return result(reshape(values, ()), reshape(indices, ()))
        if input.shape[wrapped] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {wrapped} to have non-zero size.")
        overload = name if name == "mode" else f"{name}.dim"
        return result(*_keep(op.call((input,), (wrapped,)), wrapped, keepdim, overload))

    function.__name__ = name
    function.__doc__ = f"The {name} of all elements, or of one dim with indices."
    return public(out=True)(function)


median, nanmedian, mode = (
    _middle(name, op)
    for name, op in (("median", _median), ("nanmedian", _nanmedian), ("mode", _mode))
)
exact_out("expected scalar type '{Result}' but got '{Out}' for values output", "mode")(mode)

# ---- unique --------------------------------------------------------------------------------------

_unique = Operator(
    "unique",
    "x",
    schema="_unique2(x, True, True, True)",
    cpu="sorting.unique",
    rules=Rules(infer=unknown_size),
)
_consecutive = Operator(
    "unique_consecutive",
    "x",
    schema="unique_consecutive(x, True, True)",
    cpu="sorting.unique_consecutive",
    rules=Rules(infer=unknown_size),
)


def _choose(
    values: Any, inverse: Any, counts: Any, return_inverse: bool, return_counts: bool
) -> Any:
    out = [values]
    if return_inverse:
        out.append(inverse)
    if return_counts:
        out.append(counts)
    return out[0] if len(out) == 1 else tuple(out)


def _rows(input: Tensor, dim: int) -> tuple[Tensor, int]:
    dim = wrap_dim(dim, input.ndim)
    return input.movedim(dim, 0) if input.ndim > 1 else input, dim


def _unique_rows(input: Tensor, dim: int, consecutive: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Slices along a dim instead of elements: ranks by sorting column after column."""
    moved, dim = _rows(input, dim)
    n = moved.shape[0]
    if n and not moved.numel():
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )
    flat = reshape(moved, (n, -1)) if n else moved
    order = arange(n, device=input.device)
    if not consecutive and n:
        for column in range(flat.shape[1] - 1, -1, -1):
            order = order.index_select(0, sort(flat.select(1, column).index_select(0, order))[1])
    ordered = flat.index_select(0, order) if n else flat
    if n:
        changed = (ordered.narrow(0, 1, n - 1) != ordered.narrow(0, 0, n - 1)).any(1)
        first = cat([changed.new_ones((1,)), changed])
    else:
        first = zeros((0,), device=input.device) != 0
    group = first.to(int64).cumsum(0) - 1
    starts = first.nonzero().reshape(-1)
    inverse = zeros((n,), dtype=int64, device=input.device).scatter(0, order, group)
    ends = (
        cat([starts.narrow(0, 1, starts.shape[0] - 1), starts.new_full((1,), n)]) if n else starts
    )
    counts = ends - starts
    picked = moved.index_select(0, order.index_select(0, starts)) if n else moved
    return picked.movedim(0, dim) if input.ndim > 1 else picked, inverse, counts


@public()
@computes("_unique2")
@adds_results("return_inverse", "return_counts")
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements (or slices along a dim), sorted."""
    require_tensor(input, "unique", "input", 1)
    if input.is_complex():
        raise not_implemented("unique", input.dtype)
    if dim is not None:
        values, inverse, counts = _unique_rows(input, dim, False)
    else:
        values, inverse, counts = _unique.call((reshape(input, -1),), ())
        inverse = reshape(inverse, input.shape)
    return _choose(values, inverse, counts, return_inverse, return_counts)


@public()
@computes("unique_consecutive")
@adds_results("return_inverse", "return_counts")
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Runs of equal elements (or slices along a dim) as one."""
    if input.is_complex():
        raise not_implemented("unique_consecutive", input.dtype)
    if dim is not None:
        values, inverse, counts = _unique_rows(input, dim, True)
    else:
        values, inverse, counts = _consecutive.call((reshape(input, -1),), ())
        inverse = reshape(inverse, input.shape)
    return _choose(values, inverse, counts, return_inverse, return_counts)


# ---- searching -----------------------------------------------------------------------------------

_searchsorted = Operator(
    "searchsorted",
    "sorted values",
    "right",
    schema="searchsorted.Tensor(sorted, values, right=right)",
    cpu="sorting.searchsorted",
    rules=Rules(
        infer=lambda s, v, right: v.new(v.shape, int64), axes="?,...->...", batch="searchsorted"
    ),
)


@public(method=False, out=True)
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where values belong in sorted rows."""
    if side not in (None, "left", "right"):
        raise RuntimeError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        )
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left "
            "while right was True"
        )
    right = right or side == "right"
    values = (
        input
        if isinstance(input, Tensor)
        else sorted_sequence.new_full((), input, dtype=_number_kind(input, sorted_sequence))
    )
    if sorted_sequence.ndim == 0:
        raise RuntimeError(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
            "dimension is 1"
        )
    if isinstance(input, Tensor):
        kind = promote_types(values.dtype, sorted_sequence.dtype)
        if kind.is_complex or kind is bool_:
            raise not_implemented("searchsorted_out_cpu", kind)
        values, sorted_sequence = values.to(kind), sorted_sequence.to(kind)
    if sorted_sequence.ndim != 1 and sorted_sequence.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            f"torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
            f"dimensions of boundaries tensor and input value tensor must match, but we got "
            f"boundaries "
            f"tensor {list(sorted_sequence.shape)} and input value tensor {list(values.shape)}"
        )
    if sorter is not None:
        if sorter.shape != sorted_sequence.shape:
            raise RuntimeError(
                f"torch.searchsorted(): boundary and sorter must have the same size, but got "
                f"boundary "
                f"tensor {list(sorted_sequence.shape)}and got sorter tensor {list(sorter.shape)}"
            )
        if sorter.dtype is not int64:
            raise RuntimeError(
                "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
                f"{scalar_name(sorter.dtype)}"
            )
        sorted_sequence = sorted_sequence.gather(-1, sorter)
    found = _searchsorted.call((sorted_sequence.detach(), values.detach()), (right,))
    return found.to(int32) if out_int32 else found


def _number_kind(value: Any, like: Tensor) -> Any:
    return result_type(like, value)


@public(method=False, out=True)
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """Which interval between boundaries each value lies in."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


# ---- counting ------------------------------------------------------------------------------------

_bincount = Operator(
    "bincount", "x weights", "minlength", cpu="sorting.bincount", rules=Rules(infer=unknown_size)
)
_histc = Operator(
    "histc",
    "x",
    "bins low high",
    cpu="sorting.histc",
    rules=Rules(infer=lambda x, bins, *rest: x.new((bins,))),
)


@public()
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each integer occurs (or the sum of its weights)."""
    require_kernel("bincount_cpu", input, "bool float complex")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if input.ndim != 1 or category(input.dtype) != 1 or (input.numel() and int(input.min()) < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != input.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    return _bincount.call((input, weights), (minlength,))


@public(out=True)
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """A histogram of equal bins between min and max (of the data, if both are 0)."""
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if category(input.dtype) != 2:
        raise not_implemented("histogram_cpu", input.dtype)
    low, high = (v.item() if isinstance(v, Tensor) else v for v in (min, max))
    if low == high and input.numel() and not input._is_described:
        low, high = input.min().item(), input.max().item()
    if low == high:
        low, high = low - 1, high + 1
    if not (low == low and high == high and abs(low) != float("inf") and abs(high) != float("inf")):
        raise RuntimeError(f"torch.histc: range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    return _histc.call((input,), (int(bins), low, high))
