"""Dynamically quantized linear maps with weights that are sparse in blocks."""

from __future__ import annotations

from typing import Any, ClassVar

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn import intrinsic as nni
from tritorch.ao.nn.quantized.modules.utils import (
    _hide_packed_params_repr,
    observed_weight,
    weight_observer_of,
)
from tritorch.ao.nn.sparse.quantized import linear
from tritorch.ao.nn.sparse.quantized.utils import LinearBlockSparsePattern

__all__ = ["Linear"]


class Linear(nn.Module):
    """A linear map with a sparse quantized weight; its inputs are quantized by their own range."""

    _version = 1
    _op_type = "sparse_dynamic"
    _FLOAT_MODULE: ClassVar[Any] = nn.Linear

    def __init__(
        self, in_features: int, out_features: int, row_block_size: int, col_block_size: int,
        bias: bool = True, dtype: Any = torch.qint8,
    ) -> None:  # fmt: skip
        super().__init__()
        if dtype != torch.qint8:
            raise NotImplementedError("Only QINT8 is supported for Sparse Quantized Linear Dynamic")
        self.in_features = in_features
        self.out_features = out_features
        zeros = torch.zeros(out_features, dtype=torch.float) if bias else None
        self._packed_params = linear.LinearPackedParams(
            row_block_size=row_block_size, col_block_size=col_block_size, dtype=dtype
        )
        self._packed_params.set_weight_bias(
            linear.empty_weight(in_features, out_features), zeros, row_block_size, col_block_size
        )

    def _get_name(self) -> str:
        return "SparseQuantizedDynamicLinear"

    def extra_repr(self) -> str:
        """Sizes, and the weight's scheme."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"qscheme={self.weight().qscheme()}"
        )

    def __repr__(self) -> str:
        return _hide_packed_params_repr(self, linear.LinearPackedParams)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The linear map."""
        return torch.ops.sparse.qlinear_dynamic(x, self._packed_params._packed_params)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "op_type"] = self._op_type

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        state_dict.pop(prefix + "op_type")  # PyTorch's module cannot load what it has saved
        linear.check_version(self, local_metadata)
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

    def set_weight_bias(
        self,
        w: torch.Tensor,
        b: torch.Tensor | None,
        row_block_size: int | None,
        col_block_size: int | None,
    ) -> None:
        """Packs a weight and a bias."""
        self.out_features = w.shape[0]
        self.in_features = w.shape[1]
        self._packed_params.set_weight_bias(w, b, row_block_size, col_block_size)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of a float one, in blocks of `LinearBlockSparsePattern`."""
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(
                f" nnq.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}"
            )
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        if type(mod) is nni.LinearReLU:
            mod = mod[0]
        observer = weight_observer_of(mod)()
        weight = mod.weight
        if getattr(mod.qconfig, "mask", False):
            weight = mod.qconfig.mask * mod.weight
        observer(weight)
        qweight = observed_weight(weight, observer, observe=False)
        linear.check_zero_points(observer)
        block = LinearBlockSparsePattern.block_size()
        qlinear = cls(mod.in_features, mod.out_features, *block, dtype=observer.dtype)
        qlinear.set_weight_bias(qweight, mod.bias, *block)
        return qlinear
