"""Operators that write the memory of their first input, and their place in its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.meta import MetaArray
from tritorch.autograd.graph import check_inplace, rewrite_history
from tritorch.core.dispatching import asked, entered, kept_copy, noted, watching
from tritorch.core.tensor import Tensor
from tritorch.ops.record.gradients import argument_names
from tritorch.ops.record.interpreters import Dispatched, Tangent, interpreter
from tritorch.ops.record.operator import Operator

_PLAIN = frozenset((Tensor, int, float, bool, type(None)))


def differentiated(*tensors: Any) -> bool:
    """Whether a call on these is recorded."""
    return _C.is_grad_enabled() and _C.any_requires_grad(*tensors)


def in_place(
    op: Operator, self: Tensor, params: tuple[Any, ...], inputs: Sequence[Any], write: Any,
    kept: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Runs `write()` on self's memory and makes the call self's history.

    inputs: the record's inputs, self first; kept: self as it was, if the gradient needs it.
    """
    if any(isinstance(x, Tensor) and x._tangent is not None for x in inputs):
        return _write_dual(op, self, params, inputs, write)
    if watching and entered.note is not None:
        run = lambda kept: in_place(op, self, params, inputs, write, kept)
        return noted_write(op, inputs, params, run)
    check_inplace(self, *inputs[1:])
    first, others = inputs[0], inputs[1:]
    before, shared = 0, list[Tensor]()
    if op.wants(*inputs):
        again = any(x is self for x in others)
        if again:
            twin = _as_it_was(self, _C.alias(self))
            others = [twin if x is self else x for x in others]
        shared = [x for x in others if isinstance(x, Tensor) and x._shared is self._shared]
        before = self._shared.version
        if again or _saves_self(op, inputs):
            first = _as_it_was(self, kept_copy(self) if kept is None else kept)
    if (watching or not _PLAIN.issuperset(map(type, inputs))) and asked(*inputs):
        _answer(op, params, inputs)
    elif type(self._array) is not MetaArray:
        write()
    _C.bump_version(self)
    node = op.record(self, params, first, *others)
    if shared and node is not None and node._node_saved is not None:
        # The gradient will say that what it needs was written.
        versions = node._node_versions or (0,) * len(node._node_saved)
        node._node_versions = tuple(
            before if any(x is each for each in shared) else version
            for x, version in zip(node._node_saved, versions)
        )
    rewrite_history(self, node)
    return self


def noted_write(op: Operator, inputs: Sequence[Any], params: Any, run: Any) -> Tensor:
    """Runs a write, of which those who note calls are told; run: of the first input as it was, if
    the gradient needs that."""
    kept = kept_copy(inputs[0]) if _needs_copy(op, inputs[0], inputs) else None
    return noted("in place", op, inputs, params, lambda: run(kept))


def _needs_copy(op: Operator, self: Tensor, inputs: Sequence[Any]) -> bool:
    """Whether a gradient will need what is written."""
    if not op.wants(*inputs):
        return False
    return any(x is self for x in inputs[1:]) or _saves_self(op, inputs)


def _answer(op: Operator, params: tuple[Any, ...], inputs: Sequence[Any]) -> None:
    interpreter(Dispatched).answer_in_place(op, params, inputs)


def _as_it_was(tensor: Tensor, other: Tensor) -> Tensor:
    """Another tensor at the place in the graph that a tensor has before it is written."""
    other._raw_node, other.output_nr, other._leaf = tensor._node, tensor.output_nr, tensor._leaf
    return other


def _write_dual(
    op: Operator, self: Tensor, params: tuple[Any, ...], inputs: Sequence[Any], write: Any
) -> Tensor:
    def plain(primal: Tensor, primals: Sequence[Any]) -> None:
        in_place(op, primal, params, primals, write)

    return interpreter(Tangent).write_dual(op, self, inputs, params, plain)


def _saves_self(op: Operator, inputs: Sequence[Any]) -> bool:
    if op.joint:
        return op.inputs[0] in argument_names(op.joint)
    return any(
        function is not None
        and op.inputs[0] in argument_names(function)
        and isinstance(tensor, Tensor)
        and tensor._requires_grad
        for function, tensor in zip(op.gradients, inputs)
    )
