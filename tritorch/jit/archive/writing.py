"""Writing of archives, which PyTorch loads."""

from __future__ import annotations

import contextlib
import io
import os
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tritorch.core.device import device as Device
from tritorch.core.tensor import Tensor
from tritorch.jit.archive.code import CodePrinter
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.graph import Block
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.ir.types import (
    InterfaceType,
    NamedTupleType,
    ScriptClassType,
    ScriptEnumType,
)
from tritorch.jit.run.executor import runner
from tritorch.ops.quantized.packed import ScriptObject
from tritorch.schema import types
from tritorch.schema.infer import infer_type
from tritorch.schema.parser import parse_schema
from tritorch.schema.types import Type
from tritorch.serialization.archive import ArchiveWriter
from tritorch.serialization.atomic import atomic_writer
from tritorch.serialization.pickler import Storages
from tritorch.serialization.rebuild import reduce_quantized
from tritorch.serialization.saving import bytes_of, write_all

_VERSION = 3  # of archives whose operators mean what they always meant


class _Sources:
    """The source files of an archive: definitions in the order in which they need each other."""

    def __init__(self) -> None:
        self.constants: list[Any] = []
        self.files: dict[str, list[str]] = {}
        self.version = _VERSION
        self._done: set[int] = set()
        self._names: dict[str, Any] = {}

    def add(self, thing: Any) -> None:
        """Writes a class or function, and before it what it needs."""
        if id(thing) in self._done:
            return
        self._done.add(id(thing))
        self._names[_qualified(thing)] = thing
        needed: list[Any] = []
        printer = CodePrinter(self.constants, needed.append)
        _write(printer, thing)
        self.version = max(self.version, printer.version)
        for each in needed:
            self.add(each)
        name = _qualified(thing)
        if not name.startswith("__torch__.torch.classes."):
            self.files.setdefault(name.rpartition(".")[0], []).append(printer.text())

    def texts(self) -> dict[str, str]:
        """The sources by the names of their records."""
        return {
            f"code/{qualifier.replace('.', '/')}.py": "".join(parts)
            for qualifier, parts in self.files.items()
        }


def _qualified(thing: Any) -> str:
    if isinstance(thing, GraphFunction):
        return thing.qualified_name
    return thing.qualified_name()


def _write(printer: CodePrinter, thing: Any) -> None:
    if isinstance(thing, GraphFunction):
        printer.function(thing)
    elif isinstance(thing, ScriptClassType):
        _write_class(printer, thing)
    elif isinstance(thing, NamedTupleType):
        printer.line(f"class {thing.name()}(NamedTuple):")
        printer.level += 1
        without = len(thing.fields) - len(thing.defaults)
        for at, (field, kind) in enumerate(zip(thing.fields, thing._contained)):
            text = f"{field} : {printer.type(kind)}"
            if at >= without:
                text += f" = {printer.constant(thing.defaults[at - without], kind)}"
            printer.line(text)
        printer.level -= 1
    elif isinstance(thing, InterfaceType):
        _write_interface(printer, thing)
    elif isinstance(thing, ScriptEnumType):
        printer.line(f"class {thing.name()}(Enum):")
        printer.level += 1
        for name, value in thing.values.items():
            printer.line(f"{name} = {printer.constant(value, thing.getValueType())}")
        printer.level -= 1


def _write_interface(printer: CodePrinter, kind: InterfaceType) -> None:
    base = "ModuleInterface" if kind.is_module_type else "Interface"
    printer.line(f"class {kind.name()}({base}):")
    printer.level += 1
    for name, schema in kind.schemas.items():
        parameters = [f"self: {kind.annotation_str}"]
        parameters += [f"{a.name}: {printer.type(a.type)}" for a in schema._arguments[1:]]
        result = printer.type(schema._returns[0].type)
        printer.line(f"def {name}({', '.join(parameters)}) -> {result}:")
        printer.line("  pass")
    printer.level -= 1


