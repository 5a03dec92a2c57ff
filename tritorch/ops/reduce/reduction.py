"""Reductions: sums, means, extremes, norms, statistics."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.meta import MetaArray
from tritorch.core import defaults, late_bound, published
from tritorch.core.arguments import Number
from tritorch.core.dims import wrap_dim, wrap_dims
from tritorch.core.dtype import bool_, dtype, float32, int64, uint8
from tritorch.core.naming import qualified
from tritorch.core.promotion import category, not_implemented, scalar_name
from tritorch.core.published import PUBLIC, autocast
from tritorch.core.tensor import Tensor, attach
from tritorch.host import loops
from tritorch.ops.record.apply import is_half
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import any_true, require_tensor
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.infer import reduced, same, with_indices
from tritorch.ops.record.operator import FLOATS, Operator, ndarray
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import public, with_out, write_out
from tritorch.ops.shape.joining import cat
from tritorch.ops.shape.shape import expand, reshape, unsqueeze

_UNSET: Any = object()


def spread(g: Tensor, dims: tuple[int, ...], keepdim: bool, shape: Any) -> Tensor:
    """A reduction's gradient, expanded to the shape of its input."""
    return expand(kept(g, dims, keepdim), shape)


def kept(g: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """A reduction's gradient or result, of one element along the dims, for its input's equals."""
    if g.ndim and not keepdim:
        for dim in dims:
            g = unsqueeze(g, dim)
    return g


def _reduce_dtype(x: Tensor, dtype: dtype | None, *, integers: bool = True) -> dtype:
    """What a sum comes out as: integers widen to int64."""
    if dtype is not None:
        return dtype
    return int64 if integers and category(x.dtype) < 2 else x.dtype


def reduction(name: str, params: str, grad: Any, cpu: str = "", **options: Any) -> Operator:
    """Declares a reduction: backend `reduction.name(x, *params)`."""
    return Operator(
        name, "x", params, cpu=cpu or f"reduction.{name}", grad=grad, kind="reduction",
        layout="row-major", **options,
    )  # fmt: skip


def _plainly(op: Operator, x: Tensor, dim: Any, keepdim: Any, *rest: Any) -> Tensor | None:
    """Runs a record on the CPU over one dim that has elements; else None."""
    try:
        array = x._a
        n = array.ndim
        if type(dim) is not int or type(array) is not ndarray:
            return None
        if not -n <= dim < n or not array.shape[dim]:
            return None
    except AttributeError:
        return None
    params = ((dim % n,), bool(keepdim), *rest)
    return op.finish_with(op.cpu(array, *params), params, x)


_ALL_DIMS = [tuple(range(n)) for n in range(65)]


def _call(op: Operator, x: Tensor, dims: Any, keepdim: bool, *rest: Any) -> Tensor:
    """Runs a record over dims; a 0-d tensor as one of one element."""
    quick = _plainly(op, x, dims, keepdim, *rest) if type(dims) is int else None
    if quick is not None:
        return quick
    wrapped = _ALL_DIMS[x.ndim] if dims is None else wrap_dims(dims, x.ndim)
    if x.ndim == 0:
        return reshape(op.call((reshape(x, 1),), ((0,), False, *rest)), ())
    return op.call((x,), (wrapped, bool(keepdim), *rest))


# ---- sums ----------------------------------------------------------------------------------------

_sum = Operator(
    "sum", "x", "dims keepdim kind",
    kind="reduction",
    cpu=arrays.by_steps(lambda x, dims, keepdim, kind: _cpu_sum(x, dims, keepdim, kind)),
    gpu="reduction.sum", fuses="sum",
    grad=Gradient(lambda g, x_shape, dims, keepdim: spread(g, dims, keepdim, x_shape), node="sum"),
    layout="row-major", rules=Rules(identity=0),
)  # fmt: skip


def _cpu_sum(x: Any, dims: tuple[int, ...], keepdim: bool, kind: dtype) -> Any:
    # Small sums are computed at once, of floats by the loops of large ones, of others by NumPy.  It
    # keeps the order of dims, here the usual one.
    dense = x.flags.c_contiguous
    if dense and x.size < 4096 and x.dtype is kind.numpy and x.dtype.char in "fdFDl":
        if x.dtype.char in "fd" and dims and dims[-1] - dims[0] == len(dims) - 1:
            return loops.sum_dims(x, dims[0], len(dims), keepdim)
        axis = None if len(dims) == x.ndim and not keepdim else dims
        return arrays.fold(np.add, x, axis=axis, keepdims=keepdim)
    return backend("cpu", "reduction").sum(x, dims, keepdim, kind)


@arrays.seen
@arrays.by_steps
def _total(array: Any) -> Any:
    """The sum of all elements of a small array of floats."""
    found = loops.sum_dims(array, 0, array.ndim, False)
    return (
        loops.sum_dims(np.ascontiguousarray(array), 0, array.ndim, False)
        if found is None
        else found
    )


_finish_sum = _sum.finish_with
_sum_dim = _sum.like("sum_dim", "Sum1", schema="sum.dim_IntList(x, dims, keepdim, dtype=kind)")


@autocast("cuda:sum")
def sum(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Any = None,
    axis: Any = None,
    keepdims: bool = False,
) -> Tensor:
    """The sum over dims (all by default); integers sum as int64."""
    try:
        array = input._a
    except AttributeError:
        array = None
    if type(array) is ndarray and array.dtype in FLOATS and array.size < 4096:
        if dim is axis is dtype is out is None and not (keepdim or keepdims):
            if array.ndim:
                params = (_ALL_DIMS[array.ndim], False, input.dtype)
                return _finish_sum(_total(array), params, input)
    require_tensor(input, "sum", "input", 1)
    if out is not None:
        return _sum_into(input, dim if axis is None else axis, keepdim, dtype=dtype, out=out)
    dim = axis if dim is None else dim
    kind = _reduce_dtype(input, dtype)
    op = _sum if dim is None else _sum_dim
    return _call(op, input, dim, keepdim or keepdims, kind)


_sum_into = with_out(sum, computes_in_out=True)
PUBLIC["sum"] = sum
attach(sum=sum)


_mean = reduction(
    "mean",
    "dims keepdim kind",
    Gradient(lambda g, x_shape, dims, keepdim: _mean_grad(g, x_shape, dims, keepdim), node="mean"),
    fuses="mean",
    rules=Rules(averages=_sum_dim),
)


_mean_dim = _mean.like("mean_dim", "Mean1", schema="mean.dim(x, dims, keepdim, dtype=kind)")


def _count(shape: Sequence[int], dims: tuple[int, ...]) -> int:
    return math.prod(shape[dim] for dim in dims) if shape else 1


def _mean_grad(g: Tensor, x_shape: Any, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    return spread(g, dims, keepdim, x_shape) / _count(x_shape, dims)


@_C.Quiet
@arrays.by_steps
def _average(array: Any) -> Any:
    return arrays.asarray(arrays.divide(_total(array), array.size))


@public(out=True)
def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: dtype | None = None
) -> Tensor:
    """The mean over dims (all by default)."""
    if dim is dtype is None and not keepdim:
        try:
            array = input._a
        except AttributeError:
            array = None
        if type(array) is ndarray and array.dtype in FLOATS and 0 < array.size < 4096:
            if array.ndim:
                params = (_ALL_DIMS[array.ndim], False, input.dtype)
                return _mean.finish_with(_average(array), params, input)
    require_tensor(input, "mean", "input", 1)
    kind = dtype or input.dtype
    if category(kind) < 2:
        what = "Input" if dtype is None else "Optional"
        raise RuntimeError(
            f"mean(): could not infer output dtype. {what} dtype must be either a floating point "
            f"or complex dtype. Got: {_short(kind)}"
        )
    return _call(_mean if dim is None else _mean_dim, input, dim, keepdim, kind)


def _short(kind: dtype) -> str:
    return scalar_name(kind)


@public(out=True)
def nansum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: dtype | None = None
) -> Tensor:
    """The sum over dims, NaN as 0."""
    if input.is_complex():
        raise RuntimeError("nansum does not support complex inputs")
    if category(input.dtype) < 2:
        return sum(input, dim, keepdim, dtype=dtype)
    return _call(_nansum, input, dim, keepdim, dtype)


