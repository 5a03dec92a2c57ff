"""Batch norms together with what is around them.

For evaluation they are folded into the layers before them.  For training, `conv_bn_act` computes a
convolution, its norm, an addend and relu with fewer passes over memory than one after the other.
"""

from __future__ import annotations

import copy
import math
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.nn import functional as _functions
from tritorch.nn.modules.conv import Conv1d, Conv2d, Conv3d
from tritorch.nn.modules.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from tritorch.nn.parameter import Parameter
from tritorch.ops.nn.conv_norm import batch_norm_add_relu, convolution_batch_norm
from tritorch.ops.nn.norm import update_running

F: Any = _functions


def _folded(
    weight: Tensor, bias: Any, mean: Tensor, var: Tensor, eps: float, gamma: Any, beta: Any,
    shape: tuple[int, ...],
) -> tuple[Parameter, Parameter]:  # fmt: skip
    scale = (var + eps).rsqrt()
    if gamma is not None:
        scale = scale * gamma
    shift = (-mean if bias is None else bias - mean) * scale
    if beta is not None:
        shift = shift + beta
    old = lambda x, like: Parameter(x.detach().to(like.dtype), like.requires_grad)
    return old(weight * scale.reshape(shape), weight), old(shift, weight)


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Any, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Any, bn_b: Any,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weights of the convolution that does both."""
    rest = (1,) * (conv_w.ndim - 2)
    shape = (1, -1, *rest) if transpose else (-1, 1, *rest)
    return _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Any, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Any,
    bn_b: Any,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weights of the linear map that does both."""
    return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, (-1, 1))


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does both; both modules are in evaluation mode."""
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear map that does both; both modules are in evaluation mode."""
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def _is_plain(module: Any, kinds: tuple[type, ...]) -> bool:
    """Whether calling the module is its forward and nothing else."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks,
             module._backward_pre_hooks)  # fmt: skip
    return type(module) in kinds and not any(hooks)


def _is_fusible(x: Any, bn: Any) -> bool:
    """Whether x is a plain tensor on the GPU (outside vmap and forward mode) for a plain norm."""
    on_gpu = type(x) is Tensor and x.is_cuda and hasattr(x, "_a") and x.is_floating_point()
    return on_gpu and _is_plain(bn, (BatchNorm1d, BatchNorm2d, BatchNorm3d))


def _one_by_one(x: Tensor, bn: Any, residual: Any, relu: bool) -> Tensor:
    out = bn(x)
    if residual is not None:
        out = out + residual
    return F.relu(out) if relu else out


def bn_act(input: Tensor, bn: Any, residual: Any = None, relu: bool = True) -> Tensor:
    """relu(bn(input) + residual): by running statistics one pass over memory on the GPU."""
    by_batch = bn.training or bn.running_mean is None or bn.running_var is None
    if by_batch or not _is_fusible(input, bn) or not _same(input, residual):
        return _one_by_one(input, bn, residual, relu)
    bn._check_input_dim(input)
    return batch_norm_add_relu(
        input, bn.running_mean, bn.running_var, bn.weight, bn.bias, residual, relu, bn.eps
    )


def _same(x: Tensor, residual: Any) -> bool:
    """Whether the residual, if any, needs no broadcast and no promotion."""
    if residual is None:
        return True
    return type(residual) is Tensor and (residual.shape, residual.dtype, residual.device) == (
        x.shape, x.dtype, x.device,
    )  # fmt: skip


def conv_bn_act(
    input: Tensor, conv: Any, bn: Any, residual: Any = None, relu: bool = True
) -> Tensor:
    """relu(bn(conv(input)) + residual), by the modules' parameters and settings.

    On the GPU and while training, the convolution's kernels take the statistics of what they store,
    and the rest is one pass; gradients take two.  Elsewhere the modules are called.
    """
    fits = (
        _is_plain(conv, (Conv1d, Conv2d, Conv3d))
        and bn.training
        and _is_fusible(input, bn)
        and input.dim() == conv._n + 2
        and conv.padding_mode == "zeros"
        and not isinstance(conv.padding, str)
        and input.numel() > 0
        and conv.out_channels == bn.num_features
        and input.shape[1] == conv.in_channels
    )
    if not fits:
        return bn_act(conv(input), bn, residual, relu)
    from tritorch.amp.policies import cast  # importing amp gives every function its policy
    from tritorch.amp.state import get_autocast_dtype, is_autocast_enabled

    operands = (input, conv.weight, conv.bias)
    if is_autocast_enabled("cuda"):
        operands = tuple(cast(x, get_autocast_dtype("cuda"), "cuda") for x in operands)
    x, weight, bias = operands
    size = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(
        x.shape[2:], conv.kernel_size, conv.stride, conv.padding, conv.dilation)]  # fmt: skip
    shape = (x.shape[0], conv.out_channels, *size)
    fits = min(size) > 0 and x.dtype is weight.dtype and (bias is None or bias.dtype is x.dtype)
    if residual is not None:
        fits = fits and type(residual) is Tensor and residual.shape == shape
        fits = fits and residual.dtype is x.dtype and residual.device == x.device
    if not fits or shape[0] * math.prod(size) == 1:
        return bn_act(conv(input), bn, residual, relu)
    bn._check_input_dim(x)
    convolved = (conv.stride, conv.padding, conv.dilation, False, conv.output_padding, conv.groups)
    out, mean, variance, n = convolution_batch_norm(
        x, weight, bias, convolved, bn.weight, bn.bias, residual, relu, bn.eps
    )
    if bn.track_running_stats and bn.num_batches_tracked is not None:
        bn.num_batches_tracked.add_(1)
        factor = 1 / float(bn.num_batches_tracked) if bn.momentum is None else bn.momentum
        update_running(bn.running_mean, bn.running_var, mean, variance, n, factor)
    return out
