"""Products of sparse matrices with dense and with sparse ones, and dense ones at given places.

# Note [Two gradients of a sparse matrix]
PyTorch's `mm` gives a sparse operand a dense gradient, its `sparse.mm` one with the operand's
places; so here.
"""

from __future__ import annotations

from typing import Any

from tritorch import _C
from tritorch.arrays.sparse import COMPRESSED, SHOWN, SparseArray
from tritorch.core import layout as layouts, published
from tritorch.core.published import PUBLIC, computes
from tritorch.core.tensor import Tensor, attach
from tritorch.ops.interpret.sparse.convert import compress, to_dense
from tritorch.ops.interpret.sparse.record import (
    SparseOperator,
    arange,
    cannot_run,
    coalesced,
    coo,
    filled,
    gather_like,
    in_coo,
    is_sparse,
    layout_of,
    rule,
    values_of,
)
from tritorch.ops.record.checks import require_tensor
from tritorch.ops.record.groups import Gradient
from tritorch.ops.record.operator import Operator


class Pattern:
    """The places of a matrix's entries, by rows."""

    def __init__(
        self, pointers: Tensor, rows: Tensor | None, cols: Tensor, shape: tuple[int, int]
    ) -> None:
        """pointers: where each row begins, and the end.  rows: made of these when it is needed."""
        self.pointers, self.cols, self.shape = pointers, cols, shape
        self._rows = rows

    @property
    def rows(self) -> Tensor:
        """The row of each entry."""
        if self._rows is None:
            counts = self.pointers[1:] - self.pointers[:-1]
            n = self.cols.shape[0]
            self._rows = published.public.repeat_interleave(counts, output_size=n)
        return self._rows

    def transposed(self) -> tuple[Pattern, Tensor]:
        """The transposed matrix's, and the order of the entries there."""
        order = published.public.argsort(self.cols, stable=True)
        rows, cols = self.cols.index_select(0, order), self.rows.index_select(0, order)
        n, m = self.shape
        return Pattern(_pointers(rows, m), rows, cols, (m, n)), order


def _pointers(sorted_rows: Tensor, n: int) -> Tensor:
    return published.public.searchsorted(sorted_rows, arange(n + 1, sorted_rows))


def _csr_pattern(a: SparseArray) -> Pattern:
    return Pattern(a.indices.long(), None, a.plain.long().contiguous(), (a.shape[0], a.shape[1]))


def _entries(x: Tensor) -> tuple[Pattern, Tensor]:
    """A sparse matrix's pattern, and its values in that order."""
    array = x._array
    if array.layout is layouts.sparse_csr and not array.dense_dims:
        return _csr_pattern(array), values_of(x)
    x = coalesced(in_coo(x))
    rows, cols = x._array.indices.unbind(0)
    rows, cols = rows.contiguous(), cols.contiguous()
    return Pattern(_pointers(rows, x.shape[0]), rows, cols, (x.shape[0], x.shape[1])), values_of(x)


def _to_other(g: Tensor, values: Tensor, pattern: Pattern) -> Tensor:
    back, order = pattern.transposed()
    return spmm_op.call((values.conj().index_select(0, order), g), (back,))


spmm_op: Operator = Operator(
    "spmm", "values x", "pattern",
    schema="(Tensor values, Tensor x, Any pattern) -> Tensor", kind="sparse", cpu="sparse.spmm",
    grad=Gradient(
        (lambda g, x, pattern: sampled_op.call((g, x.conj()), (pattern,)),
              lambda g, values, pattern: _to_other(g, values, pattern)),
        node="SparseAddmm",
    ),
)  # fmt: skip


def _to_right(g: Tensor, x: Tensor, pattern: Pattern) -> Tensor:
    back, order = pattern.transposed()
    return spmm_op.call((g.index_select(0, order), x.conj()), (back,))


sampled_op: Operator = Operator(
    "sampled_mm", "x y", "pattern",
    schema="(Tensor x, Tensor y, Any pattern) -> Tensor", cpu="sparse.sampled_mm", kind="sparse",
    grad=(lambda g, y, pattern: spmm_op.call((g, y.conj()), (pattern,)),
          lambda g, x, pattern: _to_right(g, x, pattern)),
)  # fmt: skip


