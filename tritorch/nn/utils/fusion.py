"""Batch norms folded into the layers before them, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.nn.parameter import Parameter


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
