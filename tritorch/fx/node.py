"""Nodes: the calls of which a graph consists."""

from __future__ import annotations

import builtins
import operator
import types
import typing
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Union

from tritorch.arrays.symbolic import SymBool, SymFloat, SymInt
from tritorch.compat.settings import _assert
from tritorch.core.device import device
from tritorch.core.dtype import dtype
from tritorch.core.layout import layout, memory_format
from tritorch.core.tensor import Tensor
from tritorch.fx._compatibility import compatibility
from tritorch.fx._naming import qualified_name
from tritorch.fx.immutable_collections import immutable_dict, immutable_list
from tritorch.fx.operator_schemas import ArgsKwargsPair, normalize_function, normalize_module
from tritorch.ops.record.overloads import OpOverload, OpOverloadPacket
from tritorch.ops.record.publishing import record_of

if TYPE_CHECKING:
    from tritorch.fx.graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

BaseArgumentTypes = Union[  # noqa: UP007
    str, int, float, bool, complex, dtype, Tensor, device, memory_format, layout, OpOverload,
    SymInt, SymBool, SymFloat,
]  # fmt: skip
base_types = typing.get_args(BaseArgumentTypes)
Target = Union[Callable[..., Any], str]  # noqa: UP007
Argument = Any
_legal_ops = dict.fromkeys((
    "placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root",
))  # fmt: skip
_side_effectful_functions: set[Any] = {builtins.setattr, operator.setitem, _assert}
_GAP = 1 << 40  # between the sort keys of neighbours that were appended


@compatibility(is_backward_compatible=False)
def has_side_effect(fn: Any) -> Any:
    """Says that calls of a function may not be dropped though nobody uses their result."""
    _side_effectful_functions.add(fn)
    return fn


@compatibility(is_backward_compatible=True)
def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """`fn` of everything that is no tuple, list, dict or slice, inside of these."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict([(key, map_aggregate(value, fn)) for key, value in a.items()])
    if isinstance(a, slice):
        return slice(*(map_aggregate(v, fn) for v in (a.start, a.stop, a.step)))
    return fn(a)


@compatibility(is_backward_compatible=True)
def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """`fn` of every node among arguments."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _get_qualified_name(func: Any) -> str:
    return qualified_name(func)


def _type_repr(obj: Any) -> str:
    """A type as texts of graphs have it."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        return qualified_name(obj)
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj)


def _format_arg(arg: Any, max_list_len: float = float("inf")) -> str:
    """An argument as texts of graphs have it."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return str(arg._custom_fx_repr_fn())
    if isinstance(arg, (list, tuple)):
        inside = ", ".join(_format_arg(a) for i, a in enumerate(arg) if i < max_list_len)
        rest = f", ...[total_len={len(arg)}]" if len(arg) > max_list_len else ""
        if isinstance(arg, list):
            return f"[{inside}{rest}]"
        return f"({inside}{',' if len(arg) == 1 else ''}{rest})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


# Kinds of arguments in which no node can be.
_PLAIN = frozenset((str, int, float, bool, complex, type(None), dtype, device))