def _sum_of_numbers(x: Tensor, dims: Any, keepdim: bool, kind: dtype | None) -> Tensor:
    return sum(x.masked_fill(x.isnan(), 0), dims, keepdim, dtype=kind)


_nansum = Operator(
    "nansum", "x", "dims keepdim kind",
    kind="reduction", composed=_sum_of_numbers,
    grad=lambda g, x, dims, keepdim: spread(g, dims, keepdim, x.shape) * ~x.isnan(),
    rules=Rules(identity=0),
)  # fmt: skip


@public(out=True)
def nanmean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: dtype | None = None
) -> Tensor:
    """The mean over dims of what is not NaN."""
    if not input.is_floating_point():
        raise RuntimeError(
            f"nanmean(): expected input to have floating point dtype but got {_short(input.dtype)}"
        )
    count = (~input.isnan()).sum(dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / count


_prod = reduction(
    "prod",
    "dims keepdim kind",
    lambda g, x, out, dims, keepdim: _prod_grad(g, x, out, dims, keepdim),
    schema="(Tensor x, int[] dims, bool keepdim, ScalarType kind) -> Tensor",
    rules=Rules(identity=1),
)
_prod_dim = _prod.like("prod_dim", "Prod1", schema="prod.dim_int(x, dims[0], keepdim, dtype=kind)")


def _prod_grad(g: Tensor, x: Tensor, out: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    g, out = spread(g, dims, keepdim, x.shape), spread(out, dims, keepdim, x.shape)
    if not x._is_described and not any_true(x == 0):
        return g * (out / x).conj()
    # With zeros: the product of all others, from the left and from the right.
    order = [i for i in range(x.ndim) if i not in dims] + list(dims)
    inverse = sorted(range(x.ndim), key=order.__getitem__)
    moved = x.permute(order)
    lead = tuple(moved.shape[: x.ndim - len(dims)])
    flat = moved.reshape((*lead, -1))
    ones = flat.new_ones((*lead, 1))
    left = cat([ones, flat.narrow(-1, 0, flat.shape[-1] - 1).cumprod(-1)], -1)
    flipped = flat.flip(-1)
    right = cat([ones, flipped.narrow(-1, 0, flat.shape[-1] - 1).cumprod(-1)], -1).flip(-1)
    return g * (left * right).reshape(moved.shape).permute(inverse).conj()


@public(out="dtype")
@autocast("cpu:float32 cuda:sum")
def prod(
    input: Tensor, dim: Any = _UNSET, keepdim: bool = False, *, dtype: dtype | None = None
) -> Tensor:
    """The product over one dim (all by default); integers as int64."""
    require_tensor(input, "prod", "input", 1)
    if dim is None or isinstance(dim, (tuple, list)):
        raise TypeError(f"prod(): argument 'dim' must be int, not {type(dim).__name__}")
    if dim is _UNSET:
        return _call(_prod, input, None, keepdim, _reduce_dtype(input, dtype))
    return _call(_prod_dim, input, dim, keepdim, _reduce_dtype(input, dtype))


# ---- logic ---------------------------------------------------------------------------------------

_any = reduction(
    "any",
    "dims keepdim",
    None,
    schema="any.dims(x, dims, keepdim)",
    rules=Rules(
        infer=lambda x, dims, keepdim: x.new(reduced(x.shape, dims, keepdim), bool_), identity=False
    ),
)
_all = reduction(
    "all",
    "dims keepdim",
    None,
    schema="all.dims(x, dims, keepdim)",
    rules=Rules(
        infer=lambda x, dims, keepdim: x.new(reduced(x.shape, dims, keepdim), bool_), identity=True
    ),
)


def _logical(name: str, op: Operator) -> Any:
    def function(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        result = _call(op, input, dim, keepdim)
        if dim is not None and isinstance(dim, (tuple, list)) and not dim and input.ndim:
            result = input != 0  # no dims: nothing is reduced
        return result.to(uint8) if input.dtype is uint8 else result

    function.__name__ = name
    function.__doc__ = f"Whether {name} elements are true, over dims (all by default)."
    return public(out=True)(function)


any = _logical("any", _any)
all = _logical("all", _all)


@public()
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements are not 0."""
    return (input != 0).sum(dim if dim != () else None)


# ---- extremes ------------------------------------------------------------------------------------


def _share_equal(g: Tensor, x: Tensor, out: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    # All elements equal to the extreme share the gradient.
    mask = x == kept(out, dims, keepdim)
    count = mask.sum(dims, keepdim=True)
    return kept(g, dims, keepdim) / count * mask


def share_evenly(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """The gradient of one element of all, shared by those that equal it; NaN equals NaN."""
    mask = (x == out) | (x.isnan() & out.isnan())
    return (g / mask.sum()).expand(x.shape).masked_fill(~mask, 0)


_amax = reduction(
    "amax", "dims keepdim", _share_equal, fuses="larger", rules=Rules(identity="lowest")
)
_amin = reduction(
    "amin", "dims keepdim", _share_equal, fuses="smaller", rules=Rules(identity="highest")
)


def _at_index(g: Any, x_shape: Any, out1: Tensor, dim: int, keepdim: bool) -> Tensor:
    g, indices = g[0], out1
    if not keepdim:
        g, indices = g.unsqueeze(dim), indices.unsqueeze(dim)
    return g.new_zeros(x_shape).scatter(dim, indices, g)


def _indexed(name: str) -> Operator:
    node = name.split("_")[0].title()
    return reduction(
        name, "dim keepdim", Gradient(_at_index, node=node, outputs=0b01),
        schema=f"{node.lower()}.dim(x, dim, keepdim)",
        rules=Rules(
            infer=lambda x, dim, keepdim: with_indices(x, reduced(x.shape, dim, keepdim)),
            identity="lowest" if node == "Max" else "highest",
        ),
    )  # fmt: skip


_max = _indexed("max_with_index")
_min = _indexed("min_with_index")
_argmax = reduction(
    "argmax",
    "dim keepdim",
    None,
    rules=Rules(
        infer=lambda x, dim, keepdim: x.new(reduced(x.shape, dim, keepdim), int64),
        identity="lowest",
    ),
)
_argmin = reduction(
    "argmin",
    "dim keepdim",
    None,
    rules=Rules(
        infer=lambda x, dim, keepdim: x.new(reduced(x.shape, dim, keepdim), int64),
        identity="highest",
    ),
)


def _require_elements(name: str, x: Tensor, dims: tuple[int, ...]) -> None:
    for dim in dims:
        if x.ndim and x.shape[dim] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")


def _extreme(name: str, op: Operator) -> Any:
    def function(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
        complex_ = input.is_complex()
        quick = None if complex_ else _plainly(op, input, dim, keepdim)
        if quick is not None:
            return quick
        dims = wrap_dims(dim, input.ndim)
        if input.numel() == 0 and (dim == () or dim is None):
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify "
                f"the reduction dim with the 'dim' argument."
            )
        _require_elements(name, input, dims)
        if complex_:
            raise not_implemented(name, input.dtype)
        return _call(op, input, dim, keepdim)

    function.__name__ = name
    function.__doc__ = f"The {'largest' if name == 'amax' else 'smallest'} element over dims."
    return public(out=True)(exact_out("match")(function))


amax, amin = _extreme("amax", _amax), _extreme("amin", _amin)


def named_results(name: str, *fields: str, out: bool = True) -> Any:
    """A named tuple, as PyTorch returns from operators with several results; out: and its like
    for results that were written to given tensors."""
    kind = _named_tuple(name, fields)
    if out:
        kind.written = _named_tuple(f"{name}_out", fields)
    return kind


def _named_tuple(name: str, fields: Sequence[str]) -> Any:
    """A tuple with names, which a program makes of a sequence, as Python's struct sequences."""
    count, shown = len(fields), f"return_types.{name}"

    def make(cls: Any, values: Any = (), *more: Any) -> Any:
        if more:
            values = (values, *more)
        elif type(values) is not tuple:
            try:
                values = tuple(None if isinstance(values, Tensor) else values)  # type: ignore[arg-type]
            except TypeError:
                raise TypeError("constructor requires a sequence") from None
        if len(values) != count:
            raise TypeError(
                f"{qualified(shown)}() takes a {count}-sequence ({len(values)}-sequence given)"
            )
        return tuple.__new__(cls, values)

    def represent(self: Any) -> str:
        values = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self))
        return qualified(f"{shown}(\n") + values + ")"

    contents: dict[str, Any] = {
        "__new__": make,
        "__repr__": represent,
        "__reduce__": lambda self: (type(self), (tuple(self),)),
        "__slots__": (),
        "__match_args__": tuple(fields),
        "__module__": "tritorch.return_types",
        "_make": classmethod(tuple.__new__),
        "n_fields": count,
        "n_sequence_fields": count,
        "n_unnamed_fields": 0,
    }
    for place, field in enumerate(fields):
        contents[field] = property(operator.itemgetter(place))
    kind = type(name, (tuple,), contents)
    RETURN_TYPES[name] = kind
    late_bound.register_result_type(kind)
    return kind


RETURN_TYPES: dict[str, Any] = {}


def along(op: Operator, result: Any, name: str, input: Tensor, dim: Any, keepdim: bool) -> Any:
    """A record with (values, indices) along one dim."""
    dim = wrap_dim(dim, input.ndim)
    if input.ndim == 0:
        values, indices = op.call((reshape(input, 1),), (0, False))
        return result(reshape(values, ()), reshape(indices, ()))
    _require_elements(name, input, (dim,))
    return result(*op.call((input,), (dim, bool(keepdim))))


def _max_or_min(name: str, all_: Operator, op: Operator, pair: Any) -> Any:
    all_ = reduction(
        f"{name}_all", "dims keepdim", Gradient(share_evenly, node=f"{name.title()}1"),
        schema=f"{name}(x)", cpu=f"reduction.{all_.name}",
    )  # fmt: skip
    result = named_results(name, "values", "indices")

    def function(
        input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None
    ) -> Any:
        if isinstance(dim, Tensor) or other is not None:
            return PUBLIC[pair](input, dim if other is None else other)
        if input.is_complex() and dim is not None:
            raise RuntimeError(f"{name}(): does not support complex input")
        if dim is None:
            if input.numel() == 0:
                raise RuntimeError(
                    f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                    f"Specify the reduction dim with the 'dim' argument."
                )
            if input.is_complex():
                raise not_implemented(f"{name}_all", input.dtype)
            return _call(all_, input, None, False)
        return along(op, result, name, input, dim, keepdim)

    function.__name__ = name
    function.__doc__ = f"The {name} of all elements, of one dim (with indices), or of two tensors."
    return public(out=True)(exact_out("structured", f"{name}.dim")(function))


max = _max_or_min("max", _amax, _max, "maximum")
min = _max_or_min("min", _amin, _min, "minimum")


def _arg(name: str, op: Operator) -> Any:
    def function(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        if input.is_complex() or input.dtype is bool_:
            what = "complex" if input.is_complex() else "bool"
            raise RuntimeError(f"{name}(): does not support {what} input")
        if dim is None:
            if input.numel() == 0:
                raise IndexError(
                    f"{name}(): Expected reduction dim to be specified for input.numel() == 0."
                )
            index = op.call((reshape(input, -1),), (0, False))
            return reshape(index, (1,) * input.ndim) if keepdim else index
        wrapped = wrap_dim(dim, input.ndim)
        _require_elements(name, input, (wrapped,))
        if input.ndim == 0:
            return reshape(op.call((reshape(input, 1),), (0, False)), ())
        return op.call((input,), (wrapped, bool(keepdim)))

    function.__name__ = name
    function.__doc__ = f"Where the {name[3:]} is (the first of equals)."
    return public(out=True)(exact_out("structured")(function))


argmax, argmin = _arg("argmax", _argmax), _arg("argmin", _argmin)


@public(out=True)
@exact_out("structured")
@ends_with("aminmax")
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the largest element."""
    if dim is None:
        if input.numel() == 0:
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the "
                "operation has no identity."
            )
        low, high = amin(input), amax(input)
        if keepdim:
            low, high = (reshape(v, (1,) * input.ndim) for v in (low, high))
        return _aminmax(low, high)
    return _aminmax(amin(input, dim, keepdim), amax(input, dim, keepdim))


_aminmax = named_results("aminmax", "min", "max")

# ---- statistics ----------------------------------------------------------------------------------


def _var_mean_results(x: MetaArray, dims: Any, correction: float, keepdim: bool) -> Any:
    shape = reduced(x.shape, dims, keepdim)
    return x.new(shape, x.dtype.to_real()), x.new(shape)


_var = reduction(
    "var",
    "dims correction keepdim",
    lambda g, x, dims, correction, keepdim: _var_grad(g, x, dims, correction, keepdim),
    schema="var.correction(x, dims, correction=correction, keepdim=keepdim)",
    parts=lambda *given: _moments(*given)[0],
    rules=Rules(
        infer=lambda x, dims, _, keepdim: x.new(reduced(x.shape, dims, keepdim), x.dtype.to_real())
    ),
)
_var_mean = reduction(
    "var_mean", "dims correction keepdim",
    Gradient(
        lambda g, x, dims, correction, keepdim: _var_mean_grad(g, x, dims, correction, keepdim),
        outputs=0b11,
    ),
    schema="var_mean.correction(x, dims, correction=correction, keepdim=keepdim)",
    parts=lambda *given: _moments(*given), rules=Rules(infer=_var_mean_results),
)  # fmt: skip


def _moments(
    x: Tensor, dims: tuple[int, ...], correction: float, keepdim: bool
) -> tuple[Tensor, Tensor]:
    """The variance and the mean, of smaller operators."""
    center = x.mean(dims, keepdim=True)
    total = (x - center).square().sum(dims, keepdim=keepdim)
    mean = center if keepdim else x.mean(dims)
    left = _count(x.shape, dims) - correction
    return total / (left if left > 0 else 0), mean


def _var_grad(g: Tensor, x: Tensor, dims: Any, correction: float, keepdim: bool) -> Tensor:
    scale = (
        2.0 / (_count(x.shape, dims) - correction)
        if _count(x.shape, dims) != correction
        else math.inf
    )
    return (scale * kept(g, dims, keepdim)) * (x - x.mean(dims, keepdim=True))


def _var_mean_grad(g: Any, x: Tensor, dims: Any, correction: float, keepdim: bool) -> Tensor:
    total = None
    if g[0] is not None:
        total = _var_grad(g[0], x, dims, correction, keepdim)
    if g[1] is not None:
        mean_part = spread(g[1], dims, keepdim, x.shape) / _count(x.shape, dims)
        total = mean_part if total is None else total + mean_part
    return total  # type: ignore[return-value]


def _spread_arguments(
    name: str, input: Tensor, dim: Any, unbiased: Any, correction: Any
) -> tuple[Any, float]:
    """var(x, unbiased), var(x, dim, unbiased), var(x, dim, correction=...)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"{name}() received both unbiased and correction")
    if unbiased is not None:
        correction = 1 if unbiased else 0
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(
            f"{name} only support floating point and complex dtypes"
            if "mean" in name
            else f"{name}: input must be floating point or complex, got {input.dtype}"
            if False
            else "std and var only support floating point and complex dtypes"
        )
    correction = 1 if correction is None else correction
    dims = range(input.ndim) if dim is None else wrap_dims(dim, input.ndim) if input.ndim else ()
    shape = input._array.shape
    if 0 in shape:
        n = 0
    else:
        n = math.prod(shape if dim is None else [shape[d] for d in dims])
    if n - correction <= 0:
        defaults.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
            "reduction factor (input numel divided by output numel).",
            stacklevel=4,
        )
    return dim, correction


