"""Linear layers whose weight is packed: int8 with the input quantised on the way, or float16.

PyTorch's `fbgemm_*`, and the recurrent cells on top of them.  They have no gradient.  A packed
weight is what PyTorch gives too, a vector of uint8; here it holds the weight itself, not an
address: its sizes, then its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch.core import defaults, dtype as dtypes
from tritorch.core.arguments import Number
from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import STORED, dtype as Dtype
from tritorch.core.promotion import scalar_name
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.quantized import KINDS, Quantizer, integers_of, per_tensor_affine
from tritorch.ops.nn.fake_quantize import choose_parameters
from tritorch.ops.nn.recurrent import STEPS
from tritorch.ops.record.checks import any_true
from tritorch.ops.record.publishing import public
from tritorch.ops.shape.factory import tensor
from tritorch.ops.shape.joining import cat

_HEADER = 16  # bytes: two int64, rows and columns
_LARGEST_HALF = 65504.0


def _deprecated(function: Callable[..., Any]) -> None:
    name = function.__name__
    defaults.warn_once(f"{name} is deprecated and will be removed from PyTorch.", stacklevel=4)


def _expect(true: bool, what: str) -> None:
    if not true:
        raise RuntimeError(f"Expected {what} to be true, but got false.")


def _expect_type(x: Tensor, wanted: Dtype) -> None:
    if x.dtype is not wanted:
        raise RuntimeError(
            f"expected scalar type {scalar_name(wanted)} but found {scalar_name(x.dtype)}"
        )


# ---- packing -------------------------------------------------------------------------------------


def _pack(rows: Tensor) -> Tensor:
    header = tensor(list(rows.shape), dtype=dtypes.int64, device=rows.device)
    contents = rows.contiguous().view(-1).view(dtypes.uint8)
    return cat([header.view(dtypes.uint8), contents])


def _unpack(packed: Tensor, element: Dtype) -> Tensor:
    header = packed[:_HEADER] if packed.dtype is dtypes.uint8 and packed.ndim == 1 else packed[:0]
    shape: Any = header.clone().view(dtypes.int64).tolist() if header.numel() == _HEADER else ()
    if len(shape) != 2 or packed.numel() != _HEADER + shape[0] * shape[1] * element.itemsize:
        raise RuntimeError(f"expected a weight that was packed as {scalar_name(element)}")
    return packed[_HEADER:].clone().view(element).view(shape)


def _quantise(x: Tensor, kind: str) -> tuple[Tensor, float, int]:
    """Integers, scale and zero point, by the tensor's own range."""
    ends = [float(end) for end in x.aminmax()] if x.numel() else [0.0, 0.0]
    _, low, high = KINDS[STORED[kind]]
    scale, zero = choose_parameters(ends[0], ends[1], low, high)
    scale = float(np.float32(scale))
    quantizer = Quantizer(STORED[kind], per_tensor_affine, scale, zero)
    return integers_of(quantizer.quantize(x)), scale, zero


@public(method=False)
def fbgemm_linear_quantize_weight(input: Tensor) -> tuple[Tensor, Tensor, float, int]:
    """(int8 weight, each row's sum without the zero points, scale, zero point)."""
    _deprecated(fbgemm_linear_quantize_weight)
    wrap_dim(1, input.ndim)
    _expect_type(input, dtypes.float32)
    q, scale, zero = _quantise(input.detach(), "qint8")
    return q, (q.sum(1) - zero * q.shape[1]).to(dtypes.int32), scale, zero


@public(method=False)
def fbgemm_pack_quantized_matrix(input: Tensor, K: int | None = None, N: int | None = None) -> Any:
    """An int8 weight of N x K, packed; K and N: those to read the memory with."""
    _deprecated(fbgemm_pack_quantized_matrix)
    wrap_dim(1, input.ndim)
    _expect_type(input, dtypes.int8)
    return _pack(input if K is None or N is None else input.reshape(N, K))


@public(method=False)
def fbgemm_pack_gemm_matrix_fp16(input: Tensor) -> Tensor:
    """A float32 weight, rounded to float16 and packed; what is too large becomes the largest."""
    _deprecated(fbgemm_pack_gemm_matrix_fp16)
    wrap_dim(1, input.ndim)
    _expect_type(input, dtypes.float32)
    x = input.detach()
    if any_true(x.abs() > _LARGEST_HALF):
        defaults.warn_once("FOUND weight out of range", stacklevel=3)
    return _pack(x.clamp(-_LARGEST_HALF, _LARGEST_HALF).half())


