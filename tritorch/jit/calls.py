"""Compiled functions as programs call them, with their graphs and their source."""

from __future__ import annotations

import threading
from typing import Any

from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.graph import Graph
from tritorch.jit.ir.passes import inlined
from tritorch.jit.run.executor import entry


class _Active(threading.local):
    """The recorder of a trace in this thread, if there is one."""

    tracer: Any = None


_active = _Active()


def call(function: GraphFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs a function with values of Python."""
    if _active.tracer is not None:
        return _active.tracer.call(function, args, kwargs)
    return entry(function)(args, kwargs)


class Compiled:
    """The base of functions and methods: their graph, source and signature."""

    _graph_function: GraphFunction

    @property
    def graph(self) -> Graph:
        """The graph as it was compiled, with its calls."""
        return self._graph_function.graph

    @property
    def inlined_graph(self) -> Graph:
        """The graph with the graphs of the functions that it calls in their place."""
        return inlined(self._graph_function.graph)

    @property
    def code(self) -> str:
        """The function as TorchScript source."""
        from tritorch.jit.archive.code import function_source

        return function_source(self._graph_function)[0]

    @property
    def code_with_constants(self) -> tuple[str, Any]:
        """The source, and the constants that it names `CONSTANTS.c0` and so on."""
        from tritorch.jit.archive.code import ConstMap, function_source

        text, constants = function_source(self._graph_function)
        return text, ConstMap(constants)

    @property
    def schema(self) -> Any:
        """The signature."""
        return self._graph_function.schema

    @property
    def qualified_name(self) -> str:
        """The name with its namespaces."""
        return self._graph_function.qualified_name

    @property
    def name(self) -> str:
        """The name."""
        return self._graph_function.name

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph that runs with these arguments."""
        self(*args, **kwargs)  # type: ignore[operator]
        return self.inlined_graph

    def get_debug_state(self) -> Any:
        """Refused: there is no executor with plans of its own."""
        raise RuntimeError(
            "get_debug_state(): tritorch runs graphs as they are and keeps no execution plans"
        )

    def _debug_flush_compilation_cache(self) -> None:
        """Nothing is kept that could be flushed."""


class ScriptFunction(Compiled):
    """A function that was scripted or traced."""

    def __init__(self, function: GraphFunction) -> None:
        self._graph_function = function
        self.__name__ = function.name
        self.__qualname__ = function.name
        self.__doc__ = function.doc or None
        self._torchdynamo_inline: Any = function.python

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call(self._graph_function, args, kwargs)

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Writes an archive that has the function as the forward of a module."""
        from tritorch.jit.archive.writing import save_function

        save_function(self._graph_function, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """The archive as bytes."""
        import io

        buffer = io.BytesIO()
        self.save(buffer, _extra_files)
        return buffer.getvalue()

    def __getstate__(self) -> Any:
        raise RuntimeError("ScriptFunction cannot be pickled")

    def __deepcopy__(self, memo: Any) -> ScriptFunction:
        return self


ScriptFunction.__module__ = "torch.jit"


class ScriptMethod(Compiled):
    """A method of an object, bound to it."""

    def __init__(self, function: GraphFunction, owner: Any) -> None:
        self._graph_function, self.owner = function, owner
        self.__name__ = function.name
        self.__doc__ = function.doc or None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call(self._graph_function, (self.owner, *args), kwargs)

    @property
    def raw_owner(self) -> Any:
        """The object."""
        return self.owner

    def __getstate__(self) -> Any:
        raise RuntimeError("ScriptMethod cannot be pickled")


ScriptMethod.__module__ = "tritorch"
