"""The schema of an operator, from the annotations of a function."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from tritorch.core.device import device
from tritorch.core.dtype import dtype
from tritorch.core.symbolic import SymInt
from tritorch.core.tensor import Tensor
from tritorch.schema.tags import Tag

# The schema's name of a type; whether a list of it, or of it and None, may be an argument.
_PLAIN: dict[Any, str] = {
    Tensor: "Tensor",
    int: "SymInt",
    SymInt: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    complex: "complex",
    dtype: "ScalarType",
    device: "Device",
}
_NUMBERS = (frozenset((int, float, bool)), frozenset((int, float, complex, bool)))
_LISTS = (list, tuple, collections.abc.Sequence)
_RESULTS = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool"}


def _written(annotation: Any, *, inside: bool = False) -> str | None:
    """The schema's type for an annotation; None: there is none."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        if frozenset(parts) in _NUMBERS:
            return "Scalar"
        rest = [part for part in parts if part is not type(None)]
        if len(rest) == len(parts):
            return None
        if len(rest) > 1:
            return "Scalar?" if frozenset(rest) in _NUMBERS else None
        found = _written(rest[0], inside=inside)
        return None if found is None else f"{found}?"
    if origin in (list, collections.abc.Sequence) and len(parts) == 1 and not inside:
        found = _written(parts[0], inside=True)
        return None if found is None else f"{found}[]"
    return None


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Tag | Sequence[Tag] | None = (),
) -> str:
    """The schema that a function's annotations say.

    mutates_args: the names of the arguments that the function writes, or "unknown" for all.
    tags: with Tag.inplace the first argument is the result, with Tag.out the written keywords."""
    signature = inspect.signature(prototype_function)
    given = () if tags is None else (tags,) if isinstance(tags, Tag) else tuple(tags)
    in_place, out = Tag.inplace in given, Tag.out in given

    def refuse(what: str) -> NoReturn:
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    def read(annotation: Any) -> Any:
        if isinstance(annotation, str):
            try:
                return eval(annotation, prototype_function.__globals__)
            except Exception as error:
                refuse(f"Unsupported type annotation {annotation}. It is not a type. ({error}).")
        return annotation

    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated "
            "or the string 'unknown'. "
        )
    written_names = None if isinstance(mutates_args, str) else tuple(mutates_args)
    parts: list[str] = []
    outputs: list[str] = []
    first = ""
    for place, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        if parameter.annotation is parameter.empty:
            refuse(f"Parameter {name} must have a type annotation.")
        annotation = read(parameter.annotation)
        kind = _written(annotation)
        if kind is None:
            hint = ""
            if typing.get_origin(annotation) is tuple:
                hint = (
                    " We do not support Tuple inputs in schema. As a workaround, please try to use "
                    "List instead."
                )
            refuse(f"Parameter {name} has unsupported type {parameter.annotation}.{hint}")
        mutated = kind.startswith("Tensor") if written_names is None else name in written_names
        if mutated:
            if not kind.startswith("Tensor"):
                refuse(
                    f"Parameter {name} is in mutable_args but only Tensors or collections of "
                    "Tensors can be mutated"
                )
            kind = f"Tensor(a{place}!){kind[len('Tensor') :]}"
            if out:
                outputs.append(f"a{place}")
        if not first:
            first = f"a{place}"
        text = f"{kind} {name}"
        if parameter.default is not parameter.empty:
            text += f"={_default(parameter.default, name, refuse)}"
        parts.append(text)
    if written_names is not None and set(written_names) - set(signature.parameters):
        refuse(
            f"{set(written_names) - set(signature.parameters)} in mutates_args were not found in "
            "the custom op's signature. mutates_args should contain the names of all args that "
            "the custom op mutates, or just the string 'unknown' if you don't know."
        )
    result = _result(read(signature.return_annotation), refuse)
    if in_place:
        result = f"Tensor({first}!)"
    elif out and outputs:
        inner = ", ".join(f"Tensor({each}!)" for each in outputs)
        result = inner if len(outputs) == 1 else f"({inner})"
    return f"{op_name or ''}({', '.join(parts)}) -> {result}"


def _default(value: Any, name: str, refuse: Callable[[str], NoReturn]) -> str:
    if value is None or isinstance(value, (int, float, bool)):
        return str(value)
    if isinstance(value, (str, device)):
        return f'"{value}"'
    if isinstance(value, dtype):
        return str(value).rpartition(".")[2]
    refuse(
        f"Parameter {name} has an unsupported default value type {type(value)}. Please file an "
        "issue on GitHub so we can prioritize this."
    )


def _result(annotation: Any, refuse: Callable[[str], NoReturn]) -> str:
    if annotation is None:
        return "()"
    if annotation is inspect.Parameter.empty:
        refuse("No return type annotation was provided. Please add one.")
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple and parts:
        inner = [_one_result(part) for part in parts]
        if all(inner):
            return f"({', '.join(map(str, inner))})"
    found = _one_result(annotation)
    if found is None:
        refuse(f"Return has unsupported type {annotation}.")
    return found


def _one_result(annotation: Any) -> str | None:
    if annotation in _RESULTS:
        return _RESULTS[annotation]
    if typing.get_origin(annotation) in (list, collections.abc.Sequence):
        if typing.get_args(annotation) == (Tensor,):
            return "Tensor[]"
    kind = _written(annotation)
    return kind if kind == "Scalar" else None
