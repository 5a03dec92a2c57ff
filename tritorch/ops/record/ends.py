"""Functions of several records that are one operator in PyTorch: the node that they end with.

Note [Names of nodes] is in `nodes.py`, which is loaded when the first of them is recorded.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.autograd.graph import CopySlices
from tritorch.autograd.saved import hook_stack
from tritorch.core.dtype import dtype
from tritorch.core.tensor import Tensor
from tritorch.ops.record.operator import Operator

_kinds: dict[str, type] = {}  # of nodes, by the overload


def _kind(overload: str) -> type:
    from tritorch.ops.record.nodes import node_of

    _kinds[overload] = kind = node_of(overload)
    return kind


def _rename(node: Any, overload: str) -> bool:
    """Gives a node the class of an overload's, if it is a record's."""
    if isinstance(node._node_op, Operator):
        node.__class__ = _kinds.get(overload) or _kind(overload)
        return True
    if isinstance(node, CopySlices):
        from tritorch.ops.record.nodes import node_of

        node.__class__ = node_of(overload, CopySlices)
        return True
    return False


def ends_as(overload: str, out: Any, **said: Any) -> Any:
    """New results, whose nodes are those of an operator of PyTorch.

    said: arguments of that which the nodes keep, of tensors the shapes."""
    several = isinstance(out, tuple)
    if not several and out._raw_node is None:
        return out
    kind = _kinds.get(overload) or _kind(overload)
    call = (dict, (), said) if said else None
    for each in out if several else (out,):
        node = each._raw_node
        if node is None:
            continue
        if not node._settled:  # a record's own class
            _C.name_node(node, kind, call)
        elif _rename(node, overload):
            node._node_call = call
    return out


def ends_with(overload: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Says of a function of several records which operator's node its results have in PyTorch:

    @ends_with("dist")
    @ends_with("{'nll_loss2d' if input.ndim == 4 else 'nll_loss'}_forward")  in its arguments' names

    Where that is "", the node keeps its own name.  The node keeps the call, for what a program
    reads of it (`_saved_dim`), unless that is in place: a node must not own its tensor.  Of tensors
    it keeps the shapes alone, where PyTorch's node keeps none or hooks say how they are kept."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        in_place = function.__name__.endswith("_")
        find: Any = None if "{" in overload else lambda *args, **kwargs: overload

        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            out = function(*args, **kwargs)
            several = type(out) is not Tensor and isinstance(out, tuple)
            first = next((x for x in out if x._raw_node is not None), None) if several else out
            if not isinstance(first, Tensor) or first._raw_node is None:
                return out
            if not in_place:
                for x in args:
                    if x is first:
                        return out  # an argument as it is
            nonlocal find
            find = find or _evaluated(function, overload)
            text = find(*args, **kwargs)
            if text:
                kind = _kinds.get(text) or _kind(text)
                call = None if in_place else (arguments, *_kept(kind, args, kwargs))
                for each in out if several else (out,):
                    node = each._raw_node
                    if node is None:
                        continue
                    if not node._settled:  # a record's own class
                        _C.name_node(node, kind, call)
                    elif _rename(node, text):
                        node._node_call = call
            return out

        @functools.cache
        def signature() -> Any:
            return inspect.signature(function)

        def arguments(*args: Any, **kwargs: Any) -> dict[str, Any]:
            bound = signature().bind(*args, **kwargs)
            bound.apply_defaults()
            return bound.arguments

        return named

    return decorate


def _kept(kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """What a node keeps of a call."""
    if kind._kept_tensors and not hook_stack.hooks:
        return args, kwargs
    if kwargs:
        kwargs = {name: _without_memory(value) for name, value in kwargs.items()}
    return tuple([
        value if type(value) in _PLAIN else Shaped(value) if type(value) is Tensor
        else _without_memory(value) for value in args
    ]), kwargs  # fmt: skip


class Shaped:
    """What is kept of a tensor."""

    __slots__ = ("_array_dtype", "shape")

    def __init__(self, tensor: Tensor) -> None:
        array = tensor._array
        self.shape, self._array_dtype = array.shape, array.dtype

    @property
    def ndim(self) -> int:
        """How many dims it had."""
        return len(self.shape)

    @property
    def dtype(self) -> dtype:
        """The type of its elements."""
        return arrays.dtype_of_kind(self._array_dtype)


_PLAIN = frozenset((int, float, bool, str, type(None)))


def _without_memory(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Tensor):
        return Shaped(value)
    return tuple(map(_without_memory, value)) if isinstance(value, (tuple, list)) else value


def _evaluated(function: Callable[..., Any], text: str) -> Callable[..., str]:
    """A function of the same arguments that gives a text in their names."""
    world: dict[str, Any] = {"Tensor": Tensor}
    parameters = []
    for i, each in enumerate(inspect.signature(function).parameters.values()):
        plain = each.replace(annotation=each.empty)
        if plain.default is not each.empty:
            world[f"_{i}"] = each.default
            plain = plain.replace(default=_Written(f"_{i}"))
        parameters.append(plain)
    written = str(inspect.Signature(parameters))
    return eval(f"lambda {written[1:-1]}: f{text!r}", world)


class _Written:
    """Something whose repr is a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name
