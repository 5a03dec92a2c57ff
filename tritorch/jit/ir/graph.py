"""Graphs of TorchScript: values, the nodes that compute them, and blocks that hold nodes.

A graph has one block; control flow is a node with blocks of its own (`prim::If`, `prim::Loop`).
Each value is computed once.  `printing` writes a graph as text, `run` executes it.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tritorch.schema import types
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import Type

_SUFFIX = re.compile(r"^(.*)\.(\d+)$", re.DOTALL)


class Use:
    """A use of a value: the node that reads it, and as which of its inputs."""

    __slots__ = ("offset", "user")

    def __init__(self, user: Node, offset: int) -> None:
        self.user, self.offset = user, offset

    def __repr__(self) -> str:
        return f"Use(user={self.user.kind()}, offset={self.offset})"


class Value:
    """A value that a node computes, or that a block is given."""

    __slots__ = ("_debug_name", "_node", "_type", "_unique", "_uses", "resolved")

    def __init__(self, node: Node, unique: int) -> None:
        self._node, self._unique = node, unique
        self._type: Type = TensorType.get()
        self._debug_name = ""
        self._uses: list[Use] = []
        self.resolved: Any = None  # kept by passes

    def node(self) -> Node:
        """The node that computes it; for an input of a block its param node."""
        return self._node

    def owningGraph(self) -> Graph:
        """The graph that it belongs to."""
        return self._node._graph

    def unique(self) -> int:
        """Its number in the graph."""
        return self._unique

    def offset(self) -> int:
        """Its place among the outputs of its node."""
        return next(i for i, each in enumerate(self._node._outputs) if each is self)

    def type(self) -> Type:
        """The type of what it holds."""
        return self._type

    def setType(self, kind: Type) -> Value:
        """Changes the type, and gives the value back."""
        self._type = kind
        return self

    def inferTypeFrom(self, tensor: Any) -> None:
        """Sets the type of a tensor like this one."""
        self._type = TensorType.create_from_tensor(tensor)

    def isCompleteTensor(self) -> bool:
        """Tells whether the type knows sizes, dtype and device."""
        kind = self._type
        return isinstance(kind, TensorType) and None not in (
            kind._sizes, kind._dtype, kind._device,
        )  # fmt: skip

    def requires_grad(self) -> bool:
        """Tells whether it may need a gradient."""
        return self._type.requires_grad()

    def requiresGrad(self) -> bool:
        """Tells whether it may need a gradient."""
        return self._type.requires_grad()

    def hasDebugName(self) -> bool:
        """Tells whether it has a name beside its number."""
        return bool(self._debug_name)

    def debugName(self) -> str:
        """Its name, or its number where it has none."""
        return self._debug_name or str(self._unique)

    def setDebugName(self, name: str) -> Value:
        """Gives it a name; a value that has the name already gets a number behind it."""
        graph = self._node._graph
        names = graph._names
        if self._debug_name:
            names.pop(self._debug_name, None)
            self._debug_name = ""
        if not name:
            return self
        if name.isdigit():
            raise RuntimeError(f"Invalid name: '{name}'")
        owner = names.get(name)
        if owner is not None:
            found = _SUFFIX.match(name)
            base, number = (found[1], int(found[2])) if found else (name, 1)
            number = max(number, graph._suffixes.get(base, number - 1) + 1)
            while f"{base}.{number}" in names:
                number += 1
            graph._suffixes[base] = number + 1
            owner.setDebugName(f"{base}.{number}")
        names[name] = self
        self._debug_name = name
        return self

    def copyMetadata(self, other: Value) -> Value:
        """Takes type and name over from another value."""
        self._type = other._type
        if other._debug_name:
            self.setDebugName(other._debug_name)
        return self

    def uses(self) -> list[Use]:
        """The nodes that read it."""
        return list(self._uses)

    def hasUses(self) -> bool:
        """Tells whether a node reads it."""
        return bool(self._uses)

    def replaceAllUsesWith(self, other: Value) -> None:
        """Makes all nodes that read this value read the other."""
        for use in self._uses:
            use.user._inputs[use.offset] = other
        other._uses += self._uses
        self._uses = []

    def replaceAllUsesAfterNodeWith(self, node: Node, other: Value) -> None:
        """Makes the nodes behind `node` that read this value read the other."""
        for use in list(self._uses):
            if use.user.isAfter(node):
                use.user.replaceInput(use.offset, other)

    def toIValue(self) -> Any:
        """The constant that it is; None for any other value."""
        return self._node.constant() if self._node._kind == "prim::Constant" else None

    def is_constant(self) -> bool:
        """Tells whether a prim::Constant computes it."""
        return self._node._kind == "prim::Constant"

    def __repr__(self) -> str:
        from tritorch.jit.ir.printing import declared

        return f"{declared(self)} = {self._node}" if self._node._kind != "prim::Param" else (
            f"{declared(self)} defined in ({self._node})"
        )  # fmt: skip


# The letters that PyTorch gives to the kinds of attributes.
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "i"), (int, "i"), (float, "f"), (complex, "c"), (str, "s"), (Type, "ty"),
)  # fmt: skip


def attribute_kind(value: Any) -> str:
    """The kind of an attribute, as `Node.kindOf` tells it."""
    from tritorch.core.tensor import Tensor

    if isinstance(value, Tensor):
        return "t"
    if isinstance(value, Graph):
        return "g"
    for python, letter in _KINDS:
        if isinstance(value, python):
            return letter
    if isinstance(value, (list, tuple)) and value:
        kinds = {attribute_kind(each) for each in value}
        if len(kinds) == 1 and (kind := kinds.pop()) in ("i", "f", "c", "s", "t", "g", "ty"):
            return "tys" if kind == "ty" else kind + "s"
    return "ival"


class Node:
    """An operation: its kind (`aten::add`), inputs, outputs, attributes and blocks."""

    def __init__(self, graph: Graph, kind: str) -> None:
        self._graph, self._kind = graph, kind
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._blocks: list[Block] = []
        self._attributes: dict[str, Any] = {}
        self._owner: Block | None = None
        self._prev: Node | None = None
        self._next: Node | None = None
        self.source: Any = graph._source  # a SourceRange, for errors and printing
        self._scope = graph._scope
        self._schema: Any = None  # the schema that the compiler chose
        self.function: Any = None  # of a call: the GraphFunction

    # ---- what it is ------------------------------------------------------------------------------

    def kind(self) -> str:
        """The namespace and name of the operation."""
        return self._kind

    def schema(self) -> Any:
        """The signature of the operator as text; "(no schema)" where there is none."""
        from tritorch.jit.ir.operators import schema_of

        found = self._schema or schema_of(self)
        return "(no schema)" if found is None else str(found)

    def scopeName(self) -> str:
        """The modules around it when it was traced."""
        return self._scope

    def sourceRange(self) -> str:
        """Where in the program's text it is."""
        return "" if self.source is None else self.source.highlight()

    def getModuleHierarchy(self) -> str:
        """The modules whose inlined code it is part of."""
        return self._scope

    def owningBlock(self) -> Block:
        """The block that it stands in."""
        assert self._owner is not None
        return self._owner

    def owningGraph(self) -> Graph:
        """The graph that it stands in."""
        return self._graph

    def mustBeNone(self) -> bool:
        """Tells whether its only output is always None."""
        return self._kind == "prim::AutogradZero" or (
            len(self._outputs) == 1
            and (
                isinstance(self._outputs[0]._type, types.NoneType)
                or (self._kind == "prim::Constant" and not self._attributes)
            )
        )

    def isNondeterministic(self) -> bool:
        """Tells whether two calls with the same inputs may differ."""
        from tritorch.jit.ir.operators import is_random

        return is_random(self._kind)

    def constant(self) -> Any:
        """The value of a prim::Constant; None for one of None."""
        return self._attributes.get("value")

    # ---- inputs and outputs ----------------------------------------------------------------------

    def inputs(self) -> Iterator[Value]:
        """The values that it reads."""
        return iter(list(self._inputs))

    def outputs(self) -> Iterator[Value]:
        """The values that it computes."""
        return iter(list(self._outputs))

    def input(self) -> Value:
        """The only input."""
        if len(self._inputs) != 1:
            raise RuntimeError(f"{self._kind} has {len(self._inputs)} inputs, not one")
        return self._inputs[0]

    def output(self) -> Value:
        """The only output."""
        if len(self._outputs) != 1:
            raise RuntimeError(f"{self._kind} has {len(self._outputs)} outputs, not one")
        return self._outputs[0]

    def inputsAt(self, index: int) -> Value:
        """An input by its place."""
        return self._inputs[index]

    def outputsAt(self, index: int) -> Value:
        """An output by its place."""
        return self._outputs[index]

    def inputsSize(self) -> int:
        """The number of values that it reads."""
        return len(self._inputs)

    def outputsSize(self) -> int:
        """The number of values that it computes."""
        return len(self._outputs)

    def namedInput(self, name: str) -> Value:
        """The input for an argument of the operator's schema."""
        from tritorch.jit.ir.operators import schema_of

        found = self._schema or schema_of(self)
        names = [] if found is None else [argument.name for argument in found._arguments]
        if name not in names:
            raise RuntimeError(f"{self._kind} has no argument {name}")
        return self._inputs[names.index(name)]

    def hasNamedInput(self, name: str) -> bool:
        """Tells whether the operator's schema has an argument of this name."""
        from tritorch.jit.ir.operators import schema_of

        found = self._schema or schema_of(self)
        return found is not None and any(a.name == name for a in found._arguments)

    def hasUses(self) -> bool:
        """Tells whether any output is read."""
        return any(value._uses for value in self._outputs)

    def addInput(self, value: Value) -> Value:
        """Adds an input at the end."""
        value._uses.append(Use(self, len(self._inputs)))
        self._inputs.append(value)
        return value

    def insertInput(self, index: int, value: Value) -> Value:
        """Adds an input before the one at `index`."""
        for at, each in enumerate(self._inputs[index:], index):
            self._use_of(each, at).offset = at + 1
        self._inputs.insert(index, value)
        value._uses.append(Use(self, index))
        return value

    def _use_of(self, value: Value, offset: int) -> Use:
        return next(u for u in value._uses if u.user is self and u.offset == offset)

    def removeInput(self, index: int) -> None:
        """Takes an input away."""
        value = self._inputs[index]
        value._uses.remove(self._use_of(value, index))
        for at in range(index + 1, len(self._inputs)):
            self._use_of(self._inputs[at], at).offset = at - 1
        del self._inputs[index]

    def removeAllInputs(self) -> None:
        """Takes all inputs away."""
        for value in self._inputs:
            value._uses = [use for use in value._uses if use.user is not self]
        self._inputs = []

    def replaceInput(self, index: int, value: Value) -> Value:
        """Reads another value as an input; gives the old one back."""
        old = self._inputs[index]
        old._uses.remove(self._use_of(old, index))
        self._inputs[index] = value
        value._uses.append(Use(self, index))
        return old

    def replaceInputWith(self, old: Value, new: Value) -> None:
        """Reads the new value wherever it read the old one."""
        for index, value in enumerate(self._inputs):
            if value is old:
                self.replaceInput(index, new)

    def addOutput(self) -> Value:
        """Adds an output at the end."""
        value = Value(self, self._graph._number())
        self._outputs.append(value)
        return value

    def insertOutput(self, index: int) -> Value:
        """Adds an output before the one at `index`."""
        value = Value(self, self._graph._number())
        self._outputs.insert(index, value)
        return value

    def eraseOutput(self, index: int) -> None:
        """Takes away an output that nothing reads."""
        value = self._outputs[index]
        if value._uses:
            raise RuntimeError(f"value {value.debugName()} of {self._kind} is still read")
        value.setDebugName("")
        del self._outputs[index]

    def replaceAllUsesWith(self, other: Node) -> None:
        """Makes what reads this node's outputs read the other's."""
        for mine, theirs in zip(self._outputs, other._outputs, strict=True):
            mine.replaceAllUsesWith(theirs)

    # ---- blocks ----------------------------------------------------------------------------------

    def blocks(self) -> list[Block]:
        """The blocks that it runs."""
        return list(self._blocks)

    def addBlock(self) -> Block:
        """Adds an empty block."""
        block = Block(self._graph, self)
        self._blocks.append(block)
        return block

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        """The first node of a kind in its blocks."""
        return next((n for b in self._blocks if (n := b.findNode(kind, recurse))), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """All nodes of a kind in its blocks."""
        return [n for b in self._blocks for n in b.findAllNodes(kind, recurse)]

    # ---- attributes ------------------------------------------------------------------------------

    def attributeNames(self) -> list[str]:
        """The names of the attributes."""
        return list(self._attributes)

    def hasAttribute(self, name: str) -> bool:
        """Tells whether it has an attribute."""
        return name in self._attributes

    def hasAttributes(self) -> bool:
        """Tells whether it has any attribute."""
        return bool(self._attributes)

    def kindOf(self, name: str) -> str:
        """The kind of an attribute: "i", "f", "s", "t", "is", ..., "ival"."""
        return attribute_kind(self[name])

    def removeAttribute(self, name: str) -> Node:
        """Takes an attribute away."""
        self._attributes.pop(name)
        return self

    def copyAttributes(self, other: Node) -> Node:
        """Takes the attributes of another node over."""
        self._attributes = dict(other._attributes)
        return self

    def __getitem__(self, name: str) -> Any:
        if name not in self._attributes:
            raise RuntimeError(f"required keyword attribute '{name}' is undefined")
        return self._attributes[name]

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default."""
        return self._attributes.get(name, default)

    def set(self, name: str, value: Any) -> Node:
        """Sets an attribute."""
        self._attributes[name] = value
        return self

    # ---- where it stands -------------------------------------------------------------------------

    def next(self) -> Node:
        """The node after it."""
        assert self._next is not None
        return self._next

    def prev(self) -> Node:
        """The node before it."""
        assert self._prev is not None
        return self._prev

    def insertBefore(self, other: Node) -> Node:
        """Puts it, which stands nowhere, before another node."""
        assert other._prev is not None
        return self.insertAfter(other._prev)

    def insertAfter(self, other: Node) -> Node:
        """Puts it, which stands nowhere, after another node."""
        if self._owner is not None:
            raise RuntimeError(f"{self._kind} is in a block already")
        following = other._next
        assert following is not None
        self._owner = other._owner
        self._prev, self._next = other, following
        other._next = following._prev = self
        return self

    def _unlink(self) -> None:
        assert self._prev is not None and self._next is not None
        self._prev._next, self._next._prev = self._next, self._prev
        self._prev = self._next = self._owner = None

    def moveBefore(self, other: Node) -> Node:
        """Moves it before another node."""
        self._unlink()
        return self.insertBefore(other)

    def moveAfter(self, other: Node) -> Node:
        """Moves it after another node."""
        self._unlink()
        return self.insertAfter(other)

    def _path(self) -> list[Node]:
        """The nodes around it, the outermost first, then itself."""
        path = [self]
        while (owner := path[-1]._owner) is not None and owner._node is not None:
            path.append(owner._node)
        return path[::-1]

    def isBefore(self, other: Node) -> bool:
        """Tells whether it runs before another node."""
        ours, theirs = self._path(), other._path()
        for a, b in zip(ours, theirs):
            if a is not b:
                if a._owner is not b._owner:  # two blocks of one node
                    blocks = a._owner._node._blocks  # type: ignore[union-attr]
                    return blocks.index(a._owner) < blocks.index(b._owner)  # type: ignore[arg-type]
                walk: Node | None = a
                while walk is not None and walk is not b:
                    walk = walk._next if walk._kind != "prim::Return" else None
                return walk is b
        return len(ours) < len(theirs)

    def isAfter(self, other: Node) -> bool:
        """Tells whether it runs after another node."""
        return self is not other and not self.isBefore(other)

    def destroy(self) -> None:
        """Takes it out of the graph; nothing may read its outputs."""
        while self._outputs:
            self.eraseOutput(len(self._outputs) - 1)
        for block in self._blocks:
            block.destroy()
        self._blocks = []
        self.removeAllInputs()
        if self._owner is not None:
            self._unlink()

    def __repr__(self) -> str:
        from tritorch.jit.ir.printing import node_text

        return node_text(self)


def _accessors() -> None:
    """Adds `i(name)` and `i_(name, value)`, and those of the other kinds of attributes."""

    def reader(self: Node, name: str) -> Any:
        return self[name]

    def writer(self: Node, name: str, value: Any) -> Node:
        return self.set(name, value)

    for letter in ("i", "f", "s", "t", "c", "g", "ty", "ival", "is", "fs", "ss", "ts", "cs", "gs",
                   "tys", "ival"):  # fmt: skip
        setattr(Node, letter, reader)
        setattr(Node, f"{letter}_", writer)
    Node.z, Node.z_ = reader, writer  # type: ignore[attr-defined]


_accessors()


class Block:
    """A list of nodes with inputs and outputs: the body of a graph, a branch or a loop."""

    def __init__(self, graph: Graph, node: Node | None) -> None:
        self._graph, self._node = graph, node
        self._param, self._return = Node(graph, "prim::Param"), Node(graph, "prim::Return")
        for each in (self._param, self._return):
            each._owner = self
        # A ring, so that every node has a neighbour on both sides.
        self._param._next = self._param._prev = self._return
        self._return._next = self._return._prev = self._param

    def owningNode(self) -> Node | None:
        """The node whose block it is; None for a graph's."""
        return self._node

    def inputs(self) -> Iterator[Value]:
        """The values that it is given."""
        return iter(list(self._param._outputs))

    def outputs(self) -> Iterator[Value]:
        """The values that it gives."""
        return iter(list(self._return._inputs))

    def nodes(self) -> Iterator[Node]:
        """The nodes in order; nodes may be inserted and destroyed meanwhile."""
        node = self._param._next
        while node is not self._return:
            assert node is not None
            following = node._next
            yield node
            node = following if node._owner is not self else node._next

    def paramNode(self) -> Node:
        """The node whose outputs are the inputs of the block."""
        return self._param

    param_node = paramNode

    def returnNode(self) -> Node:
        """The node whose inputs are the outputs of the block."""
        return self._return

    return_node = returnNode

    def addInput(self, name: str = "") -> Value:
        """Adds an input."""
        value = self._param.addOutput()
        return value.setDebugName(name) if name else value

    addInputToBlock = addInput

    def registerOutput(self, value: Value) -> int:
        """Adds an output; gives its place."""
        self._return.addInput(value)
        return len(self._return._inputs) - 1

    def append(self, node: Node) -> Node:
        """Puts a node at the end."""
        return node.insertBefore(self._return)

    def prepend(self, node: Node) -> Node:
        """Puts a node at the beginning."""
        return node.insertAfter(self._param)

    def addNode(self, kind: str, inputs: Iterable[Value] = ()) -> Node:
        """Makes a node at the end."""
        return self.append(self._graph.create(kind, inputs))

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        """The first node of a kind."""
        for node in self.nodes():
            if node._kind == kind:
                return node
            if recurse and (found := node.findNode(kind)) is not None:
                return found
        return None

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """All nodes of a kind."""
        found = []
        for node in self.nodes():
            if node._kind == kind:
                found.append(node)
            if recurse:
                found += node.findAllNodes(kind)
        return found

    def cloneFrom(self, other: Block, values: dict[Value, Value]) -> None:
        """Copies inputs, nodes and outputs of another block; values maps its values to ours."""
        for value in other._param._outputs:
            values[value] = self.addInput().copyMetadata(value)
        for node in other.nodes():
            self.append(self._graph.createClone(node, values))
        for value in other._return._inputs:
            self.registerOutput(values.get(value, value))

    def destroy(self) -> None:
        """Destroys all nodes, the last first."""
        self._return.removeAllInputs()
        node = self._return._prev
        while node is not None and node is not self._param:
            before = node._prev
            node.destroy()
            node = before
        while self._param._outputs:
            self._param.eraseOutput(len(self._param._outputs) - 1)


class Graph(Block):
    """A function's body: a block, and the counters of its values."""

    def __init__(self) -> None:
        self._count = 0
        self._names: dict[str, Value] = {}
        self._suffixes: dict[str, int] = {}
        self._source: Any = None  # the place in the text of nodes that are made now
        self._scope = ""
        super().__init__(self, None)
        self._insert: Node = self._return

    def _number(self) -> int:
        self._count += 1
        return self._count - 1

    # ---- making nodes ----------------------------------------------------------------------------

    def create(self, kind: str, inputs: Any = (), outputs: int = 1) -> Node:
        """Makes a node that stands nowhere yet; `create(kind, outputs)`: one without inputs."""
        if isinstance(inputs, int):
            inputs, outputs = (), inputs
        node = Node(self, kind)
        for value in inputs:
            node.addInput(value)
        for _ in range(outputs):
            node.addOutput()
        return node

    def createClone(self, node: Node, values: dict[Value, Value]) -> Node:
        """Copies a node, its blocks too; values maps the values that it reads to ours."""
        copy = Node(self, node._kind)
        copy._attributes = dict(node._attributes)
        copy.source, copy._scope = node.source, node._scope
        copy._schema, copy.function = node._schema, node.function
        for value in node._inputs:
            copy.addInput(values.get(value, value))
        for value in node._outputs:
            values[value] = copy.addOutput().copyMetadata(value)
        for block in node._blocks:
            copy.addBlock().cloneFrom(block, values)
        return copy

    def insertNode(self, node: Node) -> Node:
        """Puts a node at the insertion point."""
        return node.insertBefore(self._insert)

    def appendNode(self, node: Node) -> Node:
        """Puts a node at the end."""
        return self.append(node)

    def prependNode(self, node: Node) -> Node:
        """Puts a node at the beginning."""
        return self.prepend(node)

    def insert(self, kind: str, inputs: Iterable[Value] = (), outputs: int = 1) -> Node:
        """Makes a node at the insertion point."""
        return self.create(kind, inputs, outputs).insertBefore(self._insert)

    def insertPoint(self) -> Node:
        """The node before which nodes are inserted."""
        return self._insert

    def setInsertPoint(self, where: Node | Block) -> None:
        """Inserts before a node, or at the end of a block, from now on."""
        self._insert = where._return if isinstance(where, Block) else where

    def insertConstant(self, value: Any, kind: Type | None = None) -> Value:
        """Makes a constant at the insertion point."""
        from tritorch.schema.infer import infer_type

        node = self.create("prim::Constant").insertBefore(self._insert)
        if value is not None:
            node._attributes["value"] = value
        if kind is None:
            kind = types.NoneType.get() if value is None else infer_type(value).type()
        return node._outputs[0].setType(kind)

    def insertGraph(self, callee: Graph, arguments: Iterable[Value]) -> list[Value]:
        """Copies the nodes of another graph to the insertion point; gives its outputs."""
        values = dict(zip(callee._param._outputs, arguments, strict=True))
        for node in callee.nodes():
            self.insertNode(self.createClone(node, values))
        return [values.get(value, value) for value in callee._return._inputs]

    def eraseInput(self, index: int) -> None:
        """Takes away an input that nothing reads."""
        self._param.eraseOutput(index)

    def eraseOutput(self, index: int) -> None:
        """Takes an output of the graph away."""
        self._return.removeInput(index)

    def copy(self) -> Graph:
        """A graph like this one."""
        copy = Graph()
        copy.cloneFrom(self, {})
        return copy

    # ---- looking at it ---------------------------------------------------------------------------

    def lint(self) -> None:
        """Checks that each value is computed before it is read, and that uses are kept."""
        _lint(self, set())

    def block(self) -> Block:
        """The block of the graph."""
        return self

    def str(self, print_source_ranges: bool = True) -> builtins.str:
        """The text of the graph."""
        from tritorch.jit.ir.printing import graph_text

        return graph_text(self, print_source_ranges)

    def dump(self) -> None:
        """Prints the graph."""
        print(self.str())

    dump_alias_db = dump

    def __str__(self) -> builtins.str:
        return Graph.str(self)

    __repr__ = __str__


def _lint(block: Block, seen: set[int]) -> None:
    seen = seen | {id(value) for value in block._param._outputs}
    for node in (*block.nodes(), block._return):
        for offset, value in enumerate(node._inputs):
            if id(value) not in seen:
                raise RuntimeError(f"{value.debugName()} is read by {node} before it is computed")
            if not any(u.user is node and u.offset == offset for u in value._uses):
                raise RuntimeError(f"{value.debugName()} does not know that {node} reads it")
        for inner in node._blocks:
            _lint(inner, seen)
        seen |= {id(value) for value in node._outputs}


for _class in (Use, Value, Node, Block, Graph):
    _class.__module__ = "tritorch"
