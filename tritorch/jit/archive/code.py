"""TorchScript source of graphs, as `.code` shows it and archives keep it."""

from __future__ import annotations

import enum
import keyword
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tritorch.core.device import device as Device
from tritorch.core.tensor import Tensor
from tritorch.jit.frontend.upgraders import CHANGED
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.graph import Block, Graph, Node, Value
from tritorch.jit.ir.types import (
    Declared,
    InterfaceType,
    NamedTupleType,
    ScriptClassType,
    ScriptEnumType,
)
from tritorch.schema import types
from tritorch.schema.signature import Argument, FunctionSchema, written_float
from tritorch.schema.types import Type

_RESERVED = {
    "int", "float", "bool", "complex", "print", "device", "annotate", "isinstance", "getattr",
    "range", "str", "list", "dict", "tuple", "torch", "ops", "fork", "uninitialized", "inf", "nan",
    "infj", "nanj", "CONSTANTS", "self", "unchecked_cast", "Tensor", "None", "True", "False",
}  # fmt: skip
_SUFFIX = re.compile(r"\.\d+$")
_BAD = re.compile(r"\W")
_CASTS = {
    "aten::Int": "int", "aten::Float": "float", "aten::Bool": "bool", "aten::str": "str",
    "aten::Complex": "complex",
}  # fmt: skip
_IMPLICIT = {"aten::IntImplicit": "int", "aten::FloatImplicit": "float",
             "aten::ComplexImplicit": "complex", "aten::ScalarImplicit": None}  # fmt: skip


# Nodes whose results always get a name.
_ASSIGNED = {"prim::Param", "prim::isinstance", "prim::fork", "prim::awaitable",
             "prim::TupleUnpack", "prim::ListUnpack"}  # fmt: skip


class ConstMap:
    """The constants of a source, by name: `c0`, `c1`."""

    def __init__(self, constants: Sequence[Any]) -> None:
        self.const_mapping = {f"c{at}": value for at, value in enumerate(constants)}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["const_mapping"][name]
        except KeyError:
            raise AttributeError(name) from None


def quoted(text: str) -> str:
    """A text in double quotes; what is not printable by its number."""
    out = []
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\a": "\\a",
               "\b": "\\b", "\f": "\\f", "\v": "\\v"}  # fmt: skip
    for byte in text.encode("utf-8", "surrogatepass"):
        letter = chr(byte)
        if letter in escapes:
            out.append(escapes[letter])
        elif 32 <= byte < 127:
            out.append(letter)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def is_ascii_text(text: str) -> bool:
    """Tells if a text can stand in the source; others are kept as constants."""
    return text.isascii() and "\0" not in text