def _run_var(op: Operator, x: Tensor, dims: Any, correction: float, keepdim: bool) -> Any:
    if type(dims) is int and x.ndim:
        return op.call((x,), ((wrap_dim(dims, x.ndim),), correction, bool(keepdim)))
    if x.ndim == 0:
        wrap_dims(dims, 0)
        results = op.call((reshape(x, 1),), ((0,), correction, False))
        return (
            tuple(reshape(r, ()) for r in results)
            if isinstance(results, tuple)
            else reshape(results, ())
        )
    return op.call((x,), (wrap_dims(dims, x.ndim), correction, bool(keepdim)))


@public(out=True)
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Number | None = None,
) -> Tensor:
    """The variance over dims; divided by n - correction (1)."""
    if unbiased is correction is None:
        try:
            array = input._a
        except AttributeError:
            array = None
        if type(array) is ndarray and array.dtype in FLOATS and type(dim) is int:
            n = array.ndim
            if -n <= dim < n and array.shape[dim] > 1:
                params = ((dim % n,), 1, bool(keepdim))
                return _var.finish_with(_var.cpu(array, *params), params, input)
    dim, correction = _spread_arguments("var", input, dim, unbiased, correction)
    return _variance(input, dim, correction, keepdim)


def _variance(input: Tensor, dim: Any, correction: float, keepdim: bool) -> Tensor:
    if input.is_complex():
        real, imaginary = (
            _run_var(_var, part, dim, correction, keepdim) for part in (input.real, input.imag)
        )
        return real + imaginary
    return _run_var(_var, input, dim, correction, keepdim)


