"""torch._decomp: functions that stand for operators in graphs, by overload.

The tables begin empty: programs register theirs, and give a table to `make_fx`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tritorch.ops.record.overloads import OpOverload, OpOverloadPacket
from tritorch.utils._pytree import tree_map_

__all__ = [
    "core_aten_decompositions", "decomposition_table", "get_decompositions", "meta_table",
    "pre_autograd_decomposition_table", "register_decomposition", "remove_decompositions",
]  # fmt: skip

Table = dict[Any, Callable[..., Any]]

global_decomposition_table: dict[str, Table] = {
    "post_autograd": {}, "pre_autograd": {}, "meta": {}
}  # fmt: skip
decomposition_table = global_decomposition_table["post_autograd"]
pre_autograd_decomposition_table = global_decomposition_table["pre_autograd"]
meta_table = global_decomposition_table["meta"]


def _table_of(type: str) -> Table:
    if type not in global_decomposition_table:
        raise AssertionError(
            f"type must be one of post_autograd, pre_autograd, or meta, got {type}"
        )
    return global_decomposition_table[type]


def _add_op_to_registry(registry: Table, op: Any, fn: Callable[..., Any]) -> None:
    """Puts a function into a table, for an overload or all of an operator."""
    if not isinstance(op, (OpOverload, OpOverloadPacket)):
        raise AssertionError(f"expected OpOverloadPacket, got {type(op)}")
    overloads = [op] if isinstance(op, OpOverload) else _overloads(op)
    for each in overloads:
        if each in registry:
            raise RuntimeError(f"duplicate registrations for {each}")
    registry.update(dict.fromkeys(overloads, fn))


def _overloads(packet: OpOverloadPacket) -> list[OpOverload]:
    return [getattr(packet, name) for name in packet.overloads()]


def register_decomposition(
    aten_op: Any, registry: Table | None = None, *, type: str = "post_autograd",
    unsafe: bool = False,
) -> Callable[[Any], Any]:  # fmt: skip
    """Decorates the function that stands for operators in a table, one or several."""
    table = _table_of(type) if registry is None else registry

    def register(fn: Any) -> Any:
        tree_map_(lambda op: _add_op_to_registry(table, op, fn), aten_op)
        return fn

    return register


def get_decompositions(aten_ops: Iterable[Any], type: str = "post_autograd") -> Table:
    """The functions for operators, of those that have one, by overload."""
    registry, found = _table_of(type), {}
    for op in aten_ops:
        overloads = _overloads(op) if isinstance(op, OpOverloadPacket) else [op]
        found.update({each: registry[each] for each in overloads if each in registry})
    return found


def remove_decompositions(decompositions: Table, aten_ops: Iterable[Any]) -> None:
    """Takes operators out of a table."""
    for op in aten_ops:
        for each in _overloads(op) if isinstance(op, OpOverloadPacket) else [op]:
            decompositions.pop(each, None)


def core_aten_decompositions() -> Table:
    """What operators outside of a core become: what was registered."""
    return dict(decomposition_table)
