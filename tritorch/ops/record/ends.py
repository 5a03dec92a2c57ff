"""Functions of several records that are one operator in PyTorch: the node that they end with.

Note [Names of nodes] is in `nodes.py`, which is loaded when somebody looks at a node.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tritorch.autograd.graph import CopySlices
from tritorch.core.tensor import Tensor
from tritorch.ops.record.operator import Operator


def ends_with(overload: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Says of a function of several records which operator's node its results have in PyTorch:

    @ends_with("dist")
    @ends_with("{'nll_loss2d' if input.ndim == 4 else 'nll_loss'}_forward")  in its arguments' names
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:

        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            before = [getattr(x, "_raw_node", None) for x in args]
            out = function(*args, **kwargs)
            for each in out if isinstance(out, tuple) else (out,):
                node = getattr(each, "_raw_node", None)
                if node is not None and not any(node is old for old in before):
                    break
            else:
                return out
            text = overload
            if "{" in overload:
                text = eval(f"f{overload!r}", {"Tensor": Tensor}, dict(call_of(*args, **kwargs)))
            if not text:
                return out
            ends_as(text, out)
            outs = out if isinstance(out, tuple) else (out,)
            if not any(x is each for x in args for each in outs):  # a node must not own its tensor
                kind = type(node)
                for each in outs:
                    if type(getattr(each, "_raw_node", None)) is kind:
                        each._raw_node.call = (call_of, args, kwargs)
            return out

        @functools.cache
        def signature() -> Any:
            return inspect.signature(function)

        def call_of(*args: Any, **kwargs: Any) -> dict[str, Any]:
            bound = signature().bind(*args, **kwargs)
            bound.apply_defaults()
            return bound.arguments

        return named

    return decorate


def ends_as(overload: str, out: Any) -> Any:
    """New results, whose nodes are those of an operator of PyTorch."""
    from tritorch.ops.record.nodes import node_of

    for each in out if isinstance(out, tuple) else (out,):
        node = getattr(each, "_raw_node", None)
        if isinstance(node, CopySlices):
            node.__class__ = node_of(overload, CopySlices)
        elif node is not None and isinstance(node.op, Operator):
            node.__class__ = node_of(overload)
    return out
