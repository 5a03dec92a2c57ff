"""What PyTorch's parser of arguments says of one of a wrong type where a dim is meant.

It is asked when a call has failed (`core/arguments.py`), so what calls cost does not matter here.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from tritorch.core.arguments import type_name
from tritorch.core.naming import qualified
from tritorch.core.tensor import Tensor
from tritorch.ops.record.schema import is_tensor
from tritorch.schema import table
from tritorch.schema.signature import Argument, FunctionSchema
from tritorch.schema.types import ListType, OptionalType

_WORDS = {"SymInt": "int", "Scalar": "Number", "number": "Number"}
_QUALIFIED = {"ScalarType": "dtype", "Device": "device", "Generator": "Generator"}


def refusal(
    operator: str, name: str, is_method: bool, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str | None:
    """The text of the TypeError; None if no argument is known to be wrong.

    name: as the program calls it; args: with the tensor whose method is called."""
    forms = _forms(operator)
    found = [_wrong(form, is_method, args, kwargs) for form in forms]
    if not forms or None in found:
        return None
    if len(forms) == 1:
        return f"{name}(): {found[0]}" if found[0] else None
    given = [type_name(value) for value in args[is_method:]]
    given += [f"{key}={type_name(value)}, " for key, value in kwargs.items()]
    shown = "\n".join(f" * ({', '.join(_shown(form, is_method))})" for form in forms)
    return (
        f"{name}() received an invalid combination of arguments - got ({', '.join(given)}), but "
        f"expected one of:\n{shown}\n"
    )


@functools.cache
def numbers(operator: str) -> dict[str, str]:
    """The arguments that are a Scalar or a float, and no tensor, in every overload that has them:
    what PyTorch calls them ("Number", "float"), by name."""
    kinds: dict[str, set[str]] = {}
    for overload in table.overloads(operator):
        for argument in table.find(operator, overload).arguments:
            base, several, _ = _kind(argument)
            if base == "Tensor" or not several:
                kinds.setdefault(argument.name, set()).add(base)
    return {
        name: "float" if "float" in found else "Number"
        for name, found in kinds.items()
        if found & {"float", "Scalar"} and "Tensor" not in found
    }


@functools.cache
def tensors(operator: str) -> frozenset[int]:
    """The positions where some overload has a tensor."""
    return frozenset(
        i
        for overload in table.overloads(operator)
        for i, argument in enumerate(table.find(operator, overload).arguments)
        if not argument.kwarg_only and _kind(argument)[:2] == ("Tensor", False)
    )


def _forms(operator: str) -> list[FunctionSchema]:
    """The overloads of an operator that a program may call with a tensor."""
    found = (table.find(operator, overload) for overload in table.overloads(operator))
    return [
        schema
        for schema in found
        if not any(a.is_out for a in schema.arguments)
        and any(map(is_tensor, schema.returns))
        and any(map(is_tensor, schema.arguments))
    ]


def _wrong(
    schema: FunctionSchema, is_method: bool, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str | None:
    """What is wrong with the first argument that is; "" if they fit this form in no way, None if
    nothing is known to be wrong."""
    positional = [a for a in schema.arguments if not a.kwarg_only]
    if len(args) > len(positional) or not {*kwargs} <= {a.name for a in schema.arguments}:
        return ""
    for i, (argument, value) in enumerate(zip(positional, args)):
        if said := _said(argument, value, f" (position {i + 1 - is_method})"):
            return said
    for argument in schema.arguments:
        if argument.name in kwargs and (said := _said(argument, kwargs[argument.name], "")):
            return said
    return None


def _said(argument: Argument, value: Any, where: str) -> str | None:
    base, several, optional = _kind(argument)
    if base not in ("int", "SymInt") or (value is None and optional):
        # A text stands for no number, truth or tensor, which tells overloads apart.
        fits = not isinstance(value, str) or base in ("str", "int", "SymInt")
        return None if fits else f"argument '{argument.name}' must be {base}, not str"
    start = f"argument '{argument.name}'"
    if not several:
        return None if _is_integer(value) else f"{start}{where} must be int, not {type_name(value)}"
    if not isinstance(value, (list, tuple)):
        if argument.N is not None and _is_integer(value):
            return None
        return f"{start}{where} must be tuple of ints, not {type_name(value)}"
    bad = next((i for i, each in enumerate(value) if not _is_integer(each)), None)
    if bad is None:
        return None
    found = type_name(value[bad])
    if bad == 0:
        return f"{start}{where} must be tuple of ints, but found element of type {found} at pos 0"
    return (
        f"{start} failed to unpack the object at pos {bad + 1} with error "
        f'"type must be tuple of ints,but got {found}"'
    )


def _kind(argument: Argument) -> tuple[str, bool, bool]:
    """An argument's type as schemas write it; whether it is a list; whether it may be None."""
    kind, several, optional = argument.real_type, False, False
    while isinstance(kind, (ListType, OptionalType)):
        several |= isinstance(kind, ListType)
        optional |= isinstance(kind, OptionalType)
        kind = kind.getElementType()
    return kind._in_schema(), several, optional


def _is_integer(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point()
    return hasattr(type(value), "__index__") and not isinstance(value, bool)


def _shown(schema: FunctionSchema, is_method: bool) -> list[str]:
    """The arguments of a form as PyTorch writes them: `bool keepdim = False`."""
    parts: list[str] = []
    for a in schema.arguments:
        if a.name == "self" and is_method:
            continue
        if a.kwarg_only and "*" not in parts:
            parts.append("*")
        base, several, _ = _kind(a)
        word = qualified(_QUALIFIED[base]) if base in _QUALIFIED else _WORDS.get(base, base)
        word = f"tuple of {word}s" if several else word
        name = "input" if a.name == "self" else a.name
        default = f" = {a.default_value!r}" if a.has_default_value() else ""
        parts.append(f"{word} {name}{default}".replace("'", '"'))
    return parts