class CodePrinter:
    """Writes functions and classes.  constants: what is written `CONSTANTS.cN`.  uses: called with
    each declared type and each function that the source names."""

    def __init__(
        self, constants: list[Any] | None = None, uses: Callable[[Any], None] | None = None
    ) -> None:
        self.constants = [] if constants is None else constants
        self.uses = uses or (lambda thing: None)
        self.lines: list[str] = []
        self.level = 0
        self.names: dict[Value, str] = {}
        self.used: set[str] = set()
        self.version = 0  # which the operators need
        self.annotated: set[Value] = set()  # whose type an assignment has said
        self.inline: set[Node] = set()
        self._counters: dict[str, int] = {}

    def line(self, text: str) -> None:
        """Writes a line at the current level."""
        self.lines.append("  " * self.level + text)

    def text(self) -> str:
        """All that was written."""
        return "".join(line + "\n" for line in self.lines)

    # ---- types and constants ---------------------------------------------------------------------

    def type(self, kind: Type) -> str:
        """A type as an annotation; declared types in it are told to `uses`."""
        self._use_type(kind)
        return kind.annotation_str

    def _use_type(self, kind: Type) -> None:
        if isinstance(kind, (Declared, NamedTupleType, ScriptEnumType)):
            self.uses(kind)
        for part in kind._contained:
            self._use_type(part)

    def constant(self, value: Any, kind: Type) -> str:
        """A constant as an expression."""
        if value is None or isinstance(value, bool):
            return str(value)
        if isinstance(value, enum.Enum) and isinstance(kind, ScriptEnumType):
            self.uses(kind)
            return f"{kind.annotation_str}.{value.name}"
        if isinstance(value, int):
            return str(value)
        if isinstance(value, float):
            return self._float(value)
        if isinstance(value, complex):
            return self._complex(value)
        if isinstance(value, str):
            return quoted(value) if is_ascii_text(value) else self._table(value)
        if isinstance(value, Device):
            return f"torch.device({quoted(str(value))})"
        if isinstance(value, (list, tuple)) and not any(isinstance(v, Tensor) for v in value):
            parts = kind._contained
            inside = [
                self.constant(item, parts[at] if isinstance(value, tuple) else parts[0])
                for at, item in enumerate(value)
            ]
            if isinstance(value, tuple):
                return f"({', '.join(inside)}{',' if len(inside) == 1 else ''})"
            if not inside:
                return f"annotate({self.type(kind)}, [])"
            return f"[{', '.join(inside)}]"
        return self._table(value)

    def _float(self, value: float) -> str:
        if math.isnan(value):
            return "nan"
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        text = written_float(value)
        return text if any(mark in text for mark in ".e") else text + "."

    def _complex(self, value: complex) -> str:
        return f"complex({self._float(value.real)}, {self._float(value.imag)})"

    def _table(self, value: Any) -> str:
        """A constant of the table, where one object stands once."""
        for at, known in enumerate(self.constants):
            if known is value or (isinstance(value, str) and known == value):
                return f"CONSTANTS.c{at}"
        self.constants.append(value)
        return f"CONSTANTS.c{len(self.constants) - 1}"

    # ---- names -----------------------------------------------------------------------------------

    def fresh(self, base: str) -> str:
        """A name that nothing has yet."""
        if base and base != "_" and base not in self.used and base not in _RESERVED:
            if not keyword.iskeyword(base):
                self.used.add(base)
                return base
        while True:
            number = self._counters.get(base, 0)
            self._counters[base] = number + 1
            name = f"{base}{number}"
            if name not in self.used and name not in _RESERVED:
                self.used.add(name)
                return name

    def name(self, value: Value) -> str:
        """The variable of a value, made when it is first asked for."""
        found = self.names.get(value)
        if found is None:
            base = _SUFFIX.sub("", value._debug_name) if value._debug_name else "_"
            base = _BAD.sub("_", base)
            if not base or base[0].isdigit():
                base = "_" + base if base else "_"
            if base.isdigit():
                base = "_"
            found = self.names[value] = self.fresh(base)
        return found

    # ---- which nodes are written where they are used ---------------------------------------------

    def _plan(self, block: Block) -> None:
        """Finds the nodes whose expressions stand inside that of the node after them."""
        node: Node | None = block._return
        while node is not None and node is not block._param:
            node = self._scan(node)
        for each in block.nodes():
            for inner in each._blocks:
                self._plan(inner)

    def _scan(self, node: Node) -> Node | None:
        before = self._skip_constants(node._prev)
        for value in reversed(node._inputs):
            producer = value._node
            if producer is before and self._can_inline(value):
                self.inline.add(producer)
                before = self._skip_constants(self._scan(producer))
        return before

    def _skip_constants(self, node: Node | None) -> Node | None:
        while node is not None and node._kind == "prim::Constant":
            node = node._prev
        return node

    def _can_inline(self, value: Value) -> bool:
        node = value._node
        if len(node._outputs) != 1 or len(value._uses) != 1 or node._blocks:
            return False
        use = value._uses[0]
        if node._kind in _ASSIGNED:
            return False
        if value.hasDebugName() and use.user._kind != "prim::Return":
            return False
        if use.user._owner is not node._owner:
            return False
        if use.user._kind == "prim::Loop" and use.offset >= 2:
            return False
        return use.user._kind not in ("prim::fork", "prim::awaitable", "prim::Enter", "prim::Exit")

    # ---- expressions -----------------------------------------------------------------------------

    def use(self, value: Value) -> str:
        """The expression that reads a value."""
        node = value._node
        if node._kind == "prim::Constant":
            return self._constant_node(node)
        if node in self.inline:
            return self.expression(node)
        return self.name(value)

    def _constant_node(self, node: Node) -> str:
        if node.function is not None:
            self.uses(node.function)
            return node.function.qualified_name
        return self.constant(node.constant(), node._outputs[0]._type)

    def _list(self, values: Iterable[Value]) -> str:
        return ", ".join(self.use(value) for value in values)

    def expression(self, node: Node) -> str:
        """The expression of a node's result."""
        function = _EXPRESSIONS.get(node._kind)
        if function is not None:
            return function(self, node)
        return self._operator(node)

    def _operator(self, node: Node) -> str:
        kind = node._kind
        if kind in _CASTS and len(node._inputs) == 1:
            return f"{_CASTS[kind]}({self.use(node._inputs[0])})"
        if kind in _IMPLICIT:
            return self._implicit(node)
        if kind == "aten::__getitem__" and len(node._inputs) == 2:
            return f"{self._atom(node._inputs[0])}[{self.use(node._inputs[1])}]"
        space, _, name = kind.partition("::")
        head = f"torch.{name}" if space == "aten" else f"ops.{space}.{name}"
        return f"{head}({', '.join(self._arguments(node))})"

    def _implicit(self, node: Node) -> str:
        """A conversion that the compiler added; it adds it again when it reads the source."""
        _space, _, name = node._kind.partition("::")
        return f"torch.{name}({self.use(node._inputs[0])})"

    def _atom(self, value: Value) -> str:
        text = self.use(value)
        return text if text.isidentifier() else f"({text})"

    def _arguments(self, node: Node) -> list[str]:
        """The arguments without those at the end that are the defaults of the schema."""
        schema = node._schema
        values = list(node._inputs)
        if schema is None or schema._is_vararg or len(schema._arguments) != len(values):
            return [self.use(value) for value in values]
        arguments = schema._arguments
        count = len(values)
        while count and _is_default(arguments[count - 1], values[count - 1]):
            count -= 1
        texts = []
        for argument, value in zip(arguments[:count], values):
            text = self.use(value)
            texts.append(f"{argument.name}={text}" if argument.kwarg_only else text)
        return texts

    # ---- statements ------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Writes the nodes of a block."""
        for node in block.nodes():
            if node._kind == "prim::Constant" or node in self.inline:
                continue
            self.statement(node)

    def statement(self, node: Node) -> None:
        """Writes a node as a statement."""
        function = _STATEMENTS.get(node._kind)
        if function is not None:
            function(self, node)
            return
        text = self.expression(node)
        if not node._outputs:
            self.line(text)
            return
        targets = ", ".join(self.name(value) for value in node._outputs)
        if len(node._outputs) > 1 or node._kind in ("prim::TupleUnpack", "prim::ListUnpack"):
            targets += ","
        self.line(f"{targets} = {text}")

    def assign(self, targets: Sequence[str], texts: Sequence[str]) -> None:
        """Writes an assignment of several values at once; none of what stays the same."""
        pairs = [(a, b) for a, b in zip(targets, texts) if a != b]
        if pairs:
            self.line(f"{', '.join(a for a, _ in pairs)} = {', '.join(b for _, b in pairs)}")

    def branch(self, head: str, block: Block, outputs: Sequence[Value]) -> None:
        """Writes a branch of an `if`, which assigns the outputs of the node."""
        self.line(head)
        self.level += 1
        begin = len(self.lines)
        self.block(block)
        targets = [self.names[value] for value in outputs]
        texts = [self.use(value) for value in block._return._inputs]
        if len(outputs) == 1 and targets != texts and outputs[0] not in self.annotated:
            kind = outputs[0]._type
            if isinstance(kind, (types.OptionalType, types.UnionType)):
                # The branches alone do not tell which types are meant.
                self.annotated.add(outputs[0])
                targets = [f"{targets[0]} : {self.type(kind)}"]
        self.assign(targets, texts)
        if len(self.lines) == begin:
            self.line("pass")
        self.level -= 1

    # ---- functions -------------------------------------------------------------------------------

    def function(
        self, function: GraphFunction, receiver: Type | None = None, name: str | None = None
    ) -> None:
        """Writes a function; of a method, the first parameter's type is its class."""
        graph = function.graph
        self.names, self.used, self._counters = {}, set(), {}
        self.inline = set()
        self._plan(graph)
        self.version = max(self.version, _version_of(graph))
        schema = function.schema
        self.line(f"def {name or function.name}({self._parameters(graph, schema, receiver)}")
        self.level += 1
        self.block(graph)
        self._return(graph, schema)
        self.level -= 1

    def _parameters(self, graph: Graph, schema: FunctionSchema, receiver: Type | None) -> str:
        texts = []
        for argument, value in zip(schema._arguments, graph._param._outputs):
            if receiver is not None and value is graph._param._outputs[0]:
                self.names[value] = "self"
                self.used.add("self")
                self.uses(receiver)
                texts.append(f"self: {receiver.annotation_str}")
                continue
            text = f"{self._parameter(argument, value)}: {self.type(argument.type)}"
            if argument.has_default_value():
                text += f"={self.constant(argument._default, argument.type)}"
            texts.append(text)
        inside = (",\n" + "  " * (self.level + 2)).join(texts)
        return f"{inside}) -> {self.type(schema._returns[0].type)}:"

    def _parameter(self, argument: Argument, value: Value) -> str:
        """A parameter keeps its name, which calls may use."""
        name = argument.name
        if name in self.used or not name.isidentifier():
            name = self.fresh(name if name.isidentifier() else "_")
        self.used.add(name)
        self.names[value] = name
        return name

    def _return(self, graph: Graph, schema: FunctionSchema) -> None:
        outputs = graph._return._inputs
        texts = [self.use(value) for value in outputs]
        self.line(f"return {texts[0]}" if len(texts) == 1 else f"return ({', '.join(texts)})")


