"""Methods that `dataclasses` makes, as TorchScript source."""

from __future__ import annotations

import ast
import dataclasses
import typing
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
        lines = [f"def __eq__(self, other: {name}) -> bool:"]
        unequal = ["if A != B:", "    return False"]
        lines += _compared(python, unequal, "return False")
        text = "\n".join([*lines, "    return True"]) + "\n"
        _define(kind, "__eq__", text, {}, visible, module)
    if options.order:
        for method, sign in (("__lt__", "<"), ("__le__", "<="), ("__gt__", ">"), ("__ge__", ">=")):
            if not _has_own(python, method):
                _define(kind, method, _order(python, method, sign), {}, visible, module)


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


def _compared(python: type, decide: list[str], one_is_none: str) -> list[str]:
    """Lines that compare each field, A with B; an Optional field only where both are given."""
    hints = _hints(python)
    lines = []
    for n, field in enumerate(f for f in dataclasses.fields(python) if f.compare):
        a, b = f"a{n}", f"b{n}"  # variables of their own: each has its field's type
        decided = [line.replace("A", a).replace("B", b) for line in decide]
        lines += [f"    {a} = self.{field.name}", f"    {b} = other.{field.name}"]
        if type(None) in typing.get_args(hints.get(field.name)):
            lines.append(f"    if {a} is not None and {b} is not None:")
            lines += [f"        {line}" for line in decided]
            lines += [f"    elif ({a} is None) != ({b} is None):", f"        {one_is_none}"]
        else:
            lines += [f"    {line}" for line in decided]
    return lines


def _hints(python: type) -> dict[str, Any]:
    """Types of fields; as written where a name in them is only known to the caller's frame."""
    try:
        return typing.get_type_hints(python)
    except NameError:
        return {field.name: field.type for field in dataclasses.fields(python)}


def _order(python: type, method: str, sign: str) -> str:
    name, strict = python.__name__, sign[0]
    decide = [f"if A {strict} B:", "    return True", f"elif B {strict} A:", "    return False"]
    refuse = f"raise TypeError('Cannot compare {name} with None')"
    lines = [f"def {method}(self, other: {name}) -> bool:", *_compared(python, decide, refuse)]
    return "\n".join([*lines, f"    return {'=' in sign}"]) + "\n"


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
