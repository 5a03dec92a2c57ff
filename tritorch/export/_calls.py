"""Public calls as ATen's: which overload a function computes, and with what.

Records are dispatched under ATen's names, but some have none: norms that also give what their
gradient needs, attention, a loss in one pass.  The public function that a program called has one
nearly always, and that is what PyTorch's graphs have at this level.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from tritorch.ops.record.overloads import OpOverload, fits, namespace
from tritorch.ops.record.spelling import REDUCTIONS
from tritorch.schema import table
from tritorch.schema.tensor_type import TensorType

_SPACES = {"tritorch.linalg": "linalg_", "tritorch.fft": "fft_", "tritorch.special": "special_"}


@functools.cache
def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _overloads(gate: Any) -> list[OpOverload]:
    """ATen's overloads under a public function's name."""
    said = getattr(inspect.unwrap(gate), "aten", None)
    stem = said or _SPACES.get(gate.__module__, "") + gate.__name__
    packet = getattr(namespace("aten"), stem, None) if table.overloads(stem) else None
    return [getattr(packet, name or "default") for name in table.overloads(stem)] if packet else []


def as_call(gate: Any, args: Any, kwargs: Any) -> tuple[OpOverload, list[Any], Any] | None:
    """A public call as one of ATen's, with keywords; None where no overload has its arguments."""
    plain = getattr(gate, "__wrapped__", gate)
    signature = _signature(plain)
    if signature is None:
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    given = dict(bound.arguments)
    spelled = getattr(inspect.unwrap(plain), "spelling", None)
    if spelled is not None:
        found = spelled(**given)
        if found is None:
            return None
        name, values = found
        stem, _, overload = name.partition(".")
        return getattr(getattr(namespace("aten"), stem), overload or "default"), list(values), {}
    said = {n for n, p in signature.parameters.items() if given.get(n) is not p.default}
    for overload in _overloads(gate):
        call = _in_order(overload, given, said)
        if call is not None and fits(overload._schema, *call):
            return overload, *call
    return None


def _in_order(
    overload: OpOverload, given: dict[str, Any], said: set[str]
) -> tuple[list[Any], dict[str, Any]] | None:
    """A public function's arguments as a schema's; None where it has others."""
    first = next(iter(given), "")
    values: list[Any] = []
    named: dict[str, Any] = {}
    met: set[str] = set()
    for argument in overload._schema.arguments:
        if argument.is_out:
            return None
        name = argument.name
        if name not in given and name in ("self", "input") and not met:
            name = first
        if name in given:
            value = given[name]
            if name == "reduction" and isinstance(value, str):
                value = REDUCTIONS.index(value)
            met.add(name)
            value = list(value) if type(value) is tuple else value
            if not argument.kwarg_only:
                values.append(value)
            elif name in said:
                named[name] = value
        elif not argument.has_default_value():
            return None
        elif not argument.kwarg_only:
            values.append(argument.default_value)
    return None if said - met else (values, named)


def of_numbers(overload: OpOverload, args: Any, kwargs: Any) -> OpOverload:
    """The overload for a call with a number where another one has a tensor."""
    schema = overload._schema
    arguments = schema.arguments
    places = [
        i for i, x in enumerate(args)
        if isinstance(x, (int, float, bool, complex)) and isinstance(arguments[i].type, TensorType)
    ]  # fmt: skip
    if not places or overload.namespace != "aten" or _stem(schema) in _AS_TENSORS:
        return overload
    packet = overload.overloadpacket
    for name in packet.overloads():
        other = getattr(packet, name or "default")
        theirs = other._schema.arguments
        if any(i >= len(theirs) or isinstance(theirs[i].type, TensorType) for i in places):
            continue
        if not any(a.is_out for a in theirs) and fits(other._schema, args, kwargs):
            return other
    return overload


def _stem(schema: Any) -> str:
    return str(schema.name).partition("::")[2].rstrip("_")


# Numbers are tensors to these in PyTorch's graphs too.
_AS_TENSORS = frozenset(["add", "sub", "mul", "div", "floor_divide", "true_divide"])
