"""Values as TorchScript's str(), print() and format() write them."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.jit.ir.constants import tensor_text
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.run import limits


def float_text(value: float) -> str:
    """A float: `1.`, `0.10000000000000001`."""
    if math.isfinite(value) and abs(value) < 2.0**63 and value == int(value):
        return f"{int(value)}."
    return f"{value:.17g}"


def _check(values: Iterable[Any]) -> None:
    """Refuses a text that is larger than an open budget allows, before it is made."""
    waiting, count = list(values), 0
    while waiting:
        value = waiting.pop()
        count += len(value) if isinstance(value, str) else 1
        if isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]
        limits.check_elements(count + len(waiting))


def text_of(value: Any) -> str:
    """A value as str() gives it; strings are not quoted in containers."""
    if limits.had_budgets:
        _check((value,))
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, complex):
        sign = "" if math.copysign(1, value.imag) < 0 else "+"
        return f"{float_text(value.real)}{sign}{float_text(value.imag)}j"
    if isinstance(value, Tensor):
        return tensor_text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' * (len(value) == 1)})"
    if isinstance(value, dict):
        inside = (f"{_text(key)}: {_text(item)}" for key, item in value.items())
        return "{" + ", ".join(inside) + "}"
    if isinstance(value, enum.Enum):
        return f"Enum<{type(value).__name__}.{value.name}>"
    if isinstance(value, ScriptObjectData):
        return f"<{value.type.qualified_name()} object at {id(value):#x}>"
    return str(value)


def kind_of(value: Any) -> str:
    """The name of a value's kind, as messages have it."""
    if isinstance(value, Tensor):
        return "Tensor"
    return _KINDS.get(type(value), type(value).__name__)


_KINDS = {
    bool: "Bool", int: "Int", float: "Double", complex: "ComplexDouble", str: "String",
    type(None): "None", list: "GenericList", tuple: "Tuple", dict: "GenericDict",
}  # fmt: skip


def formatted(template: str, *values: Any) -> str:
    """str.format, of which TorchScript knows `{}` alone."""
    if limits.had_budgets:
        _check((template, *values))
    parts = template.split("{}")
    if len(parts) - 1 > len(values):
        raise RuntimeError(f"Too few arguments for format string: {template}")
    text = parts[0]
    for value, part in zip(values, parts[1:]):
        text += text_of(value) + part
    return text


def percent_formatted(template: str, *values: Any) -> str:
    """The % operator, with the specifiers %s, %d, %i, %f, %e, %c and %%."""
    if limits.had_budgets:
        _check((template, *values))
    given = values[0] if len(values) == 1 and isinstance(values[0], tuple) else values
    rest = iter(given)
    text, at, used = "", 0, 0
    while (found := template.find("%", at)) >= 0:
        text += template[at:found]
        if found + 1 >= len(template):
            raise RuntimeError("Incomplete format specifier")
        letter, at = template[found + 1], found + 2
        if letter == "%":
            text += "%"
            continue
        if used >= len(given):
            raise RuntimeError("Too few arguments for format string")
        text += _specified(letter, next(rest))
        used += 1
    if used < len(given):
        raise RuntimeError("Too many arguments for format string")
    return text + template[at:]


def _specified(letter: str, value: Any) -> str:
    if letter == "s":
        return text_of(value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if letter in "dief" and not is_number:
        raise RuntimeError(f"%{letter} requires a number for formatting, but got {kind_of(value)}")
    if letter in "di":
        return str(int(value))
    if letter in "efEF":
        return f"{value:.6{letter}}"
    if letter == "c":
        if isinstance(value, str) and len(value) == 1:
            return value
        if isinstance(value, int):
            return chr(value & 255)
        raise RuntimeError(f"%c requires an int or char for formatting, but got {kind_of(value)}")
    raise RuntimeError(f"The specifier %{letter} is not supported in TorchScript format strings")
