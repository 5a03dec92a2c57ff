"""Dynamically quantized linear maps."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn import intrinsic as nni, qat, quantized as nnq
from tritorch.ao.nn.quantized.modules.utils import _quantize_weight, weight_observer_of

__all__ = ["Linear"]


class Linear(nnq.Linear):
    """A linear map with a quantized weight; its inputs are quantized by their own range."""

    _version = 4  # since then that range has a bit less, so that sums do not overflow

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = torch.qint8
    ) -> None:
        super().__init__(in_features, out_features, bias_, dtype=dtype)
        self.version = 4

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The linear map."""
        if self._packed_params.dtype == torch.qint8:
            if self.version is None or self.version < 4:
                Y = torch.ops.quantized.linear_dynamic(x, self._packed_params._packed_params)
            else:
                Y = torch.ops.quantized.linear_dynamic(
                    x, self._packed_params._packed_params, reduce_range=True
                )
        elif self._packed_params.dtype == torch.float16:
            Y = torch.ops.quantized.linear_dynamic_fp16(x, self._packed_params._packed_params)
        else:
            raise RuntimeError("Unsupported dtype on dynamic quantized linear!")
        return Y.to(x.dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        """Sizes, the weight's dtype and, of integers, its scheme."""
        dtype = self._packed_params.dtype
        text = f"in_features={self.in_features}, out_features={self.out_features}, dtype={dtype}"
        return f"{text}, qscheme={self.weight().qscheme()}" if dtype == torch.qint8 else text

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        self.version = local_metadata.get("version", None)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys,
                                      unexpected_keys, error_msgs)  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of a float one, or of one that was trained for it."""
        kinds = [nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear, nni.LinearReLU,
                 qat.dynamic.Linear]  # fmt: skip
        if type(mod) not in kinds:
            raise AssertionError(
                "nn.quantized.dynamic.Linear.from_float only works for one of"
                f"{[kind.__name__ for kind in kinds]}, got {type(mod)}"
            )
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        if type(mod) is nni.LinearReLU:
            mod = mod[0]
        observer = weight_observer_of(mod)()
        if observer.dtype not in (torch.qint8, torch.float16):
            raise AssertionError(
                "The only supported dtypes for dynamic quantized linear are qint8 and float16, "
                f"got: {observer.dtype}"
            )
        observer(mod.weight)
        weight = mod.weight.float()
        if observer.dtype == torch.qint8:
            weight = _quantize_weight(weight, observer)
        qlinear = cls(mod.in_features, mod.out_features, dtype=observer.dtype)
        qlinear.set_weight_bias(weight, mod.bias)
        return qlinear

    @classmethod
    def from_reference(cls, ref_qlinear: Any) -> Any:  # type: ignore[override]
        """The quantized module of a reference module."""
        qlinear = cls(
            ref_qlinear.in_features, ref_qlinear.out_features, dtype=ref_qlinear.weight_dtype
        )
        qlinear.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        return qlinear
