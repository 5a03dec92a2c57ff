"""Reference modules of linear maps."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn.quantized.reference.modules.utils import ReferenceQuantizedModule
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as F
from tritorch.nn.parameter import Parameter

__all__ = ["Linear"]


def take_parameters(module: Any, of: Any) -> Any:
    """The module, which has the weight and bias of another one from now on."""
    module.weight = Parameter(of.weight.detach())
    if of.bias is not None:
        module.bias = Parameter(of.bias.detach())
    return module


class Linear(nn.Linear, ReferenceQuantizedModule):
    """A linear map of floats with a weight that is rounded to what quantization gives."""

    _IS_REFERENCE = True

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, device: Any = None,
        dtype: Any = None, weight_qparams: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias_, device, dtype)
        self._init_weight_qparams(weight_qparams, device)

    def _get_name(self) -> str:
        return "QuantizedLinear(Reference)"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The linear map."""
        return F.linear(x, self.get_weight(), self.bias)

    @classmethod
    def from_float(cls, float_linear: Any, weight_qparams: Any) -> Any:
        """The reference module of a float one."""
        weight: Tensor = float_linear.weight
        ref = Linear(
            float_linear.in_features, float_linear.out_features, float_linear.bias is not None,
            device=weight.device, dtype=weight.dtype, weight_qparams=weight_qparams,
        )  # fmt: skip
        return take_parameters(ref, float_linear)
