"""TorchScript source of archives and of `CompilationUnit`: its names, functions and classes.

Nothing of a source runs as Python: it is parsed, and compiled to graphs.  `Limits` bounds what a
source may cost.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from tritorch.jit.frontend.annotations import type_of
from tritorch.jit.frontend.emitter import Emitter
from tritorch.jit.frontend.functions import define, signature
from tritorch.jit.frontend.globals import builtin_name
from tritorch.jit.frontend.python_values import constant_value, of_type
from tritorch.jit.frontend.source import Source, fail
from tritorch.jit.frontend.sugared import (
    BuiltinFunction,
    CastFunction,
    FunctionValue,
    SimpleValue,
    SpecialForm,
    Sugared,
)
from tritorch.jit.ir.function import CompilationUnit, GraphFunction
from tritorch.jit.ir.types import (
    InterfaceType,
    NamedTupleType,
    ScriptClassType,
    ScriptEnumType,
)
from tritorch.schema import types
from tritorch.schema.infer import infer_type
from tritorch.schema.signature import Argument, FunctionSchema
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type

MAX_SOURCE = 64 << 20  # characters of one source
_MAX_NESTING = 150
_SPECIAL = {"annotate", "unchecked_cast", "uninitialized", "fork", "awaitable"}
_NUMBERS = {"inf": float("inf"), "nan": float("nan"), "infj": complex(0, float("inf")),
            "nanj": complex(0, float("nan"))}  # fmt: skip


def parse(text: str) -> ast.Module:
    """The syntax tree of a source; RuntimeError of one that is malformed or nested without end."""
    if len(text) > MAX_SOURCE:
        raise RuntimeError(f"the source has {len(text)} characters, at most {MAX_SOURCE} are read")
    _check_nesting(text)
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RuntimeError(f"TorchScript source cannot be parsed: {error}") from None


def _check_nesting(text: str) -> None:
    """Refuses brackets and chains of signs that a recursive parser could not follow."""
    depth = run = 0
    for letter in text:
        if letter in "([{":
            depth += 1
            if depth > _MAX_NESTING:
                raise RuntimeError("TorchScript source is nested too deeply")
        elif letter in ")]}":
            depth -= 1
        run = run + 1 if letter in "-~+*" else 0
        if run > _MAX_NESTING:
            raise RuntimeError("TorchScript source is nested too deeply")


# ---- namespaces ----------------------------------------------------------------------------------


class TorchNamespace(Sugared):
    """`torch` in a source: the operators of ATen, and the modules that hold others."""

    def attr(self, em: Emitter, name: str, place: Any) -> Sugared:
        if name == "device":
            return CastFunction("aten::device", types.DeviceObjType.get())
        if name in ("classes", "jit", "nn"):
            return PathNamespace(f"torch.{name}")
        return BuiltinFunction(f"aten::{name}")


class OpsNamespace(Sugared):
    """`ops.<namespace>.<operator>` in a source."""

    def __init__(self, space: str | None = None) -> None:
        self.space = space

    def attr(self, em: Emitter, name: str, place: Any) -> Sugared:
        if self.space is None:
            return OpsNamespace(name)
        if self.space == "prim" and name in _PRIM:
            return _PRIM[name]
        return BuiltinFunction(f"{self.space}::{name}")


class RaiseOperator(Sugared):
    """`ops.prim.RaiseException(message[, class])`."""

    def call(self, em: Emitter, args: Any, kwargs: Any, place: Any) -> Sugared:
        if not 1 <= len(args) <= 2:
            fail(place, "RaiseException takes a message and a class")
        kind = args[1].toIValue() if len(args) > 1 else None
        name = kind if isinstance(kind, str) else "torch.jit.Error"
        inputs = [args[0], em.const(name.removeprefix("builtins."))]
        em.graph.insert("prim::RaiseException", inputs, 0)
        return SimpleValue(em.const(None))


class UnwrapOperator(Sugared):
    """`ops.prim.unchecked_unwrap_optional(x)` and `ops.aten._unwrap_optional(x)`."""

    def call(self, em: Emitter, args: Any, kwargs: Any, place: Any) -> Sugared:
        (value,) = args
        kind = value._type
        inner = kind.getElementType() if isinstance(kind, types.OptionalType) else kind
        return SimpleValue(em.cast(value, inner))


_PRIM: dict[str, Sugared] = {
    "RaiseException": RaiseOperator(),
    "unchecked_unwrap_optional": UnwrapOperator(),
}


class PathNamespace(Sugared):
    """A dotted path whose meaning is not complete yet."""

    def __init__(self, path: str) -> None:
        self.path = path

    def attr(self, em: Emitter, name: str, place: Any) -> Sugared:
        path = f"{self.path}.{name}"
        found = em.resolver.resolve_dotted(em, path, place)
        return PathNamespace(path) if found is None else found

    def describe(self) -> str:
        """The path."""
        return self.path


class ConstantsNamespace(Sugared):
    """`CONSTANTS.cN`: the constants that are kept beside a source."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def attr(self, em: Emitter, name: str, place: Any) -> Sugared:
        if name[:1] != "c" or not name[1:].isdigit() or int(name[1:]) >= len(self.values):
            fail(place, f"invalid constant specifier: {name}")
        value = self.values[int(name[1:])]
        if isinstance(value, (list, tuple, dict)):
            return constant_value(em, value, place)
        found = infer_type(value)
        kind = found.type() if found.success() else types.AnyType.get()
        if isinstance(kind, TensorType):
            kind = TensorType.get()
        return SimpleValue(em.const(value, kind))


