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
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

from tritorch.core.naming import error_names, qualified
from tritorch.core.published import ATEN
from tritorch.core.tensor import Tensor

# Compiled by the first error: none of them is met by programs without mistakes.
_SAID = r"(\w+)\(\): argument '(\w+)' \(position (\d+)\) (must be Tensor.*)"
_SAYS = r"\w+\(\)"  # `inner(): argument ...`, `inner() missing 1 required ...`
_OF_DIMS = r"argument '\w+' must be int, not (\w+)"  # what core/dims.py says
_NO_ATTRIBUTE = r"'([\w.]+)' object has no attribute "
_TENSORS = ("Tensor", Tensor)
Number: TypeAlias = Any  # a Scalar of ATen's; a tensor of no dims stands for the number it holds
_NUMBERS = ("float", "float | None", "Number", "Number | None", float)
# ops knows the schemas: (operator of ATen, number of arguments) -> the names of those in front;
declared_names: Callable[[str, int], list[str]] | None = None
# (operator of ATen, name, whether it is a method) -> the forms of its calls.
declared_forms: Callable[[str, str, bool], list[str]] | None = None
# (operator of ATen, name, whether it is a method, args, kwargs) -> what is wrong with a dim.
refusal: Callable[..., str | None] | None = None
# (operator of ATen) -> "Number" or "float" by the names of arguments that are nothing else.
declared_numbers: Callable[[str], dict[str, str]] | None = None
# (operator of ATen) -> the positions where some overload has a tensor.
declared_tensors: Callable[[str], frozenset[int]] | None = None
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


def wants(gate: Any) -> tuple[int, int, tuple[str, ...]]:
    """The positions where only tensors may stand, as bits; those where a number is meant; the
    names of parameters where a number is meant.

    Of a function that takes any arguments after others, which PyTorch's older forms come as, the
    others count where nothing comes after them."""
    bits, numbers, names = int(_is_method(gate)), 0, []
    positional = True
    for i, parameter in enumerate(_parameters(gate.__wrapped__)[:31]):
        positional &= parameter.kind not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        if positional and parameter.annotation in _TENSORS:
            bits |= 1 << i
        if _may_be_number(parameter):
            numbers |= positional << i
            names.append(sys.intern(parameter.name))
    return bits, numbers, tuple(names)


def _may_be_number(parameter: inspect.Parameter) -> bool:
    """True if a parameter's annotation or default lets its schema say Scalar or float.

    The schema itself is read only when a tensor stands there (`_numbers_of`)."""
    if parameter.annotation in _NUMBERS:
        return True
    untyped = parameter.annotation in ("Any", parameter.empty)
    return untyped and type(parameter.default) in (int, float)


@functools.lru_cache(512)
def _numbers_of(gate: Any) -> dict[str, str]:
    """The parameters that are a Scalar or a float, and no tensor, in every overload that has them:
    "Number" or "float", by name."""
    if declared_numbers is None:
        return {}
    said = declared_numbers(_shown(gate))
    return {p.name: said[p.name] for p in _parameters(gate.__wrapped__) if p.name in said}


def with_numbers(gate: Any, *args: Any, **kwargs: Any) -> Any:
    """A call with a tensor where a number is meant: PyTorch takes the number that a tensor of no
    dims holds, unless it requires a gradient.  NotImplemented if no such argument is a tensor."""
    numbers = _numbers_of(gate)
    positional = list(args)
    found = False
    others = declared_tensors(_shown(gate)) if declared_tensors is not None else ()
    for i, parameter in enumerate(_parameters(gate.__wrapped__)):
        if parameter.kind is parameter.VAR_POSITIONAL:
            break
        name = parameter.name
        if name not in numbers:
            continue
        if i < len(positional) and i not in others and isinstance(positional[i], Tensor):
            where = f" (position {i + 1 - _is_method(gate)})"
            positional[i] = _number(gate, name, numbers[name], positional[i], where)
            found = True
    for name, value in kwargs.items():
        if name in numbers and isinstance(value, Tensor):
            kwargs[name] = _number(gate, name, numbers[name], value, "")
            found = True
    return gate(*positional, **kwargs) if found else NotImplemented


def _number(gate: Any, name: str, word: str, value: Any, where: str) -> Any:
    if value.requires_grad or value.dim() != 0:
        raise TypeError(
            f"{_shown(gate)}(): argument '{name}'{where} must be {word}, not {type_name(value)}"
        )
    number = value.item()
    if word == "float" and isinstance(number, complex):
        raise RuntimeError("value cannot be converted to type double without overflow")
    return number


