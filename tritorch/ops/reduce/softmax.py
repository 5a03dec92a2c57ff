"""Softmax and its relatives."""

from __future__ import annotations

from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import dtype
from tritorch.core.promotion import category, not_implemented
from tritorch.core.published import autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.record.checks import require_tensor
from tritorch.ops.record.groups import Rules
from tritorch.ops.record.operator import FLOATS, Operator, ndarray
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import public
from tritorch.ops.shape.shape import reshape


def _exponentials(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """x less the largest along a dim, and the sum of its exponentials."""
    shifted = x - x.detach().amax(dim, keepdim=True)
    return shifted, shifted.exp().sum(dim, keepdim=True)


def _composed_softmax(x: Tensor, dim: int, kind: dtype) -> Tensor:
    shifted, total = _exponentials(x, dim)
    return (shifted.exp() / total).to(kind)


def _composed_log_softmax(x: Tensor, dim: int, kind: dtype) -> Tensor:
    shifted, total = _exponentials(x, dim)
    return (shifted - total.log()).to(kind)


_softmax = Operator(
    "softmax", "x", "dim kind",
    cpu="softmax.softmax", composed=_composed_softmax, parts=True,
    grad=lambda g, out, dim: _softmax_backward.call((g, out), (dim, out.dtype)),
    rules=Rules(
        infer=lambda x, dim, kind: x.new(x.shape, kind), axes="along", batch="dims",
        cost=lambda outs, x, *rest: 5 * x.numel(),
    ),
)  # fmt: skip
_log_softmax = Operator(
    "log_softmax", "x", "dim kind",
    cpu="softmax.log_softmax", composed=_composed_log_softmax, parts=True,
    grad=lambda g, out, dim: _log_softmax_backward.call((g, out), (dim, out.dtype)),
    rules=Rules(
        infer=lambda x, dim, kind: x.new(x.shape, kind), axes="along", batch="dims",
        cost=lambda outs, x, *rest: 5 * x.numel(),
    ),
)  # fmt: skip


def _composed_softmax_grad(g: Tensor, out: Tensor, dim: int, kind: dtype) -> Tensor:
    return out * (g - (g * out).sum(dim, keepdim=True))


def _composed_log_softmax_grad(g: Tensor, out: Tensor, dim: int, kind: dtype) -> Tensor:
    return g - out.exp() * g.sum(dim, keepdim=True)


_softmax_backward: Operator = Operator(
    "softmax_backward", "g_ out_", "dim kind",
    schema="_softmax_backward_data(g_, out_, dim, kind)", kind="internal",
    cpu="softmax.softmax_backward", composed=_composed_softmax_grad, parts=True,
    rules=Rules(
        infer=lambda g, out_, dim, kind: g.new(g.shape, kind), axes="along", batch="dims",
        cost=lambda outs, x, *rest: 4 * x.numel(),
    ),
)  # fmt: skip
_log_softmax_backward: Operator = Operator(
    "log_softmax_backward", "g_ out_", "dim kind",
    schema="_log_softmax_backward_data(g_, out_, dim, kind)", kind="internal",
    cpu="softmax.log_softmax_backward", composed=_composed_log_softmax_grad, parts=True,
    rules=Rules(
        infer=lambda g, out_, dim, kind: g.new(g.shape, kind), axes="along", batch="dims",
        cost=lambda outs, x, *rest: 4 * x.numel(),
    ),
)  # fmt: skip


def _run(name: str, op: Operator, x: Tensor, dim: int, kind: dtype | None) -> Tensor:
    try:
        a = x._a
    except AttributeError:
        a = None
    if type(a) is ndarray and a.dtype in FLOATS and kind is None and type(dim) is int:
        n = a.ndim
        if -n <= dim < n:
            dim, own = dim % n, x.dtype
            return op.finish_with(op.cpu(a, dim, own), (dim, own), x)
    require_tensor(x, name, "input", 1)
    dim = wrap_dim(dim, x.ndim)
    if kind is not None and kind is not x.dtype:
        x = x.to(kind)
    if category(x.dtype) != 2:
        if not x.numel():
            return x.clone()
        last = "_lastdim" if dim == x.ndim - 1 else ""
        raise not_implemented(f"{name}{last}_kernel_impl", x.dtype)
    if x.ndim == 0:
        return reshape(op.call((reshape(x, 1),), (0, x.dtype)), ())
    return op.call((x,), (dim, x.dtype))


@public(out=True)
@autocast("cuda:sum")
@exact_out("structured")
def softmax(input: Tensor, dim: int, dtype: dtype | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along a dim."""
    return _run("softmax", _softmax, input, dim, dtype)


@public(out=True)
@autocast("cuda:sum")
@exact_out("structured")
def log_softmax(input: Tensor, dim: int, dtype: dtype | None = None) -> Tensor:
    """log(softmax(x)) along a dim."""
    return _run("log_softmax", _log_softmax, input, dim, dtype)