def _write_class(printer: CodePrinter, kind: ScriptClassType) -> None:
    base = "(Module)" if kind.is_module_type else ""
    printer.line(f"class {kind.name()}{base}:")
    printer.level += 1
    if kind.is_module_type:
        for title, flag in (("__parameters__", "is_parameter"), ("__buffers__", "is_buffer")):
            names = [n for n, a in kind.attributes.items() if getattr(a, flag)]
            printer.line(f"{title} = [{''.join(f'{chr(34)}{n}{chr(34)}, ' for n in names)}]")
    for name, attribute in kind.attributes.items():
        text = printer.type(attribute.type)
        if name.isidentifier():
            printer.line(f"{name} : {text}")
        else:
            printer.line(f'__annotations__["{name}"] = {text}')
    for name, value in kind.constants.items():
        written = _constant(printer, name, value)
        if written is not None:
            printer.line(written)
    for title, hooks in (
        ("__forward_pre_hooks__", kind.forward_pre_hooks),
        ("__forward_hooks__", kind.forward_hooks),
    ):
        if hooks:
            printer.line(f"{title} = [{''.join(f'{chr(34)}{h.name}{chr(34)}, ' for h in hooks)}]")
    methods = {
        f.name: f for f in (*kind.methods.values(), *kind.forward_pre_hooks, *kind.forward_hooks)
    }
    for name, method in methods.items():
        printer.function(method, kind, name)
    if printer.lines[-1].endswith(":"):
        printer.line("pass")
    printer.level -= 1


def _constant(printer: CodePrinter, name: str, value: Any) -> str | None:
    """The line of a constant of a class; None of one that a source cannot say."""
    from tritorch.schema.infer import infer_type

    found = infer_type(value)
    if not found.success() or not name.isidentifier():
        return None
    kind = found.type()
    return f"{name} : Final[{printer.type(kind)}] = {printer.constant(value, kind)}"


# ---- pickles -------------------------------------------------------------------------------------


