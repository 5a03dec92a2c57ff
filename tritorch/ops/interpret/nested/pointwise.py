"""Pointwise records on nested operands: on their values, which dense operands are brought to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.nested import Jagged, NestedInt, Ragged
from tritorch.autograd.graph import check_inplace
from tritorch.core import scopes
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.nested.record import (
    is_nested,
    made,
    of_parts,
    parts_of,
    structure_of,
    title_of,
    values_of,
)
from tritorch.ops.record.checks import require_castable
from tritorch.ops.record.kinds import apply


def call(op: Any, inputs: Sequence[Any], out: Any = None) -> Tensor:
    """A pointwise record's call."""
    if out is not None:
        raise NotImplementedError(f"{op.name}(): out= is not supported for nested tensors")
    return on_values(lambda *operands: apply(op, operands), op, inputs)


def on_values(function: Any, op: Any, inputs: Sequence[Any]) -> Tensor:
    """The nested tensor whose values a function of values gives."""
    x = next(t for t in inputs if is_nested(t))
    structure = structure_of(x)
    if type(structure) is Jagged:
        operands = [on_jagged(op, t, x, structure, inputs) for t in inputs]
        return made(function(*operands), structure, title_of(op))
    return _on_strided(function, op, inputs, structure)


def _mismatch(op: Any, inputs: Sequence[Any]) -> RuntimeError:
    tensors = [t for t in inputs if isinstance(t, Tensor)]
    alike = all(is_nested(t) for t in tensors)
    shown = " and ".join(f"{tuple(t.shape) if alike else t.shape}" for t in tensors)
    name = f"{op.schema.name.partition('::')[2]}.{op.schema.overload_name or 'default'}"
    return RuntimeError(
        f"cannot call binary pointwise function {name} with inputs of shapes {shown}"
    )


# ---- jagged --------------------------------------------------------------------------------------


def on_jagged(op: Any, t: Any, x: Tensor, structure: Jagged, inputs: Sequence[Any]) -> Any:
    """An operand as it meets the values of a jagged tensor."""
    if isinstance(t, NestedInt):
        raise RuntimeError(f"NestedTensor {op.name}: invalid argument {t}")
    if not isinstance(t, Tensor) or t is x:
        return values_of(x) if t is x else t
    if is_nested(t):
        own = structure_of(t)
        if type(own) is not Jagged:
            raise RuntimeError(f"{op.name}(): operands of both nested layouts are not supported")
        upto = structure.ragged + 1
        if own.ragged != structure.ragged or tuple(t.shape)[:upto] != tuple(x.shape)[:upto]:
            raise _mismatch(op, inputs)
        return values_of(t)
    if not t.ndim:
        return t
    if t.ndim > x.ndim:
        raise NotImplementedError("NYI: broadcasting NT with T with larger dim")
    while t.ndim and t.shape[0] == 1 and t.ndim + 1 >= x.ndim:
        t = t.squeeze(0)
    ragged = structure.ragged
    if t.ndim < x.ndim:
        after = t.ndim - (x.ndim - ragged)  # where the ragged dim would be
        if t.ndim == x.ndim - 1 and ragged == 1 and t.shape[0] != 1:
            raise _mismatch(op, inputs)
        if after >= 0 and t.shape[after] != 1:
            raise _mismatch(op, inputs)
        return t
    if t.shape[0] != x.shape[0]:
        raise _mismatch(op, inputs)
    return spread(t, structure, x._array.values.shape[ragged - 1])


def spread(t: Tensor, structure: Jagged, total: int) -> Tensor:
    """A dense tensor (B, .., 1 or the longest length, ..) as values of a jagged one."""
    ragged = structure.ragged
    if t.shape[ragged] == 1 and structure.lengths is None:
        rows = t.movedim(ragged, 1).squeeze(1)
        rows = rows.repeat_interleave(structure.offsets.diff(), 0, output_size=total)
        return rows.movedim(0, ragged - 1)
    from tritorch.ops.interpret.nested.padding import jagged_values

    if t.shape[ragged] == 1:
        t = t.expand(*(total if d == ragged else n for d, n in enumerate(t.shape)))
    return jagged_values(t, structure.offsets, ragged, total)


