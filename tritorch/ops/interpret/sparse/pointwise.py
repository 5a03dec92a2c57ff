"""Pointwise functions of sparse tensors: those that keep zeros, sums, products and quotients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.sparse import SHOWN, SparseArray
from tritorch.autograd.graph import check_inplace
from tritorch.core import published
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.sparse.convert import compress, to_dense
from tritorch.ops.interpret.sparse.record import (
    SparseOperator,
    arange,
    cannot_run,
    coalesced,
    coo,
    coordinates,
    filled,
    flat_keys,
    flat_values,
    gather,
    in_coo,
    is_sparse,
    key_shape,
    values_of,
)
from tritorch.ops.record.apply import apply
from tritorch.ops.record.checks import broadcast_shapes, require_castable
from tritorch.ops.record.groups import Gradient


def _title(op: Any) -> str:
    return op.backward_name.removesuffix("Backward0") if op.differentiable else ""


def call(op: Any, inputs: Sequence[Any], out: Any = None) -> Tensor:
    """A pointwise record on operands of which some are sparse."""
    result = _call(op, inputs)
    if out is None:
        return result
    if not isinstance(out, Tensor):
        raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    require_castable(result.dtype, out.dtype)
    if is_sparse(out) and is_sparse(result):
        out._array.take(result.detach().to(out.dtype)._array)
        _C.bump_version(out)
        return out
    if is_sparse(out) or is_sparse(result):
        raise RuntimeError(f"{op.name}(): the result and out= must have the same layout")
    return out.resize_(result.shape).copy_(result)


def _call(op: Any, inputs: Sequence[Any]) -> Tensor:
    name = op.gpu_name  # what it computes
    if op.zero and len(inputs) == 1:  # f(0) is 0: what is done to the values alone
        if op.zero != "linear":  # else their order and repeats may stay
            return on_values(lambda x: apply(op, (x,)), inputs[0], _title(op))
        x = inputs[0]
        return filled(x._array, apply(op, (values_of(x),)), _title(op))
    if len(inputs) == 2:
        a, b = inputs
        if name in ("add", "sub"):
            return _add(op, a, b)
        if name in ("mul", "logical_and", "bitwise_and"):
            return _mul(op, a, b)
        if op.zero == "divided":
            return _div(op, a, b)
        if name == "pow":
            return _pow(op, a, b)
    raise cannot_run(name, next(x for x in inputs if is_sparse(x)))


def on_values(function: Callable[[Tensor], Tensor], x: Tensor, title: str) -> Tensor:
    """A function that keeps zeros, of each value."""
    x = coalesced(x) if x._array.plain is None else x
    return filled(x._array, function(values_of(x)), title)


def _is_number(x: Any) -> bool:
    return not isinstance(x, Tensor) or (not is_sparse(x) and x.ndim == 0)


# ---- sums ----------------------------------------------------------------------------------------


def _add(op: Any, a: Any, b: Any) -> Tensor:
    if is_sparse(a) and is_sparse(b):
        return _add_sparse(op, a, b)
    sparse, dense = (a, b) if is_sparse(a) else (b, a)
    if sparse._array.plain is not None and isinstance(dense, Tensor) and dense.ndim:
        return to_dense(a) + to_dense(b) if op.name == "add" else to_dense(a) - to_dense(b)
    if is_sparse(a):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    shape = tuple(dense.shape) if isinstance(dense, Tensor) else ()
    if shape != tuple(b.shape):
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size "
            f"{list(shape)} while other has size {list(b.shape)} (FYI: dense-sparse addition does "
            f"not currently support broadcasting)"
        )
    kind = published.public.result_type(dense, b)
    if not isinstance(dense, Tensor):
        dense = published.public.tensor(dense, dtype=kind, device=b.device)
    return (_plus if op.name == "add" else _minus).call((dense.to(kind), b.to(kind)))


def _dense_sum(a: Tensor, b: SparseArray, sign: int = 1) -> Tensor:
    values = flat_values(b.values, b)
    values = values if sign > 0 else -values
    if b.ndim == b.dense_dims:
        return a + values.sum(0)
    return a.index_put(tuple(coordinates(b).unbind(0)), values, accumulate=True)


_plus = SparseOperator(
    "dense_plus_sparse",
    "a b",
    schema="add.Tensor(a, b)",
    cpu=_dense_sum,
    grad=Gradient((lambda g: g, lambda g: g), node="Add"),
)
_minus = SparseOperator(
    "dense_minus_sparse",
    "a b",
    schema="sub.Tensor(a, b)",
    cpu=lambda a, b: _dense_sum(a, b, -1),
    grad=Gradient((lambda g: g, lambda g: -g), node="Sub"),
)


def _add_sparse(op: Any, a: Tensor, b: Tensor) -> Tensor:
    if a.shape != b.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != "
            f"{list(b.shape)}"
        )
    kind = published.public.result_type(a, b)
    a, b = a.to(kind), b.to(kind)
    x, y = a._array, b._array
    combine = lambda u, v: u + v if op.name == "add" else u - v
    if x.plain is not None or y.plain is not None:
        return _add_compressed(op, a, b)
    if x.values.shape == y.values.shape and _same(x.indices, y.indices):
        return filled(x, combine(values_of(a), values_of(b)), _title(op))
    if x.sparse_dims != y.sparse_dims:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same number of sparse dimensions, but "
            f"{x.sparse_dims} != {y.sparse_dims}"
        )
    second = values_of(b) if op.name == "add" else -values_of(b)
    values = published.public.cat([values_of(a), second])
    indices = published.public.cat([x.indices, y.indices], 1)
    both = coo(indices, values, x.shape, False, _title(op))
    if x.coalesced and y.coalesced:
        return _retitled(coalesced(both), op)
    return both


def _same(a: Tensor, b: Tensor) -> bool:
    return a is b or (a.shape == b.shape and bool((a == b).all()))


def _retitled(x: Tensor, op: Any) -> Tensor:
    return filled(x._array, values_of(x), _title(op))


def _add_compressed(op: Any, a: Tensor, b: Tensor) -> Tensor:
    x, y = a._array, b._array
    if x.layout is not y.layout:
        raise RuntimeError(
            f"add(sparse, sparse): expected both operands to have the same layout, but got "
            f"{SHOWN[x.layout]} and {SHOWN[y.layout]}"
        )
    if _same(x.indices, y.indices) and _same(x.plain, y.plain):
        u, v = values_of(a), values_of(b)
        return filled(x, u + v if op.name == "add" else u - v, _title(op))
    if x.batch_dims:
        raise RuntimeError("add: batches of sparse matrices must have the same entries")
    total = _add_sparse(op, in_coo(a), in_coo(b))
    return _retitled(compress(coalesced(total), x.layout, x.block), op)


# ---- products ------------------------------------------------------------------------------------


def _mul(op: Any, a: Any, b: Any) -> Tensor:
    if is_sparse(a) and is_sparse(b):
        return _intersect(op, a, b)
    x, other = (a, b) if is_sparse(a) else (b, a)
    swapped = x is b
    array = x._array
    multiply = lambda u, v: apply(op, (v, u) if swapped else (u, v))
    if _is_number(other):
        return filled(array, multiply(values_of(x), other), _title(op))
    shape = broadcast_shapes(x.shape, other.shape)
    if shape != array.shape:
        if array.plain is not None or array.dense_dims:
            raise RuntimeError(
                f"mul(sparse, dense): the dense operand of size {list(other.shape)} does not "
                f"broadcast to {list(array.shape)}"
            )
        x = _expand(x, shape)
        array = x._array
    dense = other.expand(shape)
    at = gather(dense, coordinates(array)).reshape(array.values.shape)
    return filled(array, multiply(values_of(x), at), _title(op))


def _expand(x: Tensor, shape: Sequence[int]) -> Tensor:
    """A COO tensor repeated along new dims and dims of size 1."""
    lead = len(shape) - x.ndim
    for _ in range(lead):
        x = x.unsqueeze(0)
    for dim, n in enumerate(shape):
        if x.shape[dim] == n:
            continue
        own, values = x._array, values_of(x)
        nnz = own.nnz
        indices = own.indices.repeat(1, n)
        indices[dim] = arange(n, indices).repeat_interleave(nnz)
        values = values.repeat(n, *(1,) * (values.ndim - 1))
        x = coo(indices, values, (*own.shape[:dim], n, *own.shape[dim + 1 :]))
    return coalesced(x)


def _intersect(op: Any, a: Tensor, b: Tensor) -> Tensor:
    x, y = a._array, b._array
    if x.plain is not None or y.plain is not None:
        return _intersect_compressed(op, a, b)
    if key_shape(x) != key_shape(y) or x.ndim != y.ndim:
        raise RuntimeError(
            "sparse_binary_op_intersection_cpu(): expects sparse inputs with equal dimensionality, "
            "number of sparse dimensions, and shape of sparse dimensions"
        )
    # Entries of one operand, the other's sums: so only one must be coalesced.
    over_b = x.coalesced and (not y.coalesced or y.nnz < x.nnz)
    over, other = (b, a) if over_b else (a, b)
    other = coalesced(other)
    own, table = over._array, other._array
    u, v = values_of(over), values_of(other)
    if own.indices is not table.indices:
        shape = key_shape(own)
        keys, wanted = flat_keys(table.indices, shape), flat_keys(own.indices, shape)
        at = published.public.searchsorted(keys, wanted).clamp(max=max(table.nnz - 1, 0))
        if table.nnz:
            kept = (keys.index_select(0, at) == wanted).nonzero().reshape(-1)
        else:
            kept = wanted[:0]
        indices = own.indices.index_select(1, kept)
        u, v = u.index_select(0, kept), v.index_select(0, at.index_select(0, kept))
    else:
        indices = own.indices
    values = apply(op, (v, u) if over_b else (u, v))
    shape = (*key_shape(own), *values.shape[1:])
    return coo(indices, values, shape, own.coalesced, _title(op))


def _intersect_compressed(op: Any, a: Tensor, b: Tensor) -> Tensor:
    x, y = a._array, b._array
    if x.shape != y.shape:
        raise RuntimeError(
            f"mul(sparse, sparse): expected operands of the same size, but got {list(x.shape)} and "
            f"{list(y.shape)}"
        )
    if x.layout is y.layout and x.values.shape == y.values.shape:
        if _same(x.indices, y.indices) and _same(x.plain, y.plain):
            return filled(x, apply(op, (values_of(a), values_of(b))), _title(op))
    if x.batch_dims or y.batch_dims:
        raise RuntimeError("mul: batches of sparse matrices must have the same entries")
    product = _intersect(op, coalesced(in_coo(a)), coalesced(in_coo(b)))
    if x.plain is None:
        return product
    return _retitled(compress(coalesced(product), x.layout, x.block), op)


def _div(op: Any, a: Any, b: Any) -> Tensor:
    if not _is_number(b) or not is_sparse(a):
        if is_sparse(b):
            raise RuntimeError("Sparse division requires a scalar or zero-dim dense tensor divisor")
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(b.shape)} for divisor)"
        )
    x = coalesced(a) if op.name != "div" and a._array.plain is None else a
    return filled(x._array, apply(op, (values_of(x), b)), _title(op))


def _pow(op: Any, a: Any, b: Any) -> Tensor:
    if not is_sparse(a) or not _is_number(b):
        raise cannot_run("pow.Tensor_Tensor", a if is_sparse(a) else b)
    if (b.item() if isinstance(b, Tensor) else b) == 0:
        raise RuntimeError(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor "
            "dense"
        )
    x = coalesced(a) if a._array.plain is None else a
    return filled(x._array, apply(op, (values_of(x), b)), _title(op))


# ---- in place ------------------------------------------------------------------------------------


def call_in_place(op: Any, inputs: Sequence[Any]) -> Tensor:
    """The in-place form: self gets the result's entries and history."""
    from tritorch.ops.interpret.forward_mode import replace

    self = inputs[0]
    if not is_sparse(self):
        return _into_dense(op, inputs)
    check_inplace(self)
    own = self._array
    if op.zero == "kept" and own.plain is None and not own.coalesced:
        raise RuntimeError(f"{op.name}_ requires coalesced input")
    result = _call(op, inputs)
    require_castable(result.dtype, self.dtype)
    result = result.to(self.dtype)
    if not is_sparse(result) or result.shape != self.shape:
        raise RuntimeError(
            f"output with shape {list(self.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}"
        )
    new = result._array
    if not result._requires_grad and new.indices is own.indices and new.plain is own.plain:
        own.values.copy_(new.values)  # other tensors on the same memory see it
        _C.bump_version(self)
        return self
    replace(self, result)
    _C.bump_version(self)
    return self


def _into_dense(op: Any, inputs: Sequence[Any]) -> Tensor:
    self, other = inputs
    array: SparseArray = other._array
    recorded = _C.is_grad_enabled() and (self._requires_grad or other._requires_grad)
    if op.name in ("add", "sub") and self.shape == other.shape and not recorded:
        if array.ndim > array.dense_dims:
            if array.plain is None:
                array = coalesced(other.detach())._array
            at = tuple(coordinates(array).unbind(0))  # each place once
            values = flat_values(array.values, array).to(self.dtype)
            held = self.detach()[at]
            return self.index_put_(at, held + values if op.name == "add" else held - values)
    return self.copy_(to_dense(_call(op, inputs)))
