"""Interpreter: a graph run node by node; Transformer: a graph made anew from another."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from tritorch.fx import traceback as fx_traceback
from tritorch.fx._compatibility import compatibility
from tritorch.fx._lazy_graph_module import _make_graph_module
from tritorch.fx._symbolic_trace import Tracer
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, map_aggregate, map_arg
from tritorch.fx.proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


@compatibility(is_backward_compatible=True)
class Interpreter:
    """Runs a graph; a subclass may change what any kind of node does."""

    @compatibility(is_backward_compatible=True)
    def __init__(
        self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        """garbage_collect_values: a value is dropped after its last use."""
        self.module: Any = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        if not garbage_collect_values:
            return
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for node in reversed(self.graph.nodes):
            for used in node._input_nodes:
                if used not in seen:
                    seen.add(used)
                    self.user_to_last_uses.setdefault(node, []).append(used)

    @compatibility(is_backward_compatible=True)
    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:  # fmt: skip
        """The graph's result for arguments.  initial_env: values of nodes that are not run.
        enable_io_processing: nested arguments are taken apart, and results put together."""
        self.env = {} if initial_env is None else initial_env
        given = self.graph.process_inputs(*args) if enable_io_processing else args
        self.args_iter: Iterator[Any] = iter(given)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    self._explain(error, node)
                    if isinstance(error, KeyError):  # which shows its text in quotes
                        raise RuntimeError(*error.args) from error
                raise
            if self.garbage_collect_values:
                for used in self.user_to_last_uses.get(node, ()):
                    del self.env[used]
            if node.op == "output":
                found = self.env[node]
                return self.graph.process_outputs(found) if enable_io_processing else found
        return None

    def _explain(self, error: Exception, node: Node) -> None:
        """Says in an error which node it is of."""
        note = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
        text = f"{error.args[0]}\n\n{note}" if error.args else note
        error.args = (text, *error.args[1:])

    @compatibility(is_backward_compatible=True)
    def boxed_run(self, args_list: list[Any]) -> Any:
        """`run` of a list of arguments, which it empties, so that they are dropped too."""
        inputs = [node for node in self.graph.nodes if node.op == "placeholder"]
        if len(args_list) != len(inputs):
            what = "extra arguments" if len(args_list) > len(inputs) else "missing arguments"
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(inputs)} arguments for placeholders but "
                f"received {len(args_list)} ({what})"
            )
        env = dict(zip(inputs, args_list))
        args_list.clear()
        return self.run(initial_env=env)

    def _set_current_node(self, node: Node) -> Any:
        return fx_traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}")

    @compatibility(is_backward_compatible=True)
    def run_node(self, n: Node) -> Any:
        """The value of a node."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    @compatibility(is_backward_compatible=True)
    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The next argument, or all that are left."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration as end:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from end

    @compatibility(is_backward_compatible=True)
    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(target)

    @compatibility(is_backward_compatible=True)
    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A function's result."""
        if isinstance(target, str):
            raise AssertionError("target should not be a string for call_function")
        return target(*args, **kwargs)

    @compatibility(is_backward_compatible=True)
    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A method's result."""
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    @compatibility(is_backward_compatible=True)
    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A module's result."""
        return self.fetch_attr(target)(*args, **kwargs)

    @compatibility(is_backward_compatible=True)
    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The result."""
        return args[0]

    @compatibility(is_backward_compatible=True)
    def fetch_attr(self, target: str) -> Any:
        """An attribute of the module by a dotted name."""
        found = self.module
        for i, part in enumerate(target.split(".")):
            if not hasattr(found, part):
                there = ".".join(target.split(".")[: i + 1])
                raise RuntimeError(f"Node referenced nonexistent target {there}")
            found = getattr(found, part)
        return found

    @compatibility(is_backward_compatible=True)
    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values of a node's arguments."""
        args = self.map_nodes_to_values(n.args, n)
        kwargs = self.map_nodes_to_values(n.kwargs, n)
        return args, kwargs

    @compatibility(is_backward_compatible=True)
    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Arguments with values in the place of nodes."""

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose "
                    "such issues"
                )
            return self.env[node]

        return map_arg(args, value)


class _TransformerTracer(Tracer):
    """A tracer into a new graph, which keeps modules whole."""

    def __init__(self, graph: Graph, root: Any) -> None:
        super().__init__()
        self.graph, self.root = graph, root
        self.tensor_attrs = {}

    def is_leaf_module(self, _: Any, __: Any) -> bool:
        """Whether a module's call is a node: always."""
        return True


@compatibility(is_backward_compatible=True)
class Transformer(Interpreter):
    """An interpreter on proxies, whose calls make a new graph: `transform()`."""

    @compatibility(is_backward_compatible=True)
    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph, module)

    @compatibility(is_backward_compatible=True)
    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An input of the new graph."""
        default = next(iter(args)) if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    @compatibility(is_backward_compatible=True)
    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An attribute, read in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    @compatibility(is_backward_compatible=True)
    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A module's call in the new graph."""
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be a str, got {type(target)}")
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)

    @compatibility(is_backward_compatible=True)
    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A function's call in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    @compatibility(is_backward_compatible=True)
    def transform(self) -> GraphModule:
        """The module of the new graph, whose nodes take over the meta of those they come from."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            plain = lambda a: a.node if isinstance(a, Proxy) else a
            made = self.new_graph.output(map_aggregate(result, plain))
            made.meta.update(self.graph.output_node().meta)
        return _make_graph_module(self.module, self.new_graph)
