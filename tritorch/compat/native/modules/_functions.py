"""torch._C._functions: classes of nodes, `AddBackward0` and its like, and nodes of programs."""

from __future__ import annotations

from typing import Any

from tritorch.autograd.function import Error, Function, refused_all
from tritorch.autograd.nodes import AccumulateGrad, Node
from tritorch.core.tensor import Tensor
from tritorch.ops.record.nodes import class_of
from tritorch.schema import nodes as table

__all__ = ["AccumulateGrad", "DelayedError", "Error", "UndefinedGrad"]


class DelayedError(Error):
    """Gives tensors as they are; to differentiate them raises an error."""

    def __init__(self, msg: str | bytes, num_inputs: int) -> None:
        self.message = msg.decode() if isinstance(msg, bytes) else msg

    def __call__(self, *tensors: Any) -> Any:
        if not any(isinstance(each, Tensor) and each.requires_grad for each in tensors):
            results = tuple(each.detach() for each in tensors)
        else:
            results = refused_all(tensors, self.message, tensors)
        return results[0] if len(results) == 1 else results


class _UndefinedGrad(Function):
    _of_package = True

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        outs = tuple(x.view_as(x) for x in tensors)
        return outs[0] if len(outs) == 1 else outs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[None, ...]:
        return (None,) * len(grads)


class UndefinedGrad:
    """Gives tensors as they are; no gradient comes back through them."""

    def __call__(self, *tensors: Tensor) -> Any:
        return _UndefinedGrad.apply(*tensors)


for _class in (UndefinedGrad, DelayedError):
    _class.__module__ = "builtins"


def __getattr__(name: str) -> Any:
    if name in table.by_name() or name == "CopySlices":
        return class_of(name, Node)
    raise AttributeError(f"module 'torch._C._functions' has no attribute {name!r}")