# ---- strided -------------------------------------------------------------------------------------


def _on_strided(function: Any, op: Any, inputs: Sequence[Any], structure: Ragged) -> Tensor:
    tensors = [t for t in inputs if isinstance(t, Tensor) and t.ndim]
    nested = [t for t in tensors if is_nested(t)]
    for t in nested:
        if type(structure_of(t)) is not Ragged:
            raise RuntimeError(f"{op.name}(): operands of both nested layouts are not supported")
        if structure_of(t).count != structure.count or t.ndim != nested[0].ndim:
            raise RuntimeError(f"{op.name} does not support broadcasting when given a NestedTensor")
    if len(nested) == len(tensors) and all(structure_of(t).same(structure) for t in nested):
        sizes = [t._array.values.shape for t in nested]
        if len(set(sizes)) == 1:
            if len(inputs) == 1 and not structure.is_contiguous():
                raise RuntimeError("NestedTensor must be contiguous to get buffer.")
            operands = [values_of(t) if is_nested(t) else t for t in inputs]
            return made(function(*operands), structure, title_of(op))
    for t in tensors:
        if not is_nested(t):
            _require_broadcast(op, t, nested[0], structure, t is inputs[0])
    parts = [
        parts_of(t) if is_nested(t) else _rows(t, structure) if isinstance(t, Tensor) else None
        for t in inputs
    ]
    for i in range(structure.count):
        sizes = [parts_of_[i].shape for parts_of_, t in zip(parts, inputs)
                 if parts_of_ is not None and is_nested(t)]  # fmt: skip
        if len(set(sizes)) > 1:
            raise RuntimeError(f"{op.name} does not support broadcasting when given a NestedTensor")
    results = [
        function(*(t if p is None else p[i] for t, p in zip(inputs, parts)))
        for i in range(structure.count)
    ]
    return of_parts(results, title_of(op))


def _rows(t: Tensor, structure: Ragged) -> list[Tensor] | None:
    """What of a dense operand meets each component."""
    if not t.ndim:
        return None
    if t.ndim == len(structure.sizes[0]) + 1 and t.shape[0] == structure.count:
        return list(t.unbind(0))
    if t.ndim == len(structure.sizes[0]) + 1:
        t = t.squeeze(0)
    return [t] * structure.count


def _require_broadcast(op: Any, t: Tensor, x: Tensor, structure: Ragged, first: bool) -> None:
    if t.ndim == x.ndim and t.shape[0] in (1, structure.count):
        if all(m == 1 or m == n for m, n in zip(t.shape[1:], x.shape[1:])):
            return
    words = ("non-nested", "nested") if first else ("nested", "non-nested")
    raise RuntimeError(
        f"Expected both self and other to be nested, but got a {words[0]} self and {words[1]} other"
    )


# ---- in place ------------------------------------------------------------------------------------


def call_in_place(op: Any, inputs: Sequence[Any]) -> Tensor:
    """The in-place form: the result goes into self's values."""
    self = inputs[0]
    if not is_nested(self):
        result = call(op, inputs)  # which says what does not fit
        raise RuntimeError(
            f"output with shape {list(self.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}"
        )
    result = call(op, inputs)
    require_castable(result.dtype, self.dtype)
    return write(self, result.to(self.dtype))


def write(self: Tensor, result: Tensor) -> Tensor:
    """self with the values and the history of a result."""
    check_inplace(self)
    array = self._array
    recorded = result._requires_grad
    version = self._shared.version
    with scopes.unrecorded:
        own = _C.wrap(array)
        if structure_of(result).same(array.structure):
            array.values.copy_(result._array.values)
        else:
            for into, part in zip(parts_of(own), parts_of(result.detach())):
                into.copy_(part)
    self._shared.version = version + 1  # however many parts it was written in
    if recorded:
        self._raw_node, self.output_nr = result._node, result.output_nr
        self._leaf = False
    return self


__all__ = ["call", "call_in_place", "on_values", "write"]
