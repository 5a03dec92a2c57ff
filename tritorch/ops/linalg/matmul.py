"""Products of matrices and vectors: matmul, mm, bmm, addmm, dot, outer, einsum, tensordot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.autograd.grad_mode import no_grad
from tritorch.autograd.graph import check_inplace, rewrite_history
from tritorch.core.dims import wrap_dim
from tritorch.core.dispatching import asked, watching
from tritorch.core.dtype import bool_
from tritorch.core.promotion import category, scalar_name
from tritorch.core.published import FUNCTIONAL, PUBLIC, autocast
from tritorch.core.tensor import Tensor, attach
from tritorch.host.linalg import blas
from tritorch.host.pointwise.narrow import like, widen
from tritorch.ops.pointwise.arithmetic import conj
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import (
    broadcast_shapes,
    former_order,
    require_distinct_elements,
    require_tensor,
)
from tritorch.ops.record.ends import ends_as, ends_with
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.operator import Operator, ndarray
from tritorch.ops.record.outputs import cpp_name, exact_out
from tritorch.ops.record.publishing import compute_out, in_place_of, public, write_out
from tritorch.ops.shape.factory import as_tensor
from tritorch.ops.shape.shape import expand, reshape

BLAS_TYPES = frozenset(np.dtype(code) for code in "fdFD")


@arrays.by_steps
def _cpu_mm(a: Any, b: Any) -> Any:
    if a.dtype in BLAS_TYPES:
        return blas.matmul(a, b)  # any strides
    functions = backend("cpu", "matmul")
    return (functions.mm if a.ndim == 2 else functions.bmm)(a, b)


_mm = Operator(
    "mm",
    "a b",
    cpu=_cpu_mm,
    gpu="matmul.mm",
    fuses="mm",
    grad=(lambda g, b: g.mm(b.mH), lambda g, a: a.mH.mm(g)),
    rules=Rules(
        infer=lambda a, b: a.new((a.shape[0], b.shape[1])), axes="mk,kn->mn", batch="product"
    ),
)
_bmm = Operator(
    "bmm",
    "a b",
    cpu=_cpu_mm,
    gpu="matmul.bmm",
    grad=(lambda g, b: g.bmm(b.mH), lambda g, a: a.mH.bmm(g)),
    rules=Rules(
        infer=lambda a, b: a.new((*a.shape[:2], b.shape[2])), axes="bmk,bkn->bmn", batch="product"
    ),
)

# Of matmul, in PyTorch a view of the products.
_batches = _bmm.like("matmul_batches", "_unsafe_view", schema="bmm(a, b)", kind="internal")


def require_same_dtype(name: str, a: Tensor, b: Tensor) -> None:
    """Refuses products of two types, and of bools."""
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {cpp_name(a.dtype)} != "
            f"{cpp_name(b.dtype)}"
        )
    if a.dtype is bool_ and a.numel() and b.numel():
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")


@autocast("lower")
@exact_out("structured")
def mm(input: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """The product of two matrices."""
    require_tensor(input, "mm", "input", 1)
    require_tensor(mat2, "mm", "mat2", 2)
    if input.ndim != 2 or mat2.ndim != 2:
        which = "self must be a matrix" if input.ndim != 2 else "mat2 must be a matrix"
        raise RuntimeError(which)
    _check_inner(input, mat2)
    require_same_dtype("addmm_impl_cpu_", input, mat2)
    result = _mm.call((input, mat2), ())
    return result if out is None else write_out(result, out, "mm")


def _check_inner(a: Tensor, b: Tensor) -> None:
    (n, k), (k2, m) = a.shape[-2:], b.shape[-2:]
    if k != k2:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {k2}x{m})")


def _check_bmm(a: Tensor, b: Tensor) -> None:
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, "
            f"{a.shape[2]}] but got: [{b.shape[0]}, {b.shape[1]}]."
        )


@autocast("lower")
@exact_out("structured")
def bmm(input: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """The products of two batches of matrices."""
    require_tensor(input, "bmm", "input", 1)
    require_tensor(mat2, "bmm", "mat2", 2)
    for x, name in ((input, "batch1"), (mat2, "batch2")):
        if x.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    _check_bmm(input, mat2)
    require_same_dtype("bmm", input, mat2)
    result = _bmm.call((input, mat2), ())
    return result if out is None else write_out(result, out, "bmm")


for _function in (mm, bmm):
    PUBLIC[_function.__name__] = _function
    setattr(Tensor, _function.__name__, _function)


@autocast("lower")
@exact_out("input")
def matmul(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The product of vectors, matrices, or broadcast batches of matrices."""
    # NumPy's dot takes one element for a factor, and forgets that 0 * inf is NaN.
    try:
        a, b = input._a, other._a
    except AttributeError:
        a = b = None
    if type(a) is ndarray is type(b) and a.dtype is b.dtype and a.dtype in BLAS_TYPES:
        if out is not None:
            pass
        elif a.ndim == 2 == b.ndim:
            if a.shape[1] == b.shape[0] and a.size > 1 < b.size:
                return _mm.apply(blas.dot, a, b, input, other)
        elif a.ndim == 3 == b.ndim:
            if a.shape[0] == b.shape[0] and a.shape[2] == b.shape[1]:
                return _batches.apply(blas.matmul, a, b, input, other)
        elif a.ndim == 2 and b.ndim == 1:
            if a.shape[1] == b.shape[0] > 1 and not _mm.wants(input, other):
                return _mm.apply(blas.dot, a, b, input, other)
    require_tensor(input, "matmul", "input", 1)
    require_tensor(other, "matmul", "other", 2)
    if out is None:
        return _matmul(input, other)
    name = "dot" if input.ndim == other.ndim == 1 else "mm"
    return compute_out(name, _matmul, out, input, other, own_dtype=True)


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    if a.ndim == 0 or b.ndim == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and {b.ndim}D"
        )
    if a.ndim == 1 and b.ndim == 1:
        return dot(a, b)
    if a.ndim == 2 and b.ndim == 1:
        return mv(a, b)
    if a.ndim == 1:
        out = reshape(_matmul(reshape(a, (1, a.shape[0])), b), (*b.shape[:-2], b.shape[-1]))
        return ends_as("squeeze_.dim", out)
    if b.ndim == 1:
        return ends_as("_unsafe_view", reshape(_matmul(a, reshape(b, (-1, 1))), a.shape[:-1]))
    if a.ndim == 2 and b.ndim == 2:
        return mm(a, b)
    _check_matmul(a, b)
    if b.ndim == 2:  # rows of a batch are rows of one matrix
        rows = reshape(a, (math.prod(a.shape[:-1]), a.shape[-1]))
        return ends_as("_unsafe_view", reshape(mm(rows, b), (*a.shape[:-1], b.shape[-1])))
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = reshape(expand(a, (*batch, *a.shape[-2:])), (math.prod(batch), *a.shape[-2:]))
    right = reshape(expand(b, (*batch, *b.shape[-2:])), (math.prod(batch), *b.shape[-2:]))
    product = reshape(bmm(left, right), (*batch, a.shape[-2], b.shape[-1]))
    return ends_as("_unsafe_view", product)


