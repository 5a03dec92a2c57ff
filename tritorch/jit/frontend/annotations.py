"""Types that annotations name: as syntax, and as objects of Python."""

from __future__ import annotations

import ast
import inspect
import re
import types as python_types
import typing
from typing import Any

from tritorch.core.device import device
from tritorch.core.dtype import dtype
from tritorch.core.generator import Generator
from tritorch.core.layout import layout, memory_format, qscheme
from tritorch.core.streams import Stream
from tritorch.jit._sources import referring
from tritorch.jit.frontend import late
from tritorch.jit.frontend.source import Source, fail
from tritorch.schema import types
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type

_PLAIN: dict[str, Any] = {
    "Tensor": TensorType, "int": types.IntType, "float": types.FloatType, "bool": types.BoolType,
    "complex": types.ComplexType, "str": types.StringType, "Device": types.DeviceObjType,
    "number": types.NumberType, "Scalar": types.NumberType, "None": types.NoneType,
    "NoneType": types.NoneType, "Any": types.AnyType, "Stream": types.StreamObjType,
    "Generator": types.GeneratorType, "Capsule": types.CapsuleType, "PyObject": types.PyObjectType,
    "QScheme": types.QSchemeType, "AnyClassType": types.AnyClassType,
    "AnyEnumType": types.AnyEnumType, "Layout": types.IntType, "MemoryFormat": types.IntType,
    "ScalarType": types.IntType, "Storage": types.StorageType,
}  # fmt: skip
_GENERIC = {"List", "Dict", "Tuple", "Optional", "Union", "Future", "RRef", "Await", "Final"}
_LOWER = {"list": "List", "dict": "Dict", "tuple": "Tuple"}
_MODULES = {"typing", "torch", "tritorch", "typing_extensions", "T", "t", "builtins"}
_BROADCAST = re.compile(r"BroadcastingList(\d)$")
_SIZE = re.compile(r"(?:.*\.)?_size_(\d)_t$")


def plain(name: str) -> Type | None:
    """The type of a name without parts; None if it is none of TorchScript's."""
    found = _PLAIN.get(name)
    return None if found is None else found.get()


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None