class TextResolver:
    """The names of a source.

    find: the type or function of a qualified name, or None.  names: other names.
    """

    def __init__(
        self,
        find: Callable[[str], Any],
        constants: list[Any] | None = None,
        names: Mapping[str, Sugared] | None = None,
        outer: Any = None,
    ) -> None:
        """outer: the resolver of names that the source does not define."""
        self.find, self.outer = find, outer
        self.names: dict[str, Sugared] = {
            "torch": TorchNamespace(), "ops": OpsNamespace(),
            "CONSTANTS": ConstantsNamespace([] if constants is None else constants),
            "__torch__": PathNamespace("__torch__"), **(names or {}),
        }  # fmt: skip

    def resolve(self, em: Emitter, name: str, place: Any) -> Sugared | None:
        """The meaning of a name."""
        if name in _SPECIAL:
            return SpecialForm(name)
        if name in _NUMBERS:
            return SimpleValue(em.const(_NUMBERS[name]))
        found = self.find(name)
        if isinstance(found, GraphFunction):
            return FunctionValue(found)
        if found is not None:
            return of_type(found)
        if self.outer is not None:
            outer = self.outer.resolve(em, name, place)
            if outer is not None:
                return outer
        if name in self.names:
            return self.names[name]
        return builtin_name(name)

    def resolve_dotted(self, em: Emitter, dotted: str, place: Any) -> Sugared | None:
        """The class or function of a qualified name; None of others."""
        if not dotted.startswith("__torch__."):
            return None
        found = self.find(dotted)
        if found is None:
            return None
        return FunctionValue(found) if isinstance(found, GraphFunction) else of_type(found)

    def resolve_type(self, name: str) -> Type | None:
        """The type of a qualified name; None of others."""
        if name.startswith("__torch__.torch.classes."):
            return types.ClassType(name)
        found = self.find(name)
        if isinstance(found, Type):
            return found
        if found is None and self.outer is not None:
            return self.outer.resolve_type(name)
        return None

    def resolve_types(self, name: str) -> list[Any] | None:
        """None: a source names single types."""
        return None

    def generic(self, name: str) -> str | None:
        """None: generic types have their own names in a source."""
        return None if self.outer is None else self.outer.generic(name)


# ---- definitions ---------------------------------------------------------------------------------


def default_of(node: ast.expr, resolver: TextResolver) -> Any:
    """The value of a default or a constant: a literal, inf, nan, a constant of the table."""
    if isinstance(node, ast.Name) and node.id in _NUMBERS:
        return _NUMBERS[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -default_of(node.operand, resolver)
    if isinstance(node, (ast.List, ast.Tuple)):
        values = [default_of(each, resolver) for each in node.elts]
        return values if isinstance(node, ast.List) else tuple(values)
    if isinstance(node, ast.Dict):
        return {
            default_of(k, resolver): default_of(v, resolver)
            for k, v in zip(node.keys, node.values)
            if k is not None
        }
    if isinstance(node, ast.Attribute):
        owner = node.value
        if isinstance(owner, ast.Name) and owner.id == "CONSTANTS":
            values = resolver.names["CONSTANTS"].values  # type: ignore[attr-defined]
            at = int(node.attr[1:])
            return values[at]
        kind = resolver.resolve_type(ast.unparse(owner))
        if isinstance(kind, ScriptEnumType):
            return kind.python[node.attr]
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        if name == "annotate" and len(node.args) == 2:
            return default_of(node.args[1], resolver)
        if name == "torch.device" and len(node.args) == 1:
            from tritorch.core.device import device

            return device(default_of(node.args[0], resolver))
        if name == "complex":
            return complex(*(default_of(each, resolver) for each in node.args))
    if isinstance(node, ast.Constant):
        return node.value
    raise RuntimeError(f"{ast.unparse(node)[:200]} is no constant")


def _defaults(node: ast.FunctionDef, resolver: TextResolver) -> dict[str, Any]:
    arguments = [*node.args.posonlyargs, *node.args.args]
    tail = arguments[len(arguments) - len(node.args.defaults) :]
    found = {a.arg: default_of(d, resolver) for a, d in zip(tail, node.args.defaults)}
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults):
        if default is not None:
            found[argument.arg] = default_of(default, resolver)
    return found


