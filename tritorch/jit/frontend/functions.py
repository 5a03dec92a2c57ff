"""Compilation of a function's definition: its signature, then its body."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from tritorch.jit.frontend import late
from tritorch.jit.frontend.annotations import broadcast_size, type_of
from tritorch.jit.frontend.emitter import Emitter
from tritorch.jit.frontend.source import NotSupportedError, Source, fail
from tritorch.jit.frontend.statements import Flow, emit_statements
from tritorch.jit.frontend.sugared import SimpleValue
from tritorch.jit.ir.function import CompilationUnit, GraphFunction
from tritorch.jit.ir.graph import Value
from tritorch.jit.ir.passes import eliminate_dead_code
from tritorch.jit.ir.types import ScriptClassType
from tritorch.schema import types
from tritorch.schema.signature import Argument, FunctionSchema
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type

_TYPE_COMMENT = re.compile(r"#\s*type:\s*(.*)$")


def parameters(
    node: ast.FunctionDef, resolver: Any, source: Source
) -> list[tuple[str, Type | None]]:
    """The names of a function's parameters with the types that are written."""
    return [
        (each.arg, None if each.annotation is None else type_of(each.annotation, resolver, source))
        for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    ]


# ---- types in comments ---------------------------------------------------------------------------


def type_comment(node: ast.FunctionDef, source: Source) -> tuple[list[str], str | None] | None:
    """The types of parameters, and of the result if it is there, in a `# type: (int) -> Tensor`
    comment."""
    lines = source.text.split("\n")
    first = node.lineno - 1
    body = next((s for s in node.body if not _is_docstring(s)), node.body[0])
    last = min(body.lineno, len(lines))
    if node.body and _is_docstring(node.body[0]):
        last = min(node.body[0].lineno, len(lines))
    each: list[str] = []
    for line in lines[first:last]:
        found = _TYPE_COMMENT.search(line)
        if found is None:
            continue
        text = found[1].strip()
        if text.startswith("ignore"):
            continue
        if text.startswith("("):
            if "->" not in text:
                return _split(text[1:-1]), None
            arguments, _, result = text.rpartition("->")
            if each:
                if arguments.strip().strip("()").replace(".", "").strip():
                    continue
                return each, result.strip()
            return _split(arguments.strip()[1:-1]), result.strip()
        each.append(text.partition("#")[0].strip())
    return None


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _split(text: str) -> list[str]:
    """Splits at commas that are in no brackets."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    parts.append(text[begin:].strip())
    return [part for part in parts if part]


def _parsed(text: str, resolver: Any, source: Source) -> Type:
    return type_of(ast.parse(text, mode="eval").body, resolver, Source(text, source.filename))


# ---- signatures ----------------------------------------------------------------------------------


class Signature:
    """The arguments that a definition declares, and the type of its result if it is written."""

    def __init__(self, arguments: list[Argument], result: Type | None) -> None:
        self.arguments, self.result = arguments, result


def signature(
    node: ast.FunctionDef,
    source: Source,
    resolver: Any,
    defaults: Mapping[str, Any],
    self_type: Type | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> Signature:
    """The declared signature.  defaults: values by name.  self_type: the type of a method's first
    parameter.  annotations: types by name that are known from elsewhere."""
    resolver.function = node.name
    spec = node.args
    if spec.vararg is not None or spec.kwarg is not None:
        raise NotSupportedError(
            source.range(node),
            "Compiled functions can't take variable number of arguments or use keyword-only "
            "arguments with defaults",
        )
    comment = type_comment(node, source)
    names = [*spec.posonlyargs, *spec.args]
    commented: dict[str, Type] = {}
    result = None if node.returns is None else type_of(node.returns, resolver, source)
    if comment is not None:
        taken = names[1:] if self_type is not None and len(comment[0]) == len(names) - 1 else names
        if len(comment[0]) != len(taken) and comment[0]:
            raise RuntimeError(
                f"Number of type annotations for function parameters ({len(comment[0])}) does not "
                f"match the number of parameters on the function ({len(taken)})!"
            )
        for each, text in zip(taken, comment[0]):
            commented[each.arg] = _parsed(text, resolver, source)
        if comment[1] is not None:
            result = _parsed(comment[1], resolver, source)
    arguments = []
    for place, each in enumerate([*names, *spec.kwonlyargs]):
        kind: Type
        size = None
        if place == 0 and self_type is not None:
            kind = self_type
        elif annotations is not None and each.arg in annotations:
            kind = annotations[each.arg]
        elif each.arg in commented:
            kind = commented[each.arg]
        elif each.annotation is not None:
            kind = type_of(each.annotation, resolver, source)
            size = broadcast_size(each.annotation)
        else:
            kind = TensorType.get()
        default = defaults.get(each.arg, Argument.NO_DEFAULT)
        if default is not Argument.NO_DEFAULT:
            if size is not None and isinstance(default, (int, float)):
                default = [default] * size
            default = _fitting(default, kind, each.arg, node.name)
        arguments.append(
            Argument._make(each.arg, kind, kind, size, default, each in spec.kwonlyargs, None)
        )
    if annotations is not None and "return" in annotations:
        result = annotations["return"]
    return Signature(arguments, result)


def _fitting(value: Any, kind: Type, name: str, function: str) -> Any:
    """A default of the argument's type."""
    inner = kind.getElementType() if isinstance(kind, types.OptionalType) else kind
    if isinstance(inner, types.FloatType) and type(value) is int:
        return float(value)
    if isinstance(inner, types.ListType) and isinstance(value, tuple):
        return list(value)
    if value is None and not types.NoneType.get().isSubtypeOf(kind):
        raise RuntimeError(
            f'Expected a default value of type {kind.annotation_str} on parameter "{name}".'
        )
    if isinstance(inner, TensorType) and isinstance(value, (bool, int, float, str)):
        kinds = f'Expected a default value of type Tensor (inferred) on parameter "{name}".'
        raise RuntimeError(
            kinds + 'Because "' + name + '" was not annotated with an explicit type it is '
            "assumed to be type 'Tensor'."
        )
    return value


