"""Scans along a dim: cumulative sums, products, extremes."""

from __future__ import annotations

from typing import Any

from tritorch.core import published
from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import bool_, dtype, float32, float64, int64
from tritorch.core.promotion import category, not_implemented
from tritorch.core.published import autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.record.backends import composed_backend
from tritorch.ops.record.checks import any_true, require_tensor
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.infer import same, with_indices
from tritorch.ops.record.operator import Operator, ndarray
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import in_place_of, public
from tritorch.ops.reduce.reduction import named_results
from tritorch.ops.shape.joining import cat
from tritorch.ops.shape.shape import reshape


def scan(name: str, params: str, grad: Any, **options: Any) -> Operator:
    """Declares a scan: backend `scan.name(x, *params)`."""
    return Operator(
        name, "x", params, cpu=f"scan.{name}", grad=grad, kind="scan", layout="row-major", **options
    )


def _flipped_cumsum(g: Tensor, dim: int) -> Tensor:
    return g.flip(dim).cumsum(dim).flip(dim)


_sums_from_end = Operator(
    "cumsum_backward", "g", "dim",
    schema="(Tensor g, int dim) -> Tensor", kind="internal", composed=_flipped_cumsum,
    fuses="running sum backwards", grad=lambda g, dim: _cumsum.call((g,), (dim, g.dtype)),
    rules=Rules(infer=same, axes="along", batch="dims"),
)  # fmt: skip


def _reverse_cumsum(g: Tensor, dim: int) -> Tensor:
    return _sums_from_end.call((g,), (wrap_dim(dim, g.ndim),))


_cumsum: Operator = scan(
    "cumsum", "dim kind", lambda g, dim: _reverse_cumsum(g, dim), fuses="running sum"
)  # fmt: skip
_cumprod = scan(
    "cumprod", "dim kind", lambda g, x, out, dim: _cumprod_grad(g, x, out, dim),
    fuses="running prod",
)  # fmt: skip
_cummax, _cummin = (
    scan(
        name,
        "dim",
        Gradient(lambda g, out1, x_shape, dim: _cumextreme_grad(g, out1, x_shape, dim), keeps="x"),
        rules=Rules(infer=lambda x, dim: with_indices(x, x.shape)),
    )
    for name in ("cummax", "cummin")
)
_logcumsumexp = scan(
    "logcumsumexp", "dim", lambda g, x, out, dim: _logcumsumexp_grad(g, x, out, dim)
)


def _cumprod_grad(g: Tensor, x: Tensor, out: Tensor, dim: int) -> Tensor:
    if not x._is_described and not any_true(x == 0):
        return _reverse_cumsum(g * out.conj(), dim) / x.conj()
    # Zeros: d out[j] / d x[i] is the product of all x[0..j] but x[i].
    n = x.shape[dim]
    parts = []
    for i in range(n):
        before = x.narrow(dim, 0, i).prod(dim, keepdim=True)
        after = x.narrow(dim, i + 1, n - i - 1).cumprod(dim)
        chain = cat([before, before * after], dim)
        parts.append((g.narrow(dim, i, n - i) * chain.conj()).sum(dim, keepdim=True))
    return cat(parts, dim)


def _cumextreme_grad(g: Any, out1: Tensor, x_shape: Any, dim: int) -> Tensor:
    return g[0].new_zeros(x_shape).scatter_add(dim, out1, g[0])


def _logcumsumexp_grad(g: Tensor, x: Tensor, out: Tensor, dim: int) -> Tensor:
    if x.is_complex():
        return (_reverse_cumsum(g * (-out).exp().conj(), dim)) * x.exp().conj()
    return _logcumsumexp_backward.call((g, x, out), (dim,))


def _composed_logcumsumexp_grad(g: Tensor, x: Tensor, out: Tensor, dim: int) -> Tensor:
    return _reverse_cumsum(g * (-out).exp(), dim) * x.exp()


def _in_logs(g: Tensor, x: Tensor, out: Tensor, dim: int) -> Tensor:
    """The gradient in logs, positive and negative ones apart.  The last digits of large logs are
    many of the sums': a wider type keeps them."""
    kind, wide = x.dtype, float32 if x.dtype.itemsize < 4 else float64
    if kind is not wide:
        g, x = g.to(wide), x.to(wide)
        out = x.logcumsumexp(dim)
    log_abs = g.abs().log()
    lowest = float("-inf")
    positive = published.public.where(g > 0, log_abs, lowest)
    negative = published.public.where(g < 0, log_abs, lowest)
    part = lambda v: ((v - out).flip(dim).logcumsumexp(dim).flip(dim) + x).exp()
    return (part(positive) - part(negative)).to(kind)


