"""Functions of several records that are one operator in PyTorch: the node that they end with.

Note [Names of nodes] is in `nodes.py`, which is loaded when the first of them is recorded.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tritorch.autograd.graph import CopySlices
from tritorch.autograd.saved import hook_stack
from tritorch.core.tensor import Tensor
from tritorch.ops.record.operator import Operator

_kinds: dict[str, type] = {}  # of nodes, by the overload


def _kind(overload: str) -> type:
    from tritorch.ops.record.nodes import node_of

    _kinds[overload] = kind = node_of(overload)
    return kind


def _rename(node: Any, overload: str) -> bool:
    """Gives a node the class of an overload's, if it is a record's."""
    if isinstance(node.op, Operator):
        node.__class__ = _kinds.get(overload) or _kind(overload)
        return True
    if isinstance(node, CopySlices):
        from tritorch.ops.record.nodes import node_of

        node.__class__ = node_of(overload, CopySlices)
        return True
    return False


def ends_as(overload: str, out: Any) -> Any:
    """New results, whose nodes are those of an operator of PyTorch."""
    for each in out if isinstance(out, tuple) else (out,):
        node = each._raw_node
        if node is not None:
            _rename(node, overload)
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
            several = type(out) is tuple or isinstance(out, tuple)
            first = next((x for x in out if x._raw_node is not None), None) if several else out
            if not isinstance(first, Tensor) or first._raw_node is None:
                return out
            if not in_place and any(x is first for x in args):
                return out  # an argument as it is
            nonlocal find
            find = find or _evaluated(function, overload)
            text = find(*args, **kwargs)
            if text:
                call = None
                for each in out if several else (out,):
                    node = each._raw_node
                    if node is not None and _rename(node, text) and not in_place:
                        if call is None:
                            kept = args, kwargs
                            if not type(node)._kept_tensors or hook_stack.hooks:
                                kept = (
                                    tuple(map(_without_memory, args)),
                                    {k: _without_memory(v) for k, v in kwargs.items()},
                                )
                            call = (arguments, *kept)
                        node.call = call
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


class _Shaped:
    """What is kept of a tensor."""

    __slots__ = ("dtype", "ndim", "shape")

    def __init__(self, tensor: Tensor) -> None:
        self.shape, self.dtype, self.ndim = tensor.shape, tensor.dtype, tensor.ndim


def _without_memory(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _Shaped(value)
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