# ---- bodies --------------------------------------------------------------------------------------


def compile_body(em: Emitter, node: ast.FunctionDef) -> Type:
    """Emits the statements, and registers the result.  Gives its type."""
    flow = emit_statements(em, node.body)
    place = em.source.range(node)
    declared = em.return_type
    if flow is Flow.THROWS and em.returned is None:
        kind = declared or types.NoneType.get()
        value: Value = em.uninitialized(kind) if declared is not None else em.const(None)
        em.graph.registerOutput(value)
        return kind
    if flow in (Flow.EXITS, Flow.THROWS):
        result = em.env.find("$result")
        value = em.uninitialized(em.returned) if result is None else result.value  # type: ignore[arg-type]
    elif em.returned is None or isinstance(em.returned, types.NoneType):
        if declared is not None and not types.NoneType.get().isSubtypeOf(declared):
            fail(
                place,
                "Function was not annotated as having type None, but does not return along all "
                "paths",
            )
        value = em.const(None)
    else:
        fail(
            place,
            "Function was not annotated as having type None, but does not return along all paths",
        )
    em.graph.registerOutput(value)
    eliminate_dead_code(em.graph)
    return declared or value._type


def define(
    function: GraphFunction,
    node: ast.FunctionDef,
    source: Source,
    resolver: Any,
    unit: CompilationUnit,
    declared: Signature,
    self_type: ScriptClassType | None = None,
) -> None:
    """Fills in a function's graph and signature."""
    em = Emitter(unit, function, source, resolver, self_type=self_type)
    em.is_init = self_type is not None and node.name == "__init__" and not self_type.is_module_type
    em.return_type = declared.result
    if declared.result is not None:
        # A function that says what it returns can be called while its body is compiled.
        function.schema = _schema(function, declared.arguments, declared.result)
    em.graph._source = source.range(node)
    for argument in declared.arguments:
        value = em.graph.addInput(argument.name).setType(argument.type)
        em.env.names[argument.name] = SimpleValue(value)
        em.env.types[argument.name] = argument.type
    result = compile_body(em, node)
    function.graph = em.graph
    function.schema = _schema(function, declared.arguments, result)
    function.doc = ast.get_docstring(node, clean=False) or ""


def _schema(function: GraphFunction, arguments: list[Argument], result: Type) -> FunctionSchema:
    returns = [Argument._make("", result, result, None, Argument.NO_DEFAULT, False, None)]
    return FunctionSchema(function.name, "", arguments, returns, False, False)


late.provides(compile_body)
late.provides(parameters)
