"""Normalisation of quantized tensors: computed in floats, quantized by the parameters given."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.ops.nn import norm as floats
from tritorch.ops.quantized.common import affine, dequantize, operator


def _batch_norm(name: str, ndims: tuple[int, ...], relu: bool) -> None:
    def function(
        qx: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor,
        eps: float, output_scale: float, output_zero_point: int,
    ) -> Any:  # fmt: skip
        if ndims and qx.ndim not in ndims:
            wanted = "/".join(f"{n}D" for n in ndims)
            raise RuntimeError(f"{name}: expected a {wanted} tensor, got {qx.ndim}D")
        x = floats.batch_norm(dequantize(qx), mean, var, weight, bias, False, 0.0, eps)
        x = x.relu() if relu else x
        return affine(qx.dtype, output_scale, output_zero_point).quantize(x)

    function.__name__, function.__doc__ = name, "batch_norm by given statistics."
    operator(name)(function)


for _name, _ndims in (
    ("batch_norm", ()), ("batch_norm1d", (2, 3)), ("batch_norm2d", (4,)), ("batch_norm3d", (5,)),
):  # fmt: skip
    _batch_norm(_name, _ndims, False)
    _batch_norm(f"{_name}_relu", _ndims, True)


@operator()
def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float,
    output_scale: float, output_zero_point: int,
) -> Any:  # fmt: skip
    """layer_norm, with a quantizer given."""
    x = floats.layer_norm(dequantize(input), tuple(normalized_shape), weight, bias, eps)
    return affine(input.dtype, output_scale, output_zero_point).quantize(x)


@operator()
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None, eps: float,
    output_scale: float, output_zero_point: int,
) -> Any:  # fmt: skip
    """group_norm, with a quantizer given."""
    x = floats.group_norm(dequantize(input), num_groups, weight, bias, eps)
    return affine(input.dtype, output_scale, output_zero_point).quantize(x)


@operator()
def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, output_scale: float,
    output_zero_point: int,
) -> Any:  # fmt: skip
    """instance_norm, with a quantizer given: group_norm of one channel a group."""
    return group_norm(input, input.shape[1], weight, bias, eps, output_scale, output_zero_point)
