"""Limits on gradients."""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Iterable
from typing import Any

from tritorch.autograd import no_grad
from tritorch.core.deprecation import deprecated
from tritorch.core.tensor import Tensor
from tritorch.ops.lists.multi_tensor import norm_of_all, rescale_


def _grads(parameters: Any) -> list[Tensor]:
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    return [p.grad for p in parameters if p.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """The norm of all elements of all tensors."""
    items = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    total = norm_of_all(items, float(norm_type))
    if error_if_nonfinite and items and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {float(norm_type)} for gradients from `parameters` is "
            f"non-finite, so it cannot be clipped. To disable this error and scale the gradients "
            f"by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales gradients of a known norm so that it is at most max_norm."""
    with no_grad():
        scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        rescale_(_grads(parameters), scale, None)


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scales gradients so that their norm is at most max_norm; returns what it was."""
    is_generator = isinstance(parameters, types.GeneratorType)
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if is_generator and not parameters:
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3
        )
    total = get_total_norm(_grads(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


@deprecated(
    "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
    "`torch.nn.utils.clip_grad_norm_`."
)
def clip_grad_norm(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Deprecated: clip_grad_norm_."""
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Limits each element of the gradients."""
    limit = float(clip_value)
    with no_grad():
        for grad in _grads(parameters):
            grad.clamp_(-limit, limit)
