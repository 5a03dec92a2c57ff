"""Reductions, scans and normalisations of what a mask leaves of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch.core.dtype import bool_, dtype as Dtype, float32, int64
from tritorch.core.info import iinfo
from tritorch.core.promotion import category
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.ops.index.sorting import nanmedian
from tritorch.ops.pointwise import arithmetic
from tritorch.ops.pointwise.arithmetic import where
from tritorch.ops.reduce import reduction
from tritorch.ops.reduce.reduction import vector_norm
from tritorch.ops.shape import factory
from tritorch.ops.shape.shape import broadcast_to

FUNCTIONS: dict[str, Callable[..., Any]] = {}  # tritorch.masked.<name>
Dims = int | Sequence[int] | None
_LOWEST = frozenset(("amax", "argmax", "logsumexp", "logaddexp"))
_SUMS = frozenset(("sum", "cumsum", "prod", "cumprod", "median", "norm"))
_WITH_IDENTITY = _SUMS | _LOWEST | {"amin", "argmin"}


def _public(function: Callable[..., Any]) -> Callable[..., Any]:
    FUNCTIONS[function.__name__] = function
    return function


# ---- what all of them share ----------------------------------------------------------------------


def _identity(name: str, kind: Dtype, ord: float = 2.0) -> Any:
    """The number that changes no result of a function."""
    if name in ("sum", "cumsum"):
        return 0
    if name in ("prod", "cumprod"):
        return 1
    if name == "median":
        return float("nan")
    if name == "norm":
        return 0 if ord >= 0 else float("inf")
    lowest = name in _LOWEST
    if kind.is_floating_point or (kind.is_complex and name.startswith("log")):
        return float("-inf") if lowest else float("inf")
    if kind is bool_:
        raise NotImplementedError(f"identity of {name} on {kind} input")
    limits = iinfo(kind)
    return limits.min if lowest else limits.max


def _reduction_identity(op_name: str, input: Tensor, *args: Any) -> Tensor | None:
    """The number that changes no result of a reduction, as a tensor; None where there is none."""
    if op_name in ("mean", "std", "var"):
        return None
    if op_name not in _WITH_IDENTITY:
        raise NotImplementedError(f"identity of {op_name} on {input.dtype} input")
    value = _identity(op_name, input.dtype, *args)
    kind = float32 if op_name == "median" and not input.is_floating_point() else input.dtype
    return factory.full((), value, dtype=kind, device=input.device)


def _canonical_dim(dim: Dims, ndim: int) -> tuple[int, ...]:
    """The dims of a reduction, counted from the front and sorted."""
    return _dims(dim, ndim)


def _mask_for(x: Tensor, mask: Tensor) -> Tensor:
    """A mask of booleans in the shape of x."""
    if mask.ndim > x.ndim:
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the "
            "input)"
        )
    if mask.shape != x.shape:
        mask = broadcast_to(mask, x.shape)
    return mask if mask.dtype is bool_ else mask.bool()


def _parts(x: Any, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The data and the mask, of which a MaskedTensor brings its own."""
    from tritorch.masked.maskedtensor import MaskedTensor

    if isinstance(x, MaskedTensor):
        x, mask = x.get_data(), x.get_mask() if mask is None else mask
    return x, None if mask is None else _mask_for(x, mask)


def _filled(x: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    return x if mask is None else _in(where(mask, x, value), x.dtype)


def _dims(dim: Dims, ndim: int) -> tuple[int, ...]:
    """Sorted dims from the front; none of them means all."""
    ndim = max(ndim, 1)
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(ndim))
    found: list[int] = []
    for d in (dim,) if isinstance(dim, int) else dim:
        if d in found:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        if not -ndim <= d < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but "
                f"got {d})"
            )
        found.append(d % ndim)
    return tuple(sorted(found))


def _in(x: Tensor, kind: Dtype | None) -> Tensor:
    return x if kind is None or x.dtype is kind else x.to(kind)


def _count(x: Tensor, mask: Tensor | None, dim: Dims, keepdim: bool) -> Tensor:
    """How many elements there are to a result."""
    ones = factory.ones(x.shape, dtype=int64, device=x.device) if mask is None else mask
    return ones.sum(_dims(dim, x.ndim) if x.ndim else None, keepdim)


def _sum(x: Tensor, mask: Tensor | None, dim: Dims, keepdim: bool, kind: Any) -> Tensor:
    return reduction.sum(_filled(x, mask, 0), _dims(dim, x.ndim), keepdim, dtype=kind)


# ---- reductions ----------------------------------------------------------------------------------