def function(
    node: ast.FunctionDef,
    name: str,
    source: Source,
    resolver: TextResolver,
    unit: CompilationUnit,
    receiver: ScriptClassType | None = None,
) -> GraphFunction:
    """A function of a source, compiled when it is needed."""
    made = GraphFunction(name)

    def fill(compiled: GraphFunction) -> None:
        declared = signature(node, source, resolver, _defaults(node, resolver), self_type=receiver)
        define(compiled, node, source, resolver, unit, declared, receiver)

    made._define = fill
    return made


def class_type(
    node: ast.ClassDef, name: str, source: Source, resolver: TextResolver, unit: CompilationUnit
) -> Any:
    """A type that a source declares: it is kept in the unit before its parts are read."""
    base = node.bases[0] if node.bases else None
    kind = base.id if isinstance(base, ast.Name) else ""
    if kind == "NamedTuple":
        return _named_tuple(node, name, source, resolver, unit)
    if kind in ("Interface", "ModuleInterface"):
        return _interface(node, name, source, resolver, unit, kind == "ModuleInterface")
    if kind == "Enum":
        return _enum(node, name, resolver, unit)
    if kind not in ("", "Module"):
        fail(source.range(node), f"Torchscript does not support class inheritance from {kind}")
    return _class(node, name, source, resolver, unit, kind == "Module")


def _class(
    node: ast.ClassDef,
    name: str,
    source: Source,
    resolver: TextResolver,
    unit: CompilationUnit,
    is_module: bool,
) -> ScriptClassType:
    made = ScriptClassType(name, is_module)
    unit.types[name] = made
    parameters: set[str] = set()
    buffers: set[str] = set()
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            target = statement.targets[0].id
            if target == "__parameters__":
                parameters = set(default_of(statement.value, resolver))
            elif target == "__buffers__":
                buffers = set(default_of(statement.value, resolver))
    for statement in node.body:
        found = _attribute(statement)
        if found is None:
            continue
        attribute, annotation, value = found
        if _is_final(annotation) and value is not None:
            try:
                made.constants[attribute] = default_of(value, resolver)
            except RuntimeError:
                made.constants[attribute] = None
            continue
        kind = type_of(annotation, resolver, source)
        if attribute == "_packed_params" and isinstance(kind, TensorType):
            kind = _packed(name) or kind
        made.add_attribute(attribute, kind, attribute in parameters, attribute in buffers)
    defined: dict[str, GraphFunction] = {}
    hooks: dict[str, list[str]] = {"__forward_hooks__": [], "__forward_pre_hooks__": []}
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef):
            method = function(statement, f"{name}.{statement.name}", source, resolver, unit, made)
            defined[statement.name] = method
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            if statement.targets[0].id in hooks:
                hooks[statement.targets[0].id] = default_of(statement.value, resolver)
    made.forward_hooks = [defined[each] for each in hooks["__forward_hooks__"]]
    made.forward_pre_hooks = [defined[each] for each in hooks["__forward_pre_hooks__"]]
    named = {each for names in hooks.values() for each in names}
    made.methods |= {each: method for each, method in defined.items() if each not in named}
    return made


def _packed(name: str) -> Type | None:
    """The type of packed parameters in a quantized layer of old archives, which call them tensors;
    None in other classes."""
    if ".quantized." not in name:
        return None
    for part, kind in (("Linear", "Linear"), ("Conv2d", "Conv2d"), ("Conv3d", "Conv3d"),
                       ("ConvReLU2d", "Conv2d"), ("ConvReLU3d", "Conv3d")):  # fmt: skip
        if name.rpartition(".")[2].startswith(part):
            return types.ClassType(f"__torch__.torch.classes.quantized.{kind}PackedParamsBase")
    return None


