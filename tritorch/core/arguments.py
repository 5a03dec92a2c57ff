"""What PyTorch says of an argument of the wrong type, found out when a call has failed.

Functions do not look at their arguments' types: they fail somewhere inside, by an AttributeError
mostly.  Only then the gate asks here which argument it was, by the function's annotations, so that
a call that succeeds pays nothing.
"""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

from tritorch.core.tensor import Tensor

_SAID = re.compile(r"\w+\(\)")  # `inner(): argument ...`, `inner() missing 1 required ...`
_NO_ATTRIBUTE = re.compile(r"'([\w.]+)' object has no attribute ")


@functools.cache
def _parameters(function: Any) -> tuple[inspect.Parameter, ...]:
    try:
        return tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()


def mistaken(
    gate: Any, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TypeError | None:
    """PyTorch's TypeError if an argument is no tensor where one is wanted."""
    if _SAID.match(str(error)):
        return None
    is_method = gate.__qualname__.startswith("Tensor.")
    for i, parameter in enumerate(_parameters(gate.__wrapped__)):
        if parameter.kind is parameter.VAR_POSITIONAL:
            said = ""
            if len(args) == i + 1 and isinstance(args[i], (tuple, list)):
                said = _element(i, args[i], error)
            said = said or _element(i, args[i:], error)
        elif i < len(args):
            said = _said(parameter, args[i], i, f" (position {i + 1 - is_method})", error)
        elif parameter.name in kwargs:
            said = _said(parameter, kwargs[parameter.name], i, "", error)
        else:
            continue
        if said:
            return TypeError(said if said.startswith("expected") else f"{gate.__name__}(): {said}")
    return None


def _said(parameter: inspect.Parameter, value: Any, i: int, where: str, error: Exception) -> str:
    """What is wrong with the value of a parameter, the i-th; "" if nothing is."""
    annotation, name = parameter.annotation, parameter.name
    if isinstance(value, Tensor) and annotation != "Sequence[Tensor]":
        return ""
    wanted = ""
    if annotation == "Tensor" or (annotation == "Tensor | None" and value is not None):
        wanted = "Tensor"
    elif annotation == "Sequence[Tensor]" or name == "tensors":
        if isinstance(value, (tuple, list)):
            return _element(i, value, None)
        wanted = "tuple of Tensors"
    elif annotation in ("Any", parameter.empty):
        if name in ("self", "input") or _lacks(value, error):
            wanted = "Tensor"
    shown = "input" if name == "self" else name
    return wanted and f"argument '{shown}'{where} must be {wanted}, not {type_name(value)}"


def _element(i: int, values: Any, error: Exception | None) -> str:
    for k, value in enumerate(values):
        if not isinstance(value, Tensor) and (error is None or _lacks(value, error)):
            return f"expected Tensor as element {k} in argument {i}, but got {type_name(value)}"
    return ""


def _lacks(value: Any, error: Exception) -> bool:
    """Whether the error says that a value, or an item of it, has no attribute of a tensor."""
    said = _NO_ATTRIBUTE.match(str(error)) if isinstance(error, AttributeError) else None
    if said is None or isinstance(value, Tensor):
        return False
    items = value if isinstance(value, (list, tuple)) else ()
    return said[1] in {type(each).__name__ for each in (value, *items)}


def type_name(value: Any) -> str:
    """A type as PyTorch writes it."""
    kind = type(value)
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__
