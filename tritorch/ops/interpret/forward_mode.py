"""Forward mode: operators on tensors that carry a tangent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from tritorch import _C
from tritorch.arrays.batched import BatchedArray
from tritorch.arrays.sparse import SparseArray
from tritorch.autograd import grad
from tritorch.autograd.duals import levels, make_dual, primal_of
from tritorch.core import published, scopes
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.vmap import batched_everywhere
from tritorch.ops.record.apply import apply

Run = Callable[..., Any]


def call(op: Any, tensors: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Operator.call on tensors of which some carry a tangent."""
    return with_tangents(lambda *inputs: op.call(inputs, params), tensors, op)


def pointwise(op: Any, inputs: Sequence[Any], out: Any) -> Any:
    """A pointwise record's call on tensors of which some carry a tangent."""
    if out is not None:
        raise RuntimeError(f"{op.name}(): out= is not supported inside vmap or forward mode")
    return with_tangents(lambda *xs: apply(op, xs), inputs, op)


def in_place(op: Any, inputs: Sequence[Any]) -> Tensor:
    """The in-place form: the result replaces the first input's array."""
    return replace(inputs[0], apply(op, inputs))


def with_tangents(run: Run, tensors: Sequence[Any], op: Any) -> Any:
    """run(primals), and the tangents of its results."""
    primals = [primal_of(tensor) for tensor in tensors]
    if not levels.enabled:
        return run(*(primal_of(t) for t in tensors))
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
    elif source is None or "generator" in op.params:
        tangent.zero_()
    else:
        tangent.copy_(source)
    out = make_dual(primal, tangent)
    return replace(self, out)


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
    if node._node_saved is not None:
        originals = {id(p): t for p, t in zip(primals, tensors)}
        node._node_saved = tuple(originals.get(id(item), item) for item in node._node_saved)
        node._node_versions = None
    if node._node_out is not None and not node._node_n_outputs:
        kept = _C.alias(results[0])
        kept._tangent = moved[0]
        node._hooks().packed = _Kept(kept)
    node._node_packed = True


def _push_forward(
    run: Run, primals: Sequence[Any], tangents: Sequence[Any], results: Sequence[Any]
) -> list[Any]:
    """J t, as the gradient of u -> J^H u: every gradient is linear in u, so one rule serves all."""
    with scopes.recorded:
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
    return moved


def _null(x: Tensor) -> Tensor:
    """Zeros like x; of a sparse tensor, at its places."""
    zeros_like, array = published.public.zeros_like, x._array
    if type(array) is SparseArray:
        return _C.wrap(array.with_values(zeros_like(array.values)))
    return zeros_like(x)


def _needs_graph(tangents: Sequence[Any]) -> bool:
    return any(t._requires_grad for t in tangents)


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value
