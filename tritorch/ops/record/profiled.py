"""What profiles call public functions, and what a call of one costs."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from typing import Any

from tritorch import _C
from tritorch.arrays.meta import MetaArray
from tritorch.core.dispatching import noting
from tritorch.core.dtype import all_dtypes
from tritorch.core.scopes import unrecorded
from tritorch.core.tensor import Tensor
from tritorch.ops.record.maker import Maker
from tritorch.ops.record.operator import OPERATORS
from tritorch.ops.record.overloads import computed_by
from tritorch.schema import table

_gates: dict[str, Any] = {}  # by what a profile calls them
_dtypes = {str(each).rpartition(".")[2]: each for each in all_dtypes}  # "torch." under the alias
_INDEXING = {"__getitem__": "aten::index", "__setitem__": "aten::index_put_"}


def prepare() -> None:
    """Reads PyTorch's table, so that no call has to wait for it."""
    table.names()


def name_of(gate: Any) -> str | None:
    """`aten::linear`: the operator of PyTorch's table that a function is; None if it is none."""
    if gate.__name__ == "backward":  # the pass itself has events
        return None
    if "::" in gate.__qualname__:  # an overload's, which has its name already
        _gates.setdefault(gate.shown._qualified_op_name, gate)
        return str(gate.shown._qualified_op_name)
    name = getattr(gate.shown, "__name__", gate.__name__) if gate.shown else gate.__name__
    known = table.names()
    for each in (name, f"{name}_loss", name.strip("_"), f"_{name}"):
        if each in known:
            found = f"aten::{each}"
            _gates.setdefault(found, gate)
            return found
    return _INDEXING.get(name)


def name_of_record(op: Any) -> str | None:
    """`aten::mm`: the operator of PyTorch's table that a record computes; None of what PyTorch has
    no operator for, or several."""
    if op.kind == "internal":
        return None
    try:
        names = {name for name, _ in computed_by(op)}
    except KeyError:  # it has no schema
        return None
    return names.pop() if len(names) == 1 else None


@functools.cache
def filled_by() -> dict[str, str]:
    """By a factory's name: the operator that writes its memory, and with what."""
    makers = [op for op in OPERATORS.values() if isinstance(op, Maker) and op.filled_by]
    return {f"aten::{op.name}": op.filled_by for op in makers}


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

    try:
        with unrecorded:
            given = [_described(x) for x in args]
            named = {key: _described(x) for key, x in kwargs.items()}
            with noting(note), warnings.catch_warnings(action="ignore"):  # the call has warned
                gate(*given, **named)
    except Exception:  # what is not known of these arguments
        return None
    return flops, moved


def _described(value: Any) -> Any:
    if isinstance(value, list):
        return [_described(each) for each in value]
    if not hasattr(value, "sizes"):
        return value
    return _C.wrap(MetaArray(value.sizes, _dtypes[value.dtype.rpartition(".")[2]], value.strides))


# ---- arguments in PyTorch's terms ----------------------------------------------------------------

_SPELLINGS = {"input": "self", "x": "self", "axis": "dim", "keepdims": "keepdim"}
_NUMBERS = {"int": int, "float": (int, float), "number": (bool, int, float), "bool": bool}


def inputs_of(name: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[str, list[Any]] | None:
    """The first overload of PyTorch's table that a call is of, and the values of all its arguments;
    None if none fits.  Tensors among them say `sizes`; what is not known of is `...`, and None in
    the values."""
    space, _, plain = name.partition("::")
    for overload in table.overloads(plain, space):
        schema = table.find(plain, overload, space)
        if any(argument.is_out for argument in schema.arguments) != ("out" in kwargs):
            continue
        for given in _ways(args):
            values = _bound(schema, given, kwargs)
            if values is not None:
                return overload, values
    return None


def _ways(args: list[Any]) -> Iterator[list[Any]]:
    """As they were given, and with the numbers at the end as one list: `ones(2, 3)`."""
    yield args
    first = len(args)
    while first and type(args[first - 1]) is int:
        first -= 1
    for place in range(first, len(args)):
        yield [*args[:place], args[place:]]


def _bound(schema: Any, args: list[Any], kwargs: dict[str, Any]) -> list[Any] | None:
    arguments = schema.arguments
    places = {argument.name: place for place, argument in enumerate(arguments)}
    positional = [argument for argument in arguments if not argument.kwarg_only]
    if len(args) > len(positional):
        return None
    given = dict(zip((argument.name for argument in positional), args))
    for key, value in kwargs.items():
        key = key if key in places else _SPELLINGS.get(key, key)
        if key == "requires_grad" and key not in places:
            continue  # what PyTorch's functions do with their results
        if key not in places or key in given:
            return None
        given[key] = value
    values = []
    for argument in arguments:
        if argument.name not in given:
            if not argument.has_default_value():
                return None
            values.append(argument.default_value)
            continue
        value = given[argument.name]
        if not _fits(value, str(argument.type)):
            return None
        values.append(None if value is ... else value)
    return values


def _fits(value: Any, kind: str) -> bool:
    if kind.startswith("Optional["):
        return value is None or _fits(value, kind[9:-1])
    if kind.startswith("List["):
        inner = kind[5:-1]
        if not isinstance(value, list):
            return inner in ("int", "float") and _fits(value, inner)
        return all(_fits(each, inner) for each in value)
    if kind == "Tensor" or hasattr(value, "sizes"):
        return kind == "Tensor" and hasattr(value, "sizes")
    if value is ...:
        return kind not in _NUMBERS or kind == "int"  # a dtype is an integer of PyTorch's
    wanted: Any = _NUMBERS.get(kind)
    if wanted is None:
        return isinstance(value, str)
    return isinstance(value, wanted) and (kind in ("bool", "number") or type(value) is not bool)
