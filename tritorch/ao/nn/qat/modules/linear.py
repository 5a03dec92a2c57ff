"""Linear maps with fake-quantized weights."""

from __future__ import annotations

from typing import Any, ClassVar

from tritorch import nn
from tritorch.ao.nn.intrinsic import LinearReLU
from tritorch.ao.nn.qat.modules._checks import check_float, copied, required
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as F
from tritorch.nn.utils.parametrize import (
    is_parametrized,
    transfer_parametrizations_and_params,
    type_before_parametrizations,
)

__all__ = ["Linear"]


class Linear(nn.Linear):
    """A linear map; `weight_fake_quant` rounds its weight as quantization will."""

    _FLOAT_MODULE: ClassVar[Any] = nn.Linear

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        where = {"device": device, "dtype": dtype}
        super().__init__(in_features, out_features, bias, **where)
        self.qconfig = required(qconfig)
        self.weight_fake_quant = qconfig.weight(factory_kwargs=where)

    def forward(self, input: Tensor) -> Tensor:
        """The linear map."""
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that trains the parameters of a float one."""
        kind = type_before_parametrizations(mod)
        if kind is not cls._FLOAT_MODULE:
            raise AssertionError(
                f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}, got "
                f"{kind.__name__}"
            )
        check_float(mod)
        if kind is LinearReLU:
            mod = mod[0]
        qat = cls(mod.in_features, mod.out_features, bias=mod.bias is not None, qconfig=mod.qconfig)
        for name in ("weight", "bias"):
            if is_parametrized(mod, name):
                transfer_parametrizations_and_params(mod, qat, name)
            else:
                setattr(qat, name, getattr(mod, name))
        return qat

    def to_float(self) -> Any:
        """The float module with the same parameters."""
        linear = nn.Linear(self.in_features, self.out_features, self.bias is not None)
        linear.weight, linear.bias = copied(self.weight), copied(self.bias)
        return linear.train(self.training)
