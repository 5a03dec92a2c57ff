"""Nodes: the calls of which a graph consists."""

from __future__ import annotations

import builtins
import inspect
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tritorch.core.device import device
from tritorch.core.dtype import dtype
from tritorch.core.layout import layout, memory_format
from tritorch.core.symbolic import SymBool, SymFloat, SymInt
from tritorch.core.tensor import Tensor
from tritorch.fx.immutable_collections import immutable_dict, immutable_list
from tritorch.ops.record.overloads import OpOverload, OpOverloadPacket
from tritorch.ops.record.publishing import record_of

if TYPE_CHECKING:
    from tritorch.fx.graph import Graph

__all__ = ["Argument", "Node", "has_side_effect", "map_aggregate", "map_arg"]

Argument = Any
BASE_TYPES = (
    str, int, float, bool, complex, dtype, Tensor, device, memory_format, layout, OpOverload,
    SymInt, SymBool, SymFloat,
)  # fmt: skip
OPS = (
    "placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root",
)  # fmt: skip
_side_effects: set[Any] = {builtins.setattr, operator.setitem}


def has_side_effect(function: Any) -> Any:
    """Says that calls of a function may not be dropped though nobody uses their result."""
    _side_effects.add(function)
    return function


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """`fn` of everything that is no tuple, list, dict or slice, inside of these."""
    kind = type(a)
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return kind(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict([(key, map_aggregate(value, fn)) for key, value in a.items()])
    if kind is slice:
        return slice(*(map_aggregate(v, fn) for v in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """`fn` of every node among arguments."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _public_module(func: Any, name: str) -> str:
    module = getattr(func, "__module__", None)
    return _find_module(func, name) if module is None else module


def _find_module(func: Any, name: str) -> str:
    for module in (operator, builtins):
        if getattr(module, name, None) is func:
            return module.__name__
    raise RuntimeError(f"cannot find module for {func}")


def get_qualified_name(func: Any) -> str:
    """The dotted name by which generated code calls a function, beginning with "torch" for ours."""
    if isinstance(func, (OpOverload, OpOverloadPacket)):
        return f"torch.ops.{func}"
    name = getattr(func, "__name__", None)
    if getattr(builtins, name or "", None) is func:
        return str(name)
    if isinstance(func, type(str.upper)):
        return f"str.{name}"
    qualified = getattr(func, "__qualname__", name)
    module = _public_module(func, str(name))
    if module == "_operator":
        module = "operator"
    first, dot, rest = module.partition(".")
    if first in ("tritorch", "torch"):
        module = f"torch{dot}{rest}"
        if str(qualified).startswith("Tensor."):
            return f"torch.{qualified}"
    return f"{module}.{name}"


class Node:
    """One call in a graph: what it calls, with which arguments, and who uses its result."""

    def __init__(
        self, graph: Graph, name: str, op: str, target: Any, args: tuple[Any, ...],
        kwargs: dict[str, Any], return_type: Any = None,
    ) -> None:  # fmt: skip
        if op not in OPS:
            raise AssertionError(f"op '{op}' is no kind of node: {OPS}")
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                    f"{type(target)} but a Callable is expected"
                )
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} "
                "but a str is expected"
            )
        self.graph, self.name, self.op, self.target, self.type = (
            graph,
            name,
            op,
            target,
            return_type,
        )
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._set_arguments(tuple(args), dict(kwargs))
        self._prev = self._next = self
        self._erased = False
        self.meta: dict[str, Any] = {}
        self._repr_fn: Callable[[Node], str] | None = None

    # ---- order ----------------------------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node after it."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before it."""
        return self._prev

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x: Node) -> None:
        """Puts a node before this one."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._remove_from_list()
        before = self._prev
        before._next = x
        x._prev, x._next = before, self
        self._prev = x

    def append(self, x: Node) -> None:
        """Puts a node after this one."""
        self._next.prepend(x)

    def __lt__(self, other: Node) -> bool:
        node = self._next
        while node is not other.graph._root:
            if node is other:
                return True
            node = node._next
        return False

    def __gt__(self, other: Node) -> bool:
        return other < self

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or other < self

    # ---- arguments ------------------------------------------------------------------------------

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments by position."""
        return self._args

    @args.setter
    def args(self, a: tuple[Any, ...]) -> None:
        self._set_arguments(tuple(a), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Any]) -> None:
        self._set_arguments(self._args, dict(k))

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among its arguments, each once."""
        return list(self._input_nodes)

    def _set_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for old in self._input_nodes:
            old.users.pop(self, None)
        inputs: dict[Node, None] = {}

        def seen(node: Node) -> Node:
            inputs.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args = map_arg(args, seen)
        self._kwargs = map_arg(kwargs, seen)
        self._input_nodes = inputs

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replaces an argument by position."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Puts an argument before the one at a position."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Replaces an argument by name."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Puts a node in another one's place among the arguments."""
        change = lambda n: new_input if n is old_input else n
        self._set_arguments(map_arg(self.args, change), map_arg(self.kwargs, change))

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *, propagate_meta: bool = False,
    ) -> list[Node]:  # fmt: skip
        """Puts a node in this one's place wherever it is used; gives the users."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                    "replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # ---- what it is -----------------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """Where the program made the call."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it may not be dropped though nobody uses its result."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            schema = getattr(self.target, "_schema", None)
            if schema is not None and schema.is_mutable:
                return True
            if impure_random and _draws(self.target):
                return True
            return self.target in _side_effects
        if self.op == "call_method":
            return str(self.target).endswith("_") and not str(self.target).endswith("__")
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            module = owner.get_submodule(self.target)
            return getattr(module, "_is_impure", False)
        return False

    def normalized_arguments(
        self, root: Any, arg_types: Any = None, kwarg_types: Any = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:  # fmt: skip
        """Its arguments in the order of what it calls; None where that does not say."""
        from tritorch.fx.operator_schemas import normalize_function, normalize_module

        if self.op == "call_function":
            return normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types,
                normalize_to_only_use_kwargs,
            )  # fmt: skip
        if self.op == "call_module":
            return normalize_module(
                root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs
            )
        return None

    def _pretty_print_target(self, target: Any) -> str:
        if isinstance(target, str):
            return target
        if getattr(target, "__module__", "") == "builtins" or (
            getattr(builtins, getattr(target, "__name__", ""), None) is target
        ):
            return f"builtins.{target.__name__}"
        if getattr(target, "__module__", "") == "_operator":
            return f"operator.{target.__name__}"
        return get_qualified_name(target)

    def format_node(
        self, placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None, **options: Any,
    ) -> str | None:  # fmt: skip
        """Its line in the text of a graph."""
        if self.op == "placeholder":
            text = str(self.target)
            text += f": {type_text(self.type)}" if self.type else ""
            if placeholder_names:
                placeholder_names.append(text)
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            shown = f"{type_text(self.type)} " if self.type else ""
            return (
                f"%{self.name} : {shown}[num_users={len(self.users)}] = "
                f"{self.op}[target={self.target}]{default}"
            )
        if self.op == "get_attr":
            shown = f"{type_text(self.type)} " if self.type is not None else ""
            return (
                f"%{self.name} : {shown}[num_users={len(self.users)}] = "
                f"{self.op}[target={self._pretty_print_target(self.target)}]"
            )
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_text(self.type)}"
            return f"return {self.args[0]}"
        shown = f"{type_text(self.type)} " if self.type is not None else ""
        args, kwargs = _format_arg(self.args), _format_arg(self.kwargs)
        return (
            f"%{self.name} : {shown}[num_users={len(self.users)}] = {self.op}"
            f"[target={self._pretty_print_target(self.target)}](args = {args}, kwargs = {kwargs})"
        )

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    def __reduce__(self) -> Any:
        raise TypeError("nodes are pickled with their graph")


def _draws(target: Any) -> bool:
    """Whether a function draws random numbers: it takes a generator, or its record keeps a seed."""
    if isinstance(target, OpOverload):
        names = {a.name for a in target._schema.arguments}
        record = target.record
    else:
        plain = getattr(target, "__wrapped__", target)
        code = getattr(plain, "__code__", None)
        names = (
            set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) if code else set()
        )
        record = record_of(target)
    return "generator" in names or (record is not None and record.kind == "random")


def _format_arg(arg: Any) -> str:
    if isinstance(arg, list):
        return f"[{', '.join(map(_format_arg, arg))}]"
    if isinstance(arg, tuple):
        inside = ", ".join(map(_format_arg, arg))
        return f"({inside},)" if len(arg) == 1 else f"({inside})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


def type_text(kind: Any) -> str:
    """A type as generated code writes it."""
    if isinstance(kind, str):
        return kind
    if kind is type(None):
        return "NoneType"
    if isinstance(kind, type):
        if kind.__module__ == "builtins":
            return kind.__name__
        first, _, rest = f"{kind.__module__}.{kind.__qualname__}".partition(".")
        return f"torch.{rest}" if first in ("tritorch", "torch") else f"{first}.{rest}"
    return inspect.formatannotation(kind)