def _check_matmul(a: Tensor, b: Tensor) -> None:
    if a.shape[-1] != b.shape[-2]:
        if b.ndim == 2:
            _check_inner(reshape(a, (-1, a.shape[-1])) if a.numel() else a[0], b)
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: "
            f"[{math.prod(a.shape[:-2])}, {a.shape[-1]}] but got: [{math.prod(b.shape[:-2])}, "
            f"{b.shape[-2]}]."
        )


PUBLIC["matmul"] = matmul
attach(matmul=matmul)


def _at(self: Tensor, other: Any) -> Any:
    return matmul(self, other) if isinstance(other, Tensor) else NotImplemented


def _at_reflected(self: Tensor, other: Any) -> Any:
    if not isinstance(other, (np.ndarray, Tensor)):
        return NotImplemented
    return matmul(as_tensor(other), self)


tensor_type: Any = Tensor
tensor_type.__matmul__, tensor_type.__rmatmul__ = _at, _at_reflected
tensor_type.__matmul__.shown = tensor_type.__rmatmul__.shown = "matmul"

# ---- vectors -------------------------------------------------------------------------------------


def _check_vectors(name: str, a: Tensor, b: Tensor) -> None:
    require_tensor(a, name, "input", 1)
    require_tensor(b, name, "tensor", 2)
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {scalar_name(a.dtype)} and "
            f"{scalar_name(b.dtype)}"
        )
    if a.shape != b.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{a.shape[0]}] and src [{b.shape[0]}] to "
            f"have the same number of elements, but got {a.shape[0]} and {b.shape[0]} elements "
            f"respectively"
        )