class _Pickle:
    """Writes values as PyTorch's C++ pickler does.  uses: told the classes of objects."""

    def __init__(self, storages: Storages, sources: _Sources) -> None:
        self.out = io.BytesIO()
        self.storages, self.sources = storages, sources
        self.memo: dict[int, int] = {}
        self._kept: list[Any] = []
        self._text: dict[tuple[str, ...], int] = {}
        self._count = 0
        self.out.write(b"\x80\x02")

    def finish(self) -> bytes:
        """The pickle."""
        self.out.write(b".")
        return self.out.getvalue()

    def _put(self) -> int:
        number = self._count
        self._count += 1
        self.out.write(b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number))
        return number

    def _get(self, number: int) -> None:
        self.out.write(b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number))

    def text(self, value: str) -> None:
        """A text."""
        key = ("text", value)
        if key in self._text:
            self._get(self._text[key])
            return
        data = value.encode("utf-8", "surrogatepass")
        self.out.write(b"X" + struct.pack("<I", len(data)) + data)
        self._text[key] = self._put()

    def name(self, module: str, name: str) -> None:
        """A global."""
        key = ("global", module, name)
        if key in self._text:
            self._get(self._text[key])
            return
        self.out.write(f"c{module}\n{name}\n".encode())
        self._text[key] = self._put()

    def integer(self, value: int) -> None:
        """An int."""
        if 0 <= value < 256:
            self.out.write(b"K" + bytes([value]))
        elif 0 <= value < 65536:
            self.out.write(b"M" + struct.pack("<H", value))
        elif -(2**31) <= value < 2**31:
            self.out.write(b"J" + struct.pack("<i", value))
        else:
            data = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
            self.out.write(b"\x8a" + bytes([len(data)]) + data)

    def value(self, value: Any, kind: Type) -> None:
        """A value of a type."""
        inner = kind.getElementType() if isinstance(kind, types.OptionalType) else kind
        if value is None:
            self.out.write(b"N")
        elif isinstance(value, bool):
            self.out.write(b"\x88" if value else b"\x89")
        elif isinstance(inner, ScriptEnumType):
            self.sources.add(inner)
            module, _, name = inner.qualified_name().rpartition(".")
            self.name(module, name)
            self.value(value.value, inner.getValueType())
            self.out.write(b"\x85R")
        elif isinstance(value, int):
            self.integer(value)
        elif isinstance(value, float):
            self.out.write(b"G" + struct.pack(">d", value))
        elif isinstance(value, complex):
            self.name("builtins", "complex")
            self.out.write(b"(")
            self.value(value.real, types.FloatType.get())
            self.value(value.imag, types.FloatType.get())
            self.out.write(b"tR")
        elif isinstance(value, str):
            self.text(value)
        elif isinstance(value, Device):
            self.name("torch", "device")
            self.text(str(value))
            self.out.write(b"\x85R")
        elif isinstance(value, Tensor):
            self.tensor(value)
        else:
            self._container(value, inner)

    def _container(self, value: Any, kind: Type) -> None:
        if id(value) in self.memo:
            self._get(self.memo[id(value)])
            return
        self._kept.append(value)
        if isinstance(value, ScriptObjectData):
            self.object(value)
        elif isinstance(value, ScriptObject):
            self._native(value)
        elif isinstance(value, tuple):
            self.out.write(b"(")
            for item, part in zip(value, kind._contained):
                self.value(item, part)
            self.out.write(b"t")
        elif isinstance(value, list):
            self._list(value, kind)
        elif isinstance(value, dict):
            self._dict(value, kind)
        else:
            raise RuntimeError(f"a value of type {type(value).__name__} cannot be saved")
        self.memo[id(value)] = self._put()

    def _list(self, value: list[Any], kind: Type) -> None:
        element = kind._contained[0] if kind._contained else types.AnyType.get()
        special = {"IntType": "build_intlist", "FloatType": "build_doublelist",
                   "BoolType": "build_boollist", "TensorType": "build_tensorlist"}  # fmt: skip
        function = special.get(element.kind())
        self.name("torch.jit._pickle", function or "restore_type_tag")
        if function is None:
            self.out.write(b"(")
        self.out.write(b"](")
        for item in value:
            self.value(item, element)
        self.out.write(b"e")
        if function is None:
            self.text(kind.annotation_str)
            self.out.write(b"tR")
        else:
            self.out.write(b"\x85R")

    def _dict(self, value: dict[Any, Any], kind: Type) -> None:
        key_kind, value_kind = kind._contained
        self.name("torch.jit._pickle", "restore_type_tag")
        self.out.write(b"(}(")
        for key, item in value.items():
            self.value(key, key_kind)
            self.value(item, value_kind)
        self.out.write(b"u")
        self.text(kind.annotation_str)
        self.out.write(b"tR")

    def tensor(self, value: Tensor) -> None:
        """A tensor by its storage, which the archive keeps."""
        from tritorch.core.typed_storage import TypedStorage

        if value.is_quantized:
            _, (typed, offset, shape, strides, params, _, _) = reduce_quantized(value)
            self.name("torch._utils", "_rebuild_qtensor")
            self._view(typed, offset, shape, strides)
            self.out.write(b"(")
            self.name("torch", params[0]._name)
            for each in params[1:]:
                self.value(each, infer_type(each).type())
            self.out.write(b"t\x89")
        else:
            plain = value.detach()
            untyped = plain.untyped_storage()
            typed = TypedStorage(wrap_storage=untyped, dtype=plain.dtype, _internal=True)
            self.name("torch._utils", "_rebuild_tensor_v2")
            self._view(typed, plain.storage_offset(), plain.shape, plain.stride())
            self.out.write(b"\x88" if value.requires_grad else b"\x89")
        self.name("collections", "OrderedDict")
        self.out.write(b")RtR")

    def _view(self, storage: Any, offset: int, shape: Any, strides: Any) -> None:
        """A reference to a storage, and how a tensor lies in it."""
        reference = self.storages.refer(storage)
        assert reference is not None
        kind, key, location, count = reference
        self.out.write(b"((")
        self.text("storage")
        self.name("torch", getattr(kind, "name", "UntypedStorage"))
        self.text(key)
        self.text(location)
        self.integer(count)
        self.out.write(b"tQ")
        self.integer(offset)
        for numbers in (shape, strides):
            self.out.write(b"(")
            for number in numbers:
                self.integer(number)
            self.out.write(b"t")

    def object(self, data: ScriptObjectData) -> None:
        """An object: its class, and its attributes or what `__getstate__` gives."""
        kind = data.type
        self.sources.add(kind)
        module, _, name = kind.qualified_name().rpartition(".")
        self.name(module, name)
        self.out.write(b")\x81")
        state = kind.methods.get("__getstate__")
        if state is not None:
            self.value(runner(state)(data), state.schema._returns[0].type)
        else:
            self.out.write(b"}(")
            for attribute, described in kind.attributes.items():
                self.text(attribute)
                self._slot(data.slots.get(attribute), described.type)
            self.out.write(b"u")
        self.out.write(b"b")

    def _native(self, value: ScriptObject) -> None:
        """An object of `torch.classes`: its class and its state."""
        state, path = value.__getstate__()
        module, _, name = path.rpartition(".")
        self.name(module, name)
        self.out.write(b")\x81")
        result = parse_schema(f"f() -> {value._packed.state_type}")._returns
        self.value(state, types.TupleType([each.type for each in result]))
        self.out.write(b"b")

    def _slot(self, value: Any, kind: Type) -> None:
        self.value(value, kind)


# ---- archives ------------------------------------------------------------------------------------