def _version_of(block: Block) -> int:
    """The first version of archives in which all operators of a block mean what they mean now."""
    found = 0
    for node in block.nodes():
        found = max(found, CHANGED.get(node._kind, 0), *map(_version_of, node._blocks), 0)
    return found


def _is_default(argument: Argument, value: Value) -> bool:
    """Tells if a value is the default of an argument."""
    if not argument.has_default_value():
        return False
    node = value._node
    default = argument._default
    if node._kind == "prim::ListConstruct":
        found: Any = [each.toIValue() for each in node._inputs]
        if any(not each.is_constant() for each in node._inputs):
            return False
        if argument.N is not None and isinstance(default, int):
            default = [default] * argument.N
        return isinstance(default, list) and found == default
    if node._kind != "prim::Constant" or node.function is not None:
        return False
    found = node.constant()
    return type(found) is type(default) and bool(found == default)


# ---- expressions of special nodes ----------------------------------------------------------------


def _get_attr(printer: CodePrinter, node: Node) -> str:
    name = node["name"]
    owner = printer._atom(node._inputs[0])
    if name.isidentifier() and not keyword.iskeyword(name):
        return f"{owner}.{name}"
    return f"getattr({owner}, {quoted(name)})"


def _call_method(printer: CodePrinter, node: Node) -> str:
    owner, *arguments = node._inputs
    text = "".join(f"{printer.use(value)}, " for value in arguments)
    kind = owner._type
    if isinstance(kind, InterfaceType):
        printer.uses(kind)
    return f"({printer.use(owner)}).{node['name']}({text})"