@public(out=True)
@autocast("cuda:widest")
@exact_out("input")
@ends_with("dot")
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The sum of products of two vectors."""
    _check_vectors("dot", input, tensor)
    if input.dtype is bool_:
        raise NotImplementedError("\"dot\" not implemented for 'Bool'")
    n = input.shape[0]
    return reshape(_mm.call((reshape(input, (1, n)), reshape(tensor, (n, 1))), ()), ())


@public(out=True)
@autocast("cuda:widest")
@exact_out("input")
@ends_with("vdot")
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """dot, with the first vector conjugated."""
    _check_vectors("vdot", input, other)
    return dot(conj(input), other)


@public(out=True)
@autocast("cpu:lower-unless-number")
@exact_out(
    "tensordot: Expected the output tensor to have dtype {Result}, but got an output "
    "tensor with dtype {Out}"
)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last dims."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    if input.ndim == 1 == other.ndim:
        return ends_as("view", dot(input, other))
    return tensordot(input, other, dims=([-1], [-1]))


@public(out=True)
@autocast("cuda:lower")
@ends_with("mv")
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector."""
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got {vec.ndim}, {input.ndim}, {vec.ndim}"
        )
    if input.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({input.shape[0]}), mat "
            f"({input.shape[0]}x{input.shape[1]}), vec ({vec.shape[0]})"
        )
    require_same_dtype("addmm_impl_cpu_", input, vec)
    n, k = input.shape
    return reshape(_mm.call((input, reshape(vec, (k, 1))), ()), (n,))


@public(out=True, aliases=("ger",))
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """Products of all pairs of two vectors."""
    for x, name in ((input, "self"), (vec2, "vec2")):
        if x.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {x.ndim}-D")
    return reshape(input, (input.shape[0], 1)) * vec2


# ---- with an addend ------------------------------------------------------------------------------