# ---- linear --------------------------------------------------------------------------------------


def _linear_int8(
    input: Tensor, weight: Tensor, packed: Tensor, col_offsets: Tensor, weight_scale: Any,
    weight_zero_point: Any, bias: Tensor,
) -> Tensor:  # fmt: skip
    _expect_type(input, dtypes.float32)
    _expect(input.ndim >= 2, "input.dim() >= 2")
    _expect(input.shape[-1] == weight.shape[1], "K == weight.size(1)")
    _expect(bias.ndim == 1, "bias.dim() == 1")
    _expect(bias.shape[0] == weight.shape[0], "bias.size(0) == N")
    _expect(isinstance(weight_scale, float), "weight_scale.isFloatingPoint()")
    _expect(isinstance(weight_zero_point, int), "weight_zero_point.isIntegral(false)")
    _expect_type(col_offsets, dtypes.int32)
    _expect_type(bias, dtypes.float32)
    rows = _unpack(packed, dtypes.int8)
    q, scale, zero = _quantise(input.detach().reshape(-1, input.shape[-1]), "quint8")
    # Sums of products of bytes are exact in float64, where matrix products are fast.
    wide = q.double()
    sums = wide @ rows.double().t() - zero * col_offsets
    sums -= weight_zero_point * wide.sum(1, keepdim=True)
    out = sums.float() * (scale * weight_scale) + bias.detach()
    return out.view(*input.shape[:-1], weight.shape[0])


@public(method=False, aliases=("fbgemm_linear_int8_weight",))
def fbgemm_linear_int8_weight_fp32_activation(
    input: Tensor, weight: Tensor, packed: Tensor, col_offsets: Tensor, weight_scale: Number,
    weight_zero_point: Number, bias: Tensor,
) -> Tensor:  # fmt: skip
    """linear with an int8 weight: the input is quantised to 8 bits by its own range."""
    _deprecated(fbgemm_linear_int8_weight_fp32_activation)
    scale_and_zero = weight_scale, weight_zero_point
    return _linear_int8(input, weight, packed, col_offsets, *scale_and_zero, bias)


@public(method=False, aliases=("fbgemm_linear_fp16_weight",))
def fbgemm_linear_fp16_weight_fp32_activation(
    input: Tensor, packed_weight: Tensor, bias: Tensor | None, output: Tensor | None = None
) -> Tensor:
    """linear with a weight that was rounded to float16; `output` receives the result."""
    _deprecated(fbgemm_linear_fp16_weight_fp32_activation)
    _expect_type(input, dtypes.float32)
    rows = _unpack(packed_weight, dtypes.float16)
    shown = "input.size(input.dim() - 1) == packed_weight_fp16.numRows()"
    _expect(input.shape[-1] == rows.shape[1], shown)
    _expect(input.ndim >= 2, "input.dim() >= 2")
    out = input.detach() @ rows.float().t()
    if bias is not None:
        out.add_(bias.detach())
    return out if output is None else output.resize_(out.shape).copy_(out)


# ---- recurrent cells -----------------------------------------------------------------------------


def _cell(mode: str) -> None:
    def cell(
        input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor,
        packed_ih: Tensor, packed_hh: Tensor, col_offsets_ih: Tensor, col_offsets_hh: Tensor,
        scale_ih: Number, scale_hh: Number, zero_point_ih: Number, zero_point_hh: Number,
    ) -> Any:  # fmt: skip
        if mode == "lstm":
            _expect(len(hx) == 2, "hx.size() == 2")
        state = tuple(hx) if mode == "lstm" else (hx,)
        from_x = _linear_int8(input, w_ih, packed_ih, col_offsets_ih, scale_ih, zero_point_ih, b_ih)
        from_h = _linear_int8(
            state[0], w_hh, packed_hh, col_offsets_hh, scale_hh, zero_point_hh, b_hh
        )
        new = STEPS[mode](from_x, from_h, state)
        return new if mode == "lstm" else new[0]

    cell.__name__ = cell.__qualname__ = f"quantized_{mode}_cell"
    cell.__doc__ = f"{mode}_cell with int8 weights, as fbgemm_linear_int8_weight has them."
    public(method=False)(cell)


for _mode in STEPS:
    _cell(_mode)