@public(out=True)
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Number | None = None,
) -> Tensor:
    """The standard deviation over dims."""
    dim, correction = _spread_arguments("std", input, dim, unbiased, correction)
    if is_half(input):  # a variance may be too large where its root is not
        deviation = _safe_sqrt(_variance(input.to(float32), dim, correction, keepdim))
        return deviation.to(input.dtype)
    return _safe_sqrt(_variance(input, dim, correction, keepdim))


_std = Operator(
    "std_sqrt",
    "v",
    schema="(Tensor v) -> Tensor",
    cpu=np.sqrt,
    gpu=lambda v: _gpu_sqrt(v),
    grad=Gradient(lambda g, out: (g / (2 * out)).masked_fill(out == 0, 0), node="Std"),
    rules=Rules(infer=same, axes="...->...", batch="elementwise"),
)


def _gpu_sqrt(v: Any) -> Any:
    from tritorch.gpu.pointwise import pointwise

    return pointwise.call("sqrt", (v,), v.dtype, v.dtype)


def _safe_sqrt(v: Tensor) -> Tensor:
    if v.dtype.itemsize == 2 and not v.is_cuda:
        return v.sqrt()
    return _std.call((v,), ())


@public()
def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Number | None = None,
) -> tuple[Tensor, Tensor]:
    """The variance and the mean over dims."""
    dim, correction = _spread_arguments("var_mean", input, dim, unbiased, correction)
    return _variance_and_mean(input, dim, correction, keepdim)


