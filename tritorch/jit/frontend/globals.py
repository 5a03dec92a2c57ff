"""Builtins of Python, and the operators that public functions stand for."""

from __future__ import annotations

import builtins
import collections
import functools
import math
import types as python_types
from typing import Any

from tritorch.jit.frontend import late
from tritorch.jit.frontend.emitter import Emitter
from tritorch.jit.frontend.sugared import (
    Args,
    BuiltinFunction,
    CastFunction,
    ExceptionClass,
    Kwargs,
    MagicMethod,
    SimpleValue,
    SpecialForm,
    Sugared,
)
from tritorch.schema import table, types

_SPECIAL = ("print", "range", "zip", "enumerate", "reversed", "isinstance", "getattr", "hasattr",
            "list", "tuple", "dict")  # fmt: skip
_CASTS = {
    "int": ("aten::Int", types.IntType), "float": ("aten::Float", types.FloatType),
    "bool": ("aten::Bool", types.BoolType), "str": ("aten::str", types.StringType),
    "complex": ("aten::Complex", types.ComplexType),
}  # fmt: skip
_OPERATORS = {
    "min": "prim::min", "max": "prim::max", "abs": "prim::abs", "all": "aten::all",
    "any": "aten::any", "sum": "aten::sum", "round": "aten::round", "ord": "aten::ord",
    "chr": "aten::chr", "hex": "aten::hex", "oct": "aten::oct", "bin": "aten::bin",
    "hash": "aten::hash", "sorted": "aten::sorted", "divmod": "aten::divmod", "pow": "aten::pow",
    "id": "prim::id",
}  # fmt: skip
_METHODS = {"abs": "__abs__", "round": "__round__", "hash": "__hash__"}


class Length(Sugared):
    """`len`."""

    def call(self, em: Emitter, args: Args, kwargs: Kwargs, place: Any) -> Sugared:
        if len(args) != 1 or kwargs:
            return BuiltinFunction("aten::len").call(em, args, kwargs, place)
        return SimpleValue(SimpleValue(args[0]).length(em, place))


def builtin_name(name: str) -> Sugared | None:
    """The meaning of a builtin of Python; None of those that TorchScript lacks."""
    if name in _SPECIAL:
        return SpecialForm(name)
    if name in _CASTS:
        operator, kind = _CASTS[name]
        return CastFunction(operator, kind.get())
    if name == "len":
        return Length()
    if name in _METHODS:
        return MagicMethod(_METHODS[name], BuiltinFunction(_OPERATORS[name]))
    if name in _OPERATORS:
        return BuiltinFunction(_OPERATORS[name])
    found = getattr(builtins, name, None)
    if isinstance(found, type) and issubclass(found, Exception):
        return ExceptionClass(found.__name__)
    return None


def public() -> Any:
    """The library as programs see it."""
    import tritorch

    return tritorch


# ---- public functions ----------------------------------------------------------------------------


def has_operator(name: str) -> bool:
    """Tells if TorchScript has an operator of ATen of this name."""
    return bool(table.overloads(name))


@functools.cache
def operators_by_function() -> dict[int, str]:
    """The operator of each public function that stands for one, by the function's identity."""
    tritorch = public()
    from tritorch.nn import functional

    found: dict[int, str] = {}

    def add(space: Any, pattern: str) -> None:
        for name, value in list(vars(space).items()):
            if callable(value) and not isinstance(value, (type, python_types.ModuleType)):
                operator = pattern.format(name)
                if not name.startswith("__") and has_operator(operator):
                    found.setdefault(id(value), f"aten::{operator}")

    add(tritorch, "{}")
    for name in table.names():  # those that the module makes when they are asked for
        value = getattr(tritorch, name, None) if not name.startswith("__") else None
        if callable(value) and not isinstance(value, type):
            found.setdefault(id(value), f"aten::{name}")
    add(functional, "{}")
    add(tritorch.fft, "fft_{}")
    add(tritorch.fft, "{}")
    add(tritorch.linalg, "linalg_{}")
    add(tritorch.special, "special_{}")
    add(tritorch.special, "{}")
    for name in dir(math):
        value = getattr(math, name)
        if callable(value) and has_operator(name):
            found[id(value)] = f"aten::{name}"
    for name, operator in _OPERATORS.items():
        found[id(getattr(builtins, name))] = operator
    import operator as operators
    import warnings

    found[id(warnings.warn)] = "aten::warn"
    for name in ("add", "sub", "mul", "neg", "eq", "ne", "lt", "le", "gt", "ge", "matmul", "pow"):
        found[id(getattr(operators, name))] = f"aten::{name}"
    found[id(operators.truediv)] = "aten::div"
    found[id(operators.floordiv)] = "aten::floordiv"
    found[id(operators.getitem)] = "aten::__getitem__"
    return found


@functools.cache
def special_forms() -> dict[int, str]:
    """The functions that the compiler evaluates itself, by identity."""
    import typing

    tritorch = public()
    from tritorch.futures import fork

    found = {id(getattr(builtins, name)): name for name in _SPECIAL}
    found[id(typing.cast)] = "cast"
    found[id(collections.OrderedDict)] = "dict"
    jit = tritorch.jit
    for function, name in (
        (jit.annotate, "annotate"), (jit.isinstance, "isinstance"),
        (jit.is_scripting, "is_scripting"),
        (fork, "fork"), (jit._awaitable, "awaitable"),
        (_unwrap_optional(), "_unwrap_optional"),
    ):  # fmt: skip
        found[id(function)] = name
    return found


def _unwrap_optional() -> Any:
    from tritorch.jit import _marks

    return _marks._unwrap_optional


late.provides(builtin_name)
