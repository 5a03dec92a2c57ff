"""Linear maps with quantized weights that are sparse in blocks."""

from __future__ import annotations

from typing import Any, ClassVar

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn.quantized.modules.utils import (
    _hide_packed_params_repr,
    load_qparams,
    observed_weight,
    save_qparams,
    set_qparams,
)
from tritorch.core.tensor import Tensor

__all__ = ["Linear", "LinearPackedParams"]


def check_version(module: Any, local_metadata: Any) -> None:
    """AssertionError if a state dict is of a version that comes after the module's."""
    version = local_metadata.get("version", None)
    if version is not None and version > module._version:
        raise AssertionError(f"version {version} > self._version {module._version}")


def check_zero_points(observer: Any) -> None:
    """AssertionError if a weight's zeros would not stay 0."""
    _, zero_point = observer.calculate_qparams()
    if isinstance(zero_point, Tensor):
        if torch.any(zero_point.bool()):
            raise AssertionError("All weight zero points must map to 0")
    elif zero_point != 0:
        raise AssertionError(f"Weight zero point must map to 0, got {zero_point}")


def empty_weight(in_features: int, out_features: int) -> Tensor:
    """A weight of zeros."""
    return torch._empty_affine_quantized(
        [out_features, in_features], scale=1, zero_point=0, dtype=torch.qint8
    )


class LinearPackedParams(nn.Module):
    """A weight and a bias, as the sparse kernels want them."""

    _version = 1

    def __init__(
        self, row_block_size: int = 1, col_block_size: int = 4, dtype: Any = torch.qint8
    ) -> None:
        super().__init__()
        if dtype != torch.qint8:
            raise NotImplementedError("Linear prepacking only supports QINT8")
        self.dtype = dtype
        self.set_weight_bias(empty_weight(1, 1), None, row_block_size, col_block_size)

    def _get_name(self) -> str:
        return "SparseQuantizedLinearPackedParams"

    @torch.jit.export
    def set_weight_bias(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        row_block_size: int | None,
        col_block_size: int | None,
    ) -> None:
        """Packs them."""
        if row_block_size is None or col_block_size is None:
            raise AssertionError(
                "row_block_size and col_block_size must not be None, got "
                f"row_block_size={row_block_size}, col_block_size={col_block_size}"
            )
        self._packed_params = torch.ops.sparse.qlinear_prepack(
            weight, bias, row_block_size, col_block_size
        )

    @torch.jit.export
    def _weight_bias(self):  # type: ignore[no-untyped-def]
        (weight, bias, block_sizes) = torch.ops.sparse.qlinear_unpack(self._packed_params)
        return (weight, bias, block_sizes[0], block_sizes[1])

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
        check_version(self, local_metadata)
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight_bias(*state_dict.pop(prefix + "_packed_params"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys,
                                      unexpected_keys, error_msgs)  # fmt: skip

    @torch.jit.export
    def __getstate__(self):  # type: ignore[no-untyped-def]
        return (self._packed_params, self.training, self.dtype)

    @torch.jit.export
    def __setstate__(self, state):  # type: ignore[no-untyped-def]
        (self._packed_params, self.training, self.dtype) = state

    def __repr__(self) -> str:
        return repr(self._weight_bias())


class Linear(nn.Module):
    """A linear map of quantized tensors, to one with this module's scale and zero point."""

    _version = 1
    _FLOAT_MODULE: ClassVar[Any] = nn.Linear

    def __init__(
        self, in_features: int, out_features: int, row_block_size: int, col_block_size: int,
        bias: bool = True, dtype: Any = torch.qint8,
    ) -> None:  # fmt: skip
        super().__init__()
        if dtype != torch.qint8:
            raise NotImplementedError("Only QINT8 is supported for Sparse Quantized Linear")
        self.in_features = in_features
        self.out_features = out_features
        zeros = torch.zeros(out_features, dtype=torch.float) if bias else None
        self._packed_params = LinearPackedParams(
            row_block_size=row_block_size, col_block_size=col_block_size, dtype=dtype
        )
        self._packed_params.set_weight_bias(
            empty_weight(in_features, out_features), zeros, row_block_size, col_block_size
        )
        self.scale = 1.0
        self.zero_point = 0

    @classmethod
    def _get_name(cls) -> str:
        return "SparseQuantizedLinear"

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
        return torch.ops.sparse.qlinear(
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
        state_dict.pop(prefix + "op_type")
        check_version(self, local_metadata)
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
        self._packed_params.set_weight_bias(w, b, row_block_size, col_block_size)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized module of an observed one, in the blocks of its sparsifier."""
        if type(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(
                f"{cls._get_name()}.from_float only works for {cls._FLOAT_MODULE.__name__}"
            )
        if not hasattr(mod, "sparse_params"):
            raise AssertionError(
                "Expecting the Linear to have `sparse_params`. Make sure you have provided "
                'arguments in the `sparsifier.squash_mask(params_to_save=("sparse_block_shape",))` '
                "method."
            )
        block = mod.sparse_params.get("sparse_block_shape", None)
        if not isinstance(block, (tuple, list)):
            raise AssertionError(f"sparse_block_shape must be tuple or list, got {type(block)}")
        if len(block) != 2:
            raise AssertionError(f"sparse_block_shape must have length 2, got {len(block)}")
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        observer = mod.qconfig.weight()
        observer(mod.weight)
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        check_zero_points(observer)
        qweight = observed_weight(mod.weight, observer, observe=False)
        rows, columns = block
        qlinear: Any = cls(mod.in_features, mod.out_features, rows, columns, dtype=observer.dtype)
        qlinear.set_weight_bias(qweight, mod.bias, *block)
        return set_qparams(qlinear, scale, zero_point)
