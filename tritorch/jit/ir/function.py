"""Compiled functions and the unit that keeps them, with the classes that they name."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from tritorch.jit.ir.graph import Graph
from tritorch.schema.signature import FunctionSchema


class GraphFunction:
    """A function or method: its qualified name, its graph and signature, made when first asked for.

    define: fills in `graph` and `schema`; it runs once.
    """

    def __init__(
        self,
        qualified_name: str,
        graph: Graph | None = None,
        schema: FunctionSchema | None = None,
        define: Callable[[GraphFunction], None] | None = None,
    ) -> None:
        self.qualified_name = qualified_name
        self._graph, self._schema, self._define = graph, schema, define
        self._is_being_defined = False
        self.doc = ""
        self.runner: Any = None  # tritorch.jit.run: the compiled form of the graph
        self.inlined_in: weakref.WeakSet[GraphFunction] = weakref.WeakSet()
        self.python: Any = None  # the function of a program that it was made from

    @property
    def name(self) -> str:
        """The name without its namespaces."""
        return self.qualified_name.rpartition(".")[2]

    def ensure_defined(self) -> None:
        """Makes graph and signature; RuntimeError if that is under way already."""
        if self._define is None:
            return
        if self._is_being_defined:
            raise RecursionError(
                f"function '{self.name}' is called recursively. Recursive calls are not supported"
            )
        self._is_being_defined = True
        try:
            self._define(self)
        finally:
            self._is_being_defined = False
        self._define = None

    @property
    def graph(self) -> Graph:
        """The graph."""
        if self._graph is None:
            self.ensure_defined()
        assert self._graph is not None
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self._graph = graph
        self.forget_runner()

    def forget_runner(self) -> None:
        """Forget the compiled graph, and those that it was inlined in: the next call compiles."""
        self.runner = None
        callers, self.inlined_in = self.inlined_in, weakref.WeakSet()
        for caller in list(callers):
            caller.forget_runner()

    @property
    def schema(self) -> FunctionSchema:
        """The signature; a function with declared types has it before its graph."""
        if self._schema is None:
            self.ensure_defined()
        assert self._schema is not None
        return self._schema

    @schema.setter
    def schema(self, schema: FunctionSchema) -> None:
        self._schema = schema


class CompilationUnit:
    """Functions and types by their qualified names; objects of one program share it."""

    def __init__(self) -> None:
        self.functions: dict[str, GraphFunction] = {}
        self.types: dict[str, Any] = {}
        self._mangles = 0

    def mangle(self, name: str) -> str:
        """A name like this one that nothing has yet: `a.___torch_mangle_0.B`."""
        if name not in self.functions and name not in self.types:
            return name
        parts = [p for p in name.split(".") if not p.startswith("___torch_mangle_")]
        while True:
            made = ".".join((*parts[:-1], f"___torch_mangle_{self._mangles}", parts[-1]))
            self._mangles += 1
            if made not in self.functions and made not in self.types:
                return made
