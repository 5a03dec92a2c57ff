"""TorchScript's own definitions of functions that are no single operator.

`tritorch/jit/definitions/functional.py` has those of `torch.nn.functional`, `modules.py` the
methods
of modules.  They are read as source, never imported.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import Any

from tritorch.jit.frontend import late
from tritorch.jit.frontend.emitter import Emitter
from tritorch.jit.frontend.functions import define, signature
from tritorch.jit.frontend.globals import public
from tritorch.jit.frontend.python import MISSING, UNIT, BooleanDispatch, PythonResolver
from tritorch.jit.frontend.source import Source
from tritorch.jit.frontend.sugared import BuiltinFunction, FunctionValue, Sugared
from tritorch.jit.internals import is_library
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.types import ScriptClassType
from tritorch.schema import table

_FOLDER = Path(__file__).parent.parent / "definitions"


@functools.cache
def _read(name: str) -> tuple[Source, ast.Module]:
    path = _FOLDER / name
    text = path.read_text(encoding="utf-8")
    return Source(text, str(path)), ast.parse(text)


def _defaults(node: ast.FunctionDef) -> dict[str, Any]:
    """The defaults of a definition, which are literals."""
    arguments = [*node.args.posonlyargs, *node.args.args]
    found = dict(zip([a.arg for a in arguments[len(arguments) - len(node.args.defaults) :]],
                     node.args.defaults))  # fmt: skip
    found |= {a.arg: d for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults) if d}
    return {name: ast.literal_eval(value) for name, value in found.items()}


def _lookup(name: str) -> Any:
    """The names that definitions see: the library, typing, and each other."""
    import math
    import typing

    tritorch = public()

    if name in ("torch", "tritorch"):
        return _Torch()
    if name == "F":
        return tritorch.nn.functional
    if name == "math":
        return math
    if name == "Tensor":
        return tritorch.Tensor
    found = _functions().get(name)
    if found is not None:
        return _Compiled(found)
    return getattr(typing, name, MISSING)


class _Torch(Sugared):
    """`torch` in a definition: operators of ATen, dtypes, formats and `torch.jit`."""

    def attr(self, em: Emitter, name: str, place: Any) -> Sugared:
        tritorch = public()

        if table.overloads(name):
            return BuiltinFunction(f"aten::{name}")
        return late.to_sugared(em, getattr(tritorch, name), place, name)


class _Compiled:
    """A definition as an object that names stand for."""

    def __init__(self, function: GraphFunction) -> None:
        self._graph_function = function

    def __call__(self) -> None:
        raise TypeError("definitions are compiled, not called")


@functools.cache
def _functions() -> dict[str, GraphFunction]:
    """The functions by name; each is compiled when it is first called."""
    source, tree = _read("functional.py")
    made = {}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        name = f"__torch__.torch.nn.functional.{node.name}"
        made[node.name] = function = GraphFunction(name)
        UNIT.functions[name] = function
        function._define = _filler(node, source)
    return made


def _filler(node: ast.FunctionDef, source: Source) -> Any:
    def fill(compiled: GraphFunction) -> None:
        resolver = PythonResolver(_lookup)
        declared = signature(node, source, resolver, _defaults(node))
        define(compiled, node, source, resolver, UNIT, declared)

    return fill


@late.provides
@functools.cache
def old_operators(name: str) -> tuple[GraphFunction, ...]:
    """The overloads of an operator as archives before its version in `CHANGED` meant it."""
    from tritorch.jit.frontend.upgraders import CURRENT, reading

    source, tree = _read("old_operators.py")
    plain = name.removeprefix("aten::")
    made = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.rpartition("__")[0] == plain:
            function = GraphFunction(f"__torch__.torch.old.{node.name}")
            function._define = _filler(node, source)
            with reading(CURRENT):
                function.ensure_defined()
            made.append(function)
    return tuple(made)


_OVERLOAD = re.compile(r"(.*)__\d+$")
_INDICES = "_with_indices"


@functools.cache
def _by_identity() -> dict[int, str]:
    """The names of the public functions that have definitions, by the functions' identities."""
    tritorch = public()
    from tritorch.nn import functional

    found = {}
    for name in _functions():
        overload = _OVERLOAD.match(name)
        plain = overload[1] if overload else name
        value = getattr(functional, plain, None)
        if value is not None and getattr(tritorch, plain, None) is not value:
            found[id(value)] = plain
    return found


def function_of(value: Any) -> Sugared | None:
    """The definition of a public function; None if it has none."""
    name = _by_identity().get(id(value))
    if name is None:
        return None
    known = _functions()
    if f"{name}{_INDICES}" in known:
        arguments = [a.arg for a in _nodes()[name].args.args]
        return BooleanDispatch(
            {
                "if_true": known[f"{name}{_INDICES}"],
                "if_false": known[name],
                "arg_name": "return_indices",
                "index": arguments.index("return_indices"),
                "default": False,
            }
        )
    if name in known:
        return FunctionValue(known[name])
    overloads = sorted(each for each in known if each.startswith(f"{name}__"))
    return FunctionValue(*(known[each] for each in overloads))


def _nodes() -> dict[str, ast.FunctionDef]:
    _, tree = _read("functional.py")
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


# ---- modules -------------------------------------------------------------------------------------


@functools.cache
def _classes() -> dict[str, ast.ClassDef]:
    _, tree = _read("modules.py")
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def methods_of(python: type) -> dict[str, ast.FunctionDef]:
    """The definitions of the methods of one of `torch.nn`'s classes, bases included."""
    found: dict[str, ast.FunctionDef] = {}
    for base in python.__mro__:
        if not is_library(base, "nn"):
            continue
        node = _classes().get(base.__name__)
        for each in () if node is None else node.body:
            if isinstance(each, ast.FunctionDef):
                found.setdefault(each.name, each)
    return found


def attributes_of(python: type) -> dict[str, ast.expr]:
    """The attributes that a definition declares, with the expressions of their values."""
    found: dict[str, ast.expr] = {}
    for base in python.__mro__:
        node = _classes().get(base.__name__) if is_library(base, "nn") else None
        for each in () if node is None else node.body:
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                found.setdefault(each.target.id, each.annotation)
    return found


def define_method(kind: ScriptClassType, node: ast.FunctionDef, unit: Any) -> GraphFunction:
    """A method of a module by its definition, compiled when it is needed."""
    source, _ = _read("modules.py")
    made = GraphFunction(f"{kind.qualified_name()}.{node.name}")

    def fill(compiled: GraphFunction) -> None:
        resolver = PythonResolver(_lookup)
        declared = signature(node, source, resolver, _defaults(node), self_type=kind)
        define(compiled, node, source, resolver, unit, declared, kind)

    made._define = fill
    return made