@compatibility(is_backward_compatible=True)
class Node:
    """One call in a graph: what it calls, with which arguments, and who uses its result."""

    @compatibility(is_backward_compatible=True)
    def __init__(
        self, graph: Graph, name: str, op: str, target: Any, args: tuple[Any, ...],
        kwargs: dict[str, Any], return_type: Any = None,
    ) -> None:  # fmt: skip
        """op: one of placeholder, get_attr, call_function, call_method, call_module, output."""
        if op == "call_function":
            if not callable(target):
                raise ValueError(_wrong_target(graph, name, target, "Callable"))
        else:
            if op not in _legal_ops:
                raise AssertionError(f"op '{op}' is not in _legal_ops")
            if not isinstance(target, str):
                raise ValueError(_wrong_target(graph, name, target, "str"))
        self.graph = graph
        self._name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self._sort_key = 0
        self._repr_fn: Callable[[Node], str] | None = None
        self.meta: dict[str, Any] = {}
        self._args = self._noted(args)
        self._kwargs: dict[str, Any] = self._noted(kwargs) if kwargs else immutable_dict()

    if TYPE_CHECKING:
        # Passes keep what they find on nodes.
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    @property
    def name(self) -> str:
        """What its value is called."""
        return self._name

    @name.setter
    def name(self, value: str) -> None:
        for hook in getattr(self.graph.owning_module, "_replace_hooks", ()):
            for user in self.users:
                hook(old=self, new=value, user=user)
        self._name = value

    def _rename(self, candidate: str) -> None:
        if candidate == self._name:
            return
        name = self.graph._graph_namespace.create_name(candidate, None)
        self.name = name
        self.graph._graph_namespace._rename_object(self, name)

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

    @compatibility(is_backward_compatible=True)
    def prepend(self, x: Node) -> None:
        """Puts a node before this one."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._prev._next, x._next._prev = x._next, x._prev
        before = self._prev
        before._next = x
        x._prev, x._next = before, self
        self._prev = x
        if self.op == "root":
            x._sort_key = before._sort_key + _GAP
        elif before.op == "root":
            x._sort_key = self._sort_key - _GAP
        else:
            x._sort_key = (before._sort_key + self._sort_key) >> 1
            if x._sort_key == before._sort_key:
                self.graph._number_again()

    @compatibility(is_backward_compatible=True)
    def append(self, x: Node) -> None:
        """Puts a node after this one."""
        if x is not self:
            self._next.prepend(x)

    def __lt__(self, other: Node) -> bool:
        return self._sort_key < other._sort_key

    def __gt__(self, other: Node) -> bool:
        return self._sort_key > other._sort_key

    def __le__(self, other: Node) -> bool:
        return self is other or self._sort_key < other._sort_key

    def __ge__(self, other: Node) -> bool:
        return self is other or self._sort_key > other._sort_key

    # ---- arguments ------------------------------------------------------------------------------

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments by position."""
        return self._args

    @args.setter
    def args(self, a: tuple[Any, ...]) -> None:
        self._update_args_kwargs(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Any]) -> None:
        self._update_args_kwargs(self._args, k)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among its arguments, each once."""
        return list(self._input_nodes)

    def _noted(self, value: Any) -> Any:
        """Arguments as a node keeps them; nodes among them learn that this one uses them."""
        kind = type(value)
        if kind is Node:
            self._input_nodes[value] = None
            value.users[self] = None
            return value
        if kind in _PLAIN:
            return value
        if kind is tuple:
            return tuple([self._noted(item) for item in value])
        if kind is list or kind is immutable_list:
            return immutable_list([self._noted(item) for item in value])
        if kind is dict or kind is immutable_dict:
            return immutable_dict([(key, self._noted(item)) for key, item in value.items()])
        return map_aggregate(value, self._noted_leaf)

    def _noted_leaf(self, value: Any) -> Any:
        if isinstance(value, Node):
            self._input_nodes[value] = None
            value.users[self] = None
        return value

    def _update_args_kwargs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = {}
        self._args = self._noted(tuple(args))
        self._kwargs = self._noted(dict(kwargs))

    @compatibility(is_backward_compatible=True)
    def update_arg(self, idx: int, arg: Any) -> None:
        """Replaces an argument by position."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    @compatibility(is_backward_compatible=True)
    def insert_arg(self, idx: int, arg: Any) -> None:
        """Puts an argument before the one at a position."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError(
                f"insert_args index must be between 0 and len(self.args), got {idx}"
            )
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    @compatibility(is_backward_compatible=True)
    def update_kwarg(self, key: str, arg: Any) -> None:
        """Replaces an argument by name."""
        self.kwargs = {**self.kwargs, key: arg}

    def _replace_input_with(self, old_input: Node, new_input: Node) -> None:
        change = lambda n: new_input if n is old_input else n
        self._update_args_kwargs(map_arg(self.args, change), map_arg(self.kwargs, change))

    @compatibility(is_backward_compatible=True)
    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Puts a node in another one's place among the arguments."""
        for hook in getattr(self.graph.owning_module, "_replace_hooks", ()):
            hook(old=old_input, new=new_input.name, user=self)
        self._replace_input_with(old_input, new_input)

    @compatibility(is_backward_compatible=True)
    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None,
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
        hooks = getattr(self.graph.owning_module, "_replace_hooks", ())
        changed = [u for u in list(self.users) if delete_user_cb is None or delete_user_cb(u)]
        for user in changed:
            for hook in hooks:
                hook(old=self, new=replace_with.name, user=user)
            user._replace_input_with(self, replace_with)
        return changed

    # ---- what it is -----------------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """Where the program made the call."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    @compatibility(is_backward_compatible=False)
    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it may not be dropped though nobody uses its result.

        impure_random: so may calls that draw random numbers not."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            if self.target in _side_effectful_functions:
                return True
            overload = getattr(self.target, "default", self.target)
            schema = getattr(overload, "_schema", None)
            if schema is not None and schema.is_mutable:
                return True
            if getattr(overload, "meets", False):
                return True
            return impure_random and _draws(self.target)
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return getattr(owner.get_submodule(self.target), "_is_impure", False)
        return False

    @compatibility(is_backward_compatible=False)
    def normalized_arguments(
        self, root: Any, arg_types: Any = None, kwarg_types: Any = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:  # fmt: skip
        """Its arguments in the order of what it calls; None where that does not say."""
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

    # ---- text -----------------------------------------------------------------------------------

    @staticmethod
    def _pretty_print_target(target: Any) -> str:
        if isinstance(target, str):
            return target
        name = getattr(target, "__name__", None)
        if name is not None and getattr(target, "__module__", "") == "builtins":
            return f"builtins.{name}"
        if name is not None and getattr(target, "__module__", "") == "_operator":
            return f"operator.{name}"
        return qualified_name(target)

    @compatibility(is_backward_compatible=True)
    def format_node(
        self, placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None, *, include_tensor_metadata: bool = False,
    ) -> str | None:  # fmt: skip
        """Its line in the text of a graph."""
        shown = f"{_type_repr(self.type)} " if self.type is not None else ""
        if self.op == "placeholder":
            text = str(self.target)
            text += text + f": {_type_repr(self.type)}" if self.type else ""
            if placeholder_names:
                placeholder_names.append(text)
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return (
                f"%{self.name} : {shown}[num_users={len(self.users)}] = "
                f"{self.op}[target={self.target}]{default}"
            )
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        target = self._pretty_print_target(self.target)
        if self.op == "get_attr":
            return (
                f"%{self.name} : {shown}[num_users={len(self.users)}] = {self.op}[target={target}]"
            )
        if include_tensor_metadata:
            shown = _described(self.meta) or shown
        args, kwargs = _format_arg(self.args), _format_arg(self.kwargs)
        return (
            f"%{self.name} : {shown}[num_users={len(self.users)}] = {self.op}[target={target}]"
            f"(args = {args}, kwargs = {kwargs})"
        )

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self._name


def _wrong_target(graph: Any, name: str, target: Any, wanted: str) -> str:
    kind = type(target)
    where = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return (
        f"Node [graph = {graph}, name = '{name}'] target {target} has type "
        f"{where}{kind.__qualname__} but a {wanted} is expected"
    )


def described_value(meta: dict[str, Any]) -> Any:
    """What is known of a node's value: the value itself, a fake of it, or what ShapeProp notes."""
    return meta.get("val", meta.get("tensor_meta", meta.get("example_value")))


def _described(meta: dict[str, Any]) -> str:
    from tritorch.utils._dtype_abbrs import dtype_abbrs

    value = described_value(meta)
    if not isinstance(value, Tensor):
        return ""
    shape, stride = _joined(value.shape), _joined(value.stride())
    return f'Tensor "{dtype_abbrs[value.dtype]}{shape}{stride}{value.device}"'


def _joined(values: Sequence[Any]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _draws(target: Any) -> bool:
    """Whether a function draws random numbers: it takes a generator, or its record keeps a seed."""
    if isinstance(target, OpOverloadPacket):
        return any(_draws(getattr(target, name)) for name in target.overloads())
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
