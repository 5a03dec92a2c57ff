"""The emitter: the state of one function's compilation, and the nodes that everything else "
"makes."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from tritorch.jit._sources import CallStack
from tritorch.jit.frontend import late, matching
from tritorch.jit.frontend.environment import Environment
from tritorch.jit.frontend.source import Source, fail
from tritorch.jit.frontend.sugared import BuiltinFunction, SimpleValue, Sugared
from tritorch.jit.ir.function import CompilationUnit, GraphFunction
from tritorch.jit.ir.graph import Block, Graph, Node, Value
from tritorch.jit.ir.types import FieldsType, FunctionType, ScriptClassType
from tritorch.schema import types
from tritorch.schema.signature import Argument
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type


class Emitter:
    """Compiles one function into a graph.

    resolver: the meaning of names that the function does not define (`resolve`).
    self_type: the class whose method it is; is_init: its `__init__`, which declares attributes.
    """

    def __init__(
        self,
        unit: CompilationUnit,
        function: GraphFunction,
        source: Source,
        resolver: Any,
        graph: Graph | None = None,
        self_type: ScriptClassType | None = None,
    ) -> None:
        self.unit, self.function, self.source, self.resolver = unit, function, source, resolver
        self.graph = Graph() if graph is None else graph
        self.env = Environment()
        self.self_type = self_type
        self.is_init = False
        self.return_type: Type | None = None  # declared
        self.returned: Type | None = None  # of the return statements so far
        self.loops = 0
        self.is_unrolled = False
        self.interface_hint: Type | None = None  # of a subscript of modules
        self.attribute_hint: tuple[str, Type] | None = None
        self._functions: dict[int, Value] = {}

    # ---- places ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def at(self, node: ast.AST) -> Iterator[Any]:
        """Nodes that are made inside belong to this piece of the source."""
        before = self.graph._source
        self.graph._source = place = self.source.range(node)
        try:
            yield place
        finally:
            self.graph._source = before

    @contextlib.contextmanager
    def calling(self, function: GraphFunction, place: Any) -> Iterator[None]:
        """Errors inside say that `function` is compiled because of the call at this place."""
        if place is None or function._define is None:
            yield
            return
        ours = CallStack(self.function.name, place)
        theirs = CallStack(function.name, place)
        try:
            yield
        except RecursionError as error:
            if function._is_being_defined and "called recursively" in str(error):
                fail(place, str(error))
            raise
        finally:
            del ours, theirs

    # ---- scopes and blocks -----------------------------------------------------------------------

    @contextlib.contextmanager
    def scope(self, block: Block) -> Iterator[Environment]:
        """Emits into a block, with names of its own."""
        point, env = self.graph._insert, self.env
        self.graph.setInsertPoint(block)
        self.env = Environment(env)
        try:
            yield self.env
        finally:
            self.graph._insert, self.env = point, env

    def mark(self) -> Node:
        """The node before the insertion point, for `rewind`."""
        before = self.graph._insert._prev
        assert before is not None
        return before

    def rewind(self, mark: Node) -> None:
        """Destroys the nodes that were made since the mark."""
        node = self.graph._insert._prev
        while node is not mark:
            assert node is not None
            before = node._prev
            for each in (node, *node.findAllNodes("prim::Constant")):
                self._functions = {
                    key: value for key, value in self._functions.items() if value._node is not each
                }
            node.destroy()
            node = before

    # ---- values ----------------------------------------------------------------------------------

    def const(self, value: Any, kind: Type | None = None) -> Value:
        """A constant."""
        return self.graph.insertConstant(value, kind)

    def default(self, argument: Argument) -> Value:
        """The default of an argument, as a constant."""
        value, kind = argument._default, argument.type
        if value is Argument.NO_DEFAULT:
            value = None
        if argument.N is not None and isinstance(value, (int, float)):
            value = [value] * argument.N
        return self.literal(value, kind)

    def literal(self, value: Any, kind: Type) -> Value:
        """A constant of a type that may be wider than the value's."""
        inner = kind.getElementType() if isinstance(kind, types.OptionalType) else kind
        if value is None:
            return self.const(None)
        if isinstance(value, (list, tuple)) and isinstance(inner, types.ListType):
            element = inner.getElementType()
            parts = [self.literal(each, matching._plain(element)) for each in value]
            return self.make_list(parts, matching._plain(element))
        if isinstance(value, dict) and isinstance(inner, types.DictType):
            parts = []
            for key, item in value.items():
                parts += [
                    self.literal(key, inner.getKeyType()),
                    self.literal(item, inner.getValueType()),
                ]
            node = self.graph.insert("prim::DictConstruct", parts)
            return node._outputs[0].setType(inner)
        if isinstance(value, tuple) and isinstance(inner, types.TupleType):
            parts = [self.literal(each, part) for each, part in zip(value, inner.elements())]
            made = self.graph.insert("prim::TupleConstruct", parts)._outputs[0]
            return made.setType(inner)
        if isinstance(inner, types.FloatType) and type(value) is int:
            value = float(value)
        if isinstance(inner, types.IntType) and type(value) is bool:
            value = int(value)
        if isinstance(inner, types.BoolType) and type(value) is int:
            value = bool(value)
        return self.const(value, _constant_type(value, inner))

    def function_constant(self, function: GraphFunction) -> Value:
        """The constant that stands for a function."""
        node = self.graph.insert("prim::Constant")
        node.set("name", function.name)
        node.function = function
        return node._outputs[0].setType(FunctionType(function))

    def constant_sugar(self, value: Any, place: Any) -> Sugared:
        """A constant of Python in the graph."""
        return late.constant_value(self, value, place)

    def operator(self, name: str, args: Sequence[Value]) -> Value:
        """The result of an operator whose arguments are known to fit."""
        found = matching.call_operator(self, name, args, {}, self.graph._source)
        assert found is not None
        return found

    def call_builtin(self, name: str, args: Sequence[Value], place: Any) -> Value:
        """The result of an operator, or the error that its arguments do not fit."""
        found = matching.call_operator(self, name, args, {}, place)
        assert found is not None
        return found

    def uninitialized(self, kind: Type) -> Value:
        """A value that nothing reads: of a branch that does not go on."""
        return self.graph.insert("prim::Uninitialized")._outputs[0].setType(kind)

    def cast(self, value: Value, kind: Type) -> Value:
        """The value as a narrower type, which the program has checked."""
        is_unwrapped = isinstance(value._type, types.OptionalType) and (
            value._type.getElementType() == kind
        )
        name = "prim::unchecked_unwrap_optional" if is_unwrapped else "prim::unchecked_cast"
        return self.graph.insert(name, [value])._outputs[0].setType(kind)

    # ---- lists and tuples ------------------------------------------------------------------------

    def make_list(self, values: Sequence[Value], element: Type) -> Value:
        """A list of values."""
        node = self.graph.insert("prim::ListConstruct", values)
        return node._outputs[0].setType(types.ListType(element))

    def pack_tuple(self, values: Sequence[Value]) -> Value:
        """A tuple of values."""
        node = self.graph.insert("prim::TupleConstruct", values)
        return node._outputs[0].setType(types.TupleType([value._type for value in values]))

    def pack_named(self, names: Sequence[str], values: Sequence[Value]) -> Value:
        """The results of an operator that names them."""
        kind = FieldsType(names, [value._type for value in values])
        return self.graph.insert("prim::TupleConstruct", values)._outputs[0].setType(kind)

    def unpack_tuple(self, value: Value) -> list[Value]:
        """The parts of a tuple; of one that was just made, what it was made of."""
        kind = value._type
        assert isinstance(kind, types.TupleType)
        if value._node._kind == "prim::TupleConstruct":
            return list(value._node._inputs)
        elements = kind.elements()
        node = self.graph.insert("prim::TupleUnpack", [value], len(elements))
        for part, element in zip(node._outputs, elements):
            part._type = element
        return list(node._outputs)

    def unpack_list(self, value: Value, count: int) -> list[Value]:
        """The parts of a list, whose length is checked when it runs."""
        kind = value._type
        assert isinstance(kind, types.ListType)
        node = self.graph.insert("prim::ListUnpack", [value], count)
        for part in node._outputs:
            part._type = kind.getElementType()
        return list(node._outputs)

    def tuple_index(self, value: Value, at: int) -> Value:
        """A part of a tuple."""
        elements = value._type.elements()  # type: ignore[attr-defined]
        node = self.graph.insert("prim::TupleIndex", [value, self.const(at)])
        return node._outputs[0].setType(elements[at])

    def tuple_item(self, value: Value, index: Value, place: Any) -> Value:
        """A part of a tuple at an index of the program."""
        elements = value._type.elements()  # type: ignore[attr-defined]
        at = index.toIValue()
        if not isinstance(at, int):
            if not elements or any(each != elements[0] for each in elements[1:]):
                fail(
                    place,
                    "Cannot index into a tuple with a non-integer literal because we cannot "
                    "resolve the output type",
                )
            node = self.graph.insert("prim::TupleIndex", [value, index])
            return node._outputs[0].setType(elements[0])
        if not -len(elements) <= at < len(elements):
            fail(
                place,
                f"Tuple index out of range. Tuple is length {len(elements)} and index is {at}",
            )
        return self.tuple_index(value, at)

    # ---- attributes ------------------------------------------------------------------------------

    def get_attr(self, value: Value, name: str, kind: Type) -> Value:
        """An attribute of an object."""
        node = self.graph.insert("prim::GetAttr", [value])
        node.set("name", name)
        return node._outputs[0].setType(kind).setDebugName(name if name.isidentifier() else "")

    def compile_method(self, kind: ScriptClassType, name: str) -> GraphFunction | None:
        """The method of a class that is compiled when it is first called; None without one."""
        found = kind.methods.get(name) or kind.static_methods.get(name)
        if found is not None:
            return found
        info = getattr(kind, "python_info", None)
        return None if info is None else info.compile_method(kind, name)

    def may_declare_attribute(self, kind: ScriptClassType, value: Value) -> bool:
        """Tells if an assignment may add an attribute: in `__init__`, to `self`, on every path."""
        return (
            self.is_init
            and kind is self.self_type
            and value is self.graph._param._outputs[0]
            and self.env.parent is None
        )

    def hinted_attribute(self, name: str) -> Type | None:
        """The type that an annotation gives the attribute that is being assigned."""
        if self.attribute_hint is not None and self.attribute_hint[0] == name:
            return self.attribute_hint[1]
        return None

    # ---- names -----------------------------------------------------------------------------------

    def lookup(self, name: str, place: Any, required: bool = True) -> Sugared | None:
        """The meaning of a name: a local one, a builtin, or one of the program around."""
        found = self.env.find(name)
        if found is not None:
            return found
        reason = self.env.why_missing(name)
        if reason is None:
            found = self.resolver.resolve(self, name, place)
            if found is not None:
                return found
            found = late.builtin_name(name)
            if found is not None:
                return found
        if not required:
            return None
        if reason is not None:
            fail(place, f"{name} is not defined in the {reason}" if " " not in reason else reason)
        fail(place, f"\nundefined value {name}")


def _constant_type(value: Any, wanted: Type) -> Type:
    """The type of a constant that is put where another type is wanted."""
    from tritorch.schema.infer import infer_type

    if isinstance(wanted, (types.EnumType, types.DeviceObjType)):
        return wanted
    if isinstance(wanted, TensorType):
        return wanted
    found = infer_type(value)
    return found.type() if found.success() else wanted


def builtin(name: str) -> BuiltinFunction:
    """The operator of ATen of a name."""
    return BuiltinFunction(f"aten::{name}")


def simple(value: Value) -> SimpleValue:
    """The sugared form of a value."""
    return SimpleValue(value)
