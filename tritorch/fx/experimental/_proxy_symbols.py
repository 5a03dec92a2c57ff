"""Nodes of the dynamic numbers of a trace: sizes of tensors, and arithmetic on them."""

from __future__ import annotations

import operator
from typing import Any

from tritorch.arrays import sym_functions
from tritorch.arrays.symbolic import Monomial, Symbol, SymBool, SymFloat, SymInt, symbol_of
from tritorch.compat.torch_private._ops import ops
from tritorch.core.tensor import Tensor
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node

OPEN = (SymInt, SymFloat, SymBool)
_ARITHMETIC = {
    "//": operator.floordiv, "%": operator.mod, "min": sym_functions.sym_min,
    "max": sym_functions.sym_max,
}  # fmt: skip
_IN_GRAPHS: dict[Any, Any] = {float: sym_functions.sym_float}


class SymbolNodes:
    """Which nodes of a graph the open numbers of its trace are; makes them when they are used."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        # Of each symbol that a tensor's size is, that tensor's node and the dim.
        self._sources: dict[Symbol, tuple[Node, int]] = {}
        # By text: sizes that are more than a symbol.
        self._compound: dict[str, tuple[SymInt, Node, int]] = {}
        # By a number's type and text, which says all of it.
        self._nodes: dict[tuple[type, str], Any] = {}

    def see(self, tensor: Tensor, node: Node) -> None:
        """Says that sizes of a tensor may be asked of its node."""
        for dim, size in enumerate(tensor._array.shape):
            symbol = symbol_of(size)
            if symbol is not None:
                self._sources.setdefault(symbol, (node, dim))
            elif isinstance(size, SymInt):
                self._compound.setdefault(str(size), (size, node, dim))

    def track(self, number: Any, node: Node) -> None:
        """Says which node a number is the value of."""
        self._nodes[type(number), str(number)] = node

    def node_of(self, number: Any) -> Any:
        """The node of a number; the number itself where symbols do not matter to it."""
        key = type(number), str(number)
        if key not in self._nodes:
            made = self._nodes[key] = self._made(number)
            if isinstance(made, Node):
                made.meta["val"] = number
        return self._nodes[key]

    def _made(self, number: Any) -> Any:
        if isinstance(number, SymInt):
            return self._polynomial(number)
        if number.made is None:
            raise RuntimeError(f"{number} is of no input of the graph that is traced")
        function, *operands = number.made
        return self._called(function, *operands)

    def _called(self, function: Any, *operands: Any) -> Node:
        given = tuple(self.node_of(x) if isinstance(x, OPEN) else x for x in operands)
        return self.graph.call_function(_IN_GRAPHS.get(function, function), given)

    def _polynomial(self, number: SymInt) -> Any:
        """A sum of products, whose constant comes last, as programs mostly write it."""
        symbol = symbol_of(number)
        if symbol is not None:
            return self._size(symbol)
        if str(number) in self._compound:
            return self._size_of(*self._compound[str(number)][1:])
        terms = sorted(number.terms.items(), key=lambda term: (term[0] == (), term[1] < 0))
        (monomial, n), *rest = terms
        total = self._product(monomial, n)
        for monomial, n in rest:
            sign = operator.sub if n < 0 else operator.add
            total = self.graph.call_function(sign, (total, self._product(monomial, abs(n))))
        return total

    def _product(self, monomial: Monomial, n: int) -> Any:
        factors = [self._atom(atom) for atom, power in monomial for _ in range(power)]
        if not factors:
            return n
        product, *rest = factors
        for factor in rest if abs(n) == 1 else [*rest, n]:
            product = self.graph.call_function(operator.mul, (product, factor))
        return self.graph.call_function(operator.neg, (product,)) if n == -1 else product

    def _atom(self, atom: Any) -> Any:
        if not isinstance(atom, Symbol):
            return self._called(_ARITHMETIC[atom.kind], atom.a._plain(), atom.b._plain())
        key = SymInt, str(atom)
        if key not in self._nodes:
            self._nodes[key] = self._size(atom)
        return self._nodes[key]

    def _size(self, symbol: Symbol) -> Node:
        if symbol in self._sources:
            return self._size_of(*self._sources[symbol])
        for size, node, dim in self._compound.values():
            factor, rest = size.terms.get(((symbol, 1),), 0), size.terms.get((), 0)
            if factor and len(size.terms) == 1 + bool(rest):  # it is factor * symbol + rest
                found = self._size_of(node, dim)
                if rest:
                    found = self.graph.call_function(operator.sub, (found, rest))
                return self.graph.call_function(operator.floordiv, (found, factor))
        raise RuntimeError(f"{symbol} is of no input of the graph that is traced")

    def _size_of(self, node: Node, dim: int) -> Node:
        return self.graph.create_node(
            "call_function", ops.aten.sym_size.int, (node, dim), {}, "sym_size_int"
        )
