"""The slow path: tensors that carry a tangent (forward mode), a hidden batch dim (vmap), or are
sparse.

Operators come here when a tensor's fast field is unset or holds a BatchedArray.  Tangents are taken
off first, then batches: so both nest in any order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

from tritorch import _C
from tritorch.core.batched import BatchedArray
from tritorch.core.sparse import SparseArray
from tritorch.core.tensor import Tensor
from tritorch.core.thread_state import carried

Run = Callable[..., Any]


def call(op: Any, tensors: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Operator.call, with care."""
    run = lambda *inputs: op.call(inputs, params)
    if has_tangent(tensors):
        return with_tangents(run, tensors, op)
    if _has_sparse(tensors):
        from tritorch.ops.sparse import record

        return record.dispatch(op, tensors, params)
    return batched(op, tensors, params)


def pointwise(op: Any, inputs: Sequence[Any], out: Any) -> Any:
    """kinds.apply, with care."""
    from tritorch.ops import kinds

    if _has_sparse(inputs) and not has_tangent(inputs):
        from tritorch.ops.sparse import pointwise as sparse

        return sparse.call(op, inputs, out)
    if out is not None:
        raise RuntimeError(f"{op.name}(): out= is not supported inside vmap or forward mode")
    if has_tangent(inputs):
        return with_tangents(lambda *xs: kinds.apply(op, xs), inputs, op)
    return _batched_pointwise(op, inputs)


def in_place(op: Any, inputs: Sequence[Any]) -> Tensor:
    """kinds.apply_in_place, with care: the result replaces the first input's array."""
    from tritorch.ops import kinds

    if _has_sparse(inputs) and not has_tangent(inputs):
        from tritorch.ops.sparse import pointwise as sparse

        return sparse.call_in_place(op, inputs)
    return replace(inputs[0], kinds.apply(op, inputs))


def replace(self: Tensor, result: Tensor) -> Tensor:
    """Gives `self` the value, tangent and history of a result."""
    if isinstance(result._array, BatchedArray) and not isinstance(self._array, BatchedArray):
        raise RuntimeError(
            "vmap: an in-place operation on a tensor that is not batched, with one that is, is not "
            "possible: use the out-of-place form"
        )
    if result._tangent is not None or hasattr(self, "_shadow"):
        if hasattr(self, "_a"):
            del self._a
        self._shadow, self._tangent = result._array, result._tangent
    else:
        self._a = result._array
    self._raw_node, self.output_nr = result._raw_node, result.output_nr
    return self


# ---- forward mode --------------------------------------------------------------------------------


def _has_sparse(tensors: Sequence[Any]) -> bool:
    return any(isinstance(t, Tensor) and type(t._array) is SparseArray for t in tensors)


def has_tangent(tensors: Sequence[Any]) -> bool:
    """Whether any of these carries a tangent."""
    return any(isinstance(t, Tensor) and t._tangent is not None for t in tensors)


def primal_of(tensor: Any) -> Any:
    """The tensor without its tangent, in the same place of the graph."""
    if not isinstance(tensor, Tensor) or tensor._tangent is None:
        return tensor
    out = _C.alias(tensor)
    out._raw_node, out.output_nr, out._leaf = tensor._raw_node, tensor.output_nr, tensor._leaf
    return out


def make_dual(primal: Tensor, tangent: Any) -> Tensor:
    """primal with a tangent."""
    if primal._leaf:  # gradients arrive at the leaf, not at the dual
        primal = primal.view_as(primal)
    out = _C.alias(primal)
    out._raw_node, out.output_nr = primal._raw_node, primal.output_nr
    out._shadow = out._a
    del out._a
    out._tangent = tangent
    return out


def with_tangents(run: Run, tensors: Sequence[Any], op: Any) -> Any:
    """run(primals), and the tangents of its results."""
    primals = [primal_of(tensor) for tensor in tensors]
    tangents = [t._tangent if isinstance(t, Tensor) else None for t in tensors]
    result = run(*primals)
    if not op.differentiable:
        return result
    if op.is_view:
        return make_dual(result, run(_laid_out_like(cast(Tensor, tangents[0]), primals[0])))
    results = result if isinstance(result, tuple) else (result,)
    moved = _push_forward(run, primals, tangents, results)
    duals = tuple(r if t is None else make_dual(r, t) for r, t in zip(results, moved))
    _save_duals(results, moved, primals, tensors)
    return duals if isinstance(result, tuple) else duals[0]


def _laid_out_like(tangent: Tensor, primal: Tensor) -> Tensor:
    """A tangent with its primal's strides: a view of one must be possible of the other."""
    if tangent.stride() == primal.stride() or type(tangent._array) is BatchedArray:
        return tangent
    out = tangent.new_empty_strided(primal.shape, primal.stride())
    return out.copy_(tangent)


