"""Graphs: nodes in the order in which they run, and the Python code that runs them."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tritorch.arrays.symbolic import SymBool, SymFloat, SymInt
from tritorch.core.scopes import Scope, ScopeWhenMade, set_back
from tritorch.fx._codegen import (
    CodeGen,
    PythonCode,
    TransformCodeFunc,
    _BoxedCodeGen as _BoxedCodeGen,
    _custom_builtins as _custom_builtins,
    _ExportCodeGen as _ExportCodeGen,
    _format_target as _format_target,
    _is_magic,
    _Namespace,
    _override_sym_repr as _override_sym_repr,
    _parse_stack_trace as _parse_stack_trace,
    _ParsedStackTrace as _ParsedStackTrace,
    _PyTreeCodeGen as _PyTreeCodeGen,
    _PyTreeInfo as _PyTreeInfo,
    _register_custom_builtin as _register_custom_builtin,
    _snake_case,
    inplace_methods as inplace_methods,
    magic_methods as magic_methods,
    reflectable_magic_methods as reflectable_magic_methods,
)
from tritorch.fx._compatibility import compatibility
from tritorch.fx._naming import is_ours as _is_from_torch  # noqa: F401  (PyTorch's name)
from tritorch.fx.immutable_collections import immutable_dict
from tritorch.fx.node import _GAP, Node, _legal_ops, map_arg
from tritorch.nn.modules.module import Module

if TYPE_CHECKING:
    from tritorch.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

_NO_NODES: immutable_dict[str, Any] = immutable_dict()


class _node_list:
    """The nodes of a graph, in order; they may be changed on the way."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = getattr(root, self.direction)
        while node is not root:
            after = getattr(node, self.direction)
            if not node._erased:
                yield node
            node = getattr(node, self.direction) if not node._erased else after

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


