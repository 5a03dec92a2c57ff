"""What profiles call public functions, and what a call of one costs."""

from __future__ import annotations

import warnings
from typing import Any

from tritorch import _C
from tritorch.core.dispatching import noting
from tritorch.core.dtype import all_dtypes
from tritorch.core.meta import MetaArray
from tritorch.core.tensor import Tensor
from tritorch.schema import table

_gates: dict[str, Any] = {}  # by what a profile calls them
_dtypes = {str(each).rpartition(".")[2]: each for each in all_dtypes}  # "torch." under the alias


def prepare() -> None:
    """Reads PyTorch's table, so that no call has to wait for it."""
    table.names()


def name_of(gate: Any) -> str | None:
    """`aten::linear`: the operator of PyTorch's table that a function is; None if it is none."""
    if gate.__name__ == "backward":  # the pass itself has events
        return None
    name = getattr(gate.shown, "__name__", gate.__name__) if gate.shown else gate.__name__
    known = table.names()
    for each in (name, f"{name}_loss", name.strip("_"), f"_{name}"):
        if each in known:
            found = f"aten::{each}"
            _gates.setdefault(found, gate)
            return found
    return "aten::index" if name == "__getitem__" else None


def cost_of(name: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[int, int] | None:
    """The operations and bytes of a call, by the costs of the records that it comes to; None if
    they are not known of these arguments.  Tensors among them say `dtype`, `sizes` and
    `strides`."""
    gate = _gates.get(name)
    if gate is None:
        return None
    flops = moved = 0

    def note(form: str, op: Any, tensors: Any, params: Any, result: Any) -> None:
        nonlocal flops, moved
        specs = [x._array if isinstance(x, Tensor) else x for x in tensors]
        cost = op.cost(specs, tuple(params))
        flops, moved = flops + int(cost.flops), moved + int(cost.bytes)

    before = _C.set_grad_enabled(False)
    try:
        given = [_described(x) for x in args]
        named = {key: _described(x) for key, x in kwargs.items()}
        with noting(note), warnings.catch_warnings(action="ignore"):  # the call has warned before
            gate(*given, **named)
    except Exception:  # what is not known of these arguments
        return None
    finally:
        _C.set_grad_enabled(before)
    return flops, moved


def _described(value: Any) -> Any:
    if isinstance(value, list):
        return [_described(each) for each in value]
    if not hasattr(value, "sizes"):
        return value
    return _C.wrap(MetaArray(value.sizes, _dtypes[value.dtype.rpartition(".")[2]], value.strides))