def save_module(
    data: ScriptObjectData, f: Any, extra_files: Mapping[str, Any] | None = None
) -> None:
    """Writes a module's archive to a path or a file."""
    is_path = isinstance(f, (str, os.PathLike))
    folder = (Path(f).stem if is_path else "") or "archive"
    with atomic_writer(f) if is_path else contextlib.nullcontext(f) as file:
        _write_archive(data, file, folder, extra_files or {})


def _make_names_unique(data: ScriptObjectData) -> None:
    """Renames types of one name, of which an archive can hold only one."""
    found: dict[str, Any] = {}
    pending: list[Any] = _types_of_data(data)
    seen: set[int] = set()
    while pending:
        kind = pending.pop()
        if id(kind) in seen:
            continue
        seen.add(id(kind))
        pending += kind._contained
        if not isinstance(kind, (ScriptClassType, InterfaceType, NamedTupleType)):
            continue
        name, number = kind.qualified_name(), 0
        *spaces, last = [p for p in name.split(".") if not p.startswith("___torch_mangle_")]
        while found.setdefault(name, kind) is not kind:
            name = ".".join((*spaces, f"___torch_mangle_{number}", last))
            number += 1
        kind._qualified_name = name
        if isinstance(kind, ScriptClassType):
            pending += [attribute.type for attribute in kind.attributes.values()]
            for function in (*kind.methods.values(), *kind.static_methods.values()):
                pending += _types_of(function.graph)


def _types_of_data(data: ScriptObjectData) -> list[Any]:
    """The types of an object and of the objects that it has."""
    found = [data.type]
    for value in data.slots.values():
        if isinstance(value, ScriptObjectData):
            found += _types_of_data(value)
    return found


def _types_of(block: Block) -> list[Any]:
    """The types of the values of a block."""
    found = []
    for node in block.nodes():
        found += [value._type for value in (*node._inputs, *node._outputs)]
        for inner in node._blocks:
            found += _types_of(inner)
    return found


def _write_archive(
    data: ScriptObjectData, file: Any, folder: str, extra_files: Mapping[str, Any]
) -> None:
    _make_names_unique(data)
    sources = _Sources()
    storages = Storages()
    pickle = _Pickle(storages, sources)
    pickle.object(data)
    contents = pickle.finish()
    constant_storages = Storages()
    constants = _Pickle(constant_storages, sources)
    constants.out.write(b"(")
    for value in sources.constants:
        from tritorch.schema.infer import infer_type

        constants.value(value, infer_type(value).type())
    constants.out.write(b"t")
    archive = ArchiveWriter(write_all(file), folder)
    for name, found in (("data", storages), ("constants", constant_storages)):
        for key, storage, _ in found.entries.values():
            archive.add(f"{name}/{key}", bytes_of(storage))
    archive.add("data.pkl", contents)
    for name, text in extra_files.items():
        archive.add(f"extra/{name}", text.encode() if isinstance(text, str) else bytes(text))
    for name, text in sources.texts().items():
        archive.add(name, text.encode())
    archive.add("constants.pkl", constants.finish())
    archive.add("version", f"{sources.version}\n".encode())
    archive.add("byteorder", sys.byteorder.encode())
    archive.add(".data/serialization_id", archive.digest().encode())
    archive.close()


def save_function(
    function: GraphFunction, f: Any, extra_files: Mapping[str, Any] | None = None
) -> None:
    """Writes a module's archive that has the function as its forward."""
    from tritorch.jit.ir.function import CompilationUnit
    from tritorch.jit.ir.graph import Graph
    from tritorch.jit.run.module_data import ScriptModuleData
    from tritorch.schema.signature import Argument, FunctionSchema

    kind = ScriptClassType("__torch__.PlaceholderModule", True)
    kind.add_attribute("training", types.BoolType.get())
    graph = Graph()
    receiver = graph.addInput("self").setType(kind)
    del receiver
    inputs = [graph.addInput().copyMetadata(value) for value in function.graph._param._outputs]
    for value in graph.insertGraph(function.graph, inputs):
        graph.registerOutput(value)
    owner = Argument._make("self", kind, kind, None, Argument.NO_DEFAULT, False, None)
    schema = function.schema
    made = FunctionSchema("forward", "", [owner, *schema._arguments], schema._returns, False, False)
    kind.methods["forward"] = GraphFunction("__torch__.PlaceholderModule.forward", graph, made)
    data = ScriptModuleData(kind, CompilationUnit())
    data.slots["training"] = True
    save_module(data, f, extra_files)
