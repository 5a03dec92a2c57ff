"""Linear maps with batch norms and fake-quantized weights."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn import intrinsic as nni
from tritorch.ao.nn.intrinsic.qat.modules._norms import WithNorm
from tritorch.ao.nn.qat.modules._checks import check_float, required
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as F
from tritorch.nn.parameter import Parameter
from tritorch.nn.utils.fusion import fuse_linear_bn_weights

__all__ = ["LinearBn1d"]


class LinearBn1d(nn.Linear, WithNorm):
    """A linear map and a batch norm, which quantization will fold into it."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, eps: float = 1e-5,
        momentum: float | None = 0.1, freeze_bn: bool = False, qconfig: Any = None,
    ) -> None:  # fmt: skip
        nn.Linear.__init__(self, in_features, out_features, bias)
        self.qconfig = required(qconfig)
        self.bn = nn.BatchNorm1d(out_features, eps, momentum, True, True)
        self.weight_fake_quant = self.qconfig.weight()
        if bias:
            self.bias = Parameter(torch.empty(out_features))
        self._start(freeze_bn)

    def forward(self, input: Tensor) -> Tensor:
        """The norm of a map whose weight is rounded as it will be after folding."""
        if self.bn.running_var is None:
            raise AssertionError("self.bn.running_var must not be None")
        scale = self.bn.weight / torch.sqrt(self.bn.running_var + self.bn.eps)
        weight = self.weight_fake_quant(self.weight * scale.reshape([-1, 1]))
        if self.bias is not None:
            zeros = torch.zeros_like(self.bias)
        else:
            zeros = torch.zeros(self.out_features, device=weight.device)
        out = F.linear(input, weight, zeros) / scale.reshape([1, -1])
        if self.bias is not None:
            out = out + self.bias.reshape([1, -1])
        return self.bn(out)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that trains the parameters of a float one."""
        if type(mod) is not nni.LinearBn1d:
            raise AssertionError(
                f"qat.{cls.__name__}.from_float only works for {nni.LinearBn1d.__name__}"
            )
        check_float(mod)
        linear, bn = mod[0], mod[1]
        return cls(
            linear.in_features, linear.out_features, linear.bias is not None, bn.eps, bn.momentum,
            False, mod.qconfig,
        )._take(linear, bn)  # fmt: skip

    def to_float(self) -> Any:
        """The linear map into which the norm is folded."""
        linear = nn.Linear(self.in_features, self.out_features)
        self._check_statistics()
        linear.weight, linear.bias = fuse_linear_bn_weights(
            self.weight, self.bias, self.bn.running_mean, self.bn.running_var, self.bn.eps,
            self.bn.weight, self.bn.bias,
        )  # fmt: skip
        return linear
