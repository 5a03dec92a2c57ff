"""Dynamically quantized linear maps with relu."""

from __future__ import annotations

from typing import Any, ClassVar

import tritorch as torch
from tritorch.ao.nn import intrinsic as nni
from tritorch.ao.nn.quantized import dynamic as nnqd

__all__ = ["LinearReLU"]


class LinearReLU(nnqd.Linear):
    """A linear map with a quantized weight, and relu."""

    _FLOAT_MODULE: ClassVar[Any] = nni.LinearReLU

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: Any = torch.qint8
    ) -> None:
        super().__init__(in_features, out_features, bias, dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The relu of the linear map."""
        if self._packed_params.dtype == torch.qint8:
            Y = torch.ops.quantized.linear_relu_dynamic(
                x, self._packed_params._packed_params, reduce_range=True
            )
        elif self._packed_params.dtype == torch.float16:
            Y = torch.ops.quantized.linear_relu_dynamic_fp16(x, self._packed_params._packed_params)
        else:
            raise RuntimeError("Unsupported dtype on dynamic quantized linear relu!")
        return Y.to(x.dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedLinearReLU"

    @classmethod
    def from_reference(cls, ref_qlinear_relu: Any) -> Any:  # type: ignore[override]
        """The quantized module of a fused one that has a reference module."""
        return super().from_reference(ref_qlinear_relu[0])