@compatibility(is_backward_compatible=True)
class Graph:
    """A program as a list of nodes: inputs, calls, an output."""

    @compatibility(is_backward_compatible=True)
    def __init__(
        self, owning_module: GraphModule | None = None, tracer_cls: Any = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self._root = Node(self, "", "root", "", (), {})
        self._used_names: dict[str, int] = {}
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = _Namespace()
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}  # where the traced function is defined

    @property
    def owning_module(self) -> Any:
        """The GraphModule whose graph it is."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: Any) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """All nodes."""
        return _node_list(self)

    @compatibility(is_backward_compatible=False)
    def output_node(self) -> Node:
        """The node of the result."""
        last = self._root._prev
        if last.op != "output":
            raise AssertionError(f"Expected output node, got op={last.op}")
        return last

    @compatibility(is_backward_compatible=False)
    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, in their order; target: those which call it."""
        if op == "call_function" and target is None:
            raise AssertionError("target must not be None for call_function op")
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def _number_again(self) -> None:
        """Gives nodes sort keys with room between neighbours."""
        for place, node in enumerate(self.nodes, 1):
            node._sort_key = place * _GAP

    # ---- making nodes ---------------------------------------------------------------------------

    @compatibility(is_backward_compatible=True)
    def create_node(
        self, op: str, target: Any, args: Any = None, kwargs: Any = None, name: str | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """A node where nodes are put."""
        if not args:
            args = ()
        elif not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not kwargs:
            kwargs = _NO_NODES
        elif not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        for value in args:
            if isinstance(value, (SymInt, SymFloat, SymBool)):
                _warn_of_symbol(op, target, value)
        space = self._graph_namespace
        name = space.create_name(name if name is not None else self._target_to_str(target), None)
        node = Node(self, name, op, target, args, kwargs, type_expr)
        owner = self._owning_module
        if owner is not None:
            for hook in getattr(owner, "_create_node_hooks", ()):
                hook(node)
        space._obj_to_name[node] = name
        self._insert(node)
        self._len += 1
        return node

    def _target_to_str(self, target: Any) -> str:
        if callable(target):
            name = target.__name__
        else:
            if not isinstance(target, str):
                raise AssertionError(f"Expected target to be str, got {type(target)}")
            name = target[2:-2] if _is_magic(target) else target
        return _snake_case(name)

    @compatibility(is_backward_compatible=True)
    def placeholder(
        self, name: str, type_expr: Any = None, default_value: Any = inspect.Signature.empty
    ) -> Node:
        """An input of the function."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """An attribute of the module."""
        owner = self.owning_module
        if owner is not None and not _is_value(owner, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning "
                "GraphModule! Call GraphModule.add_submodule to add the necessary submodule, "
                "GraphModule.add_parameter to add the necessary Parameter, or "
                "nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def call_module(
        self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a submodule."""
        owner = self.owning_module
        if owner is not None:
            owner.get_submodule(module_name)  # raises where there is none
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def call_method(
        self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def call_function(
        self, the_function: Callable[..., Any], args: Any = None, kwargs: Any = None,
        type_expr: Any = None, name: str | None = None,
    ) -> Node:  # fmt: skip
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    @compatibility(is_backward_compatible=True)
    def output(self, result: Any, type_expr: Any = None) -> Node:
        """The result of the function."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A copy of another graph's node, its arguments' nodes replaced."""
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    @compatibility(is_backward_compatible=True)
    def graph_copy(
        self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False
    ) -> Any:
        """Copies another graph's nodes here; gives its result's value."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    # ---- places ---------------------------------------------------------------------------------

    @compatibility(is_backward_compatible=True)
    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Inside of `with`, and from now on, nodes are put before one (None: at the beginning)."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    @compatibility(is_backward_compatible=True)
    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Inside of `with`, and from now on, nodes are put after one (None: at the end)."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    @compatibility(is_backward_compatible=True)
    def erase_node(self, to_erase: Node) -> None:
        """Takes out a node that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self._owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        nothing = lambda n: None
        to_erase._update_args_kwargs(
            map_arg(to_erase._args, nothing), map_arg(to_erase._kwargs, nothing)
        )

    @compatibility(is_backward_compatible=True)
    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Takes out nodes whose results nobody uses, in graphs that it holds too; gives whether
        there were any."""
        from tritorch.fx.graph_module import GraphModule

        self.lint()
        impure = is_impure_node or Node.is_impure
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
                changed = True
        if self.owning_module is not None:
            inner = {node.target for node in self.find_nodes(op="get_attr")}
            for name, module in self.owning_module.named_children():
                if name in inner and isinstance(module, GraphModule):
                    changed |= module.graph.eliminate_dead_code()
                    module.recompile()
        return changed

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)

    # ---- text -----------------------------------------------------------------------------------

    @compatibility(is_backward_compatible=False)
    def set_codegen(self, codegen: CodeGen) -> None:
        """Says how it is written as code."""
        self._codegen = codegen

    @compatibility(is_backward_compatible=False)
    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> Any:
        """Registers what changes the lines of generated code; gives a context that undoes it.

        make_transformer: gives it, for the one that is registered, or None."""
        codegen = self._codegen
        before = codegen._body_transformer
        codegen._body_transformer = make_transformer(before)

        return Scope(set_back(setattr, codegen, "_body_transformer", before))

    @compatibility(is_backward_compatible=False)
    def process_inputs(self, *args: Any) -> Any:
        """The values of placeholders for the function's arguments."""
        return self._codegen.process_inputs(*args)

    @compatibility(is_backward_compatible=False)
    def process_outputs(self, out: Any) -> Any:
        """What the function gives, for the value of the output node."""
        return self._codegen.process_outputs(out)

    @compatibility(is_backward_compatible=True)
    def python_code(
        self, root_module: str, *, verbose: bool = False, include_stride: bool = False,
        include_device: bool = False, colored: bool = False, expanded_def: bool = False,
        record_func: bool = False, additional_meta: list[str] | None = None,
    ) -> PythonCode:  # fmt: skip
        """The graph as a function; root_module: what its code calls the module.

        verbose: with what is known of values, and comments that say where the program makes the
        calls; include_stride, include_device: more of values; expanded_def: a line for each
        argument; additional_meta: keys of `meta` for the comments.  record_func: nothing here."""
        space = _Namespace()
        named = lambda node: space.create_name(node.name, node)
        nodes = list(self.nodes)
        before = [node._repr_fn for node in nodes]
        for node in nodes:
            node._repr_fn = named
        try:
            return self._python_code(
                root_module, space, verbose=verbose, include_stride=include_stride,
                include_device=include_device, colored=colored, expanded_def=expanded_def,
                record_func=record_func, additional_meta=additional_meta,
            )  # fmt: skip
        finally:
            for node, function in zip(nodes, before):
                node._repr_fn = function

    def _python_code(self, root_module: str, namespace: _Namespace, **options: Any) -> PythonCode:
        return self._codegen._gen_python_code(self.nodes, root_module, namespace, **options)

    def __str__(self) -> str:
        names: list[str] = []
        lines = [node.format_node(names) for node in self.nodes]
        body = "".join(f"\n    {line}" for line in lines if line)
        return f"graph({', '.join(names)}):{body}"

    @compatibility(is_backward_compatible=True)
    def print_tabular(self) -> None:
        """Prints a table of its nodes, as the package `tabulate` writes one."""
        try:
            from tabulate import tabulate  # type: ignore[import-untyped]
        except ImportError:
            print(
                "`print_tabular` relies on the library `tabulate`, which could not be found on "
                "this machine. Run `pip install tabulate` to install the library."
            )
            raise
        rows = [[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes]
        print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))

    # ---- soundness ------------------------------------------------------------------------------

    @compatibility(is_backward_compatible=True)
    def lint(self) -> None:
        """Raises where the graph is no program: wrong owners, uses before definitions, targets
        that the module does not have."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.op not in _legal_ops or node.op == "root":
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for used in node._input_nodes:
                if used.graph is not self:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' does not belong to this Graph, but "
                        "was used as an argument! If you are copying nodes from another graph, "
                        f"make sure to use ``arg_transform`` on node_copy() to remap values\n{self}"
                    )
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! "
                        f"Please check that Nodes in the graph are topologically ordered\n{self}"
                    )
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                self._lint_target(node)

    def _lint_target(self, node: Node) -> None:
        """Raises where what a node calls is not there."""
        if (node.op == "call_function") is isinstance(node.target, str):
            wanted = "Callable" if node.op == "call_function" else "str"
            raise ValueError(
                f"Node {node} target {node.target} has type {type(node.target).__name__} but a "
                f"{wanted} is expected"
            )
        if node.op not in ("get_attr", "call_module"):
            return
        found = self.owning_module
        parts = node.target.split(".")
        for place, part in enumerate(parts):
            found, seen = getattr(found, part, None), ".".join(parts[:place])
            if found is None:
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {part} of "
                    f"{seen}"
                )
            if node.op == "call_module" and not isinstance(found, Module):
                raise RuntimeError(
                    f"Node {node} target {node.target} {part} of {seen} does not reference an "
                    "nn.Module"
                )

    def __deepcopy__(self, memo: Any = None) -> Graph:
        memo = {} if memo is None else memo
        made = Graph(tracer_cls=self._tracer_cls)
        result = made.graph_copy(self, memo, return_output_node=True)
        made._codegen = copy.deepcopy(self._codegen)
        if result is not None:
            value, old = result
            new = made.output(value, old.type)
            new.meta = copy.copy(old.meta)
        return made


def _warn_of_symbol(op: str, target: Any, value: Any) -> None:
    if op in ("call_function", "call_method", "call_module"):
        warnings.warn(
            f"Raw {type(value).__name__} value ({value}) passed as argument to "
            f"Graph.create_node(op='{op}', target={target}).",
            stacklevel=3,
        )


class _InsertPoint(ScopeWhenMade):
    def changes(self, graph: Graph, insert: Callable[[Node], None]) -> Any:
        return ((graph, "_insert", insert),)


def _is_value(module: Any, target: str) -> bool:
    """Whether a module has a submodule, parameter or buffer under a dotted name."""
    path, _, name = target.rpartition(".")
    try:
        owner = module.get_submodule(path)
    except AttributeError:
        return False
    if not hasattr(owner, name):
        return False
    found = getattr(owner, name)
    return isinstance(found, Module) or name in owner._parameters or name in owner._buffers
