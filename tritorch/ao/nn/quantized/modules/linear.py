"""Linear maps with quantized weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn import intrinsic as nni
from tritorch.ao.nn.intrinsic import qat as nniqat
from tritorch.ao.nn.quantized.modules.utils import (
    WeightedQuantizedModule,
    _hide_packed_params_repr,
    _quantize_weight,
    load_qparams,
    save_qparams,
    set_qparams,
)
from tritorch.core.tensor import Tensor
from tritorch.nn.utils.fusion import fuse_linear_bn_weights
from tritorch.nn.utils.parametrize import type_before_parametrizations

__all__ = ["Linear", "LinearPackedParams"]

# Versions of the state dicts of these modules:
# 1: `weight` and `bias` belong to the linear module, and are qint8;
# 2: they are the packed parameters', with a `dtype`;
# 3: the packed parameters have them in a tuple, `_packed_params`.


class LinearPackedParams(torch.nn.Module):
    """A weight and a bias, as the kernels want them."""

    _version = 3

    def __init__(self, dtype: Any = torch.qint8) -> None:
        super().__init__()
        self.dtype = dtype
        if self.dtype == torch.qint8:
            wq = torch._empty_affine_quantized([1, 1], scale=1.0, zero_point=0, dtype=torch.qint8)
        elif self.dtype == torch.float16:
            wq = torch.zeros([1, 1], dtype=torch.float)
        self.set_weight_bias(wq, None)

    @torch.jit.export
    def set_weight_bias(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        """Packs them."""
        if self.dtype == torch.qint8:
            self._packed_params = torch.ops.quantized.linear_prepack(weight, bias)
        elif self.dtype == torch.float16:
            self._packed_params = torch.ops.quantized.linear_prepack_fp16(weight, bias)
        else:
            raise RuntimeError("Unsupported dtype on dynamic quantized linear!")

    @torch.jit.export
    def _weight_bias(self):  # type: ignore[no-untyped-def]
        if self.dtype == torch.qint8:
            return torch.ops.quantized.linear_unpack(self._packed_params)
        elif self.dtype == torch.float16:
            return torch.ops.quantized.linear_unpack_fp16(self._packed_params)
        else:
            raise RuntimeError("Unsupported dtype on dynamic quantized linear!")

    def forward(self, x: Tensor) -> Tensor:
        """The input."""
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        version = local_metadata.get("version") or 1
        self.dtype = state_dict.pop(prefix + "dtype") if version >= 2 else torch.qint8
        if version < 3:
            values = state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias")
            self.set_weight_bias(*values)
        elif version == 3:
            self.set_weight_bias(*state_dict.pop(prefix + "_packed_params"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys,
                                      unexpected_keys, error_msgs)  # fmt: skip

    def __repr__(self) -> str:
        return repr(self._weight_bias())


class Linear(WeightedQuantizedModule):
    """A linear map of quantized tensors, to one with this module's scale and zero point."""

    _version = 3
    _FLOAT_MODULE: ClassVar[Any] = (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = torch.qint8
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        shape = [out_features, in_features]
        if dtype == torch.qint8:
            qweight = torch._empty_affine_quantized(shape, scale=1, zero_point=0, dtype=torch.qint8)
        elif dtype == torch.float16:
            qweight = torch.zeros(shape, dtype=torch.float)
        else:
            raise RuntimeError("Unsupported dtype specified for quantized Linear!")
        self._packed_params = LinearPackedParams(dtype)
        bias = torch.zeros(out_features, dtype=torch.float) if bias_ else None
        self._packed_params.set_weight_bias(qweight, bias)
        self.scale = 1.0
        self.zero_point = 0

    def _get_name(self) -> str:
        return "QuantizedLinear"

    def extra_repr(self) -> str:
        """Sizes, the output's scale and zero point, and the weight's scheme."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"scale={self.scale}, zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    def __repr__(self) -> str:
        return _hide_packed_params_repr(self, LinearPackedParams)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The linear map."""
        return torch.ops.quantized.linear(
            x, self._packed_params._packed_params, self.scale, self.zero_point
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        save_qparams(self, destination, prefix)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        load_qparams(self, state_dict, prefix)
        if local_metadata.get("version") in (None, 1):
            for name in ("weight", "bias"):
                state_dict[f"{prefix}_packed_params.{name}"] = state_dict.pop(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys,
                                      unexpected_keys, error_msgs)  # fmt: skip

    def _weight_bias(self):  # type: ignore[no-untyped-def]
        return self._packed_params._weight_bias()

    def weight(self):  # type: ignore[no-untyped-def]
        """The weight."""
        return self._weight_bias()[0]

    def bias(self):  # type: ignore[no-untyped-def]
        """The bias, or None."""
        return self._weight_bias()[1]

    def set_weight_bias(self, w: torch.Tensor, b: torch.Tensor | None) -> None:
        """Packs a weight and a bias."""
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of an observed one, or of one that was trained for it."""
        if hasattr(mod, "weight_fake_quant"):
            if type_before_parametrizations(mod) is nniqat.LinearBn1d:
                mod.weight, mod.bias = fuse_linear_bn_weights(
                    mod.weight, mod.bias, mod.bn.running_mean, mod.bn.running_var, mod.bn.eps,
                    mod.bn.weight, mod.bn.bias,
                )  # fmt: skip
            observer, activations = mod.weight_fake_quant, mod.activation_post_process
        else:
            kinds = cls._FLOAT_MODULE
            kinds = kinds if isinstance(kinds, Iterable) else [kinds]
            if type_before_parametrizations(mod) not in kinds:
                raise AssertionError(
                    f"nnq.{cls.__name__}.from_float only works for "
                    f"{', '.join(kind.__name__ for kind in kinds)}, but got: {type(mod)}"
                )
            if not hasattr(mod, "qconfig"):
                raise AssertionError("Input float module must have qconfig defined")
            activations = mod.activation_post_process
            if type_before_parametrizations(mod) is nni.LinearReLU:
                mod = mod[0]
            observer = getattr(mod, "weight_fake_quant", None) or mod.qconfig.weight()
        return cls._from_observed(mod, activations, observer, not use_precomputed_fake_quant)

    @classmethod
    def _from_observed(
        cls, mod: Any, activations: Any, observer: Any, observe: bool = True, **options: Any
    ) -> Any:
        """The quantized module of a float one, with the parameters that observers have found."""
        if observe:
            observer(mod.weight)
        scale, zero_point = activations.calculate_qparams()
        if observer.dtype != torch.qint8:
            raise AssertionError(
                f"Weight observer must have dtype torch.qint8, got {observer.dtype}"
            )
        qlinear = cls(mod.in_features, mod.out_features, dtype=observer.dtype, **options)
        qlinear.set_weight_bias(_quantize_weight(mod.weight.float(), observer), mod.bias)
        return set_qparams(qlinear, scale, zero_point)

    @classmethod
    def from_reference(cls, ref_qlinear: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """The quantized module of a reference module."""
        qlinear = cls(ref_qlinear.in_features, ref_qlinear.out_features)
        qlinear.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        return set_qparams(qlinear, output_scale, output_zero_point)