def sparse_times_dense(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, a sparse; the gradient of a has its places."""
    if a._array.dense_dims:
        raise RuntimeError(
            f"addmm: expected a sparse matrix without dense dims, but got {a._array.dense_dims}"
        )
    pattern, values = _entries(a)
    return spmm_op.call((values, b), (pattern,))


def _plain_product(a: Any, b: Any) -> Tensor:
    """Sparse arrays and dense tensors; no history."""
    first = a if isinstance(a, Tensor) else _C.wrap(a)
    second = b if isinstance(b, Tensor) else _C.wrap(b)
    if is_sparse(first):
        return sparse_times_dense(first, second)
    return sparse_times_dense(second.t(), first.t()).t()


_mm = SparseOperator(
    "sparse_dense_mm", "a b",
    schema="mm(a, b)", cpu=_plain_product,
    grad=Gradient((lambda g, b: g.mm(_adjoint(b)), lambda g, a: _adjoint(a).mm(g)), node="Mm"),
)  # fmt: skip


def _adjoint(x: Tensor) -> Tensor:
    return x.t().conj() if x.is_complex() else x.t()


# ---- sparse times sparse -------------------------------------------------------------------------


def sparse_times_sparse(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, both sparse: each entry of a meets the entries of its column's row of b."""
    left, u = _entries(a)
    right, v = _entries(b)
    starts = right.pointers.index_select(0, left.cols)
    counts = right.pointers.index_select(0, left.cols + 1) - starts
    total = int(counts.sum()) if counts.numel() else 0
    entry = arange(counts.shape[0], counts)
    entry = published.public.repeat_interleave(entry, counts, output_size=total)
    begin = (counts.cumsum(0) - counts).index_select(0, entry)
    other = starts.index_select(0, entry) + arange(total, counts) - begin
    indices = published.public.stack([
        left.rows.index_select(0, entry), right.cols.index_select(0, other),
    ])  # fmt: skip
    products = u.index_select(0, entry) * v.index_select(0, other)
    return coalesced(coo(indices, products, (a.shape[0], b.shape[1])))


def _both_sparse(a: Tensor, b: Tensor, title: str) -> Tensor:
    product = sparse_times_sparse(a, b)
    kinds = {layout_of(a), layout_of(b)}
    if layouts.sparse_coo in kinds or not kinds & set(COMPRESSED):
        return filled(product._array, values_of(product), title)
    out = compress(product, layouts.sparse_csr, None)
    return filled(out._array, values_of(out), title)


# ---- what mm and its kin do ----------------------------------------------------------------------


@rule("mm")
def mm(a: Tensor, b: Tensor) -> Tensor:
    """mm with a sparse operand."""
    if is_sparse(a) and is_sparse(b):
        return _both_sparse(a, b, "Mm")
    return _mm.call((a, b))


@rule("addmm")
def sparse_addmm(addend: Tensor, a: Tensor, b: Tensor, beta: float, alpha: float) -> Tensor:
    """addmm with a sparse operand."""
    product = published.public.mm(a, b)
    product = product if alpha == 1 else product * alpha
    return product + (addend if beta == 1 else addend * beta)


@rule("bmm")
def bmm(a: Tensor, b: Tensor) -> Tensor:
    """bmm of a batch of sparse matrices and a batch of dense ones."""
    if not is_sparse(a) or is_sparse(b):
        raise cannot_run("bmm", b)
    parts = [sparse_times_dense(x, y) for x, y in zip(a.unbind(0), b.unbind(0))]
    if not parts:
        return b.new_zeros((0, a.shape[1], b.shape[2]))
    return published.public.stack(parts)


@rule("linear")
def linear(x: Tensor, weight: Tensor, bias: Any) -> Tensor:
    """x @ weight^T + bias with a sparse operand."""
    if not is_sparse(x) and x.ndim != 2:
        rows = linear(x.reshape(-1, x.shape[-1]), weight, bias)
        return rows.reshape(*x.shape[:-1], weight.shape[0])
    out = x.mm(weight.t())
    return out if bias is None else out + bias


# ---- torch.sparse --------------------------------------------------------------------------------

_REDUCTIONS = ("sum", "mean", "amax", "amin")


def _check_product(name: str, a: Tensor, b: Tensor) -> None:
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError(f"{name}: expected 2-D tensors, got {a.ndim}-D and {b.ndim}-D ones")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"{name}: expected both matrices to have one dtype, but got {a.dtype} and {b.dtype}"
        )


