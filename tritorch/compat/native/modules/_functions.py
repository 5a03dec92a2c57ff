"""torch._C._functions: nodes that programs make themselves, or ask for by class."""

from __future__ import annotations

from typing import Any

from tritorch.autograd.function import Error, Function, refused_all
from tritorch.autograd.nodes import AccumulateGrad
from tritorch.core.tensor import Tensor

__all__ = ["AccumulateGrad", "DelayedError", "UndefinedGrad"]


class DelayedError(Error):
    """Gives tensors as they are; to differentiate them raises an error."""

    def __init__(self, message: str | bytes, num_inputs: int) -> None:
        self.message = message.decode() if isinstance(message, bytes) else message

    def __call__(self, *tensors: Any) -> Any:
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
