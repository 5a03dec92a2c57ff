"""Linear layers whose int8 weight has blocks of zeros: `torch.ops.sparse.qlinear`."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.ops.quantized import linear
from tritorch.ops.quantized.common import QUINT8, affine, operator
from tritorch.ops.quantized.packed import ScriptObject, SparseLinearParams, packed_of


@operator("qlinear_prepack", space="sparse")
def qlinear_prepack(
    W: Any, B: Tensor | None, out_features_block_size: int, in_features_block_size: int
) -> ScriptObject:
    """The parameters of a layer with a weight in blocks."""
    linear.expect_quantized(W, "sparse::qlinear_prepack")
    blocks = [out_features_block_size, in_features_block_size]
    return ScriptObject(SparseLinearParams(W, B, blocks))


@operator("qlinear_unpack", space="sparse")
def qlinear_unpack(W_prepack: ScriptObject) -> Any:
    """The weight, the bias and the sizes of a block."""
    return packed_of(W_prepack, SparseLinearParams, "sparse::qlinear_unpack").unpack()


def _declare(name: str, relu: bool) -> None:
    def static(X: Any, W_prepack: ScriptObject, Y_scale_i: float, Y_zero_point_i: int) -> Any:
        packed = packed_of(W_prepack, SparseLinearParams, f"sparse::{name}")
        sums, step = linear.product(X, packed)
        out = affine(QUINT8, Y_scale_i, Y_zero_point_i)
        lowest = out.zero_point if relu else None
        return linear.requantize(sums, step, packed.bias_tensor, out, lowest, sums.ndim - 1)

    def dynamic(X: Tensor, W_prepack: ScriptObject) -> Tensor:
        packed = packed_of(W_prepack, SparseLinearParams, f"sparse::{name}_dynamic")
        rows = linear.rows_for(packed, X)
        out = linear.dynamic_product(X, rows, packed.bias_tensor, False)
        return out.relu() if relu else out

    static.__name__, static.__doc__ = name, "A linear layer of a quantized tensor."
    dynamic.__name__, dynamic.__doc__ = f"{name}_dynamic", "A layer that quantizes its input."
    operator(name, space="sparse")(static)
    operator(f"{name}_dynamic", space="sparse")(dynamic)


_declare("qlinear", False)
_declare("qlinear_relu", True)
