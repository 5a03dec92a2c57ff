"""The steps of a batch norm over several devices: statistics, their union, and their gradients.

Written with tensors, as nn.SyncBatchNorm needs them; PyTorch has them on GPUs only.
"""

from __future__ import annotations

from typing import Any

from tritorch.core.dtype import float32
from tritorch.core.tensor import Tensor
from tritorch.ops.nn.norm import update_running
from tritorch.ops.record.publishing import public
from tritorch.ops.reduce.reduction import var_mean


def _wide(x: Tensor) -> Tensor:
    """Half types as float32: what is summed in."""
    return x.to(float32) if x.dtype.itemsize == 2 else x


def _over(x: Tensor) -> list[int]:
    if x.ndim < 2:
        raise RuntimeError(f"expected at least 2 dims for the input, got {x.ndim}")
    return [dim for dim in range(x.ndim) if dim != 1]


def _shaped(v: Tensor, x: Tensor) -> Tensor:
    return v.reshape([-1 if dim == 1 else 1 for dim in range(x.ndim)])


def _statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    variance, mean = var_mean(_wide(x), _over(x), correction=0)
    return mean, variance


@public(method=False)
def batch_norm_stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Each channel's mean and 1 / std."""
    mean, variance = _statistics(input)
    return mean, (variance + eps).rsqrt()


@public(method=False)
def batch_norm_update_stats(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> tuple[Tensor, Tensor]:
    """Each channel's mean and variance; moves the running ones towards them."""
    mean, variance = _statistics(input)
    n = input.numel() // input.shape[1] if input.shape[1] else 0
    update_running(running_mean, running_var, mean, variance, n, momentum)
    return mean, variance


@public(method=False)
def batch_norm_elemt(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor,
    eps: float,
) -> Tensor:  # fmt: skip
    """(input - mean) * invstd, scaled and shifted; eps is in invstd already."""
    x = _wide(input)
    _over(input)
    scale = invstd if weight is None else invstd * _wide(weight)
    out = (x - _shaped(mean, x)) * _shaped(scale, x)
    if bias is not None:
        out = out + _shaped(_wide(bias), x)
    return out.to(input.dtype)


@public(method=False)
def batch_norm_gather_stats_with_counts(
    input: Tensor, mean: Tensor, invstd: Tensor, running_mean: Tensor | None,
    running_var: Tensor | None, momentum: float, eps: float, counts: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The statistics of several parts as those of the whole.

    mean, invstd: (parts, channels); counts: how many elements a channel has in each part."""
    share = counts.reshape(-1, 1).to(mean.dtype)
    total = share.sum()
    whole = (mean * share).sum(0) / total
    around = invstd.square().reciprocal() - eps + (mean - whole).square()
    variance = (around * share).sum(0) / total
    if running_mean is not None or running_var is not None:
        update_running(running_mean, running_var, whole, variance, int(total), momentum)
    return whole, (variance + eps).rsqrt()


@public(method=False)
def batch_norm_gather_stats(
    input: Tensor, mean: Tensor, invstd: Tensor, running_mean: Tensor | None,
    running_var: Tensor | None, momentum: float, eps: float, count: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The same, of parts with `count` elements a channel each."""
    return batch_norm_gather_stats_with_counts(
        input, mean, invstd, running_mean, running_var, momentum, eps,
        mean.new_full((mean.shape[0],), count),
    )  # fmt: skip


@public(method=False)
def batch_norm_backward_reduce(
    grad_out: Tensor, input: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor | None,
    input_g: bool, weight_g: bool, bias_g: bool,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """sum(dy), sum(dy (x - mean)), and the gradients of weight and bias, as far as asked for."""
    g, x = _wide(grad_out), _wide(input)
    dims = _over(x)
    sum_dy = g.sum(dims) if input_g or bias_g else None
    sum_dy_xmu = (g * (x - _shaped(mean, x))).sum(dims) if input_g or weight_g else None
    kind = input.dtype if weight is None else weight.dtype
    return (
        sum_dy if input_g else None,
        sum_dy_xmu if input_g else None,
        (sum_dy_xmu * invstd).to(kind) if weight_g and sum_dy_xmu is not None else None,
        sum_dy.to(kind, copy=True) if bias_g and sum_dy is not None else None,
    )


@public(method=False)
def batch_norm_backward_elemt(
    grad_out: Tensor, input: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor | None,
    sum_dy: Tensor, sum_dy_xmu: Tensor, count: Tensor,
) -> Tensor:  # fmt: skip
    """The input's gradient, the sums being those over all parts, of count elements together."""
    g, x = _wide(grad_out), _wide(input)
    total = count.sum().to(g.dtype)
    scale = invstd if weight is None else invstd * _wide(weight)
    along = sum_dy_xmu * invstd.square() / total
    centred = g - _shaped(sum_dy / total, x) - (x - _shaped(mean, x)) * _shaped(along, x)
    return (centred * _shaped(scale, x)).to(input.dtype)