def _combine(input: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta * input + alpha * product; with beta 0, input's NaN do not count."""
    alpha, beta = _factor(alpha, input), _factor(beta, input)
    if category(input.dtype) < 2:
        alpha, beta = int(alpha), int(beta)  # as PyTorch
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return product + (input if beta == 1 else input * beta)


def _factor(value: Any, input: Tensor) -> Any:
    if isinstance(value, complex) and value.imag and not input.is_complex():
        name = {"float32": "float", "float64": "double"}.get(input.dtype.name, input.dtype.name)
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    return value


def require_like_addend(input: Tensor, *others: Tensor) -> None:
    """Matrices of the dtype of what their product is added to."""
    for other in others:
        if other.dtype is not input.dtype:
            raise RuntimeError(
                f"self and mat2 must have the same dtype, but got {scalar_name(input.dtype)} and "
                f"{scalar_name(other.dtype)}"
            )


def _addend(name: str, input: Tensor, shape: Sequence[int], *others: Tensor) -> Tensor:
    require_like_addend(input, *others)
    return expand(input, shape)


def _check_matrices(mat1: Tensor, mat2: Tensor) -> None:
    for x, name in ((mat1, "mat1"), (mat2, "mat2")):
        if x.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {x.ndim}-D tensor")
    _check_inner(mat1, mat2)


@arrays.by_steps
def _cpu_addmm(addend: Any, a: Any, b: Any, beta: float, alpha: float) -> Any:
    if a.dtype not in BLAS_TYPES:
        return like(_cpu_addmm(widen(addend), widen(a), widen(b), beta, alpha), a)
    if alpha == beta == 1 and a.ndim == 2 and 0 < addend.size == addend.shape[-1] == b.shape[1]:
        row = addend.reshape(-1)
        if (found := blas.with_bias(a, b, row)) is not None:
            return found
    out = blas.matmul(a, b)
    if alpha != 1:
        np.multiply(out, alpha, out=out)
    if addend.size == out.size and beta != 1:
        addend = addend * np.asarray(beta, out.dtype)
    elif beta != 1:
        addend = np.multiply(addend, beta, dtype=out.dtype)
    return arrays.add(out, addend, out=out)


def _scaled_sum(addend: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    product = product if alpha == 1 else alpha * product
    return product + beta * addend if beta else product  # of beta = 0 not even NaN stays


_addmm = Operator(
    "addmm", "addend a b", "beta alpha",
    cpu=_cpu_addmm, gpu="matmul.addmm",
    composed=lambda addend, a, b, beta, alpha: _scaled_sum(addend, a.mm(b), beta, alpha),
    fuses="addmm",
    grad=(
        lambda g, beta: g if beta == 1 else g * beta,
        lambda g, b, alpha: _times(g.matmul(b.mH), alpha),
        lambda g, a, alpha: _times(a.mH.matmul(g), alpha),
    ),
    rules=Rules(
        infer=lambda c, a, b, *rest: a.new((a.shape[0], b.shape[1])), axes="=,mk,kn->mn",
        batch="sum_with_product",
    ),
)  # fmt: skip
_baddbmm = _addmm.like(
    "baddbmm",
    "Baddbmm",
    fuses="",
    axes="=,bmk,bkn->bmn",
    composed=lambda addend, a, b, beta, alpha: _scaled_sum(addend, a.bmm(b), beta, alpha),
    batch="sum_with_product",
    infer=lambda c, a, b, *rest: a.new((*a.shape[:2], b.shape[2])),
)


def _times(x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else x * factor


def _add_product(
    record: Operator, multiply: Any, input: Tensor, a: Tensor, b: Tensor, beta: Any, alpha: Any
) -> Tensor:
    """beta * input + alpha * a b, in one operator where the types and beta allow it."""
    if beta == 0 or not input.dtype.is_floating_point or a.dtype is not b.dtype:
        return _combine(input, multiply(a, b), beta, alpha)
    return record.call((input, a, b), (float(_factor(beta, input)), float(_factor(alpha, input))))


@public(out=True, inplace=True)
@autocast("lower")
@exact_out("structured")
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *rest: Any, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)."""
    if rest:
        input, mat1, mat2, beta, alpha = former_order(
            "addmm", (input, mat1, mat2, *rest), "mat1", "mat2"
        )
    _check_matrices(mat1, mat2)
    addend = _addend("addmm", input, (mat1.shape[0], mat2.shape[1]), mat1, mat2)
    return _add_product(_addmm, mm, addend, mat1, mat2, beta, alpha)


def _activation(name: str) -> Any:
    return FUNCTIONAL[name]


def _composed_activation(
    addend: Tensor, a: Tensor, b: Tensor, beta: float, alpha: float, activation: str
) -> Tensor:
    return _activation(activation)(_addmm.call((addend, a, b), (beta, alpha)))


def _cpu_activation(addend: Any, a: Any, b: Any, beta: float, alpha: float, name: str) -> Any:
    sums = _cpu_addmm(widen(addend), widen(a), widen(b), beta, alpha)
    return like(getattr(backend("cpu", "pointwise"), name)(sums), a)


_addmm_activation_record = Operator(
    "_addmm_activation", "addend a b", "beta alpha activation",
    schema="_addmm_activation(addend, a, b, beta=beta, alpha=alpha, use_gelu=activation == "
        "'gelu')",
    cpu=_cpu_activation, gpu="matmul.addmm_activation", composed=_composed_activation,
    grad=Gradient(node="AddmmActivation"),
    rules=Rules(
        infer=lambda c, a, b, *rest: a.new((a.shape[0], b.shape[1])), axes="=,mk,kn->mn",
        batch="definition",
    ),
)  # fmt: skip


@public(out=True)
def _addmm_activation(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1,
    use_gelu: bool = False,
) -> Tensor:  # fmt: skip
    """relu or gelu of beta * input + alpha * (mat1 @ mat2): on the GPU one launch."""
    _check_matrices(mat1, mat2)
    activation = "gelu" if use_gelu else "relu"
    if beta == 0 or not input.dtype.is_floating_point or mat1.dtype is not input.dtype:
        return _activation(activation)(addmm(input, mat1, mat2, beta=beta, alpha=alpha))
    addend = _addend("addmm", input, (mat1.shape[0], mat2.shape[1]), mat1, mat2)
    return _addmm_activation_record.call(
        (addend, mat1, mat2), (float(beta), float(alpha), activation)
    )


@public(out=True, inplace="public")
@autocast("cuda:lower")
@exact_out("structured")
@ends_with("addmv")
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *rest: Any, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
    if rest:
        input, mat, vec, beta, alpha = former_order("addmv", (input, mat, vec, *rest), "mat", "vec")
    if mat.ndim != 2 or vec.ndim != 1 or input.ndim > 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}"
        )
    if mat.shape[1] != vec.shape[0] or input.numel() not in (1, mat.shape[0]):
        wrap_dim(0, input.ndim, allow_scalar=False)  # the message asks for a size
        raise RuntimeError(
            f"size mismatch, got input ({input.numel()}), mat ({mat.shape[0]}x{mat.shape[1]}), vec "
            f"({vec.shape[0]})"
        )
    plain = type(input) is type(mat) is type(vec) is Tensor
    if (watching or not plain) and asked(input, mat, vec):
        if not (_C.is_grad_enabled() and _C.any_requires_grad(input, mat, vec)):
            from tritorch.ops.interpret import dispatch

            named = {k: v for k, v in (("beta", beta), ("alpha", alpha)) if v != 1}
            return dispatch.plainly("addmv", input, mat, vec, **named)
    return _combine(_addend("addmv", input, (mat.shape[0],), mat, vec), mv(mat, vec), beta, alpha)


@public(out=True, inplace=True)
@autocast("cuda:lower")
@ends_with("addr")
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *rest: Any, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2)."""
    if rest:
        input, vec1, vec2, beta, alpha = former_order(
            "addr", (input, vec1, vec2, *rest), "vec1", "vec2"
        )
    for x, name in ((vec1, "vec1"), (vec2, "vec2")):
        if x.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {x.ndim}-D")
    for factor, name in ((beta, "beta"), (alpha, "alpha")):
        if category(input.dtype) < 2 and isinstance(factor, float):
            raise RuntimeError(
                f"For integral input tensors, argument {name} must not be a floating point number."
            )
    addend = expand(input, (vec1.shape[0], vec2.shape[0]))
    product = outer(vec1, vec2)
    if input.dtype is bool_ and product.dtype is bool_:
        product = product & bool(alpha)
        return product | addend if beta else product
    return _combine(addend, product, beta, alpha)


def _sizes_of_product(batch1: Tensor, batch2: Tensor) -> None:
    """Asks for the sizes of the result before anything else, as PyTorch does."""
    for x, dim in ((batch1, 0), (batch1, 1), (batch2, 2)):
        wrap_dim(dim, x.ndim)


@public(out=True, inplace=True)
@autocast("lower")
@exact_out("structured")
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *rest: Any, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """beta * input + alpha * bmm(batch1, batch2)."""
    if rest:
        input, batch1, batch2, beta, alpha = former_order(
            "baddbmm", (input, batch1, batch2, *rest), "batch1", "batch2"
        )
    _sizes_of_product(batch1, batch2)
    for x, name in ((batch1, "batch1"), (batch2, "batch2")):
        if x.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    _check_bmm(batch1, batch2)
    shape = (*batch1.shape[:2], batch2.shape[2])
    addend = _addend("baddbmm", input, shape, batch1, batch2)
    return _add_product(_baddbmm, bmm, addend, batch1, batch2, beta, alpha)


@public(out=True)
@autocast("lower")
@ends_with("addbmm")
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *rest: Any, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """beta * input + alpha * the sum of bmm(batch1, batch2) over the batch."""
    if rest:
        input, batch1, batch2, beta, alpha = former_order(
            "addbmm", (input, batch1, batch2, *rest), "batch1", "batch2"
        )
    _sizes_of_product(batch1, batch2)
    for x, name in ((batch1, "batch1"), (batch2, "batch2")):
        if x.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    shape = batch1.shape[1], batch2.shape[2]
    addend = _addend("addbmm", input, shape, batch1)
    (n, _, inner), (m, other, _) = batch1.shape, batch2.shape
    if n != m:
        raise RuntimeError(f"batch1 and batch2 must have same number of batches, got {n} and {m}")
    if inner != other:
        raise RuntimeError(
            f"Incompatible matrix sizes for bmm ({shape[0]}x{inner} and {other}x{shape[1]})"
        )
    product = bmm(batch1, batch2).sum(0)
    return _combine(addend, product.to(input.dtype), beta, alpha)


@ends_with("addbmm")
def addbmm_(
    self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """addbmm in place; alone among its kind it gives self the shape of the result."""
    if batch1.ndim != 3 or batch2.ndim != 3 or self.shape == (batch1.shape[1], batch2.shape[2]):
        return _addbmm_same(self, batch1, batch2, beta=beta, alpha=alpha)
    result = addbmm(self, batch1, batch2, beta=beta, alpha=alpha)
    check_inplace(self)
    require_distinct_elements(self)
    node = result._raw_node
    if self._requires_grad:
        self.detach_()  # its history is part of the result's; a view's cannot be rewritten
    with no_grad():
        if self._shared.fixed:  # NumPy's memory keeps its size: from now on self has its own
            self.set_(result.detach())
        else:
            self.resize_(result.shape).copy_(result.detach())
    rewrite_history(self, node)
    return self


_addbmm_same = in_place_of(addbmm, "addbmm_")
attach(addbmm_=addbmm_)


# ---- contractions --------------------------------------------------------------------------------


@autocast("cpu:lower-unless-number cuda:widest")
@exact_out(
    "tensordot: Expected the output tensor to have dtype {Result}, but got an output "
    "tensor with dtype {Out}"
)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Any = None) -> Tensor:
    """Sums of products over pairs of dims."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims_a, dims_b = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        if not (isinstance(dims, (tuple, list)) and len(dims) == 2):
            raise RuntimeError(
                "tensordot expects dims to be int or tuple[list[int], list[int]] or "
                f"list[list[int]] containing two lists, but got dims={dims}"
            )
        dims_a, dims_b = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(dims_a) != len(dims_b):
        raise RuntimeError("both dimension lists should have same length")
    if a.dtype is not b.dtype:
        raise RuntimeError("both inputs should have same dtype")
    dims_a = [wrap_dim(d, a.ndim) for d in dims_a]
    dims_b = [wrap_dim(d, b.ndim) for d in dims_b]
    for i, j in zip(dims_a, dims_b):
        if a.shape[i] != b.shape[j]:
            if a.shape[i] == 1:  # broadcasts: the other is summed
                b = b.sum(j, keepdim=True, dtype=b.dtype)
                continue
            if b.shape[j] == 1:
                a = a.sum(i, keepdim=True, dtype=a.dtype)
                continue
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} "
                f"and second has size {b.shape[j]} in dim {j}"
            )
    free_a = [d for d in range(a.ndim) if d not in dims_a]
    free_b = [d for d in range(b.ndim) if d not in dims_b]
    k = math.prod(a.shape[d] for d in dims_a)
    shape = (*(a.shape[d] for d in free_a), *(b.shape[d] for d in free_b))
    left = reshape(
        a.permute(*free_a, *dims_a) if a.ndim else a, (math.prod(a.shape[d] for d in free_a), k)
    )
    right = reshape(
        b.permute(*dims_b, *free_b) if b.ndim else b, (k, math.prod(b.shape[d] for d in free_b))
    )
    if not shape and left.dtype is bool_ is right.dtype:
        return dot(reshape(left, -1), reshape(right, -1))  # refuses them
    result = reshape(mm(left, right), shape)
    return result if out is None else write_out(result, out, "tensordot")


PUBLIC["tensordot"] = tensordot


@autocast("lower")
def einsum(*args: Any) -> Tensor:
    """Sums of products by subscripts ("bij,bjk->bik"); the order of several is optimised."""
    from tritorch.ops.linalg.einsum import contract

    return contract(*args)


def _one_by_one(equation: Any, *operands: Any) -> tuple[Any, ...]:
    """Operands that are given as a list, as arguments."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)) and isinstance(equation, str):
        return equation, *operands[0]
    return equation, *operands


einsum.as_told = _one_by_one  # type: ignore[attr-defined]
PUBLIC["einsum"] = einsum


@public(out=True)
@ends_with("_unsafe_view")
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product."""
    n = max(input.ndim, other.ndim)
    a = reshape(input, (1,) * (n - input.ndim) + tuple(input.shape))
    b = reshape(other, (1,) * (n - other.ndim) + tuple(other.shape))
    left = reshape(a, [v for size in a.shape for v in (size, 1)])
    right = reshape(b, [v for size in b.shape for v in (1, size)])
    # As PyTorch a view of the product, which not all orders of its dims allow.
    return (left * right).view([x * y for x, y in zip(a.shape, b.shape)])