def _call_function(printer: CodePrinter, node: Node) -> str:
    text = "".join(f"{printer.use(value)}, " for value in node._inputs[1:])
    return f"{printer.use(node._inputs[0])}({text})"


def _list_construct(printer: CodePrinter, node: Node) -> str:
    kind = node._outputs[0]._type
    element = kind._contained[0]
    if node._inputs and all(value._type == element for value in node._inputs):
        return f"[{printer._list(node._inputs)}]"
    return f"annotate({printer.type(kind)}, [{printer._list(node._inputs)}])"


def _dict_construct(printer: CodePrinter, node: Node) -> str:
    kind = node._outputs[0]._type
    keys, values = node._inputs[::2], node._inputs[1::2]
    inside = ", ".join(f"{printer.use(k)}: {printer.use(v)}" for k, v in zip(keys, values))
    plain = bool(values) and all(value._type == kind._contained[1] for value in values)
    return f"{{{inside}}}" if plain else f"annotate({printer.type(kind)}, {{{inside}}})"


def _tuple_construct(printer: CodePrinter, node: Node) -> str:
    kind = node._outputs[0]._type
    inside = printer._list(node._inputs)
    if isinstance(kind, NamedTupleType):
        printer.uses(kind)
        return f"{kind.annotation_str}({inside})"
    text = f"({inside}{',' if len(node._inputs) == 1 else ''})"
    if not node._inputs:
        return "()"
    if any(v._type != part for v, part in zip(node._inputs, kind._contained)):
        return f"annotate({printer.type(kind)}, {text})"
    return text


def _tuple_index(printer: CodePrinter, node: Node) -> str:
    return f"({printer.use(node._inputs[0])})[{printer.use(node._inputs[1])}]"