def mistaken(
    gate: Any, error: Exception | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TypeError | None:
    """PyTorch's TypeError if an argument is no tensor where one is wanted.

    error: what a call ended in; None if there was none yet, and only what is declared counts."""
    name, is_method = _shown(gate), _is_method(gate)
    parameters = _parameters(gate.__wrapped__)
    before = [parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters]
    if error is None and True in before and len(args) > before.index(True):
        return None  # PyTorch's older form of the call, whose arguments stand elsewhere
    names = _names(gate, parameters, len(args) + len(kwargs))
    if error is not None and re.match(_SAYS, str(error)):
        return _as_of_gate(gate, str(error))
    inner = getattr(inspect.unwrap(gate.__wrapped__), "aten", "")
    if is_method and args and not isinstance(args[0], Tensor) and not inner:
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
            where = f" (position {i + 1 - (is_method and not inner)})"
            said = _said(gate, parameter, names[i], args[i], i, where, error)
        elif parameter.name in kwargs:
            said = _said(gate, parameter, names[i], kwargs[parameter.name], i, "", error)
        else:
            continue
        if said:
            return TypeError(said if said.startswith("expected") else f"{name}(): {said}")
    said_of_dim = re.match(_OF_DIMS, str(error)) if isinstance(error, TypeError) else None
    if said_of_dim is not None and refusal is not None:
        text = refusal(name, name, is_method, args, kwargs)
        if text is not None and said_of_dim[1] in text:
            return TypeError(text)
    return None


def documented(gate: Any) -> str | None:
    """What a function says of itself, after the forms of its calls if its operator has a schema."""
    text: str | None = gate.__wrapped__.__doc__
    if declared_forms is None or gate.__module__.endswith(".functional"):
        return text
    forms = declared_forms(_shown(gate), gate.__name__, _is_method(gate))
    return "\n".join([*forms, "", text or ""]).strip() or None


def _is_method(gate: Any) -> bool:
    return gate.__qualname__.startswith("Tensor.")


def _shown(gate: Any) -> str:
    """A function as PyTorch calls it: linalg_qr."""
    function = inspect.unwrap(gate.__wrapped__)
    named = ATEN.get(gate.__name__) or getattr(function, "aten", "")
    return named or _PREFIXES.get(gate.__module__.rpartition(".")[2], "") + gate.__name__


def _names(gate: Any, parameters: tuple[inspect.Parameter, ...], count: int) -> list[str]:
    """The arguments as ATen's schema names them; a function's own names where there is none."""
    own = ["input" if p.name == "self" else p.name for p in parameters]
    if declared_names is None:
        return own
    named = declared_names(_shown(gate), count)
    if _is_method(gate) and named[:1] != ["input"]:
        named = ["input", *(name for name in named if name != "input")]
    return [*named, *own[len(named) :]]


def _as_of_gate(gate: Any, text: str) -> TypeError | None:
    """What the gate's own function said of an argument, by the gate's name and positions."""
    said = re.fullmatch(_SAID, text)
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
    gate: Any,
    parameter: inspect.Parameter,
    shown: str,
    value: Any,
    i: int,
    where: str,
    error: Exception | None,
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
    elif error is not None and str(error) == f"expected a number, got {type(value).__name__}":
        wanted = _numbers_of(gate).get(name, "")
    elif annotation in ("Any", parameter.empty) and error is not None:
        if name == "input" or _lacks(value, error):
            wanted = "Tensor"
    return wanted and f"argument '{shown}'{where} must be {wanted}, not {type_name(value)}"


def _element(i: int, values: Any, error: Exception | None) -> str:
    for k, value in enumerate(values):
        if not isinstance(value, Tensor) and (error is None or _lacks(value, error)):
            return f"expected Tensor as element {k} in argument {i}, but got {type_name(value)}"
    return ""


def _lacks(value: Any, error: Exception) -> bool:
    """Whether the error says that a value, or an item of it, has no attribute of a tensor."""
    said = re.match(_NO_ATTRIBUTE, str(error)) if isinstance(error, AttributeError) else None
    if said is None or isinstance(value, Tensor):
        return False
    items = value if isinstance(value, (list, tuple)) else ()
    return said[1] in {type(each).__name__ for each in (value, *items)}


def type_name(value: Any) -> str:
    """A type as PyTorch writes it."""
    kind = type(value)
    if kind in error_names:
        return error_names[kind]
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__