def type_of(node: ast.expr, resolver: Any, source: Source) -> Type:
    """The type that an annotation names."""
    if isinstance(node, ast.Constant):
        if node.value is None:
            return types.NoneType.get()
        if isinstance(node.value, str):
            inner = ast.parse(node.value.strip(), mode="eval").body
            return type_of(inner, resolver, Source(node.value, source.filename))
    if isinstance(node, ast.Subscript):
        return _generic(node, resolver, source)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return types.UnionType(
            [type_of(node.left, resolver, source), type_of(node.right, resolver, source)]
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type":
        return types.NoneType.get()  # type(None)
    if isinstance(node, ast.Tuple) and not node.elts:
        return types.TupleType([])
    name = _dotted(node)
    if name is None:
        fail(source.range(node), "Expression of type is not a valid type annotation")
    if _SIZE.match(name):
        return types.ListType(types.IntType.get())
    with referring(getattr(resolver, "function", ""), source.range(node)):
        found = resolver.resolve_type(name)
    if found is None:
        last = name.rpartition(".")[2]
        found = plain(name) or (plain(last) if name.partition(".")[0] in _MODULES else None)
        if name in ("torch.device", "device"):
            found = types.DeviceObjType.get()
        if name in ("torch.dtype", "torch.layout", "torch.memory_format", "torch.qscheme"):
            found = types.IntType.get()
    if found is None:
        if name in ("list", "List", "dict", "Dict", "tuple", "Tuple", "Optional", "Union"):
            _without_parts(name)
        fail(source.range(node), f"Unknown type name '{name}'")
    return found


def _without_parts(name: str) -> None:
    from tritorch.jit.internals import (
        raise_error_container_parameter_missing,
    )

    raise_error_container_parameter_missing(_LOWER.get(name, name))


def _generic(node: ast.Subscript, resolver: Any, source: Source) -> Type:
    name = _dotted(node.value)
    last = "" if name is None else _LOWER.get(name, name.rpartition(".")[2])
    known = resolver.generic(name) if name is not None else None
    last = known or last
    inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if last not in _GENERIC and not _BROADCAST.match(last):
        found = resolver.resolve_type(ast.unparse(node))
        if found is not None:
            return found
        fail(source.range(node), f"Unknown type constructor {name}")
    if last == "Tuple" and len(inside) == 1 and isinstance(inside[0], ast.Tuple):
        return types.TupleType([])
    parts = [type_of(each, resolver, source) for each in inside]
    if isinstance(node.slice, ast.Tuple) and not node.slice.elts:
        parts = []
    return _made(last, parts)


def _made(name: str, parts: list[Type]) -> Type:
    """The generic type of a name, of these parts."""
    if name == "List" or _BROADCAST.match(name):
        return types.ListType(*parts)
    if name == "Dict":
        return types.DictType(*parts)
    if name == "Tuple":
        return types.TupleType(parts)
    if name == "Optional":
        if isinstance(parts[0], types.UnionType):
            return types.UnionType([*parts[0].containedTypes(), types.NoneType.get()])
        return types.OptionalType(*parts)
    if name == "Union":
        return parts[0] if len(parts) == 1 else types.UnionType(parts)
    if name == "Future":
        return types.FutureType(*parts)
    if name == "RRef":
        return types.RRefType(*parts)
    if name == "Await":
        return types.AwaitType(*parts)
    return parts[0]  # Final


def types_of(node: ast.expr, resolver: Any, source: Source) -> list[Any]:
    """The types of `isinstance`'s second argument; "ListType" and its like for any list."""
    if isinstance(node, ast.Tuple):
        return [each for part in node.elts for each in types_of(part, resolver, source)]
    name = _dotted(node)
    kinds = {"list": "ListType", "tuple": "TupleType", "dict": "DictType", "List": "ListType",
             "Tuple": "TupleType", "Dict": "DictType"}  # fmt: skip
    if name in kinds and resolver.resolve_type(name) is None:
        return [kinds[name]]
    if name is not None:
        several = resolver.resolve_types(name)
        if several is not None:
            return list(several)
    return [type_of(node, resolver, source)]


# ---- objects of Python ---------------------------------------------------------------------------


def broadcast_size(node: ast.expr | None) -> int | None:
    """The size of a BroadcastingList's annotation, optional or not; None of others."""
    if isinstance(node, ast.Subscript):
        name = _dotted(node.value) or ""
        if name.rpartition(".")[2] == "Optional":
            return broadcast_size(node.slice)
        found = _BROADCAST.search(name)
        return int(found[1]) if found else None
    found = None if node is None else _SIZE.match(_dotted(node) or "")
    return int(found[1]) if found else None


def _plain_object(ann: Any) -> Type | None:
    from tritorch.core.tensor import Tensor

    table: list[tuple[Any, Any]] = [
        (None, types.NoneType), (type(None), types.NoneType), (Tensor, TensorType),
        (int, types.IntType), (float, types.FloatType), (complex, types.ComplexType),
        (bool, types.BoolType), (str, types.StringType), (device, types.DeviceObjType),
        (dtype, types.IntType), (layout, types.IntType),
        (memory_format, types.IntType), (qscheme, types.IntType), (Generator, types.GeneratorType),
        (Any, types.AnyType), (Stream, types.StreamObjType),
    ]  # fmt: skip
    for python, ours in table:
        if ann is python:
            return ours.get()
    if inspect.isclass(ann) and issubclass(ann, Tensor) and ann is not Tensor:
        return TensorType.get() if ann.__name__ in ("Parameter", "Buffer") else None
    return None


def type_of_object(ann: Any) -> Type | None:
    """The type that an annotation object stands for; None if it is none of TorchScript's."""
    from tritorch.futures import Future
    from tritorch.jit import internals as internal

    found = _plain_object(ann)
    if found is not None:
        return found
    if isinstance(ann, Type):
        return ann
    if isinstance(ann, str):
        return None
    origin, args = typing.get_origin(ann), typing.get_args(ann)
    if any(ann is each for each in (list, dict, tuple, typing.List, typing.Dict, typing.Tuple,  # noqa: UP006
                                    typing.Optional, typing.Union, Future)):  # fmt: skip
        name = getattr(ann, "__name__", None) or str(ann).rpartition(".")[2]
        internal.raise_error_container_parameter_missing(name.capitalize())
    if origin is typing.Final:
        return type_of_object(args[0]) if args else None
    if origin is tuple:
        if args == ((),):
            return types.TupleType([])
        return _of_parts("Tuple", args)
    if origin is list:
        return _of_parts("List", args)
    if origin is dict:
        return _of_parts("Dict", args)
    if origin in (typing.Union, python_types.UnionType):
        if len(args) == 2 and type(None) in args:
            other = args[0] if args[1] is type(None) else args[1]
            return _of_parts("Optional", (other,))
        return _of_parts("Union", args)
    if origin is Future:
        return _of_parts("Future", args)
    if internal.is_await(ann):
        return _of_parts("Await", args)
    if inspect.isclass(ann):
        return late.type_of_class(ann)
    return None


def _of_parts(name: str, args: Any) -> Type | None:
    parts = [type_of_object(each) for each in args]
    return None if None in parts else _made(name, parts)  # type: ignore[arg-type]
