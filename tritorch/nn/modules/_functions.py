"""Functions of modules whose processes compute together."""

from __future__ import annotations

from typing import Any

from tritorch.autograd.function import Function
from tritorch.core.dtype import float32, float64
from tritorch.core.tensor import Tensor
from tritorch.ops.nn.batch_statistics import (
    batch_norm_backward_elemt,
    batch_norm_backward_reduce,
    batch_norm_elemt,
    batch_norm_update_stats,
)
from tritorch.ops.shape.factory import empty, zeros
from tritorch.ops.shape.joining import cat

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(Function):
    """Batch norm of what all members of a group have together.

    Each sends its channels' means, variances and count; the union is computed by all, in the order
    of the ranks, so that it is the same everywhere.  A member may have no elements."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, weight: Tensor | None, bias: Tensor | None,
        running_mean: Tensor | None, running_var: Tensor | None, eps: float, momentum: float,
        process_group: Any, world_size: int,
    ) -> Tensor:  # fmt: skip
        from tritorch import distributed

        channels = input.shape[1]
        count = input.numel() // channels if channels else 0
        wide = float64 if input.dtype == float64 else float32
        own = zeros(2 * channels + 1, dtype=wide, device=input.device)
        if count:
            mean, variance = batch_norm_update_stats(input, None, None, 0.0)
            own[:channels], own[channels:-1], own[-1] = mean, variance, float(count)
        found = empty(world_size, own.numel(), dtype=wide, device=input.device)
        distributed.all_gather_into_tensor(found, own, process_group)
        means, variances, counts = found[:, :channels], found[:, channels:-1], found[:, -1:]
        total = counts.sum()
        if float(total) <= 1:
            raise ValueError(
                "Expected more than 1 value per channel when training, got input size "
                f"{tuple(input.shape)} in {world_size} processes"
            )
        mean = (means * counts).sum(0) / total
        variance = ((variances + (means - mean).square()) * counts).sum(0) / total
        if running_mean is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
        if running_var is not None:
            unbiased = variance * (total / (total - 1))
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
        invstd = (variance + eps).rsqrt()
        ctx.save_for_backward(input, weight, mean, invstd, counts.reshape(-1))
        ctx.group, ctx.wanted = process_group, (weight is not None, bias is not None)
        return batch_norm_elemt(input, weight, bias, mean, invstd, eps)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        from tritorch import distributed

        input, weight, mean, invstd, counts = ctx.saved_tensors
        needs = ctx.needs_input_grad
        sum_dy, sum_dy_xmu, grad_weight, grad_bias = batch_norm_backward_reduce(
            grad_output, input, mean, invstd, weight, True, needs[1], needs[2]
        )
        grad_input = None
        if needs[0]:  # of all members or of none
            sums = cat([sum_dy, sum_dy_xmu])
            distributed.all_reduce(sums, group=ctx.group)
            sum_dy, sum_dy_xmu = sums.split(len(sum_dy))
            grad_input = batch_norm_backward_elemt(
                grad_output, input, mean, invstd, weight, sum_dy, sum_dy_xmu, counts
            )
        return grad_input, grad_weight, grad_bias, None, None, None, None, None, None