def _tuple_slice(printer: CodePrinter, node: Node) -> str:
    return f"({printer.use(node._inputs[0])})[{node['beg']}:{node['end']}]"


def _unpack(printer: CodePrinter, node: Node) -> str:
    return printer.use(node._inputs[0])


def _cast(printer: CodePrinter, node: Node) -> str:
    kind = printer.type(node._outputs[0]._type)
    return f"unchecked_cast({kind}, {printer.use(node._inputs[0])})"


def _uninitialized(printer: CodePrinter, node: Node) -> str:
    return f"uninitialized({printer.type(node._outputs[0]._type)})"


def _isinstance(printer: CodePrinter, node: Node) -> str:
    wanted = [printer.type(kind) for kind in node["types"]]
    shown = wanted[0] if len(wanted) == 1 else f"({', '.join(wanted)})"
    return f"isinstance({printer.use(node._inputs[0])}, {shown})"


def _create(printer: CodePrinter, node: Node) -> str:
    kind = printer.type(node._outputs[0]._type)
    return f"{kind}.__new__({kind})"


def _enum_part(printer: CodePrinter, node: Node) -> str:
    return f"{printer._atom(node._inputs[0])}.{node._kind.removeprefix('prim::Enum').lower()}"


def _raise(printer: CodePrinter, node: Node) -> str:
    message, kind = node._inputs[0], node._inputs[1].toIValue() if len(node._inputs) > 1 else None
    if kind in (None, "", "Exception", "AssertionError"):
        return f"ops.prim.RaiseException({printer.use(message)})"
    shown = kind if "." in kind else f"builtins.{kind}"
    return f"ops.prim.RaiseException({printer.use(message)}, {quoted(shown)})"


def _print(printer: CodePrinter, node: Node) -> str:
    return f"print({printer._list(node._inputs)})"


def _python(printer: CodePrinter, node: Node) -> str:
    return f"^{node.get('name', 'python')}({printer._list(node._inputs)})"


def _wait(printer: CodePrinter, node: Node) -> str:
    return f"torch.wait({printer._list(node._inputs)})"


def _fork_text(printer: CodePrinter, node: Node) -> str:
    name = printer.fresh(
        "__forked_function" if node._kind == "prim::fork" else "__awaitable_function"
    )
    graph: Graph = node["Subgraph"]
    inputs = [printer.use(value) for value in node._inputs]
    outer = printer.names
    printer.names = dict(outer)
    parameters = []
    for value in graph._param._outputs:
        parameters.append(f"{printer.name(value)}: {printer.type(value._type)}")
    kind = graph._return._inputs[0]._type
    printer._plan(graph)
    printer.line(f"def {name}({', '.join(parameters)}) -> {printer.type(kind)}:")
    printer.level += 1
    printer.block(graph)
    printer.line(f"return {printer.use(graph._return._inputs[0])}")
    printer.level -= 1
    printer.names = outer
    head = "fork" if node._kind == "prim::fork" else "awaitable"
    return f"{head}({', '.join([name, *inputs])})"


_EXPRESSIONS: dict[str, Callable[[CodePrinter, Node], str]] = {
    "prim::GetAttr": _get_attr, "prim::CallMethod": _call_method,
    "prim::CallFunction": _call_function, "prim::ListConstruct": _list_construct,
    "prim::DictConstruct": _dict_construct, "prim::TupleConstruct": _tuple_construct,
    "prim::TupleIndex": _tuple_index, "prim::TupleSlice": _tuple_slice,
    "prim::TupleUnpack": _unpack, "prim::ListUnpack": _unpack, "prim::unchecked_cast": _cast,
    "prim::unchecked_unwrap_optional": _cast, "prim::Uninitialized": _uninitialized,
    "prim::isinstance": _isinstance, "prim::CreateObject": _create, "prim::EnumName": _enum_part,
    "prim::EnumValue": _enum_part, "prim::RaiseException": _raise, "prim::Print": _print,
    "prim::PythonOp": _python, "prim::fork": _fork_text, "prim::awaitable": _fork_text,
}  # fmt: skip


# ---- statements of special nodes -----------------------------------------------------------------


def _if(printer: CodePrinter, node: Node) -> None:
    for value in node._outputs:
        printer.name(value)
    then, otherwise = node._blocks
    printer.branch(f"if {printer.use(node._inputs[0])}:", then, node._outputs)
    printer.branch("else:", otherwise, node._outputs)


