"""`parse_ir`: the text of a graph, as `printing` writes it, into a graph."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable
from typing import Any, NoReturn

from tritorch.core.device import device as Device
from tritorch.core.dtype import all_dtypes
from tritorch.core.promotion import scalar_name
from tritorch.core.published import public
from tritorch.jit.ir.graph import Block, Graph, Node, Value
from tritorch.jit.ir.types import FunctionType, NamedTupleType
from tritorch.schema import types
from tritorch.schema.parser import _NAMED
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type

_TOKEN = re.compile(
    r"""
    (?P<space> [ \t\r\n]+ | \#[^\n]* )
    | (?P<value> %[\w.]+ )
    | (?P<string> "(?:[^"\\]|\\.)*" )
    | (?P<number> -?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[+-]\d+\.?\d*(?:[eE][+-]?\d+)?)?j?
      | -?(?:inf|nan)\b )
    | (?P<name> [A-Za-z_]\w*(?:(?:::|\.)[A-Za-z_0-9]\w*)* )
    | (?P<symbol> -> | [()\[\]{}<>=:,?*^] )
    """,
    re.VERBOSE,
)
_FUTURES: dict[str, Any] = {
    "Future": types.FutureType, "RRef": types.RRefType, "Await": types.AwaitType
}  # fmt: skip
Resolve = Callable[[str], Type | None]


def parse_ir(text: str, resolve: Resolve | None = None) -> Graph:
    """The graph of a text.

    resolve: the type of a qualified name such as `__torch__.M`; without it there are none.
    """
    return _Parser(text, resolve).whole()


class _Parser:
    def __init__(self, text: str, resolve: Resolve | None) -> None:
        self._text, self._resolve = text, resolve
        self._tokens: list[tuple[str, str, int]] = []
        self._at = 0
        self._groups: dict[str, list[Node]] = {}
        self._values: dict[str, Value] = {}
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise RuntimeError(f"parse_ir: unexpected {text[at]!r} in line {self._line(at)}")
            if match.lastgroup != "space":
                self._tokens.append((match.lastgroup or "", match.group(), at))
            at = match.end()
        self._tokens.append(("end", "", len(text)))

    # ---- words -----------------------------------------------------------------------------------

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1

    def _fail(self, wanted: str) -> NoReturn:
        _, word, at = self._tokens[self._at]
        raise RuntimeError(
            f"parse_ir: expected {wanted} but found {word or 'the end'!r} in line {self._line(at)}"
        )

    def _next(self, ahead: int = 0) -> str:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)][1]

    def _kind(self) -> str:
        return self._tokens[self._at][0]

    def _take(self, kind: str) -> str:
        if self._kind() != kind:
            self._fail(f"a {kind}")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _took(self, word: str) -> bool:
        if self._next() != word or self._kind() == "string":
            return False
        self._at += 1
        return True

    def _expect(self, *words: str) -> None:
        for word in words:
            if not self._took(word):
                self._fail(repr(word))

    def _items(self, begin: str, end: str, item: Callable[[], Any]) -> list[Any]:
        self._expect(begin)
        found: list[Any] = []
        while not self._took(end):
            if found:
                self._expect(",")
                if self._took(end):
                    break
            found.append(item())
        return found

    # ---- graphs ----------------------------------------------------------------------------------

    def whole(self) -> Graph:
        """The graph, and the graphs that its nodes refer to."""
        graph = self._graph()
        while self._took("with"):
            name = self._take("name")
            self._expect("=")
            waiting = self._groups.pop(name, None)
            if waiting is None:
                self._fail("the name of a graph that a node refers to")
            inner = self._graph()
            for node in waiting:
                node._attributes["Subgraph"] = inner
                node._kind = name.rpartition("_")[0]
        if self._kind() != "end":
            self._fail("the end")
        return graph

    def _graph(self) -> Graph:
        graph = Graph()
        self._values = {}
        self._expect("graph")
        self._items("(", ")", functools.partial(self._given, graph))
        self._expect(":")
        self._nodes(graph, graph)
        self._expect("return")
        for value in self._items("(", ")", self._read):
            graph.registerOutput(value)
        return graph

    def _given(self, block: Block) -> None:
        self._declared(block.addInput())

    def _declared(self, value: Value) -> None:
        """`%name : Type`; numbers are no names."""
        name = self._take("value")[1:]
        if not name.isdigit():
            value.setDebugName(name)
        self._values[name] = value
        if self._took(":"):
            value.setType(self._type())

    def _read(self) -> Value:
        name = self._take("value")[1:]
        if name not in self._values:
            self._at -= 1
            self._fail("a value that was computed before")
        return self._values[name]

    def _nodes(self, graph: Graph, block: Block) -> None:
        while self._next() not in ("return", "->") and not self._is_block():
            self._node(graph, block)

    def _is_block(self) -> bool:
        return re.fullmatch(r"block\d+", self._next()) is not None

    def _node(self, graph: Graph, block: Block) -> None:
        outputs: list[tuple[str, Type]] = []
        while self._kind() == "value":
            name = self._take("value")[1:]
            kind = self._type() if self._took(":") else TensorType.get()
            outputs.append((name, kind))
            if not self._took(","):
                break
        self._expect("=")
        if self._next() == "^":
            raise RuntimeError("parse_ir: a call of Python's functions has no text to be read from")
        node = graph.create(self._take("name"), len(outputs))
        if self._next() == "[":
            self._items("[", "]", lambda: self._attribute(node))
        for value in self._items("(", ")", self._read):
            node.addInput(value)
        if self._took(","):
            self._expect("scope", ":")
            node._scope = self._take("name")
        block.append(node)
        for (name, kind), value in zip(outputs, node._outputs, strict=True):
            self._values[name] = value
            value.setType(kind)
            if not name.isdigit():
                value.setDebugName(name)
        if node._kind == "prim::Constant":
            _settle(node)
        elif re.search(r"_\d+$", node._kind) and node._kind.startswith("prim::"):
            self._groups.setdefault(node._kind, []).append(node)
        while self._is_block():
            self._at += 1
            inner = node.addBlock()
            self._items("(", ")", functools.partial(self._given, inner))
            self._expect(":")
            self._nodes(graph, inner)
            self._expect("->")
            for value in self._items("(", ")", self._read):
                inner.registerOutput(value)

    # ---- attributes ------------------------------------------------------------------------------

    def _attribute(self, node: Node) -> None:
        name = self._take("name")
        self._expect("=")
        node._attributes[name] = self._value()

    def _value(self) -> Any:
        kind, word = self._kind(), self._next()
        if kind == "string":
            return ast.literal_eval(self._take("string"))
        if kind == "number":
            return _number(self._take("number"))
        if word == "[":
            return self._items("[", "]", self._value)
        if word == "(":
            return tuple(self._items("(", ")", self._value))
        if word == "{":
            return self._braced()
        if word == "<":
            raise RuntimeError("parse_ir: the elements of a tensor are not in the text")
        if word in _WORDS:
            self._at += 1
            return _WORDS[word]
        if word == "annotate":
            self._at += 1
            self._expect("(")
            self._annotation()
            self._expect(",")
            value = self._value()
            self._expect(")")
            return value
        if word == "torch.device":
            self._at += 1
            (name,) = self._items("(", ")", self._value)
            return Device(name)
        if self._next(1) == "," or self._next(1) in ("]", "[", "?", "("):
            return self._type()
        return self._fail("a value")

    def _annotation(self) -> None:
        """Skips a type in Python's spelling."""
        depth = 0
        while depth or self._next() not in (",", ")"):
            depth += (self._next() == "[") - (self._next() == "]")
            if self._kind() == "end":
                self._fail("a type")
            self._at += 1

    def _braced(self) -> Any:
        """A dict, or a tensor of one element."""
        self._expect("{")
        if self._took("}"):
            return {}
        first = self._value()
        if self._took("}"):
            return public.tensor(first)
        self._expect(":")
        found = {first: self._value()}
        while self._took(","):
            key = self._value()
            self._expect(":")
            found[key] = self._value()
        self._expect("}")
        return found

    # ---- types -----------------------------------------------------------------------------------

    def _type(self) -> Type:
        kind = self._simple()
        while True:
            if self._next() == "[" and self._next(1) == "]":
                self._at += 2
                kind = types.ListType(kind)
            elif self._took("?"):
                kind = types.OptionalType(kind)
            else:
                return kind

    def _simple(self) -> Type:
        if self._next() == "(":
            return types.TupleType(self._items("(", ")", self._type))
        name = self._take("name")
        if name in _FUTURES:
            is_square = self._next() == "["
            (inside,) = self._items(*("[", "]") if is_square else ("(", ")"), self._type)
            return _FUTURES[name](inside)
        if name == "Dict":
            return types.DictType(*self._items("(", ")", self._type))
        if name == "Union":
            return types.UnionType(self._items("(", ")", self._type))
        if name == "NamedTuple":
            fields = self._items("(", ")", self._field)
            return NamedTupleType("NamedTuple", *zip(*fields)) if fields else types.TupleType(())
        if name in ("Enum", "InterfaceType"):
            self._expect("<")
            made = self._named(self._take("name"))
            self._expect(">")
            return made
        dtype = _dtypes().get(name)
        if name == "Tensor" or dtype is not None:
            return self._tensor(dtype, name)
        if name == "Function":
            return FunctionType(None)  # type: ignore[arg-type]
        return _NAMED[name] if name in _NAMED else self._named(name)

    def _named(self, name: str) -> Type:
        found = None if self._resolve is None else self._resolve(name)
        if found is None:
            if name.startswith("__torch__.torch.classes."):
                return types.ClassType(name)
            raise RuntimeError(f"parse_ir: there is no type {name}")
        return found

    def _field(self) -> tuple[str, Type]:
        name = self._take("name")
        self._expect(":")
        return name, self._type()

    def _tensor(self, dtype: Any, name: str) -> Type:
        if self._next() != "(":
            return TensorType.get() if dtype is None else TensorType._make(dtype=dtype)
        sizes: list[int | None] = []
        known: dict[str, Any] = {}
        for part in self._items("(", ")", self._part):
            if isinstance(part, tuple):
                known[part[0]] = part[1]
            else:
                sizes.append(part)
        requires_grad, strides = known.get("requires_grad"), known.get("strides")
        return TensorType._make(
            None if name.endswith("Tensor") else tuple(sizes),
            None if strides is None else tuple(strides),
            dtype,
            known.get("device"),
            None if requires_grad is None else bool(requires_grad),
        )

    def _part(self) -> Any:
        if self._took("*"):
            return None
        if self._kind() == "number":
            return _number(self._take("number"))
        name = self._take("name")
        self._expect("=")
        if name != "device":
            return name, self._value()
        text = self._take("name")
        if self._took(":"):
            text += ":" + self._take("number")
        return name, Device(text)


_WORDS = {
    "None": None, "True": True, "False": False, "inf": float("inf"), "nan": float("nan")
}  # fmt: skip


def _dtypes() -> dict[str, Any]:
    found = {scalar_name(kind): kind for kind in all_dtypes}
    return found | {f"{name}Tensor": kind for name, kind in found.items()}


def _number(text: str) -> Any:
    if text.endswith("j"):
        return complex(text.replace(".+", ".0+"))
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _settle(node: Node) -> None:
    """Gives a constant the value that its type says: texts write bools as numbers, devices as
    strings."""
    (output,) = node._outputs
    value = node._attributes.get("value")
    if isinstance(output._type, types.BoolType) and type(value) is int:
        node._attributes["value"] = bool(value)
    elif isinstance(output._type, types.DeviceObjType) and isinstance(value, str):
        node._attributes["value"] = Device(value)
    elif isinstance(output._type, types.FloatType) and type(value) is int:
        node._attributes["value"] = float(value)