@_public
def sum(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum; 0 of nothing."""
    x, mask = _parts(input, mask)
    kind = dtype or (int64 if category(x.dtype) < 2 else x.dtype)
    return _sum(x, mask, dim, bool(keepdim), kind)


@_public
def prod(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product; 1 of nothing."""
    x, mask = _parts(input, mask)
    x = _filled(_in(x, dtype), mask, 1)
    for d in reversed(_dims(dim, x.ndim)):
        x = x.prod(d, keepdim=bool(keepdim))
    return x


def _extreme(name: str, what: str) -> None:
    def function(
        input: Tensor,
        dim: Dims = None,
        *,
        keepdim: bool | None = False,
        dtype: Dtype | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        x, mask = _parts(input, mask)
        x = _in(x, dtype)
        x = _filled(x, mask, _identity(name, x.dtype))
        return PUBLIC[name](x, _dims(dim, x.ndim), bool(keepdim))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {what}."
    _public(function)


_extreme("amax", "maximum")
_extreme("amin", "minimum")


def _index_of(name: str, what: str) -> None:
    def function(
        input: Tensor,
        dim: int | None = None,
        *,
        keepdim: bool | None = False,
        dtype: Dtype | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        x, mask = _parts(input, mask)
        x = _in(x, dtype)
        if dim is not None and not isinstance(dim, int):
            raise TypeError(
                f"{name}(): argument 'dim' (position 2) must be int, not {type(dim).__name__}"
            )
        x = _filled(x, mask, _identity(name, x.dtype))
        return PUBLIC[name](x, dim, bool(keepdim)).to(x.dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Where the {what} is, in the input's dtype."
    _public(function)


_index_of("argmax", "maximum")
_index_of("argmin", "minimum")


@_public
def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean; NaN of nothing."""
    x, mask = _parts(input, mask)
    what, kind = ("Input", x.dtype) if dtype is None else ("Optional", dtype)
    if category(kind) < 2:
        raise ValueError(
            f"mean(): Could not infer output dtype. {what} dtype must be either a floating point "
            f"or complex dtype. Got: {kind}"
        )
    total = _sum(x, mask, dim, bool(keepdim), kind)
    return total / _count(x, mask, dim, bool(keepdim))


@_public
def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The lower median along a dim; NaN of nothing."""
    x, mask = _parts(input, mask)
    kind = dtype or x.dtype
    d = _dims(dim, x.ndim)[0]
    floating = x.dtype.is_floating_point
    x = _filled(x if floating else x.to(float32), mask, float("nan"))
    out = nanmedian(x, d, bool(keepdim))[0]
    if floating:
        return out
    if bool(out.isnan().any()):
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    return out.to(kind)


@_public
def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm."""
    x, mask = _parts(input, mask)
    order = 2.0 if ord is None else ord
    if isinstance(order, str):
        raise TypeError("linalg_vector_norm(): argument 'ord' (position 2) must be Number, not str")
    x = _filled(_in(x, dtype), mask, _identity("norm", x.dtype, order))
    return vector_norm(x, order, _dims(dim, x.ndim), bool(keepdim), dtype=dtype)


def _spread(
    x: Any, dim: Dims, unbiased: Any, correction: Any, keepdim: bool, kind: Any, mask: Any,
) -> tuple[Tensor, Dtype]:  # fmt: skip
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 1 if unbiased or unbiased is None else 0
    x, mask = _parts(x, mask)
    if kind is None:
        kind = x.dtype if category(x.dtype) >= 2 else float32
    inner = kind if category(kind) >= 2 else float32
    count = _count(x, mask, dim, True)
    x = x - _sum(x, mask, dim, True, inner) / count
    total = _sum(x * x.conj() if x.is_complex() else x * x, mask, dim, keepdim, inner)
    count = count.reshape(total.shape).to(inner.to_real())
    if correction:
        count = (count - correction).clamp_min(0)
    return total / count, kind


@_public
def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: int | float | None = None,
    keepdim: bool | None = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance."""
    out, kind = _spread(input, dim, unbiased, correction, bool(keepdim), dtype, mask)
    return out.to(kind)


@_public
def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: int | None = None,
    keepdim: bool | None = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation."""
    out, kind = _spread(input, dim, unbiased, correction, bool(keepdim), dtype, mask)
    return out.to(kind).sqrt()


@_public
def logsumexp(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """log(sum(exp(x))); minus infinity of nothing."""
    x, mask = _parts(input, mask)
    x = _in(x, dtype)
    x = _filled(x, mask, _identity("logsumexp", x.dtype))
    return reduction.logsumexp(x, _dims(dim, x.ndim), keepdim).to(x.dtype)


@_public
def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: Dtype | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(x) + exp(y)), where what is masked adds nothing."""
    sides = []
    for value, mask in ((input, input_mask), (other, other_mask)):
        x, mask = _parts(value, mask)
        x = _in(x, dtype)
        sides.append(_filled(x, mask, _identity("logaddexp", x.dtype)))
    return _in(arithmetic.logaddexp(*sides), dtype or sides[0].dtype)


# ---- scans and normalisations --------------------------------------------------------------------


def _scan(name: str) -> None:
    def function(
        input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None
    ) -> Tensor:
        x, mask = _parts(input, mask)
        kind = dtype or x.dtype
        if kind is bool_:
            raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'")
        x = _filled(_in(x, dtype), mask, _identity(name, kind))
        return PUBLIC[name](x, _dims(dim, x.ndim)[0], dtype=kind)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name} along a dim; what is masked changes nothing."
    _public(function)


_scan("cumsum")
_scan("cumprod")


def _softmax(name: str, extreme: str) -> None:
    def function(
        input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None
    ) -> Tensor:
        x, mask = _parts(input, mask)
        x = _in(x, dtype)
        x = _filled(x, mask, _identity(extreme, x.dtype))
        x = -x if name == "softmin" else x
        return PUBLIC[name.replace("softmin", "softmax")](x, _dims(dim, x.ndim)[0])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name} along a dim, of what is not masked."
    _public(function)


_softmax("softmax", "amax")
_softmax("log_softmax", "amax")
_softmax("softmin", "amin")


@_public
def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Divided by its norm along a dim, or by eps if that is greater; 0 where masked."""
    x, mask = _parts(input, mask)
    x = _in(x, dtype)
    length = norm(x, ord, _dims(dim, x.ndim)[0], keepdim=True, mask=mask)
    return _filled(x, mask, 0) / length.clamp_min(eps)
