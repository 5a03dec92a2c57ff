"""What PyTorch says of an argument of the wrong type, found out when a call has failed.

A gate compares the types of its arguments with Tensor's anyway: where the function's annotations
want a tensor and there is none, it asks here what PyTorch says.  Where they want anything, the
function fails somewhere inside, by an AttributeError mostly; only then the gate asks which argument
it was, so that a call that succeeds pays nothing.
"""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

from tritorch.core.naming import qualified
from tritorch.core.tensor import Tensor

_SAID = re.compile(r"(\w+)\(\): argument '(\w+)' \(position (\d+)\) (must be Tensor.*)")
_SAYS = re.compile(r"\w+\(\)")  # `inner(): argument ...`, `inner() missing 1 required ...`
_NO_ATTRIBUTE = re.compile(r"'([\w.]+)' object has no attribute ")
_TENSORS = ("Tensor", Tensor)
_PREFIXES = {"fft": "fft_", "linalg": "linalg_", "special": "special_"}  # PyTorch's, by module


@functools.cache
def _parameters(function: Any) -> tuple[inspect.Parameter, ...]:
    try:
        found = tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()
    if found and found[0].name == "self" and function.__qualname__.startswith("Tensor."):
        return (found[0].replace(annotation=Tensor), *found[1:])
    return found


def wants(gate: Any) -> int:
    """The positions where only tensors may stand, as bits.

    Of a function that takes any arguments after others, which PyTorch's older forms come as, only
    a method's self is known."""
    bits = int(_is_method(gate))
    parameters = _parameters(gate.__wrapped__)[:31]
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return bits
    for i, parameter in enumerate(parameters):
        if parameter.kind is parameter.KEYWORD_ONLY:
            break
        if parameter.annotation in _TENSORS:
            bits |= 1 << i
    return bits


def mistaken(
    gate: Any, error: Exception | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TypeError | None:
    """PyTorch's TypeError if an argument is no tensor where one is wanted.

    error: what a call ended in; None if there was none yet, and only what is declared counts."""
    name, is_method = _shown(gate), _is_method(gate)
    parameters = _parameters(gate.__wrapped__)
    if error is not None and _SAYS.match(str(error)):
        return _as_of_gate(gate, str(error))
    if is_method and args and not isinstance(args[0], Tensor):
        return TypeError(
            f"descriptor '{gate.__name__}' for '{qualified('_C.TensorBase')}' objects doesn't "
            f"apply to a '{type_name(args[0])}' object"
        )
    for i, parameter in enumerate(parameters):
        if parameter.kind is parameter.VAR_POSITIONAL:
            if error is None:
                break
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
            return TypeError(said if said.startswith("expected") else f"{name}(): {said}")
    return None


def _is_method(gate: Any) -> bool:
    return gate.__qualname__.startswith("Tensor.")


def _shown(gate: Any) -> str:
    """A function as PyTorch calls it: linalg_qr."""
    return _PREFIXES.get(gate.__module__.rpartition(".")[2], "") + gate.__name__


def _as_of_gate(gate: Any, text: str) -> TypeError | None:
    """What the gate's own function said of an argument, by the gate's name and positions."""
    said = _SAID.fullmatch(text)
    if said is None or said[1].strip("_") not in (
        gate.__name__.strip("_"),
        gate.__wrapped__.__name__.strip("_"),
    ):
        return None
    parameters, i = _parameters(gate.__wrapped__), int(said[3]) - 1
    if i >= len(parameters) or parameters[i].name not in (said[2], "self"):
        return None
    position = i + 1 - _is_method(gate)
    return TypeError(f"{_shown(gate)}(): argument '{said[2]}' (position {position}) {said[4]}")


def _said(
    parameter: inspect.Parameter, value: Any, i: int, where: str, error: Exception | None
) -> str:
    """What is wrong with the value of a parameter, the i-th; "" if nothing is."""
    annotation, name = parameter.annotation, parameter.name
    if isinstance(value, Tensor) and annotation != "Sequence[Tensor]":
        return ""
    wanted = ""
    if annotation in _TENSORS or (annotation == "Tensor | None" and value is not None):
        wanted = "Tensor"
    elif annotation == "Sequence[Tensor]" or name == "tensors":
        if isinstance(value, (tuple, list)):
            return _element(i, value, None)
        wanted = "tuple of Tensors"
    elif annotation in ("Any", parameter.empty) and error is not None:
        if name == "input" or _lacks(value, error):
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
