"""Linear maps with relu and fake-quantized weights."""

from __future__ import annotations

from typing import Any, ClassVar

from tritorch.ao.nn import intrinsic as nni, qat as nnqat
from tritorch.ao.nn.intrinsic.modules.fused import _FusedModule
from tritorch.core.tensor import Tensor
from tritorch.nn import ReLU, functional as F

__all__ = ["LinearReLU"]


class LinearReLU(nnqat.Linear, _FusedModule):
    """A linear map with a fake-quantized weight, and relu."""

    _FLOAT_MODULE: ClassVar[Any] = nni.LinearReLU

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None
    ) -> None:
        super().__init__(in_features, out_features, bias, qconfig)

    def forward(self, input: Tensor) -> Tensor:
        """The relu of the linear map."""
        return F.relu(F.linear(input, self.weight_fake_quant(self.weight), self.bias))

    def to_float(self) -> Any:
        """The fused float module with the same parameters."""
        return nni.LinearReLU(super().to_float(), ReLU())