def write_dual(op: Any, self: Tensor, inputs: Sequence[Any], params: Any, plain: Run) -> Tensor:
    """An in-place operator that only moves data: the tangent moves alike."""
    tangent = self._tangent
    if tangent is None:
        tangent = _zeros_like(primal_of(self))
    given = inputs[1]._tangent if len(inputs) > 1 and isinstance(inputs[1], Tensor) else None
    primal = primal_of(self) if self._tangent is not None else self
    plain(primal, [primal, *(primal_of(x) for x in inputs[1:])])
    tangent = tangent.clone()
    source = (
        _zeros_like(primal_of(inputs[1]))
        if given is None and len(inputs) > 1 and isinstance(inputs[1], Tensor)
        else given
    )
    if op.name == "index_put":
        tangent.index_put_(tuple(inputs[2:]), source, *params)
    elif source is None or op.name == "random_overwrite":
        tangent.zero_()
    else:
        tangent.copy_(source)
    out = make_dual(primal, tangent)
    return replace(self, out)


def _zeros_like(x: Tensor) -> Tensor:
    return x.detach().new_zeros(x.shape)


class _Kept:
    """A dual output as a node keeps it: without the node itself."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def get(self) -> Tensor:
        return make_dual(_C.alias(self.tensor), self.tensor._tangent)


def _save_duals(
    results: Sequence[Any], moved: Sequence[Any], primals: Sequence[Any], tensors: Sequence[Any]
) -> None:
    """A gradient taken of duals is dual: so nodes save the duals, not their primals."""
    node = next((r._raw_node for r in results if r is not None and r._raw_node is not None), None)
    if node is None:
        return
    if node.saved is not None:
        originals = {id(p): t for p, t in zip(primals, tensors)}
        node.saved = tuple(originals.get(id(item), item) for item in node.saved)
        node.versions = None
    if node.out is not None and not node.n_outputs:
        kept = _C.alias(results[0])
        kept._tangent = moved[0]
        node._hooks().metadata["tritorch.packed_output"] = _Kept(kept)
    node.packed = True


def _push_forward(
    run: Run, primals: Sequence[Any], tangents: Sequence[Any], results: Sequence[Any]
) -> list[Any]:
    """J t, as the gradient of u -> J^H u: every gradient is linear in u, so one rule serves all."""
    from tritorch.autograd import grad

    before = _C.set_grad_enabled(True)
    try:
        inputs = [
            batched_everywhere(p.detach()).detach().requires_grad_(True)
            if t is not None
            else _detached(p)
            for p, t in zip(primals, tangents)
        ]
        again = run(*inputs)
        outs = again if isinstance(again, tuple) else (again,)
        wanted = [x for x, t in zip(inputs, tangents) if t is not None]
        given = [t for t in tangents if t is not None]
        moved: list[Any] = []
        for i, out in enumerate(outs):
            if out is None or not out._requires_grad:
                moved.append(None)
                continue
            u = batched_everywhere(_null(out.detach())).detach()
            u.requires_grad_(True)
            pulled = grad(out, wanted, u, create_graph=True, retain_graph=True, allow_unused=True)
            pairs = [(v, t) for v, t in zip(pulled, given) if v is not None and v._requires_grad]
            if not pairs:
                moved.append(_null(results[i].detach()))
                continue
            (tangent,) = grad(
                [v for v, _ in pairs], u, [t for _, t in pairs], create_graph=_needs_graph(given),
                allow_unused=True,
            )  # fmt: skip
            moved.append(_null(out.detach()) if tangent is None else tangent)
    finally:
        _C.set_grad_enabled(before)
    return moved


def _null(x: Tensor) -> Tensor:
    """Zeros like x; of a sparse tensor, at its places."""
    from tritorch.ops.declare import PUBLIC

    zeros_like, array = PUBLIC["zeros_like"], x._array
    if type(array) is SparseArray:
        return _C.wrap(array.with_values(zeros_like(array.values)))
    return zeros_like(x)


def _needs_graph(tangents: Sequence[Any]) -> bool:
    return any(t._requires_grad for t in tangents)


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


# ---- vmap ----------------------------------------------------------------------------------------


class _Active(threading.local):
    def __init__(self) -> None:
        self.levels: list[tuple[int, int]] = []  # (level, batch size), innermost last
        self.modes: list[str] = []  # and what each one wants of random numbers


active = carried(_Active())


def batched_everywhere(x: Tensor) -> Tensor:
    """x, batched by each vmap around: a gradient taken for it is one for each example."""
    for level, size in active.levels:
        if level > level_of((x,)):
            x = to_batched(x.expand(size, *x.shape), level)
    return x


def level_of(tensors: Sequence[Any]) -> int:
    """The innermost batch among tensors."""
    return max(
        (
            t._array.level
            for t in tensors
            if isinstance(t, Tensor) and type(t._array) is BatchedArray
        ),
        default=-1,
    )


def _batch_size(tensors: Sequence[Any], level: int) -> int:
    for t in tensors:
        if is_batched(t, level):
            return t._array.array.shape[0]
    raise AssertionError("no batch")


def is_batched(t: Any, level: int) -> bool:
    """Whether a tensor's innermost batch is of this level."""
    return isinstance(t, Tensor) and type(t._array) is BatchedArray and t._array.level == level


