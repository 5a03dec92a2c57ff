"""Batch norms of quantized tensors, by running statistics."""

from __future__ import annotations

from typing import Any, ClassVar

import tritorch as torch
from tritorch.ao.nn import intrinsic as nni
from tritorch.core.tensor import Tensor
from tritorch.nn.modules.norm import _BatchNorm as _FloatBatchNorm

__all__ = ["BatchNorm2d", "BatchNorm3d"]


class _BatchNorm(_FloatBatchNorm):
    _NNI_BN_RELU_MODULE: ClassVar[Any]

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        where = {"device": device, "dtype": dtype}
        super().__init__(num_features, eps, momentum, True, True, **where)
        self.register_buffer("scale", torch.tensor(1.0, **where))
        self.register_buffer("zero_point", torch.tensor(0, **where))

    def _take(self, bn: Any, scale: Any, zero_point: Any) -> Any:
        """Takes a float norm's parameters and statistics, and this scale and zero point."""
        self.weight, self.bias = bn.weight, bn.bias
        self.running_mean, self.running_var = bn.running_mean, bn.running_var
        self.scale, self.zero_point = scale, zero_point
        return self

    @staticmethod
    def from_float(cls: Any, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of an observed one."""
        observer = mod.activation_post_process
        if type(mod) is cls._NNI_BN_RELU_MODULE:
            mod = mod[0]
        return cls(mod.num_features, mod.eps)._take(mod, *observer.calculate_qparams())

    @classmethod
    def from_reference(cls, bn: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The quantized module of a float one, with this scale and zero point."""
        where = {"device": bn.weight.device, "dtype": bn.weight.dtype}
        qbn = cls(bn.num_features, bn.eps, bn.momentum, **where)
        return qbn._take(bn, output_scale, output_zero_point)


class BatchNorm2d(_BatchNorm):
    """A batch norm of images, to a tensor with this module's scale and zero point."""

    _NNI_BN_RELU_MODULE: ClassVar[Any] = nni.BNReLU2d

    def _get_name(self) -> str:
        return "QuantizedBatchNorm2d"

    def _check_input_dim(self, input: Tensor) -> None:
        if len(input.shape) != 4:
            raise ValueError("Input shape must be `(N, C, H, W)`!")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The norm."""
        return torch.ops.quantized.batch_norm2d(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.eps,
            self.scale, self.zero_point,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:  # type: ignore[override]
        """The quantized module of an observed one."""
        return _BatchNorm.from_float(cls, mod, use_precomputed_fake_quant)


class BatchNorm3d(_BatchNorm):
    """A batch norm of volumes, to a tensor with this module's scale and zero point."""

    _NNI_BN_RELU_MODULE: ClassVar[Any] = nni.BNReLU3d

    def _get_name(self) -> str:
        return "QuantizedBatchNorm3d"

    def _check_input_dim(self, input: Tensor) -> None:
        if len(input.shape) != 5:
            raise ValueError("Input shape must be `(N, C, H, W)`!")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The norm."""
        return torch.ops.quantized.batch_norm3d(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.eps,
            self.scale, self.zero_point,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:  # type: ignore[override]
        """The quantized module of an observed one."""
        return _BatchNorm.from_float(cls, mod, use_precomputed_fake_quant)