_MAX = 2**63 - 1


def _loop(printer: CodePrinter, node: Node) -> None:
    limit, start, *initial = node._inputs
    block = node._blocks[0]
    index, *carried = block._param._outputs
    again, *final = block._return._inputs
    names = [printer.name(value) for value in carried]
    for value, name in zip(node._outputs, names):
        printer.names[value] = name
    printer.assign(names, [printer.use(value) for value in initial])
    always = start.toIValue() is True and again.toIValue() is True
    never_counts = limit.toIValue() == _MAX and not index.hasUses()
    if always:
        printer.line(f"for {printer.name(index)} in range({printer.use(limit)}):")
        _body(printer, block, names, final)
    elif never_counts:
        condition = printer.fresh("_")
        printer.line(f"{condition} = {printer.use(start)}")
        printer.line(f"while {condition}:")
        _body(printer, block, [condition, *names], [again, *final])
    else:
        _counted(printer, node, names)


def _body(
    printer: CodePrinter, block: Block, names: Sequence[str], values: Sequence[Value]
) -> None:
    printer.level += 1
    begin = len(printer.lines)
    printer.block(block)
    printer.assign(names, [printer.use(value) for value in values])
    if len(printer.lines) == begin:
        printer.line("pass")
    printer.level -= 1


def _counted(printer: CodePrinter, node: Node, names: list[str]) -> None:
    """A loop with a limit and a condition, as a while loop that counts."""
    limit, start = node._inputs[:2]
    block = node._blocks[0]
    index = block._param._outputs[0]
    again, *final = block._return._inputs
    most = printer.use(limit)
    counter, condition = printer.fresh("_"), printer.fresh("_")
    printer.names[index] = counter
    printer.line(f"{counter} = 0")
    first = f"torch.lt(0, {most})"
    if start.toIValue() is not True:
        first = f"torch.__and__({first}, {printer.use(start)})"
    printer.line(f"{condition} = {first}")
    printer.line(f"while {condition}:")
    printer.level += 1
    printer.block(block)
    following = printer.fresh("_")
    printer.line(f"{following} = torch.add({counter}, 1)")
    texts = [printer.use(value) for value in final]
    goes_on = f"torch.__and__(torch.lt({following}, {most}), {printer.use(again)})"
    printer.assign([condition, *names, counter], [goes_on, *texts, following])
    printer.level -= 1


def _set_attr(printer: CodePrinter, node: Node) -> None:
    owner, value = node._inputs
    printer.line(f"{_attribute(printer, owner, node['name'])} = {printer.use(value)}")


def _attribute(printer: CodePrinter, owner: Value, name: str) -> str:
    return f"{printer._atom(owner)}.{name}"


def _enter(printer: CodePrinter, node: Node) -> None:
    manager = printer.use(node._inputs[0])
    result = printer.name(node._outputs[0]) if node._outputs[0].hasUses() else None
    printer.line(f"with {manager}{'' if result is None else f' as {result}'}:")
    printer.level += 1
    following = node._next
    if following is not None and following._kind == "prim::Exit":
        printer.line("pass")


def _exit(printer: CodePrinter, node: Node) -> None:
    printer.level -= 1


def _container_index(printer: CodePrinter, node: Node) -> None:
    container, key = (printer.use(value) for value in node._inputs)
    output = node._outputs[0]
    kind = printer.type(output._type)
    printer.line(f"{printer.name(output)} : {kind} = {container}[{key}]")


_STATEMENTS: dict[str, Callable[[CodePrinter, Node], None]] = {
    "prim::If": _if, "prim::Loop": _loop, "prim::SetAttr": _set_attr, "prim::Enter": _enter,
    "prim::Exit": _exit, "prim::ModuleContainerIndex": _container_index,
}  # fmt: skip


def function_source(function: GraphFunction) -> tuple[str, list[Any]]:
    """The source of a function, and the constants that it names."""
    printer = CodePrinter()
    graph = function.graph
    inputs = graph._param._outputs
    receiver = inputs[0]._type if inputs and isinstance(inputs[0]._type, ScriptClassType) else None
    is_method = receiver is not None and receiver.find_method(function.name) is function
    printer.function(function, receiver if is_method else None)
    text = printer.text()
    if is_method:
        text = re.sub(r"\(self: [\w.]+", "(self", text, count=1)
    return text, printer.constants