def _variance_and_mean(
    input: Tensor, dim: Any, correction: float, keepdim: bool
) -> tuple[Tensor, Tensor]:
    if input.is_complex():
        return _variance(input, dim, correction, keepdim), mean(input, dim, keepdim)
    return _run_var(_var_mean, input, dim, correction, keepdim)


@public()
@ends_with("std_mean.correction")
def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Number | None = None,
) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean over dims."""
    dim, correction = _spread_arguments("std_mean", input, dim, unbiased, correction)
    if is_half(input):
        variance, average = _variance_and_mean(input.to(float32), dim, correction, keepdim)
        return _safe_sqrt(variance).to(input.dtype), average.to(input.dtype)
    variance, average = _variance_and_mean(input, dim, correction, keepdim)
    return _safe_sqrt(variance), average


# ---- norms and logs ------------------------------------------------------------------------------


def _old_aminmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """aminmax, by its old name."""
    defaults.warn_once(
        "_aminmax is deprecated as of PyTorch 1.11 and will be removed in a future release. Use "
        "aminmax instead. This warning will only appear once per process."
    )
    return tuple(aminmax(input, dim=dim, keepdim=keepdim))


_old_aminmax.__name__ = "_aminmax"
PUBLIC["_aminmax"] = _old_aminmax

_logsumexp = reduction(
    "logsumexp",
    "dims keepdim",
    lambda g, x, out, dims, keepdim: _logsumexp_grad(g, x, out, dims, keepdim),
)


def _logsumexp_grad(g: Tensor, x: Tensor, out: Tensor, dims: Any, keepdim: bool) -> Tensor:
    return kept(g, dims, keepdim) * (x - kept(out, dims, keepdim)).exp().conj()


@public(out=True, special=True)
@autocast("cuda:float32")
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over dims, without overflow."""
    if dim is None:
        raise TypeError("logsumexp(): argument 'dim' (position 2) must be tuple of ints, not None")
    if category(input.dtype) < 2:
        input = input.to(defaults.dtype())
    return _call(_logsumexp, input, dim, keepdim)


