"""torch._C._functions: the classes of nodes, `AddBackward0` and its like."""

from __future__ import annotations

from typing import Any

from tritorch.autograd.nodes import AccumulateGrad, Node
from tritorch.ops.record.nodes import class_of
from tritorch.schema import nodes as table

__all__ = ["AccumulateGrad", "DelayedError", "Error", "UndefinedGrad"]


class UndefinedGrad:
    """A function that gives its argument; gradients end there."""

    def __call__(self, *args: Any) -> Any:
        """The arguments, without their history."""
        found = tuple(each.detach() for each in args)
        return found[0] if len(found) == 1 else found


class DelayedError:
    """A function that gives its arguments; a gradient that arrives there is an error."""

    def __init__(self, msg: str, num_inputs: int) -> None:
        self._message, self._count = msg, num_inputs

    def __call__(self, *args: Any) -> Any:
        """The arguments, of which no gradient can be computed."""
        found = tuple(_with_error(self._message, each) for each in args)
        return found[0] if len(found) == 1 else found


class Error:
    """The node of what has no gradient: it raises."""


def _with_error(message: str, tensor: Any) -> Any:
    if not tensor.requires_grad:
        return tensor.detach()
    from tritorch.autograd.function import Function

    class Failing(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise RuntimeError(message)

    return Failing.apply(tensor)


for _class in (UndefinedGrad, DelayedError, Error, AccumulateGrad):
    _class.__module__ = "builtins"


def __getattr__(name: str) -> Any:
    if name in table.by_name() or name == "CopySlices":
        return class_of(name, Node)
    raise AttributeError(f"module 'torch._C._functions' has no attribute {name!r}")
