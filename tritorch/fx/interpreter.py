"""Interpreter: a graph run node by node; Transformer: a graph made anew from another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, map_aggregate, map_arg
from tritorch.fx.proxy import GraphAppendingTracer, Proxy
from tritorch.nn.modules.module import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph; a subclass may change what any kind of node does."""

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        """garbage_collect_values: a value is dropped after its last use."""
        self.module: Any = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for node in reversed(self.graph.nodes):
            for used in node.all_input_nodes:
                if used not in seen:
                    seen.add(used)
                    self.user_to_last_uses.setdefault(node, []).append(used)

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:  # fmt: skip
        """The graph's result for arguments.  initial_env: values of nodes that are not run."""
        self.env = {} if initial_env is None else dict(initial_env)
        given = self.graph.process_inputs(*args) if enable_io_processing else args
        self.args_iter: Iterator[Any] = iter(given)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    note = f"While executing {node.format_node()}"
                    if node.stack_trace:
                        note += f"\nOriginal traceback:\n{node.stack_trace}"
                    text = f"{error.args[0]}\n\n{note}" if error.args else note
                    error.args = (text, *error.args[1:])
                raise
            if self.garbage_collect_values:
                for used in self.user_to_last_uses.get(node, ()):
                    del self.env[used]
            if node.op == "output":
                found = self.env[node]
                return self.graph.process_outputs(found) if enable_io_processing else found
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """`run` of a list of arguments, which it empties."""
        given = tuple(args_list)
        args_list.clear()
        return self.run(*given)

    def run_node(self, n: Node) -> Any:
        """The value of a node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The next argument, or all that are left."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A function's result."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A method's result."""
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A module's result."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The result."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """An attribute of the module by a dotted name."""
        found = self.module
        for i, part in enumerate(target.split(".")):
            if not hasattr(found, part):
                there = ".".join(target.split(".")[: i + 1])
                raise RuntimeError(f"Node referenced nonexistent target {there}")
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values of a node's arguments."""
        args, kwargs = self.map_nodes_to_values((n.args, n.kwargs), n)
        return tuple(args), dict(kwargs)

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


class Transformer(Interpreter):
    """An interpreter on proxies, whose calls make a new graph: `transform()`."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.new_graph = Graph(tracer_cls=self.graph._tracer_cls)
        self.new_graph.set_codegen(self.graph._codegen)

        class TransformerTracer(GraphAppendingTracer):
            """A tracer into the new graph, which keeps modules whole."""

            def is_leaf_module(self, _: Any, __: Any) -> bool:
                """Whether a module's call is a node: always."""
                return True

        self.tracer = TransformerTracer(self.new_graph)
        self.tracer.root = module  # type: ignore[attr-defined]

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An input of the new graph."""
        default = next(iter(args)) if args else ...
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An attribute, read in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A module's call in the new graph."""
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be a str, got {type(target)}")
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A function's call in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The module of the new graph."""
        result = super().run(enable_io_processing=False)
        if result is not None:
            plain = lambda a: a.node if isinstance(a, Proxy) else a
            self.new_graph.output(map_aggregate(result, plain))
        return GraphModule(self.module, self.new_graph)