_vector_norm = reduction(
    "vector_norm",
    "order dims keepdim kind",
    Gradient(
        lambda g, x, out, order, dims, keepdim: _norm_grad(g, x, out, order, dims, keepdim),
        node="LinalgVectorNorm",
    ),
    schema="linalg_vector_norm(x, order, dims, keepdim, dtype=kind)",
    rules=Rules(
        infer=lambda x, _, dims, keepdim, kind: x.new(
            reduced(x.shape, dims, keepdim), (kind or x.dtype).to_real()
        ),
    ),
)


def _norm_grad(g: Tensor, x: Tensor, out: Tensor, order: float, dims: Any, keepdim: bool) -> Tensor:
    g, out = kept(g, dims, keepdim), kept(out, dims, keepdim)
    if order == 0:
        return x.new_zeros(x.shape)
    if order == 1:
        return g * x.sgn()
    if order == 2:
        return published.public.where(out == 0, 0, x * (g / out))
    if math.isinf(order):
        magnitude = x.abs()
        mask = (magnitude == out) | (magnitude.isnan() & out.isnan())
        return x.sgn() * published.public.where(mask, g / mask.sum(dims, keepdim=True), 0)
    if order < 1:
        part = x.sgn() * x.abs().pow(order - 1).masked_fill(x == 0, 0) * g
        return published.public.where(x == 0, 0, part * out.pow(1 - order))
    if order < 2:
        part = x.sgn() * x.abs().pow(order - 1)
        return published.public.where(out == 0, 0, part * (g / out.pow(order - 1)))
    part = x * x.abs().pow(order - 2)
    return published.public.where(out == 0, 0, part * (g / out.pow(order - 1)))


