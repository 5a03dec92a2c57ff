"""Methods that `dataclasses` makes, as TorchScript source."""

from __future__ import annotations

import ast
import dataclasses
from typing import Any

from tritorch.jit.frontend.functions import define, signature
from tritorch.jit.frontend.python import MISSING, UNIT, PythonResolver
from tritorch.jit.frontend.source import Source
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.types import ScriptClassType


def add(kind: ScriptClassType, python: type, names: dict[str, Any]) -> None:
    """Adds `__init__`, `__eq__` and, if ordered, the comparisons of a dataclass."""
    import inspect

    fields = dataclasses.fields(python)
    module = vars(inspect.getmodule(python) or inspect)
    visible = dict(names)
    if "__init__" not in vars(python) or not _has_own(python, "__init__"):
        _define(kind, *_init(fields, visible, hasattr(python, "__post_init__")), visible, module)
    options = python.__dataclass_params__  # type: ignore[attr-defined]
    name = python.__name__
    if options.eq and not _has_own(python, "__eq__"):
        compared = [f.name for f in fields if f.compare]
        test = " and ".join(f"self.{n} == other.{n}" for n in compared) or "True"
        text = f"def __eq__(self, other: {name}) -> bool:\n    return {test}\n"
        _define(kind, "__eq__", text, {}, visible, module)
    if options.order:
        for method, sign in (("__lt__", "<"), ("__le__", "<="), ("__gt__", ">"), ("__ge__", ">=")):
            if not _has_own(python, method):
                _define(kind, method, _order(fields, name, method, sign), {}, visible, module)


def _has_own(python: type, name: str) -> bool:
    """Tells if a class's source defines a method."""
    function = vars(python).get(name)
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename != "<string>"


def _init(fields: Any, visible: dict[str, Any], has_post: bool) -> tuple[str, str, dict[str, Any]]:
    parameters, lines, defaults = [], [], {}
    for field in fields:
        ann = f"$type_{field.name}".replace("$", "_")
        visible[ann] = field.type
        shown = field.type if isinstance(field.type, str) else ann
        if field.default_factory is not dataclasses.MISSING:
            raise NotImplementedError(
                "Default factory initializers are not supported in TorchScript dataclasses"
            )
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
        is_only = isinstance(field.type, dataclasses.InitVar)
        if is_only:
            visible[ann] = field.type.type
        parameters.append(f"{field.name}: {shown}" + (" = 0" if field.name in defaults else ""))
        if not is_only:
            lines.append(f"    self.{field.name} = {field.name}")
    if has_post:
        lines.append("    self.__post_init__()")
    body = "\n".join(lines) or "    pass"
    return "__init__", f"def __init__(self, {', '.join(parameters)}) -> None:\n{body}\n", defaults


def _order(fields: Any, name: str, method: str, sign: str) -> str:
    lines = [f"def {method}(self, other: {name}) -> bool:"]
    strict = sign[0]
    for field in fields:
        if field.compare:
            lines.append(f"    if self.{field.name} {strict} other.{field.name}:")
            lines.append("        return True")
            lines.append(f"    elif self.{field.name} != other.{field.name}:")
            lines.append("        return False")
    lines.append(f"    return {'True' if '=' in sign else 'False'}")
    return "\n".join(lines) + "\n"


def _define(
    kind: ScriptClassType,
    name: str,
    text: str,
    defaults: dict[str, Any],
    visible: dict[str, Any],
    module: Any,
) -> None:
    made = GraphFunction(f"{kind.qualified_name()}.{name}")
    source = Source(text, "<dataclass>")
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)

    def fill(compiled: GraphFunction) -> None:
        resolver = PythonResolver(lambda n: module.get(n, MISSING), visible)
        declared = signature(node, source, resolver, defaults, self_type=kind)
        define(compiled, node, source, resolver, UNIT, declared, kind)

    made._define = fill
    kind.methods[name] = made