def promoted(tensors: Sequence[Any], level: int) -> list[Any]:
    """Inputs that want gradients are batched too, so that theirs are summed over the batch."""
    size = _batch_size(tensors, level)
    return [
        to_batched(t.expand(size, *t.shape), level)
        if isinstance(t, Tensor) and not is_batched(t, level) and t._requires_grad
        else t
        for t in tensors
    ]


def _whole(t: Tensor) -> Tensor:
    """A batch as a plain tensor, without history."""
    return _C.wrap(t._array.array)


def batched(op: Any, tensors: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """An operator on batches: by its kind's rule, or one after the other."""
    level = level_of(tensors)
    if op.kind == "pointwise":
        return _batched_pointwise(op, tensors)
    inputs = promoted(tensors, level)
    rule = _RULES.get(op.name) or _RULES.get(op.kind)
    before = _C.set_grad_enabled(False)
    try:
        found = rule(op, inputs, params, level) if rule is not None else None
        if found is None and op.of is not None:
            found = op.of(*inputs, *params)._array.array
        if found is None:
            found = _one_by_one(op, inputs, params, level)
    finally:
        _C.set_grad_enabled(before)
    if isinstance(found, tuple):
        wrapped = tuple(None if a is None else BatchedArray(a, level) for a in found)
        return op.finish_many(wrapped, op.outputs, params, *inputs)
    return op.finish_with(BatchedArray(found, level), params, *inputs)


def _one_by_one(op: Any, inputs: Sequence[Any], params: tuple[Any, ...], level: int) -> Any:
    from tritorch.ops.declare import PUBLIC

    size = _batch_size(inputs, level)
    results = []
    for i in range(size):
        part = [_whole(t).select(0, i) if is_batched(t, level) else t for t in inputs]
        results.append(op.call(part, params))
    if not results:
        raise RuntimeError("vmap: a batch of size 0 is not supported by this operator")
    if isinstance(results[0], tuple):
        return tuple(
            None if column[0] is None else PUBLIC["stack"](list(column))._array
            for column in zip(*results)
        )
    return PUBLIC["stack"](results)._array


def _aligned(t: Any, level: int, ndim: int) -> Any:
    """An operand with the batch first, then as many dims as the result has."""
    if not isinstance(t, Tensor):
        return t
    if not is_batched(t, level):
        return t.detach()
    whole = _whole(t)
    shape = whole.shape
    return whole.reshape(shape[0], *(1,) * (ndim - len(shape) + 1), *shape[1:])


def _batched_pointwise(op: Any, inputs: Sequence[Any]) -> Any:
    from tritorch.core.promotion import result_type
    from tritorch.ops import kinds

    level = level_of(inputs)
    inputs = promoted(inputs, level)
    ndim = max(t.ndim for t in inputs if isinstance(t, Tensor))
    # Promotion goes by the dims that the function sees.
    common = result_type(*inputs[op.masks :])
    aligned = [
        t.to(common) if isinstance(t, Tensor) and i >= op.masks and t.dtype is not common else t
        for i, t in enumerate(_aligned(t, level, ndim) for t in inputs)
    ]
    before = _C.set_grad_enabled(False)
    try:
        result = kinds.apply(op, aligned)
    finally:
        _C.set_grad_enabled(before)
    return op.finish(BatchedArray(result._array, level), *inputs)


def _batched_reduction(op: Any, inputs: Sequence[Any], params: tuple[Any, ...], level: int) -> Any:
    """Dims move by one."""
    if len(inputs) != 1:
        return None
    moved = list(params)
    for i, name in enumerate(op.params):
        if name == "dims":
            moved[i] = tuple(dim + 1 for dim in params[i])
        elif name == "dim":
            moved[i] = params[i] + 1
        elif name == "shape":
            moved[i] = tuple(inputs[0]._array.array.shape)
    result = op.call((_whole(inputs[0]),), tuple(moved))
    return tuple(r._array for r in result) if isinstance(result, tuple) else result._array


def _batched_mm(op: Any, inputs: Sequence[Any], params: tuple[Any, ...], level: int) -> Any:
    a, b = (_whole(t) if is_batched(t, level) else t.detach() for t in inputs)
    return a.matmul(b)._array


def _batched_linear(op: Any, inputs: Sequence[Any], params: tuple[Any, ...], level: int) -> Any:
    """Rows of a batch are rows; weights of a batch are a batched product."""
    x, w, b = (  # type: Any, Any, Any
        t if t is None else _whole(t) if is_batched(t, level) else t.detach() for t in inputs
    )
    if not is_batched(inputs[1], level) and not is_batched(inputs[2], level):
        return op.call((x, w, b), params)._array
    size = _batch_size(inputs, level)
    if not is_batched(inputs[0], level):
        x = x.expand(size, *x.shape)
    rows = x.reshape(size, -1, x.shape[-1])
    out = rows.matmul(w.transpose(-1, -2))
    if b is not None:
        out = out + (b.unsqueeze(1) if is_batched(inputs[2], level) else b)
    return out.reshape(*x.shape[:-1], w.shape[-2])._array


def _batched_matrices(op: Any, inputs: Sequence[Any], params: tuple[Any, ...], level: int) -> Any:
    """Batches of matrices have one more batch dim."""
    size = _batch_size(inputs, level)
    wholes = [
        _whole(t) if is_batched(t, level) else t.detach().expand(size, *t.shape) for t in inputs
    ]
    result = op.call(wholes, params)
    return tuple(r._array for r in result) if isinstance(result, tuple) else result._array


_RULES: dict[str, Any] = {
    "linalg": _batched_matrices,
    "reduction": _batched_reduction,
    "scan": _batched_reduction,
    "fft": _batched_reduction,
    "softmax": _batched_reduction,
    "log_softmax": _batched_reduction,
    "mm": _batched_mm,
    "linear": _batched_linear,
}


def _register() -> tuple[Any, Any]:
    from tritorch.ops.declare import Operator

    enter = Operator("to_batched", "x", "level", kind="internal",
                     grad=lambda g, level: from_batched(g, level[0], level[1]))  # fmt: skip
    leave = Operator("from_batched", "x", "level size", kind="internal",
                     grad=lambda g, level, size: to_batched(g, level))  # fmt: skip
    return enter, leave


_enter, _leave = _register()


def to_batched(x: Tensor, level: int) -> Tensor:
    """x with its first dim hidden."""
    array = BatchedArray(x._array, level)
    out = _enter.finish_with(array, ((level, x.shape[0]),), x)
    return out if x._tangent is None else make_dual(out, to_batched(x._tangent, level))


def from_batched(x: Tensor, level: int, size: int) -> Tensor:
    """x with its batch as the first dim; expanded when it has none."""
    if x._tangent is not None:
        primal = from_batched(primal_of(x), level, size)
        return make_dual(primal, from_batched(x._tangent, level, size))
    if not is_batched(x, level):
        return x.expand(size, *x.shape)
    return _leave.finish_with(x._array.array, (level, size), x)


def new_like(x: Tensor, made: Tensor) -> Tensor:
    """What new_zeros and the like make of a batched tensor: a batch as well."""
    array = x._array
    size = array.array.shape[0]
    inner = _C.wrap(array.array)
    whole = made.expand(size, *made.shape).contiguous()
    if type(inner._array) is BatchedArray:
        whole = new_like(inner, whole)
    return _C.wrap(BatchedArray(whole._array, array.level))


def write(target: Any, value: Any) -> None:
    """target[...] = value for batched targets."""
    from tritorch.ops.copying import write_array

    if type(value) is BatchedArray and value.level == target.level:
        source = value.array
        lead = len(target.shape) - len(value.shape)
        if lead:
            x = _C.wrap(source)
            source = x.reshape(x.shape[0], *(1,) * lead, *x.shape[1:])._array
    else:
        source = value
    if type(target.array) is BatchedArray:
        write(target.array, source)
    else:
        write_array(target.array, source)


def index_put(self: Tensor, indices: Any, values: Tensor, accumulate: bool) -> None:
    """index_put_ on a batch, one after the other."""
    level = self._array.level
    whole = _whole(self)
    for i in range(whole.shape[0]):
        example, *index = (
            _whole(t).select(0, i) if is_batched(t, level) else t for t in (values, *indices)
        )
        whole.select(0, i).index_put_(tuple(index), example, accumulate)