_logcumsumexp_backward = Operator(
    "logcumsumexp_backward", "y x out_", "dim",
    schema="(Tensor y, Tensor x, Tensor out_, int dim) -> Tensor", kind="internal",
    cpu=composed_backend(_in_logs), gpu=composed_backend(_in_logs),
    composed=_composed_logcumsumexp_grad, rules=Rules(infer=same, axes="along", batch="dims"),
)  # fmt: skip


def _run(op: Operator, x: Tensor, dim: int, *rest: Any) -> Any:
    try:
        array = x._a
    except AttributeError:
        array = None
    if type(array) is ndarray and type(dim) is int and len(rest) == 1:
        n = array.ndim
        if -n <= dim < n:
            params = (dim % n, *rest)
            return op.finish_with(op.cpu(array, *params), params, x)
    dim = wrap_dim(dim, x.ndim)
    if x.ndim == 0:
        results = op.call((reshape(x, 1),), (0, *rest))
        return (
            tuple(reshape(r, ()) for r in results)
            if isinstance(results, tuple)
            else reshape(results, ())
        )
    return op.call((x,), (dim, *rest))


def _summing(name: str, op: Operator) -> Any:
    def function(input: Tensor, dim: int, *, dtype: dtype | None = None) -> Tensor:
        require_tensor(input, name, "input", 1)
        kind = dtype or (int64 if category(input.dtype) < 2 else input.dtype)
        if kind is bool_:
            if input.ndim and input.numel():
                raise not_implemented(f"{name}_out_cpu", bool_)
            wrap_dim(dim, input.ndim)
            return input.to(bool_, copy=True)  # nothing to add
        return _run(op, input if input.dtype is kind else input.to(kind), dim, kind)

    function.__name__ = name
    function.__doc__ = f"The {name} along a dim; integers as int64."
    exposed = public(out="dtype")(autocast("cuda:sum")(function))

    def in_place(self: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        return function(self, dim, dtype=dtype or self.dtype)

    in_place.__name__ = name
    setattr(Tensor, f"{name}_", in_place_of(in_place, f"{name}_"))
    return exposed


cumsum, cumprod = _summing("cumsum", _cumsum), _summing("cumprod", _cumprod)


def _extreme(name: str, op: Operator) -> Any:
    result = named_results(name, "values", "indices")

    def function(input: Tensor, dim: int) -> Any:
        if input.is_complex() and input.ndim and input.numel():
            raise not_implemented(f"{name}_cpu", input.dtype)
        return result(*_run(op, input, dim))

    function.__name__ = name
    function.__doc__ = f"The {name} along a dim, with indices (the last of equals)."
    return public(out=True)(exact_out("scalar_type")(function))


cummax, cummin = _extreme("cummax", _cummax), _extreme("cummin", _cummin)


@public(out=True)
@exact_out("scalar_type")
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log(cumsum(exp(x))) along a dim, without overflow."""
    if category(input.dtype) < 2:
        wrap_dim(dim, input.ndim)
        raise not_implemented("logcumsumexp_out_cpu", input.dtype)
    return _run(_logcumsumexp, input, dim)


@public(out=True)
@exact_out("scalar_type")
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """The n-th difference along a dim."""
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = wrap_dim(dim, input.ndim)
    if n == 0:
        return input.clone()
    for extra in (prepend, append):
        if extra is not None and extra.ndim != input.ndim:
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
        sides = zip(extra.shape, input.shape) if extra is not None else ()
        for i, (mine, theirs) in enumerate(sides):
            if i != dim and mine != theirs:
                raise RuntimeError(
                    "diff expects the shape of tensor to prepend or append to match that of input "
                    "except along the differencing dimension; input.size"
                    f"({i}) = {theirs}, but got tensor.size({i}) = {mine}"
                )
    parts = [part for part in (prepend, input, append) if part is not None]
    x = cat(parts, dim) if len(parts) > 1 else input
    for _ in range(min(n, x.shape[dim])):
        size = x.shape[dim]
        if size == 0:
            break
        a, b = x.narrow(dim, 1, size - 1), x.narrow(dim, 0, size - 1)
        x = a ^ b if x.dtype is bool_ else a - b
    return x.clone() if x is input else x
