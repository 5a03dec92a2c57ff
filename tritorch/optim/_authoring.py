"""What optimizers outside of the package use of torch.optim.optimizer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tritorch.autograd.grad_mode import set_grad_enabled
from tritorch.core.defaults import get_default_dtype
from tritorch.core.dtype import dtype as Dtype, float32, float64
from tritorch.core.tensor import Tensor
from tritorch.nn.parameter import Parameter
from tritorch.ops.shape.memory import view_as_real

Function = TypeVar("Function", bound=Callable[..., Any])

_FUSED_DEVICES = ("cuda", "cpu")
_FOREACH_DEVICES = ("cuda",)
_foreach_supported_types = [Tensor, Parameter]

_params_doc = "params (iterable): parameters, named parameters or parameter groups to optimize"
_foreach_doc = "foreach (bool, optional): whether the parameters of a group take a step together"
_fused_doc = "fused (bool, optional): whether a step is one kernel"
_capturable_doc = "capturable (bool, optional): whether steps can be captured in a CUDA graph"
_differentiable_doc = "differentiable (bool, optional): whether gradients flow through a step"
_maximize_doc = "maximize (bool, optional): whether the objective is maximized"


def _use_grad_for_differentiable(func: Function) -> Function:
    """The step of an optimizer, which records what it does only if the optimizer says so."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)

    return step  # type: ignore[return-value]


def _get_value(x: Any) -> Any:
    """The number that a tensor holds."""
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    """The argument itself: nothing is compiled."""
    return x


def _to_scalar(x: Any) -> Any:
    """A tensor of one element without dims; anything else as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _disable_dynamo_if_unsupported(
    single_tensor_fn: Callable[..., Any] | None = None,
) -> Callable[[Function], Function]:
    """Decorates a function that a compiler could not follow; it is as it was."""
    return lambda func: func


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Complex parameters, and what belongs to them, as pairs of real numbers, in place."""
    for i, p in enumerate(params):
        if p.is_complex():
            for each in (params, *state_and_grads):
                each[i] = view_as_real(each[i])


def _get_scalar_dtype(is_fused: bool | None = None) -> Dtype:
    """The dtype of step counts."""
    return float64 if not is_fused and get_default_dtype() == float64 else float32


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """The devices whose steps can be captured, by name."""
    return ["cuda", "xpu", "hpu", "privateuseone"] + ["xla"] * supports_xla


def _get_fused_kernels_supported_devices() -> list[str]:
    return list(_FUSED_DEVICES)


def _get_foreach_kernels_supported_devices() -> list[str]:
    return list(_FOREACH_DEVICES)


def _default_to_fused_or_foreach(
    params: Sequence[Tensor | None], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Whether a step should be fused, and whether it should be of lists, by what tensors are."""
    if differentiable:
        return False, False
    there = [p for p in params if p is not None]
    plain = all(type(p) in _foreach_supported_types for p in there)
    fused = use_fused and plain and all(_can_fuse(p) for p in there)
    foreach = not fused and plain and all(p.device.type in _FOREACH_DEVICES for p in there)
    return fused, foreach


def _can_fuse(p: Tensor) -> bool:
    return p.device.type in _FUSED_DEVICES and p.is_floating_point()


def _device_dtype_check_for_fused(p: Tensor, cuda_unsupported: bool = False) -> None:
    """Raises if a parameter cannot take a fused step."""
    devices = [d for d in _FUSED_DEVICES if d != "cuda" or not cuda_unsupported]
    if not (p.device.type in devices and p.is_floating_point()):
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported "
            f"devices: {devices} but {p.dtype} and {p.device.type}"
        )