def sparse_mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """The product of two matrices, of which one or both are sparse.

    reduce: "sum", "mean", "amax" or "amin" of the products, of a CSR matrix with a dense one.
    The gradient of a sparse matrix has that matrix's places.
    """
    require_tensor(mat1, "_sparse_mm", "sparse", 1)
    require_tensor(mat2, "_sparse_mm", "dense", 2)
    if reduce is not None:
        return _reduced_mm(mat1, mat2, reduce)
    _check_product("sparse.mm", mat1, mat2)
    if is_sparse(mat1) and is_sparse(mat2):
        return _both_sparse(mat1, mat2, "SparseSparseMatmul")
    if is_sparse(mat1):
        return sparse_times_dense(mat1, mat2)
    if is_sparse(mat2):
        return sparse_times_dense(mat2.t(), mat1.t()).t()
    return mat1.mm(mat2)


def _reduced_mm(a: Tensor, b: Tensor, reduce: str) -> Tensor:
    if layout_of(a) is not layouts.sparse_csr:
        raise cannot_run("_sparse_mm_reduce_impl", a)
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce == "prod":
        raise RuntimeError("sparse_mm_reduce: reduce type of prod has not been enabled.")
    if reduce not in _REDUCTIONS:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    _check_product("sparse.mm", a, b)
    if reduce == "sum":
        return sparse_times_dense(a, b)
    pattern, values = _entries(a)
    counts = (pattern.pointers[1:] - pattern.pointers[:-1]).clamp(min=1).unsqueeze(1)
    if reduce == "mean":
        return spmm_op.call((values, b), (pattern,)) / counts.to(b.dtype)
    products = values.unsqueeze(1) * b.index_select(0, pattern.cols)
    out = products.new_zeros((a.shape[0], b.shape[1]))
    at = pattern.rows.unsqueeze(1).expand(products.shape)
    return out.scatter_reduce(0, at, products, reduce, include_self=False)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor:
    """beta * mat + alpha * (mat1 @ mat2); the gradient of a sparse mat1 has its places."""
    if is_sparse(mat):
        raise RuntimeError(
            f"addmm_sparse_dense: expected strided result tensor, got tensor with layout "
            f"{SHOWN[layout_of(mat)]}"
        )
    product = to_dense(sparse_mm(mat1, mat2))
    if alpha != 1:
        product = product * alpha
    return product if beta == 0 else product + (mat if beta == 1 else mat * beta)


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0, out: Any = None
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2) at the places of a CSR tensor."""
    if layout_of(input) is not layouts.sparse_csr:
        raise cannot_run("sparse_sampled_addmm", input)
    for x, name in ((mat1, "mat1"), (mat2, "mat2")):
        if is_sparse(x):
            raise RuntimeError(f"Expected {name} to have strided layout, but got {layout_of(x)}")
        if x.dtype is not input.dtype:
            raise RuntimeError(f"sampled_addmm: Expected {name} dtype {input.dtype}, got {x.dtype}")
    if mat1.ndim < 2 or mat2.ndim < 2:
        raise RuntimeError(
            f"sampled_addmm: Expected mat1 and mat2 to be at least matrices, got {mat1.ndim}-D and "
            f"{mat2.ndim}-D tensors"
        )
    if mat1.shape[-1] != mat2.shape[-2]:
        raise RuntimeError(
            f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ({mat1.shape[-2]}x"
            f"{mat1.shape[-1]} and {mat2.shape[-2]}x{mat2.shape[-1]})"
        )
    array = input._array
    expected = (*mat1.shape[:-1], mat2.shape[-1])
    if tuple(input.shape) != expected:
        raise RuntimeError(
            f"sampled_addmm: Expected input to have the shape of the product {list(expected)}, got "
            f"{list(input.shape)}"
        )
    if array.batch_dims:
        products = gather_like(mat1.matmul(mat2), array)
    else:
        products = sampled_op.call((mat1, mat2.t()), (_csr_pattern(array),))
    if alpha != 1:
        products = products * alpha
    if beta != 0:
        own = values_of(input)
        products = products + (own if beta == 1 else own * beta)
    result = filled(array, products, "SparseSampledAddmm")
    if out is None:
        return result
    out._array.take(result.detach()._array)
    return out


# ---- products that stay sparse -------------------------------------------------------------------


def _require_coo(x: Tensor, name: str) -> None:
    if layout_of(x) is not layouts.sparse_coo:
        raise cannot_run(name, x)


def hspmm(mat1: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """A sparse matrix times a dense one, as a tensor whose rows are sparse and columns dense."""
    _require_coo(mat1, "hspmm")
    if mat1._array.sparse_dims != 2 or mat1._array.dense_dims:
        raise RuntimeError("hspmm: Argument #2: matrices expected")
    _check_product("hspmm", mat1, mat2)
    x = coalesced(mat1)
    rows = x._array.indices[0].unique_consecutive()
    dense = sparse_times_dense(x, mat2).index_select(0, rows)
    result = coo(rows.unsqueeze(0), dense, (mat1.shape[0], mat2.shape[1]), True)
    return _written(result, out)


def sspaddmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2), sparse; mat2 is dense."""
    for x in (input, mat1):
        if layout_of(x) is not layouts.sparse_coo:
            raise RuntimeError("tensor.sspaddmm(...) can only be called on sparse tensors")
    _check_product("sspaddmm", mat1, mat2)
    if tuple(input.shape) != (mat1.shape[0], mat2.shape[1]):
        raise RuntimeError(
            f"sspaddmm: Argument #1: Expected dim 0 size {mat1.shape[0]} and dim 1 size "
            f"{mat2.shape[1]}, got {list(input.shape)}"
        )
    product = hspmm(mat1, mat2)
    rows, m = product._array.indices[0], mat2.shape[1]
    places = published.public.stack([
        rows.repeat_interleave(m), arange(m, rows).repeat(rows.shape[0]),
    ])  # fmt: skip
    values = values_of(product).reshape(-1) * alpha
    own = coalesced(input)
    all_values = published.public.cat([values_of(own) * beta, values])
    indices = published.public.cat([own._array.indices, places], 1)
    return _written(coo(indices, all_values, input.shape), out)


def smm(input: Tensor, mat2: Tensor) -> Tensor:
    """A sparse matrix times a dense one, as a sparse tensor."""
    for x in (input,):
        if layout_of(x) is not layouts.sparse_coo:
            raise RuntimeError("tensor.sspaddmm(...) can only be called on sparse tensors")
    empty = input._array.indices.new_zeros((2, 0))
    zero = coo(empty, values_of(input).new_zeros((0,)), (input.shape[0], mat2.shape[-1]), True)
    return sspaddmm(zero, input, mat2)


def _written(result: Tensor, out: Any) -> Tensor:
    if out is None:
        return result
    _require_coo(out, "hspmm.out")
    out._array.take(result.detach()._array)
    return out


PUBLIC["hspmm"], PUBLIC["sspaddmm"], PUBLIC["smm"] = hspmm, sspaddmm, smm
# Old names.
PUBLIC["hsmm"] = computes("hspmm", "hsmm")(hspmm)
attach(sspaddmm=sspaddmm, smm=smm)


def spsolve(input: Tensor, other: Tensor, *, left: bool = True) -> Tensor:
    """Refused, as by PyTorch without cuDSS: the solution of a sparse system."""
    raise cannot_run("_spsolve", input)