@autocast("cuda:float32")
@exact_out("structured")
def vector_norm(
    input: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *,
    dtype: dtype | None = None, out: Any = None,
) -> Tensor:  # fmt: skip
    """(sum |x|^ord)^(1/ord) over dims."""
    require_tensor(input, "linalg_vector_norm", "self", 1)
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
            f"{_short(input.dtype)}"
        )
    if isinstance(ord, complex):
        raise RuntimeError(
            "linalg.vector_norm: Expected a non-complex scalar as the order of norm."
        )
    if dtype is not None:
        if input.is_complex() and not dtype.is_complex:
            raise RuntimeError(
                f"linalg.vector_norm: dtype should be complex for complex inputs. Got "
                f"{_short(dtype)}"
            )
        input = input.to(dtype)
    order = float(ord)
    if input.numel() == 0 and (order < 0 or math.isinf(order)):
        if dim is None or any_zero(input, wrap_dims(dim, input.ndim)):
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {_order_name(order)} norm on an empty "
                "tensor because the operation does not have an identity"
            )
    kind = input.dtype.to_real()
    if input.ndim == 0:
        wrap_dims(dim, 0)
        result = reshape(
            _vector_norm.call((reshape(input, 1),), (order, (0,), False, kind)), (1,) * 0
        )
    else:
        result = _vector_norm.call(
            (input,), (order, wrap_dims(dim, input.ndim), bool(keepdim), kind)
        )
        if dim is None and keepdim:
            result = reshape(result, (1,) * input.ndim)
    return result if out is None else write_out(result, out)


def any_zero(x: Tensor, dims: tuple[int, ...]) -> bool:
    """Whether one of the dims is empty."""
    return 0 in [x.shape[dim] for dim in dims]


def _order_name(order: float) -> str:
    return str(order)


@public(out=True)
@autocast("cuda:float32")
@ends_with("dist")
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of input - other."""
    return vector_norm(input - other, p)