def _is_final(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "Final"
    )


def _attribute(statement: ast.stmt) -> tuple[str, ast.expr, ast.expr | None] | None:
    """An attribute's name, type and value: `name : T` and `__annotations__["name"] = T`."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id, statement.annotation, statement.value
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        if (
            isinstance(target, ast.Subscript)
            and isinstance(target.value, ast.Name)
            and target.value.id == "__annotations__"
            and isinstance(target.slice, ast.Constant)
        ):
            if isinstance(statement, ast.AnnAssign):
                return str(target.slice.value), statement.annotation, statement.value
            return str(target.slice.value), statement.value, None
    return None


def _named_tuple(
    node: ast.ClassDef, name: str, source: Source, resolver: TextResolver, unit: CompilationUnit
) -> NamedTupleType:
    fields, elements, defaults = [], [], []
    for statement in node.body:
        found = _attribute(statement)
        if found is None:
            continue
        fields.append(found[0])
        elements.append(type_of(found[1], resolver, source))
        if found[2] is not None:
            defaults.append(default_of(found[2], resolver))
    for field in fields:
        if not field.isidentifier() or field.startswith("_"):
            raise RuntimeError(f"{field!r} cannot be a field of a named tuple")
    made = NamedTupleType(name, fields, elements, defaults)
    unit.types[name] = made
    return made


def _interface(
    node: ast.ClassDef, name: str, source: Source, resolver: TextResolver, unit: CompilationUnit,
    is_module: bool,
) -> InterfaceType:  # fmt: skip
    made = InterfaceType(name, is_module)
    unit.types[name] = made
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef):
            declared = signature(
                statement, source, resolver, _defaults(statement, resolver), self_type=made
            )
            result = declared.result or TensorType.get()
            returns = [Argument._make("", result, result, None, Argument.NO_DEFAULT, False, None)]
            made.schemas[statement.name] = FunctionSchema(
                statement.name, "", declared.arguments, returns, False, False
            )
    return made


def _enum(
    node: ast.ClassDef, name: str, resolver: TextResolver, unit: CompilationUnit
) -> ScriptEnumType:
    members: dict[str, Any] = {}
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            members[statement.targets[0].id] = default_of(statement.value, resolver)
    kinds = [infer_type(value) for value in members.values()]
    if not kinds or not kinds[0].success():
        raise RuntimeError(f"enumeration {name} has no values that TorchScript knows")
    made = ScriptEnumType(name, kinds[0].type(), members)
    unit.types[name] = made
    return made


def define_functions(
    unit: CompilationUnit, text: str, lookup: Callable[[str], Any] | None = None, prefix: str = ""
) -> list[GraphFunction]:
    """Adds the functions of a source to a unit."""
    import textwrap

    from tritorch.jit.frontend.python import PythonResolver

    plain = textwrap.dedent(text)
    source = Source(plain, None)
    outer = None if lookup is None else PythonResolver(lookup)
    made = []

    def find(name: str) -> Any:
        return unit.functions.get(f"{prefix}{name}") or unit.types.get(name)

    resolver = TextResolver(find, outer=outer)
    for node in parse(plain).body:
        if isinstance(node, ast.FunctionDef):
            each = function(node, f"{prefix}{node.name}", source, resolver, unit)
            unit.functions[each.qualified_name] = each
            made.append(each)
        elif isinstance(node, ast.ClassDef):
            class_type(node, node.name, source, resolver, unit)
    for each in made:
        each.ensure_defined()
    return made


def define_methods(
    kind: ScriptClassType, text: str, lookup: Callable[[str], Any] | None = None
) -> None:
    """Adds the methods of a source to a class."""
    import textwrap

    from tritorch.jit.frontend.python import UNIT, PythonResolver

    plain = textwrap.dedent(text)
    source = Source(plain, None)
    outer = None if lookup is None else PythonResolver(lookup)
    resolver = TextResolver(lambda name: None, outer=outer)
    made = []
    for node in parse(plain).body:
        if isinstance(node, ast.FunctionDef):
            method = function(
                node, f"{kind.qualified_name()}.{node.name}", source, resolver, UNIT, kind
            )
            kind.methods[node.name] = method
            made.append(method)
    for method in made:
        method.ensure_defined()
